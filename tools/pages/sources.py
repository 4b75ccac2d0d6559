"""The page of sources: one style for all entries, and the anchors of ``sources.md#vaswani2017``."""

from pybtex.richtext import HRef, Tag, Text
from pybtex.style.formatting import BaseStyle
from pybtex.style.template import node

ADDRESSES = (
    ("eprint", "https://arxiv.org/abs/{}", "arXiv:{}"),
    ("doi", "https://doi.org/{}", "doi:{}"),
    ("url", "{}", "read it online"),
)


def in_short(entry):
    """Authors and year as a reader would say them: Vaswani et al., 2017."""
    names = [" ".join(person.prelast_names + person.last_names) for person in _authors(entry)]
    if len(names) > 2 or names[-1] == "others":
        names = [f"{names[0]} et al."]
    return Text.from_latex(f"{' and '.join(names)}, {entry.fields['year']}")


@node
def reference(children, context):
    """Who and when in short, the title, who in full, where it appeared, where to read it."""
    entry = context["entry"]
    title = Text.from_latex(entry.fields["title"])
    parts = [Tag("strong", in_short(entry)), Tag("em", title), Text.from_latex(_all_names(entry))]
    if where := _where(entry.fields):
        parts.append(Text.from_latex(where))
    for key, address, label in ADDRESSES:
        if key in entry.fields:
            value = entry.fields[key]
            parts.append(HRef(address.format(value), label.format(value)))
    return Text(". ").join(parts) + "."


def _authors(entry):
    return entry.persons["author"]


def _all_names(entry):
    names = [" ".join(reversed(str(person).split(", "))) for person in _authors(entry)]
    if len(names) > 6 or names[-1] == "others":
        names = [*names[:3], "others"]
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _where(fields):
    where = fields.get("journal") or fields.get("booktitle") or fields.get("howpublished") or ""
    where += f" {fields['volume']}" if "volume" in fields else ""
    where += f"({fields['number']})" if "number" in fields else ""
    return where + (f", {fields['pages'].replace('--', '–')}" if "pages" in fields else "")


class BookStyle(BaseStyle):
    default_sorting_style = "author_year_title"

    def __getattr__(self, name):
        if name.startswith("get_") and name.endswith("_template"):
            return lambda entry: reference
        raise AttributeError(name)


def make_anchors(app, doctree):
    """Tell MyST that the page with the bibliography has an anchor for every key."""
    document = app.env.docname
    for place, bibliography in app.env.get_domain("cite").bibliographies.items():
        if place.docname == document:
            anchors = app.env.metadata[document].setdefault("myst_slugs", {})
            for key, item in bibliography.citation_nodes.items():
                anchors[key] = (bibliography.line, item["ids"][0], key)
