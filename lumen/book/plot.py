"""The figures' style, and the few drawings that chapters share; each draws and returns None."""

from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import torch
from matplotlib.colors import LinearSegmentedColormap

from lumen.book.palette import LIGHT

BLUES = LinearSegmentedColormap.from_list(
    "lumen_blues", ["#ffffff", "#9cc2de", LIGHT["blue"], "#12324e"]
)
WHITE_FROM = 0.57  # of the way to the darkest shade white is easier to read on it than ink


def setup(seed=0):
    """What every notebook does first: one thread, one seed, the book's figure style.

    Args:
        seed: the seed of torch's global generator.
    """
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    plt.style.use(Path(__file__).with_name("lumen.mplstyle"))
    _use_book_font()


def bars(ax, values, labels, *, color="blue", digits=3, top=None):
    """Draw one bar for each value, the number written above it.

    Args:
        ax: the axes to draw on.
        values: one number for each bar.
        labels: one label for each bar.
        color: a name of the palette, or one for each bar.
        digits: decimals written above the bars.
        top: the axis ends here; the tallest bar decides if None.
    """
    heights = [float(value) for value in values]
    names = [color] * len(heights) if isinstance(color, str) else color
    top = max(heights) if top is None else top
    ax.bar(range(len(heights)), heights, color=[LIGHT[name] for name in names], width=0.72)
    for place, height in enumerate(heights):
        ax.text(
            place, height + 0.02 * top, f"{height:.{digits}f}", ha="center", va="bottom", fontsize=9
        )
    ax.set_xticks(range(len(heights)), labels)
    ax.tick_params(axis="x", length=0)
    ax.set_ylim(0, 1.14 * top)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)


def heat(ax, matrix, rows, columns, *, digits=2, low=0.0, high=None, fontsize=9.5):
    """Draw a matrix as shaded cells with the number in each.

    Args:
        ax: the axes to draw on.
        matrix: (R, C) numbers; NaN leaves a cell blank.
        rows: R labels, top to bottom.
        columns: C labels, left to right.
        digits: decimals written in the cells; None writes none.
        low: the value of the lightest shade.
        high: the value of the darkest shade; the largest entry if None.
        fontsize: of the numbers, in points.
    """
    values = torch.as_tensor(matrix, dtype=torch.float64)
    high = values.nan_to_num(low).max().item() if high is None else high
    ax.imshow(values.numpy(), cmap=BLUES, vmin=low, vmax=high)
    for i, j in torch.cartesian_prod(
        torch.arange(values.size(0)), torch.arange(values.size(1))
    ).tolist():
        value = values[i, j].item()
        if digits is not None and value == value:
            dark = value > low + WHITE_FROM * (high - low)
            ax.text(
                j,
                i,
                f"{value:.{digits}f}",
                ha="center",
                va="center",
                fontsize=fontsize,
                color="white" if dark else LIGHT["ink"],
            )
    ax.set_xticks(range(values.size(1)), columns)
    ax.set_yticks(range(values.size(0)), rows)
    ax.tick_params(length=0)
    for side in ax.spines.values():
        side.set_visible(False)


def label(ax, x, y, text, *, color="ink", **options):
    """Write text beside the data it names, in the data's colour.

    Args:
        ax: the axes to draw on.
        x, y: where the text starts, in data units.
        text: what it says.
        color: a name of the palette.
        options: anything that ``Axes.text`` takes.
    """
    ax.text(x, y, text, color=LIGHT[color], **options)


def _use_book_font():
    """The pages' typeface where the book's environment has it, matplotlib's own elsewhere."""
    try:
        import font_source_sans_pro as font
    except ModuleNotFoundError:
        return
    for face in (font.SourceSansPro, font.SourceSansProBold, font.SourceSansProIt):
        matplotlib.font_manager.fontManager.addfont(face)
    matplotlib.rcParams["font.family"] = ["Source Sans Pro", "DejaVu Sans"]
