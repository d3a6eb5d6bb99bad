"""What a look at pictures of the viewer found wrong, and is right now: nothing false, covered, cut or empty."""

import planted_runs
import pytest
from planted_runs import numpy
from playwright.sync_api import expect
from test_circuits import swept
from test_viewer import MARK, folders, page_of, ready  # noqa: F401  # fixtures

from backprobe.storage.runs.layout import RowKey
from conftest import RECORDED, settled

PIXELS = """([place, from, to]) => {
  const canvas = document.querySelector(place);
  const [left, right] = [from, to].map((part) => Math.round(part * canvas.width));
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d');
  copy.drawImage(canvas, 0, 0);
  const { data } = copy.getImageData(left, 0, right - left, canvas.height);
  return [...new Set(Array.from({ length: data.length / 4 }, (_, at) => data.slice(4 * at, 4 * at + 3).join()))];
}"""
"""The colours of a part of a canvas, from the left to the right."""
ACCENT = "11,87,208"


def gappy(folder):
    """Forty steps of it were not written."""
    rows = [RowKey(name, "grad") for name in planted_runs.names()] + [RowKey("loss", "logged")]
    steps = [step for step in range(300) if not 120 <= step < 160]
    return planted_runs.written(folder, rows, steps, lambda row, step: numpy.array([1.0 + step]))


def nan_in_loss(folder):
    """At step 301 the loss is NaN."""
    rows = [RowKey("weight", "grad"), RowKey("loss", "logged")]
    return planted_runs.written(
        folder,
        rows,
        range(400),
        lambda row, step: numpy.array([numpy.nan if row.name == "loss" and step == 301 else step]),
    )


def test_an_alert_is_not_drawn_at_steps_that_are_not_its_own(page_of, folders):  # noqa: F811
    """It is at step 0, and was drawn at the first step of any window."""
    page = ready(page_of(folders("planted"), live=True, fragment="&from=195&to=205"))
    faint = "243,194,218"
    assert faint not in page.evaluate(PIXELS, [".scalar canvas", 0, 1])
    assert ",".join(map(str, MARK["light"])) not in page.evaluate(PIXELS, [".rail canvas", 0, 1])
    page.keyboard.press("z")
    settled(page)
    assert faint in page.evaluate(PIXELS, [".scalar canvas", 0, 1])


def test_no_line_leads_over_steps_that_were_not_written(page_of, tmp_path):  # noqa: F811
    gappy(tmp_path / "gappy")
    page = ready(page_of(tmp_path / "gappy", live=True))
    box, plot = page.locator(".scalar canvas").bounding_box(), page.locator(".scalar .plot").bounding_box()
    at = lambda step: (plot["x"] - box["x"] + plot["width"] * step / 300) / box["width"]
    assert ACCENT not in page.evaluate(PIXELS, [".scalar canvas", at(122), at(158)])
    assert ACCENT in page.evaluate(PIXELS, [".scalar canvas", at(100), at(118)])
    assert ACCENT in page.evaluate(PIXELS, [".scalar canvas", at(162), at(180)])


@pytest.mark.parametrize("step", [300, 301])
def test_a_scalar_says_what_the_steps_of_its_cell_have(page_of, tmp_path, step):  # noqa: F811
    """Two steps are a cell on a narrow page; the second was given the numbers of the next cell, and no NaN was said."""
    nan_in_loss(tmp_path / "run")
    page = ready(page_of(tmp_path / "run", live=True, width=480, fragment=f"&step={step}"))
    expect(page.locator(".scalar span")).to_have_text("300, NaN or Inf")


def test_modules_around_what_is_searched_are_open(page_of, folders):  # noqa: F811
    page = ready(page_of(folders("many"), live=True, fragment="&find=9 part3"))
    expect(page.locator("#legend")).to_contain_text("199 rows of 10,000 names")


def test_four_kinds_of_numbers_fit_beside_each_other(page_of, folders):  # noqa: F811
    page = ready(page_of(folders("planted"), live=True, fragment="&name=h.2.attn&step=123&open=1"))
    page.wait_for_selector("#details .dense")
    assert (
        page.evaluate("(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)(document.querySelector('.wide'))")
        == 0
    )


def test_nothing_is_said_of_nan_before_it_is_known(page_of, folders):  # noqa: F811
    page = page_of(None, folders("planted"), live=True)
    held, is_open = [], []
    page.route("**/answer/nonfinite*", lambda route: route.continue_() if is_open else held.append(route))
    page.reload()
    expect(page.locator("#legend .mark")).to_have_text("NaN and Inf are being counted …")
    is_open.append(True)
    for route in held:
        route.continue_()
    expect(page.locator("#legend .mark")).to_have_text("NaN or Inf: 7 times, 4 names")


def test_a_run_without_steps_or_names_has_nothing_to_choose(page_of, folders):  # noqa: F811
    page = page_of(folders("empty"), live=True)
    expect(page.locator(".state")).to_have_text("ended without a step")
    expect(page.locator("main .message")).to_be_visible()
    settled(page)
    assert page.locator(".row").count() == 0
    page = page_of(folders("only_scalars"), live=True)
    page.wait_for_selector(".scalar canvas")
    assert page.locator("#field, header .modes").count() == 0


@pytest.mark.parametrize("width", [480, 1400])
def test_the_way_back_covers_nothing_of_a_circuit(page_of, folders, recording, width):  # noqa: F811
    page = page_of(folders("planted"), recording("deep"), live=True, width=width, fragment="&circuit=0")
    page.wait_for_selector(".host [role=treeitem]")
    page.locator(".host [role=treeitem]").last.click()
    own = page.get_by_role("button", name="Back to the run").bounding_box()
    for other in ("footer", "h1#heading", "#search", "#open-all", "#close-all", "#details .close"):
        box = page.locator(f".host {other}").bounding_box()
        apart = own["x"] >= box["x"] + box["width"] or box["x"] >= own["x"] + own["width"]
        assert apart or own["y"] >= box["y"] + box["height"] or box["y"] >= own["y"] + own["height"], other


def test_labels_of_lines_do_not_touch(opened):
    """Two numbers read as one: -0.0213-0.0643."""
    page = opened("attribution", html=(RECORDED / "attribution.html").read_text(encoding="utf-8"))
    page.wait_for_selector("text.label")
    boxes = [one.bounding_box() for one in page.locator("text.label").all()]
    assert len(boxes) >= 5
    for at, one in enumerate(boxes):
        for other in boxes[at + 1 :]:
            beside = max(one["x"] - other["x"] - other["width"], other["x"] - one["x"] - one["width"])
            assert (
                beside > 4 or max(one["y"] - other["y"] - other["height"], other["y"] - one["y"] - one["height"]) >= 0
            )


def test_the_details_of_an_attribution_have_that_of_each_edge(opened):
    page = opened("attribution", html=(RECORDED / "attribution.html").read_text(encoding="utf-8"))
    page.locator("[role=treeitem]:not(.open)").first.click()
    table = page.locator("#details section", has_text="Flows into").locator("table")
    assert table.get_by_role("columnheader").all_inner_texts() == ["value", "attribution"]
    assert float(table.locator("td").first.inner_text()) != 0


def test_what_is_dark_is_printed_light(page_of, folders):  # noqa: F811
    page = ready(page_of(folders("planted"), live=True, scheme="dark", fragment="&theme=dark"))
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    settled(page)
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    settled(page)
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "beside a run"])
def test_a_circuit_is_printed_whole(page_of, opened, folders, recording, alone):  # noqa: F811
    """Only what could be seen of it was."""
    if alone:
        page = opened("deep", scheme="dark")
    else:
        page = page_of(folders("planted"), recording("deep"), live=True, fragment="&circuit=0")
    page.wait_for_selector("[role=treeitem]")
    page.get_by_role("button", name="Open all").click()
    drawn = page.locator(".edge").count()
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    settled(page)
    last, footer = page.locator("[role=treeitem]").last.bounding_box(), page.locator("footer").bounding_box()
    assert last["y"] > 5000 and footer["y"] >= last["y"] + last["height"]
    assert page.locator(".edge").count() > 2 * drawn
    assert not page.locator("#search, #legend, #tracks").last.is_visible()
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator(".edge").count() == drawn


def test_the_address_holds_what_is_selected_in_a_circuit(page_of, folders, recording):  # noqa: F811
    page = page_of(folders("planted"), recording("net"), live=True, fragment="&circuit=0")
    page.locator(".host [role=treeitem]:not(.open)").first.click()
    name = page.locator(".host #details h2").evaluate("(heading) => heading.firstChild.data")
    page.wait_for_function("(name) => new URLSearchParams(location.hash.slice(1)).get('value') === name", arg=name)
    page.reload()
    expect(page.locator(".host #details h2")).to_contain_text(name)
    page.keyboard.press("Escape")
    page.wait_for_function("() => !location.hash.includes('value=')")
    expect(page.locator(".host #details")).to_be_hidden()


def test_the_address_holds_what_a_sweep_shows(page_of):  # noqa: F811
    page = page_of(None, swept(), live=True)
    page.get_by_role("radio", name="gradient × change").click()
    page.get_by_role("searchbox").fill("mlp")
    expect(page.locator(".row[title='h.0.mlp']")).to_be_visible()
    page.wait_for_function("() => location.hash.includes('find=mlp')")
    page.reload()
    expect(page.get_by_role("radio", name="gradient × change")).to_be_checked()
    expect(page.locator(".row[title='h.0.mlp']")).to_be_visible()
    assert page.locator(".row[title='h.0.ln1']").count() == 0
