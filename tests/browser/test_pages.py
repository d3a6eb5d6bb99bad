"""What a person does with a page: open boxes, click on values, follow a path, search, with the mouse or the keys."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

import backprobe as bp
from conftest import RECORDED


def item(page, name):
    """The element of the value or box of this name within its box."""
    return page.locator("[role=treeitem]").filter(has=page.locator(f"xpath=(./b|./div/b)[normalize-space(.)='{name}']"))


def details(page):
    return page.get_by_role("complementary", name="Details")


def table_of(page, title):
    """The rows of a table in the details, as texts."""
    section = details(page).locator("section").filter(has=page.get_by_role("heading", name=title, exact=True))
    return [row.locator("th, td").all_inner_texts() for row in section.locator("tbody tr").all()]


def text(number):
    return f"{float(number):.6g}"


def hard_to_read(page, texts="b, small, span, code, p, td, th, h1, h2, h3, dt, dd, pre, button"):
    """The texts whose contrast with what is behind them is less than 4.5, as WCAG 2.2 asks for at level AA (1.4.3)."""
    return page.evaluate((Path(__file__).parent / "contrast.js").read_text(), texts)


# values


def test_each_value_shows_the_numbers_of_the_recording(opened, recording):
    rec, page = recording("two_paths"), opened("two_paths")
    assert page.get_by_role("treeitem").count() == len(rec) == 6
    for name, entry in rec.items():
        item(page, name).click()
        panel = details(page)
        assert panel.get_by_role("heading", level=2).inner_text().split()[0] == name
        assert panel.locator("pre").inner_text() == entry.source.statement
        numbers = panel.locator(".number").all_inner_texts()
        assert numbers == [text(entry.value), f"∂loss/∂{name} = {text(entry.grad)}"]
        partials = [[each, text(entry.partials[each]), text(entry.contributions[each])] for each in entry.partials]
        assert table_of(page, "Computed from") == partials
        assert item(page, name).get_attribute("aria-selected") == "true"


def test_the_chain_rule_follows_the_path_that_is_chosen(opened, recording):
    rec, page = recording("two_paths"), opened("two_paths")
    item(page, "x").click()
    panel = details(page)
    total = text(rec["x"].grad)
    assert f"One of 2 paths; together they sum to the gradient {total}" in panel.inner_text()
    sums = []
    for onward in ("v", "loss"):
        panel.get_by_label("The path goes on from u to").select_option(onward)
        formula = panel.locator("section code").inner_text()
        sums.append(float(formula.rpartition("= ")[2]))
        assert page.locator(".edge.path").count() == (3 if onward == "v" else 2)
    assert formula == "∂loss/∂u · ∂u/∂x = 1 · 2 = 2"
    assert text(sum(sums)) == total


def test_a_large_tensor_has_a_histogram_and_its_statistics(opened, recording):
    weight, page = recording("net")["blocks.0.up.weight"], opened("net")
    page.get_by_role("combobox").fill("blocks.0.up.weight")
    page.keyboard.press("Enter")
    charts = details(page).get_by_role("img")
    assert charts.count() == 2 and charts.first.locator("rect").count() == 24
    assert "Histogram of the value from" in charts.first.get_attribute("aria-label")
    shown = details(page).locator(".statistics").first.inner_text()
    assert f"{weight.value.size:,}" in shown and re.search(r"rms\s+0\.\d+", shown)
    assert float(re.search(r"largest magnitude\s+(\S+)", shown)[1]) == pytest.approx(abs(weight.value).max(), rel=5e-3)


def test_gradients_that_are_special_say_why(opened):
    page = opened("special")
    item(page, "x").click()
    assert "not finite" in details(page).inner_text()
    assert "nonfinite" in item(page, "x").get_attribute("class")


# boxes


def test_boxes_open_and_close(opened, recording):
    page = opened("net", depth=1)
    block = page.locator("[role=treeitem][aria-label^='blocks.0, ']")
    assert block.get_attribute("aria-expanded") == "false"
    before = page.get_by_role("treeitem").count()
    block.click()
    opened_box = page.locator("[role=treeitem][aria-expanded=true]")
    inside = opened_box.locator("[role=treeitem]").count()
    assert opened_box.count() == 1 and inside == 3  # up, down and what it returns
    assert page.get_by_role("treeitem").count() == before + inside
    opened_box.locator(".head").click()
    assert page.get_by_role("treeitem").count() == before
    page.get_by_role("button", name="Open all").click()
    tensors = [entry for entry in recording("net").values() if entry.status != "not_tensor"]
    assert page.locator("[role=treeitem]:not([aria-expanded])").count() == len(tensors)
    page.get_by_role("button", name="Close all").click()
    assert page.get_by_role("treeitem").count() == before


def test_lines_join_what_is_visible(opened):
    page = opened("net", depth=1)
    page.get_by_role("button", name="Open all").click()
    boxes = {one.get_attribute("data-key"): one.bounding_box() for one in page.locator("[data-key]").all()}
    lines = page.locator("[data-edge]").all()
    assert len(lines) > 15
    for line in lines:
        source, target = line.get_attribute("data-edge").split()
        start, end = line.locator("path").evaluate(
            """path => { const at = path.getBoundingClientRect && ((length) => {
                 const point = path.getPointAtLength(length).matrixTransform(path.getScreenCTM());
                 return [point.x, point.y]; });
               return [at(0), at(path.getTotalLength())]; }"""
        )
        for (x, y), box, edge in ((start, boxes[source], "bottom"), (end, boxes[target], "top")):
            assert box["x"] <= x <= box["x"] + box["width"], (source, target)
            assert abs(y - (box["y"] + box["height"] * (edge == "bottom"))) < 4, (source, target)


# search and keys


def test_search_opens_the_boxes_around_what_it_finds(opened):
    page = opened("net", depth=1)
    assert item(page, "bias").count() == 0
    page.keyboard.press("/")
    page.keyboard.type("1 down bias")
    options = page.get_by_role("listbox").get_by_role("option")
    assert options.all_inner_texts() == ["blocks.1.down.bias "] or options.count() == 1
    page.keyboard.press("Enter")
    assert details(page).get_by_role("heading", level=2).inner_text().startswith("blocks.1.down.bias")
    assert item(page, "bias").is_visible()
    page.get_by_role("combobox").fill("nowhere")
    assert "no value has this name" in page.get_by_role("listbox").inner_text()


def test_everything_can_be_done_with_keys(opened):
    page = opened("net", depth=1)
    focused = lambda: page.evaluate("document.activeElement.getAttribute('aria-label') || document.activeElement.id")
    for _ in range(4):
        page.keyboard.press("Tab")
    first = focused()
    assert page.evaluate("document.activeElement.getAttribute('role')") == "treeitem"
    page.keyboard.press("ArrowDown")
    assert focused() != first
    page.keyboard.press("Home")
    while not focused().startswith("blocks.0"):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
    page.keyboard.press("ArrowRight")
    child = focused()
    assert page.evaluate("document.activeElement.getAttribute('aria-level')") == "2"
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    assert focused() == "Details" and details(page).is_visible()
    page.keyboard.press("Escape")
    assert not details(page).is_visible()
    assert page.evaluate("document.activeElement.getAttribute('role')") == "treeitem"
    page.keyboard.press("Home")
    while focused() != child:
        page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "false"
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"  # the focus can be seen


def test_a_screen_reader_has_a_name_for_everything(opened):
    page = opened("net")
    item(page, "loss").click() if item(page, "loss").count() else page.get_by_role("treeitem").last.click()
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, [role=treeitem], [role=img], aside")]
             .filter((node) => node.checkVisibility())
             .filter((node) => !(node.getAttribute("aria-label") || node.innerText || "").trim())
             .map((node) => node.outerHTML)"""
    )
    assert unnamed == []
    assert page.locator("[role=treeitem][tabindex='0']").count() == 1
    assert page.get_by_role("status").inner_text() != ""


# comparisons


def test_the_first_divergence_is_marked_and_found(opened):
    report = bp.diff(RECORDED / "net", RECORDED / "port")
    assert report.first.name == "blocks.1.down"
    page = opened("report", report=report, depth=1)
    assert report.heading in page.locator("body").inner_text()
    down = page.locator("[role=treeitem][aria-label^='blocks.1.down, value ']")
    expect(down).to_be_visible()  # the boxes around what is named are open
    blamed = page.locator("[role=treeitem].blamed")
    assert blamed.count() == 1 and blamed.get_attribute("aria-label") == down.get_attribute("aria-label")
    assert down.evaluate("node => getComputedStyle(node).borderTopWidth") == "3px"
    page.get_by_role("button", name="Close all").click()
    expect(down).to_have_count(0)
    page.keyboard.press("/")
    page.keyboard.type("1 down")
    page.get_by_role("listbox").get_by_role("option", name="blocks.1.down", exact=True).click()
    expect(down).to_be_visible()
    expect(down).to_have_attribute("aria-selected", "true")
    shown = details(page).inner_text()
    assert "\nblocks.1.down value\n" in shown and "value differs: relative error " in shown
    assert hard_to_read(page) == []


# looks


@pytest.mark.parametrize(("scheme", "darkest"), [("light", False), ("dark", True)])
def test_text_can_be_read_in_light_and_dark(opened, scheme, darkest):
    for name in ("net", "two_paths", "special"):
        page = opened(name, scheme=scheme)
        page.get_by_role("treeitem").last.click()
        assert hard_to_read(page) == []
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background)[:3])) < 200) == darkest


@pytest.mark.parametrize("width", [360, 700])
def test_a_narrow_window_has_the_details_below(opened, width):
    page = opened("net", width=width)
    page.get_by_role("treeitem").last.click()
    diagram, panel = page.locator("#diagram").bounding_box(), details(page).bounding_box()
    assert panel["y"] >= diagram["y"] + diagram["height"] - 1 and panel["width"] == width
    assert page.evaluate("document.documentElement.scrollWidth") == width


# programs that would break out


def test_hostile_names_and_lines_are_text(opened):
    page = opened("hostile")
    assert page.locator("img, script[src], iframe").count() == 0
    shown = page.get_by_role("treeitem").all_inner_texts()
    assert any("<img src=x onerror=alert(2)>" in each for each in shown)
    item(page, "made").click()
    assert "</script><script>alert(3)</script>" in details(page).locator("pre").inner_text()
    page.get_by_role("combobox").fill("<img")
    assert page.get_by_role("option").count() >= 1


def test_a_notebook_shows_the_page_in_a_frame(opened, recording):
    page = opened("notebook", html=bp.draw(recording("two_paths"))._repr_html_())
    inside = page.frame_locator("iframe")
    inside.locator("[role=treeitem]").first.click()
    assert inside.get_by_role("complementary").is_visible()


BOOKS = {"light": ("rgb(255, 255, 255)", "rgb(17, 17, 17)"), "dark": ("rgb(17, 17, 17)", "rgb(221, 221, 221)")}


def notebook(book, *outputs):
    """A page with the colours of a notebook, and with what it shows of objects; links have another colour."""
    behind, ink = BOOKS[book]
    head, body = '<!doctype html><meta charset="utf-8"><style>a { color: teal }</style>', "<hr>".join(outputs)
    return f'{head}<body style="background:{behind};color:{ink}">{body}'


def other(book):
    """The theme of a system that is not the notebook's."""
    return "light" if book == "dark" else "dark"


@pytest.mark.parametrize("book", ["light", "dark"])
def test_objects_can_be_read_in_light_and_dark_notebooks(opened, recording, book):
    rec = recording("special")
    report = bp.explain(rec, "x")
    objects = [rec, rec["x"], rec["x"].source, rec["return"].inputs[0], report, *report.findings, bp.health(rec)]
    outputs = [one._repr_html_() for one in objects]
    page = opened("objects", html=notebook(book, *outputs), scheme=other(book))
    assert page.locator(".backprobe").count() == len(objects)
    assert hard_to_read(page) == []
    assert page.locator("td").first.inner_text() == "x"


@pytest.mark.parametrize("book", ["light", "dark"])
def test_a_page_in_a_notebook_has_the_theme_of_the_notebook(opened, recording, book):
    shown = bp.draw(recording("two_paths"))._repr_html_()
    page = opened("notebook", html=notebook(book, shown), scheme=other(book))
    root = page.frame_locator("iframe").locator("html")
    expect(root).to_have_attribute("data-theme", book)
    behind, ink = BOOKS[other(book)]
    page.evaluate("(colours) => Object.assign(document.body.style, colours)", {"background": behind, "color": ink})
    expect(root).to_have_attribute("data-theme", other(book))


def test_a_page_by_itself_has_the_theme_of_the_system(opened):
    page = opened("two_paths", scheme="dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.emulate_media(color_scheme="light")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    page.evaluate("postMessage('<b>', '*')")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")


@pytest.mark.parametrize("name", ["net", "special"])
@pytest.mark.parametrize("book", ["light", "dark"])
def test_a_picture_in_a_notebook_has_the_colours_of_the_notebook(opened, book, name):
    shown = (RECORDED / f"{name}.html").read_text(encoding="utf-8")
    page = opened("picture", html=notebook(book, shown), scheme=other(book))
    assert page.locator("svg .node").count() > 1
    assert hard_to_read(page, "svg text") == []
    inks = page.locator("svg .node text").evaluate_all("nodes => nodes.map(node => getComputedStyle(node).fill)")
    assert BOOKS[book][1] in inks
