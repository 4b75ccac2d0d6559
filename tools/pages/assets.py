"""What every page of the site carries: colours, letters and mathematics.

They come from the palette and from installed packages and are staged anew by each build. So nothing
third-party is committed, and no page asks another host for anything.
"""

import hashlib
import shutil
from importlib import metadata, util
from pathlib import Path

from lumen.book import palette

LETTERS = [(0x20, 0x7E), (0xA0, 0x17F), (0x370, 0x3FF), (0x2010, 0x203A), (0x2070, 0x208E)]
LETTERS += [(0x2190, 0x2193), (0x2202, 0x2202), (0x220F, 0x221E), (0x2248, 0x2265)]
FEATURES = ["kern", "liga", "ccmp", "locl", "mark", "tnum", "lnum", "pnum", "onum", "sups", "frac"]
FACES = [
    ("Lumen Serif", 400, "normal", "font_source_serif_pro", "SourceSerifPro-Regular"),
    ("Lumen Serif", 400, "italic", "font_source_serif_pro", "SourceSerifPro-It"),
    ("Lumen Serif", 600, "normal", "font_source_serif_pro", "SourceSerifPro-Semibold"),
    ("Lumen Sans", 400, "normal", "font_source_sans_pro", "SourceSansPro-Regular"),
    ("Lumen Sans", 600, "normal", "font_source_sans_pro", "SourceSansPro-Semibold"),
]


def digest(root, patterns):
    """One name for the content of all files that match: it changes when any of them does."""
    files = {file for pattern in patterns for file in Path(root).glob(pattern) if file.is_file()}
    total = hashlib.sha256()
    for file in sorted(files):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        total.update(f"{file.relative_to(root).as_posix()} {content}\n".encode())
    return total.hexdigest()[:16]


def stage(folder):
    """Write it all under ``folder``: ``static`` is served, ``templates`` replaces the theme's."""
    static = folder / "static"
    stage_mathjax(static / "mathjax")
    stage_fonts(static / "fonts")
    _write(static / "palette.css", palette_css())
    stage_templates(folder / "templates")


def _write(file, text):
    """Sphinx compares times, so a file that has not changed keeps its own."""
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def palette_css():
    """The palette as CSS variables, light by default and dark where the page is dark."""

    def variables(colours):
        return "".join(f"  --lumen-{name}: {value};\n" for name, value in colours.items())

    light, dark = variables(palette.LIGHT), variables(palette.DARK)
    return f':root {{\n{light}}}\nhtml[data-theme="dark"] {{\n{dark}}}\n'


def stage_mathjax(folder):
    """The one MathJax file that pages load, and its fonts."""
    package = metadata.distribution("sphinx-mathjax-offline")
    mathjax = Path(package.locate_file("sphinx-mathjax-offline/static/mathjax"))
    fonts = "output/chtml/fonts/woff-v2"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(mathjax / "tex-chtml.js", folder / "tex-chtml.js")
    shutil.copytree(mathjax / fonts, folder / fonts, dirs_exist_ok=True)


def stage_fonts(folder):
    """The letters that the book uses, cut from the installed fonts; their CSS; their licence.

    The licence (SIL OFL) reserves the name Source for the whole fonts, so the cut ones carry the
    book's name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rules = []
    for family, weight, style, package, file in FACES:
        spec = util.find_spec(package)
        if spec is None:
            continue
        files = Path(spec.origin).parent / "files"
        name = family.replace(" ", "-").lower()
        cut = folder / f"{name}-{weight}-{style}.woff"
        if not cut.exists():
            _cut_font(files / f"{file}.ttf", cut, family)
        shutil.copyfile(files / "LICENSE.txt", folder / f"{name}-licence.txt")
        rules.append(
            f'@font-face {{ font-family: "{family}"; font-weight: {weight}; font-style: {style}; '
            f'font-display: swap; src: url("{cut.name}") format("woff"); }}\n'
        )
    _write(folder / "fonts.css", "".join(rules))


def _cut_font(source, target, family):
    from fontTools.subset import Options, Subsetter
    from fontTools.ttLib import TTFont

    font = TTFont(source)
    options = Options(layout_features=FEATURES, hinting=False, name_IDs=[0, 1, 2, 4, 6, 13, 14])
    cutter = Subsetter(options)
    cutter.populate(unicodes=[code for first, last in LETTERS for code in range(first, last + 1)])
    cutter.subset(font)
    for record in font["name"].names:
        if record.nameID in (1, 4, 6):
            record.string = family.replace(" ", "") if record.nameID == 6 else family
    font.flavor = "woff"
    font.save(target)


def stage_templates(folder):
    """The theme's page frame without the script that draws its icons.

    Its icon font has them too, and is 1.3 MB lighter.
    """
    theme = Path(util.find_spec("pydata_sphinx_theme").origin).parent
    macros = theme / "theme/pydata_sphinx_theme/static/webpack-macros.html"
    lines = macros.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = "".join(line for line in lines if "scripts/fontawesome.js" not in line)
    _write(folder / "static" / macros.name, kept)
