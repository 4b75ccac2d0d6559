"""The drawings of the front page: the chain of layers, and the tree of questions that leads to one.

Both are made of words, and every word stands in ``intro.md``: the directives ``lumen-map`` and
``lumen-tree`` take YAML. A layer's name becomes a link when its chapter is out.
"""

from html import escape
from pathlib import Path

import yaml
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

GLYPHS = Path(__file__).resolve().parents[2] / "_static/glyphs.svg"


class drawing(nodes.General, nodes.Element):
    """A drawing; its words are its text, so that the site's search finds them."""


class Drawing(SphinxDirective):
    has_content = True

    def run(self):
        try:
            body = yaml.safe_load("\n".join(self.content))
        except yaml.YAMLError as error:
            raise self.error(f"{self.name} is not YAML: {error}") from None
        return [drawing("", nodes.Text(" ".join(_words(body))), kind=self.name, body=body)]


def _words(value):
    if isinstance(value, dict):
        shown = (item for key, item in value.items() if key not in ("glyph", "file"))
        return [word for item in shown for word in _words(item)]
    if isinstance(value, list):
        return [word for item in value for word in _words(item)]
    return [str(value)]


def visit_drawing(self, node):
    draw = draw_map if node["kind"] == "lumen-map" else draw_tree
    self.body.append(draw(node["body"], lambda stop: _link(self.builder, stop)))
    raise nodes.SkipNode


def _link(builder, stop):
    """A layer's name, and whether its chapter is out; who cannot see the difference is told."""
    name = escape(stop["name"])
    if stop.get("file") in builder.env.found_docs:
        address = builder.get_relative_uri(builder.current_docname, stop["file"])
        return f'<a href="{address}">{name}</a>', True
    return f'{name}<span class="visually-hidden"> (not yet out)</span>', False


def draw_map(body, link):
    """The chain: each stop is a layer with its bet; how the bet is lost leads to the next."""
    html = '<div class="lumen-map">' + GLYPHS.read_text(encoding="utf-8")
    html += f'<p class="map-legend">{escape(body["legend"])}</p>'
    for part in body["parts"]:
        last = " is-last" if part is body["parts"][-1] else ""
        html += f'<p class="map-part{last}">{escape(part["part"])}</p><ol class="map-chain">'
        html += "".join(_stop(stop, *link(stop)) for stop in part["chapters"]) + "</ol>"
    return html + "</div>\n"


def _stop(stop, name, out):
    return (
        f'<li class="map-stop{" is-out" if out else ""}">'
        f'<span class="map-number">{escape(str(stop["number"]))}</span>'
        f'<svg class="map-glyph" viewBox="0 0 96 56" aria-hidden="true">'
        f'<use href="#glyph-{stop["glyph"]}"/></svg>'
        f'<div class="map-words"><p class="map-name">{name}</p>'
        f'<p class="map-bet">{escape(stop["bet"])}</p></div>'
        f'<p class="map-fails">{escape(stop["fails"])}</p></li>'
    )


def draw_tree(body, link):
    """Nested lists: a question, its answers, and under each the next question or a layer."""
    return f'<div class="lumen-tree">{_ask(body, link)}</div>\n'


def _ask(branch, link):
    html = f'<p class="tree-question">{escape(branch["question"])}</p><ul>'
    for answer in branch["answers"]:
        html += f'<li><p class="tree-answer">{escape(answer["answer"])}</p>'
        html += (_ask if "question" in answer else _leaf)(answer, link) + "</li>"
    return html + "</ul>"


def _leaf(answer, link):
    name, _ = link(answer)
    return (
        f'<div class="tree-leaf"><p class="tree-layer">{name}</p>'
        f"<dl><dt>bets</dt><dd>{escape(answer['bet'])}</dd>"
        f"<dt>fails</dt><dd>{escape(answer['fails'])}</dd></dl></div>"
    )
