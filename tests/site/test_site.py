"""The documentation builds without a warning, has every public name, needs nothing from elsewhere, and its links lead
somewhere."""

import json
import re
import subprocess
import sys
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import backprobe

DOCS = Path(__file__).parents[2] / "docs"

STYLE_ADDRESS = re.compile(r"""(?:url\(|@import)\s*['"]?([^'")\s;]+)""")


def build(source, built):
    """Sphinx's exit status and warnings."""
    warnings = built.parent / f"{built.name}.warnings"
    command = [sys.executable, "-m", "sphinx", "-q", "-E", "-W", "--keep-going", "-w", warnings, source, built]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.stderr.write(done.stderr)
    return done.returncode, warnings.read_text()


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The site, and how its build went."""
    built = tmp_path_factory.getbasetemp() / "site"
    return built, *build(DOCS, built)


@dataclass
class Page(HTMLParser):
    """What a page holds: the anchors, where its links lead, and what it makes a browser fetch."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    tags: set[str] = field(default_factory=set)
    styling: bool = False

    def __post_init__(self):
        super().__init__()

    def handle_starttag(self, tag, attributes):
        found = {name: value or "" for name, value in attributes}
        self.tags.add(tag)
        self.styling = tag == "style"
        self.anchors.add(found.get("id", ""))
        if tag == "a":
            self.links += [found[name] for name in ("href", "xlink:href") if name in found]
        elif tag == "link" and found.get("rel") not in ("canonical", "license"):
            self.fetched.append(found.get("href", ""))
        self.fetched += [found[name] for name in ("src", "data", "poster") if found.get(name)]
        self.fetched += [part.split()[0] for part in found.get("srcset", "").split(",") if part.strip()]
        self.fetched += STYLE_ADDRESS.findall(found.get("style", ""))

    def handle_data(self, data):
        if self.styling:
            self.fetched += STYLE_ADDRESS.findall(data)


def read(text):
    page = Page()
    page.feed(text)
    return page


def elsewhere(addresses: Iterable[str]):
    """Those that lead out of the site."""
    return [each for each in addresses if urlsplit(each).netloc or urlsplit(each).scheme in ("http", "https", "file")]


def broken(file, addresses, pages):
    """The addresses within the site that lead nowhere."""
    found = []
    for address in addresses:
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
        anchors = pages[target].anchors if target in pages else set()
        if not target.is_file() or (parts.fragment and unquote(parts.fragment) not in anchors):
            found.append(address)
    return found


@pytest.fixture(scope="session")
def pages(site):
    return {file.resolve(): read(file.read_text()) for file in site[0].rglob("*.html") if "_static" not in file.parts}


def test_the_documentation_builds_without_a_warning(site):
    _, status, warnings = site
    assert (status, warnings) == (0, "")


def test_every_public_name_has_an_entry_in_the_api(site):
    inventory = (site[0] / "objects.inv").read_bytes().split(b"\n", 4)[4]
    lines = [line.split() for line in zlib.decompress(inventory).decode().splitlines()]
    documented = {name for name, domain, _, address, *_ in lines if domain[:3] == "py:" and address[:8] == "api.html"}
    assert {f"backprobe.{name}" for name in backprobe.__all__} <= documented


def test_probe_is_shown_as_it_is_called_and_not_as_checkers_see_it(site):
    text = re.sub(r"<[^>]*>", "", (site[0] / "api.html").read_text())
    assert "strategy: Literal" in text
    assert "Unpack" not in text


def test_every_document_has_its_page(pages, site):
    documents = [file for kind in ("*.md", "*.ipynb") for file in DOCS.rglob(kind)]
    inside = [file.relative_to(DOCS).with_suffix(".html") for file in documents if "_build" not in file.parts]
    assert len(inside) >= 13
    assert {(site[0] / file).resolve() for file in inside if ".ipynb_checkpoints" not in file.parts} <= pages.keys()


def test_decisions_are_listed_on_one_page_and_not_in_the_sidebar(site):
    notes = {f"{note.stem}.html" for note in (DOCS / "design").glob("0*.md")}
    listing = (site[0] / "design" / "index.html").read_text()
    _, _, beside = listing.partition('<div class="sidebar-tree">')
    sidebar, _, content = beside.partition("<article")
    assert len(notes) >= 20
    assert notes <= set(read(content).links)
    assert "index.html" in "".join(read(sidebar).links)
    assert notes.isdisjoint(Path(link).name for link in read(sidebar).links)


def test_pages_fetch_nothing_from_elsewhere(pages, site):
    styles = [STYLE_ADDRESS.findall(file.read_text()) for file in (site[0] / "_static").rglob("*.css")]
    assert styles
    assert all(page.fetched for page in pages.values())
    assert elsewhere(address for page in (*pages.values(),) for address in page.fetched) == []
    assert elsewhere(address for style in styles for address in style) == []


def test_what_pages_fetch_is_there(pages):
    for file, page in pages.items():
        assert broken(file, page.fetched, pages) == [], file


def test_links_within_the_site_lead_somewhere(pages):
    assert sum(len(page.links) for page in pages.values()) >= 100
    for file, page in pages.items():
        assert broken(file, page.links, pages) == [], file


def test_pages_show_no_folder_of_the_machine_that_built_them(pages):
    for file in pages:
        assert str(DOCS.parent) not in file.read_text(), file


def test_a_page_that_fetched_something_would_fail(tmp_path):
    text = (
        '<script src="https://a.org/x.js"></script><link rel="stylesheet" href="//b.org/x.css">'
        '<style>@font-face { src: url("http://c.org/x.woff2") }</style><img src="_static/x.png">'
    )
    assert elsewhere(read(text).fetched) == ["https://a.org/x.js", "//b.org/x.css", "http://c.org/x.woff2"]
    assert broken(tmp_path / "x.html", read(text).fetched, {}) == ["_static/x.png"]


def test_a_link_that_leads_nowhere_would_fail(tmp_path):
    file = tmp_path / "x.html"
    file.write_text('<a id="here"></a><a href="#here"></a><a href="x.html#there"></a><a href="y.html"></a>')
    page = read(file.read_text())
    assert broken(file, page.links, {file: page}) == ["x.html#there", "y.html"]


def mathematics(folder, markdown, latex):
    """Build a page of Markdown, and a notebook whose cell gave this LaTeX, with the settings for math of the site."""
    output = {"output_type": "display_data", "metadata": {}, "data": {"text/latex": latex}}
    cell = {"cell_type": "code", "id": "a", "execution_count": 1, "metadata": {}, "source": "y", "outputs": [output]}
    title = {"cell_type": "markdown", "id": "b", "metadata": {}, "source": "# Notebook"}
    language = {"language_info": {"name": "python", "pygments_lexer": "ipython3"}}
    notebook = {"cells": [title, cell], "metadata": language, "nbformat": 4, "nbformat_minor": 5}
    source = folder / "source"
    source.mkdir()
    (source / "conf.py").write_text(
        f"import sys\nsys.path.insert(0, {str(DOCS / '_extensions')!r})\n"
        "extensions = ['myst_nb', 'mathml']\nhtml_math_renderer = 'mathml'\nnb_execution_mode = 'off'\n"
        "myst_enable_extensions = ['dollarmath']\n"
    )
    (source / "index.md").write_text(f"# Page\n\n{markdown}\n\n```{{toctree}}\nnotebook\n```\n")
    (source / "notebook.ipynb").write_text(json.dumps(notebook))
    status, warnings = build(source, folder / "built")
    return status, warnings, *((folder / "built" / name).read_text() for name in ("index.html", "notebook.html"))


def test_math_of_pages_and_of_notebooks_is_shown_without_a_script(tmp_path):
    derivation = r"$$\begin{aligned}\frac{\partial y}{\partial x} &= 2z + 2 \\ &= \mathrm{u\#1}\end{aligned}$$"
    status, warnings, page, notebook = mathematics(tmp_path, "Inline $x_1$.\n\n$$y = x^2$$", derivation)
    assert (status, warnings) == (0, "")
    assert "<math><msub><mi>x</mi><mn>1</mn></msub></math>" in page
    assert '<math display="block"><mi>y</mi><mo>=</mo><msup><mi>x</mi><mn>2</mn></msup></math>' in page
    assert notebook.count("<mtr>") == 2
    assert not re.search(r"<script[^>]*math", page + notebook, re.IGNORECASE)


def test_math_that_cannot_be_shown_is_a_warning(tmp_path):
    status, warnings, _, _ = mathematics(tmp_path, r"Inline $\nosuchcommand x$.", "$$y$$")
    assert status != 0
    assert r"math that cannot be shown" in warnings
    assert r"\nosuchcommand x" in warnings
