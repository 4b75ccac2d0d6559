"""The built site, as a reader has it: opened from disk, in a real browser, with the network cut.

The first half needs no browser: what the files say about links, pictures and bound numbers. The
second half opens each page once. ``make test`` builds the site first; a site that was built from
other sources fails here.
"""

import os
import posixpath
import re
from functools import cache
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
import yaml
from bs4 import BeautifulSoup

from lumen.book import palette
from tools import sphinx_lumen

ROOT = Path(__file__).resolve().parents[1]
HTML = ROOT / "_build/html"
CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
WRITTEN = (CONFIG["repository"]["url"], CONFIG["repository"]["branch"])
REPOSITORY = sphinx_lumen.repository(WRITTEN, os.environ)
COLAB = "https://colab.research.google.com/"

# axe's rules that the theme itself breaks, each with the theme's own element that breaks it.
THEMES_OWN = {
    "label-content-name-mismatch": {".search-button-field", ".theme-switch-button"},
    "region": {".title"},
}


def documents(entry):
    """The pages that ``_toc.yml`` names, in reading order."""
    found = [entry[key] for key in ("root", "file") if key in entry]
    for key in ("parts", "chapters", "sections"):
        for child in entry.get(key, []):
            found += documents(child)
    return found


DOCUMENTS = documents(yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8")))
PAGES = [*DOCUMENTS, "search", "genindex"]


@pytest.fixture(scope="session", autouse=True)
def built():
    stamp = HTML / "built-from.txt"
    if not stamp.exists():
        pytest.fail("there is no site in _build/html: run `make book`", pytrace=False)
    if stamp.read_text(encoding="utf-8").strip() != sphinx_lumen.built_from(ROOT):
        pytest.fail("_build/html was built from other sources: run `make book`", pytrace=False)


@cache
def soup(name):
    return BeautifulSoup((HTML / f"{name}.html").read_text(encoding="utf-8"), "html.parser")


@cache
def anchors(path):
    return set(re.findall(r'\b(?:id|name)="([^"]+)"', path.read_text(encoding="utf-8")))


def source(name):
    notebook = ROOT / f"{name}.ipynb"
    return notebook if notebook.exists() else ROOT / f"{name}.md"


# ---------------------------------------------------------------------------------- without browser


@pytest.mark.parametrize("name", PAGES)
def test_every_link_inside_the_book_leads_somewhere(name):
    here = HTML / f"{name}.html"
    broken = []
    for link in soup(name).select("a[href]"):
        address, anchor = urldefrag(unescape(link["href"]))
        if re.match(r"[a-z]+:", address):
            continue
        target = (here.parent / unquote(address)).resolve() if address else here
        if not target.is_file() or (anchor and unquote(anchor) not in anchors(target)):
            broken.append(link["href"])
    assert not broken


@pytest.mark.parametrize("name", PAGES)
def test_links_to_the_repository_are_its_own_and_exist(name):
    url, branch = REPOSITORY
    own = url.removeprefix("https://github.com/")
    notebook = rf"{COLAB}github/{re.escape(own)}/blob/{re.escape(branch)}/([^#?]+\.ipynb)"
    for link in soup(name).select("a[href]"):
        address = link["href"]
        if address.startswith(COLAB):
            match = re.fullmatch(notebook, address)
            assert match, f"{address} is no notebook of {url}"
            assert (ROOT / match[1]).is_file(), f"{address} leads to no notebook"
        elif match := re.match(rf"{re.escape(url)}/(?:blob|tree)/(.+)", address):
            path = match[1].removeprefix(f"{branch}/")
            assert path != match[1] and (ROOT / path).exists(), address


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if source(name).suffix == ".ipynb"])
def test_a_notebook_can_be_opened_in_colab_from_its_page(name):
    owner = REPOSITORY[0].removeprefix("https://github.com/")
    wanted = f"{COLAB}github/{owner}/blob/{REPOSITORY[1]}/{name}.ipynb"
    assert wanted in {link["href"] for link in soup(name).select(".article-header-buttons a")}


@pytest.mark.parametrize("name", PAGES)
def test_no_page_names_a_file_on_another_host(name):
    text = (HTML / f"{name}.html").read_text(encoding="utf-8")
    elements = "script|link|img|iframe|source|video"
    loads = rf'<(?:{elements})\b[^>]*?\b(?:src|href|srcset)="(?:https?:)?//[^"]+'
    assert not re.findall(loads, text)
    assert not re.findall(r"url\([\"']?(?:https?:)?//[^)]+|@import\s+[\"'](?:https?:)?//", text)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_picture_says_what_is_seen(name):
    for picture in soup(name).select("article img, article svg[role=img]"):
        words = picture.get("alt") or picture.get("aria-label") or ""
        assert len(words) >= 20 and " " in words, f"{picture.get('src')}: {words!r}"
        assert not re.search(r"[0-9a-f]{16}", words), f"{picture.get('src')} has a hash for a text"


@cache
def places_of_facts(name):
    found = soup(name).select(".cell [id^=fact-], .cell[id^=fact-]")
    return {place["id"]: place.text for place in found}


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if not name.startswith("exercises/")])
def test_bound_numbers_lead_to_the_output_that_printed_them(name):
    page = soup(name)
    for link in page.select("a.bound"):
        address, anchor = urldefrag(link["href"])
        other = posixpath.normpath(posixpath.join(posixpath.dirname(name), address))
        places = places_of_facts(other.removesuffix(".html") if address else name)
        assert link["title"].startswith(f"{anchor.removeprefix('fact-')} = ") and link.text.strip()
        assert link["title"] in places[anchor]
    if re.search(r"<!--=[\w/:]+-->", source(name).read_text(encoding="utf-8")):
        assert page.select("a.bound")
    assert "<!--=" not in str(page) and "<!--@" not in str(page)


def test_the_map_links_every_chapter_that_is_out():
    linked = {link["href"] for link in soup("intro").select(".map-name a")}
    chapters = [name for name in DOCUMENTS if re.match(r"chapters/\d", name)]
    assert linked == {f"{name}.html" for name in chapters}
    for use in soup("intro").select(".map-stop use"):
        assert soup("intro").select_one(f"symbol{use['href']}"), f"no glyph {use['href']}"


def test_the_reference_has_every_public_module_of_the_package():
    said = (ROOT / "chapters/api.md").read_text(encoding="utf-8")
    modules = {file.stem for file in (ROOT / "lumen").glob("[a-z]*.py")}
    assert modules <= set(re.findall(r"automodule:: lumen\.(\w+)", said))


@pytest.mark.parametrize(("name", "target"), [("test", "test-all"), ("pages", "book")])
def test_the_workflows_call_the_makefile_with_their_own_address(name, target):
    text = (ROOT / f".github/workflows/{name}.yml").read_text(encoding="utf-8")
    (job,) = (job for job in yaml.safe_load(text)["jobs"].values() if "env" in job)
    own = "${{ github.server_url }}/${{ github.repository }}"
    assert job["env"]["BOOK_REPOSITORY_URL"] == own
    assert {"run": f"make {target}"} in job["steps"]
    assert all(
        re.fullmatch(r"actions/[\w-]+@v\d+", use) for use in re.findall(r"uses: (\S+)", text)
    )


def test_every_source_has_its_anchor():
    keys = re.findall(r"^@\w+\{(\w+),", (ROOT / "references.bib").read_text(encoding="utf-8"), re.M)
    assert keys and set(keys) <= {
        entry.get("id") for entry in soup("chapters/sources").select("li")
    }


# ------------------------------------------------------------------------------------- with browser


class Visit:
    """One page, opened from disk with the network cut; what it asked for and complained of."""

    def __init__(self, browser, name, query="", theme="light"):
        self.name = name
        self.asked, self.complaints = [], []
        self.context = browser.new_context(
            offline=True, color_scheme=theme, viewport={"width": 1280, "height": 900}
        )
        self.context.route(re.compile(r"^(?!file:|data:|blob:)"), lambda route: route.abort())
        self.page = self.context.new_page()
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("requestfailed", lambda request: self.complaints.append(request.url))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._heard)
        self.page.goto(f"{(HTML / name).as_uri()}.html{query}")
        self.ready()

    def ready(self):
        """Wait until the formulas stand where they belong."""
        self.page.wait_for_function("!window.MathJax || MathJax.startup?.promise")
        self.page.evaluate(
            "window.MathJax && MathJax.startup.promise.then(() => document.fonts.ready)"
        )
        self.settle()

    def _heard(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def settle(self):
        """Let two frames pass, so that what reacts to a change has reacted, and what fades fade."""
        self.page.evaluate(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
            ".then(() => Promise.all(document.getAnimations()"
            ".filter(moving => moving.effect.getComputedTiming().endTime < Infinity)"
            ".map(moving => moving.finished.catch(() => {}))))"
        )

    def resize(self, width):
        self.page.set_viewport_size({"width": width, "height": 900})
        self.settle()


@pytest.fixture(scope="module", params=PAGES)
def visit(browser, request):
    visit = Visit(browser, request.param)
    yield visit
    visit.context.close()


def test_nothing_leaves_the_machine_and_nothing_complains(visit):
    assert not [url for url in visit.asked if not re.match(r"(file|data|blob):", url)]
    assert not visit.complaints


def test_mathematics_is_set(visit):
    written = visit.page.locator("article .math").count()
    assert visit.page.locator("article .math:has(mjx-container)").count() == written
    assert visit.page.locator("mjx-merror").count() == 0
    # MathJax sets a command that it does not know as red text.
    assert not visit.page.locator("mjx-assistive-mml mtext", has_text="\\").all_text_contents()
    left = visit.page.evaluate(
        r"""() => {
          const article = document.querySelector(".bd-article-container");
          const walker = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
          const left = [];
          while (walker.nextNode()) {
            const text = walker.currentNode;
            const around = text.parentElement;
            if (around.closest("pre, code, script, style, mjx-container")) continue;
            if (/\$|\\\(|\\\[|\\[a-zA-Z]{2,}/.test(text.data)) left.push(text.data.slice(0, 80));
          }
          return left;
        }"""
    )
    assert not left


def test_a_phone_shows_the_page_without_scrolling_sideways(visit):
    visit.resize(390)
    width = visit.page.evaluate("document.documentElement.scrollWidth")
    visit.resize(1280)
    assert width <= 390


def faults_of_access(page, **options):
    from axe_playwright_python.sync_playwright import Axe

    report = Axe().run(page, options={"resultTypes": ["violations"], **options}).response
    return [
        f"{found['id']}: {node['target']} {node['failureSummary']}"
        for found in report["violations"]
        for node in found["nodes"]
        if not set(map(str, node["target"])) <= THEMES_OWN.get(found["id"], set())
    ]


def ground(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def paper(colours):
    red, green, blue = (int(colours["paper"][place : place + 2], 16) for place in (1, 3, 5))
    return f"rgb({red}, {green}, {blue})"


def test_everybody_can_read_it_by_day(visit):
    assert ground(visit.page) == paper(palette.LIGHT)
    assert not faults_of_access(visit.page)


def test_everybody_can_read_it_by_night(visit):
    visit.page.evaluate("document.documentElement.dataset.theme = 'dark'")
    visit.settle()
    assert ground(visit.page) == paper(palette.DARK)
    # At night only the colours differ.
    assert not faults_of_access(visit.page, runOnly=["color-contrast"])


def test_widgets_move_by_keyboard_and_come_back(visit):
    widgets = visit.page.locator(".lumen-widget")
    for widget in widgets.all():
        picture = widget.locator(".lw-panels")
        control = widget.locator("input:not([type=radio]), input:checked").first
        first = picture.inner_html()
        control.focus()
        visit.page.keyboard.press("ArrowRight")
        assert picture.inner_html() != first
        visit.page.keyboard.press("ArrowLeft")
        assert picture.inner_html() == first


def test_a_number_answers_the_keyboard(visit):
    link = visit.page.locator("a.bound").first
    if visit.page.locator("a.bound").count():
        link.focus()
        shown = link.evaluate("link => getComputedStyle(link, '::after').content")
        assert shown.strip('"') == link.get_attribute("title")
        visit.page.keyboard.press("Enter")
        visit.page.wait_for_url(re.compile("#fact-"))
        visit.ready()
        place = visit.page.locator(":target")
        assert place.is_visible()
        top = place.evaluate("place => place.getBoundingClientRect().top")
        assert 0 <= top <= 900


@pytest.mark.parametrize("system", ["light", "dark"])
def test_a_first_visit_follows_the_readers_system(browser, system):
    visit = Visit(browser, "intro", theme=system)
    assert visit.page.evaluate("document.documentElement.dataset.theme") == system
    visit.context.close()


def test_the_search_finds_attention(browser):
    visit = Visit(browser, "search", query="?q=attention")
    results = visit.page.locator("#search-results li a")
    results.first.wait_for()
    found = [link.get_attribute("href") for link in results.all()]
    visit.context.close()
    assert any("09_attention" in address for address in found)
    assert not visit.complaints
