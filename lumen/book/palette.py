"""The one palette of pages, figures and widgets: a name for each colour, its light and its dark
value.

Every colour that carries text reaches a contrast of 4.5 : 1 on ``paper`` in its own theme, and
neighbours differ in lightness as well as hue, so that they stay apart in grey and for
colour-blind readers.
"""

LIGHT = {
    "ink": "#1f2430",
    "paper": "#ffffff",
    "wash": "#f6f5f1",
    "line": "#d9d6cd",
    "quiet": "#636a76",
    "blue": "#2b6ca3",
    "orange": "#a85510",
    "teal": "#1f7a6a",
    "red": "#b23a48",
    "purple": "#7d5596",
}

DARK = {
    "ink": "#e7e5df",
    "paper": "#16191f",
    "wash": "#1e222a",
    "line": "#383e49",
    "quiet": "#a2a8b4",
    "blue": "#7fb6e3",
    "orange": "#eda65f",
    "teal": "#6cc5b1",
    "red": "#ef8f93",
    "purple": "#c7a5dc",
}
