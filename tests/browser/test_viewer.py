"""The viewer in Chromium: what is shown is what the run has, each planted NaN's mark is there, keys do everything."""

import re
import shutil
import time
from pathlib import Path

import planted_runs
import pytest
from planted_runs import HOSTILE, PLANTED
from playwright.sync_api import expect

import backprobe as bp
from conftest import settled

MARK = {"light": (214, 0, 108), "dark": (255, 79, 163)}
SIZES = [("light", 1400), ("dark", 1400), ("light", 480), ("dark", 480)]
EMPTY = {
    "one_step": None,
    "one_name": None,
    "all_nan": None,
    "only_scalars": "only scalars were logged",
    "empty": "No step yet",
}


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """Runs by name, each written once."""
    around, made = tmp_path_factory.mktemp("runs"), {}

    def folder(name):
        if name not in made:
            made[name] = around / name
            getattr(planted_runs, name)(made[name])
        return made[name]

    return folder


@pytest.fixture
def page_of(chromium, tmp_path):
    """Open a page of a run, as a file or from a server; at the end nothing must have gone wrong."""
    contexts, viewers, seen = [], [], []

    def open_page(
        folder, *others, live=False, fragment="", scheme="light", width=1400, height=900, expected=(), **settings
    ):
        if live:
            viewer = bp.view(*([folder] if folder else []), *others, open=False)
            viewers.append(viewer)
            url, own = viewer.url + fragment, viewer.url.partition("#")[0]
        else:
            path = tmp_path / f"{Path(folder).stem}.html"
            if not path.exists():
                with bp.open_run(folder) as run:
                    run.save(path)
            url, own = path.as_uri() + fragment.replace("&", "#", 1), path.as_uri()
        context = chromium.new_context(color_scheme=scheme, viewport={"width": width, "height": height})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(8000)
        told = lambda text: seen.append(text) if not any(one in text for one in expected) else None
        page.on("console", lambda message: told(f"console: {message.text}"))
        page.on("pageerror", lambda error: told(f"error: {error}"))
        page.on("dialog", lambda dialog: (seen.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        is_own = lambda address: address.startswith(own) if live else address.partition("#")[0] == own
        page.on("request", lambda request: None if is_own(request.url) else seen.append(request.url))
        asking(page)
        page.goto(url)
        return page

    open_page.viewers = viewers
    yield open_page
    for context in contexts:
        context.close()
    for viewer in viewers:
        viewer.close()
    assert seen == []


def asking(page):
    """Keep which questions of a page are not answered yet."""
    page.asked = set()
    page.on("request", lambda request: page.asked.add(request) if "/answer/" in request.url else None)
    for event in ("requestfinished", "requestfailed"):
        page.on(event, lambda request: page.asked.discard(request))


def ready(page):
    """When the tracks are drawn, and alerts are there, above which they move down."""
    page.wait_for_selector("#legend")
    expect(page.locator("nav")).not_to_contain_text("being checked")
    page.wait_for_function("document.querySelectorAll('.row').length > 0")
    return settled(page)


def row(page, name):
    return page.locator(f'.row[title="{name}"]')


def marks(page, name):
    """Where there are marks on the row of a name: [from, to] of each in pixels of the tracks, in its middle."""
    theme = page.evaluate("document.documentElement.dataset.theme")
    return page.evaluate(
        """([name, [red, green, blue]]) => {
          const row = [...document.querySelectorAll('.row')].find((one) => one.title === name).getBoundingClientRect();
          const canvas = document.querySelector('#tracks canvas');
          const box = canvas.getBoundingClientRect();
          const y = Math.round(row.top - box.top + row.height - 4);
          const copy = new OffscreenCanvas(canvas.width, 1).getContext('2d', { willReadFrequently: true });
          copy.drawImage(canvas, 0, y, canvas.width, 1, 0, 0, canvas.width, 1);
          const { data } = copy.getImageData(0, 0, canvas.width, 1);
          const found = [];
          for (let x = 0; x < canvas.width; x++) {
            const [r, g, b] = data.slice(4 * x, 4 * x + 3);
            if (r !== red || g !== green || b !== blue) continue;
            if (found.length && found.at(-1)[1] === x) found.at(-1)[1] = x + 1;
            else found.push([x, x + 1]);
          }
          return found;
        }""",
        [name, MARK[theme]],
    )


def plot_width(page):
    return page.evaluate("document.querySelector('#tracks canvas').width")


# marks of NaN


@pytest.mark.parametrize("live", [True, False], ids=["live", "file"])
@pytest.mark.parametrize("window", [(0, 399), (70, 210), (195, 205)], ids=["all steps", "some steps", "few steps"])
@pytest.mark.parametrize("field", ["grad.rms", "update.ratio"])
def test_each_planted_nan_has_a_mark(page_of, folders, field, window, live):
    first, last = window
    zoom = "" if window == (0, 399) else f"&from={first}&to={last}"
    page = ready(page_of(folders("planted"), live=live, fragment=f"&field={field}{zoom}"))
    width = plot_width(page)
    for name in planted_runs.names():
        steps = {step for one, _, step in PLANTED if one == name and first <= step <= last}
        found = marks(page, name)
        for step in steps:
            x = (step + 0.5 - first) / (last + 1 - first) * width
            assert any(begin - 3 <= x <= end + 3 for begin, end in found), (name, step, found)
        assert all(end - begin >= 3 for begin, end in found), (name, found)
        assert bool(found) == bool(steps), (name, found)


@pytest.mark.parametrize("scheme, width", SIZES)
def test_marks_are_there_in_each_look(page_of, folders, scheme, width):
    page = ready(page_of(folders("planted"), scheme=scheme, width=width))
    for name in {name for name, _, _ in PLANTED}:
        row(page, name).scroll_into_view_if_needed()
        settled(page)
        found = marks(page, name)
        assert found and all(end - begin >= 3 for begin, end in found), name


def test_a_closed_module_has_the_marks_of_all_in_it(page_of, folders):
    page = ready(page_of(folders("planted")))
    row(page, "h.2").locator(".turn").click()
    settled(page)
    assert row(page, "h.2").get_attribute("aria-expanded") == "false"
    assert len(marks(page, "h.2")) == 2  # at steps 123 and 300


def test_b_goes_to_each_nan_and_none_is_left_out(page_of, folders):
    page = ready(page_of(folders("planted"), live=True, fragment="&from=10&to=20"))
    visited = []
    for _ in range(6):
        page.keyboard.press("b")
        settled(page)
        said = page.locator("p.unseen").inner_text()
        visited.append(re.search(r"of (\d+): (\S+), (\w+), steps? (\d+)", said).groups())
    stretches = PLANTED - {("h.1.mlp", "value", 201)}  # the second step of one
    assert {(name, kind, int(step)) for _, name, kind, step in visited} == stretches
    page.keyboard.press("b")  # from the beginning
    settled(page)
    assert "NaN or Inf 1 of 6" in page.locator("p.unseen").inner_text()
    page.keyboard.press("B")
    settled(page)
    assert "NaN or Inf 6 of 6" in page.locator("p.unseen").inner_text()


# numbers


def number(text):
    return float(text.replace(",", "").replace("−", "-").replace("∞", "inf"))


@pytest.mark.parametrize("live", [True, False], ids=["live", "file"])
def test_the_table_has_the_numbers_of_the_run(page_of, folders, live):
    step = 123 if live else 399  # a file has the steps of alerts and the last
    page = ready(page_of(folders("planted"), live=live, fragment=f"&name=h.2.attn&step={step}&open=1"))
    page.wait_for_selector("#details table")
    with bp.open_run(folders("planted")) as run:
        expected = run.at(step)["h.2.attn"]
    kinds = page.locator("#details thead th").all_inner_texts()[1:]
    shown = {}
    for line in page.locator("#details tbody tr").all():
        word, *cells = line.locator("th, td").all_inner_texts()
        shown |= (
            {f"{kind}.{word}": cell for kind, cell in zip(kinds, cells, strict=True)}
            if len(cells) > 1
            else {word: cells[0]}
        )
    assert shown.keys() == expected.keys()
    for field, text in shown.items():
        assert number(text) == pytest.approx(expected[field], rel=1e-4, nan_ok=True), field
    assert shown["grad.nan"] == ("3" if live else "0")


def test_a_cell_says_what_its_steps_have(page_of, folders):
    page = ready(page_of(folders("planted"), live=True, fragment="&from=120&to=129&field=grad.rms"))
    box = row(page, "h.2.attn").bounding_box()
    canvas = page.locator("#tracks canvas").bounding_box()
    with bp.open_run(folders("planted")) as run:
        for step in (120, 123, 129):
            page.mouse.move(canvas["x"] + (step - 120 + 0.5) / 10 * canvas["width"], box["y"] + 9)
            text = page.locator(".tip").inner_text()
            rms = run.at(step)["h.2.attn"]["grad.rms"]
            assert f"step {step}" in text and ("NaN or Inf in grad" in text) == (step == 123)
            assert number(re.search(r"grad\.rms (\S+)", text)[1]) == pytest.approx(rms, rel=1e-3)
    page.mouse.click(canvas["x"] + 3.5 / 10 * canvas["width"], box["y"] + 9)
    expect(page.locator("#details h2")).to_have_text("h.2.attn")
    expect(page.locator("#details h3").last).to_have_text("step 123")


def test_the_steps_of_chart_and_tracks_lie_below_each_other(page_of, folders):
    """To the pixel: the left edge and the width of the loss's plot are those of the tracks."""
    for width in (1400, 480):
        page = ready(page_of(folders("planted"), width=width))
        plot = page.locator(".scalar .plot").first.bounding_box()
        canvas = page.locator("#tracks canvas").bounding_box()
        assert (plot["x"], plot["width"]) == pytest.approx((canvas["x"], canvas["width"]), abs=0.51)


# alerts


def test_an_alert_leads_to_its_name_field_and_step(page_of, folders):
    page = ready(page_of(folders("planted"), live=True))
    with bp.open_run(folders("planted")) as run:
        alerts = list(run.alerts)
    picks = page.locator("nav .pick")
    assert picks.count() >= len(alerts) > 0
    for at, alert in enumerate(alerts):
        picks.nth(at).click()
        expect(page.locator("#details h2")).to_have_text(alert.name)
        card = page.locator("#details .card").first.inner_text()
        assert alert.headline in card and alert.remedy in card
        assert f"step={alert.step}" in settled(page).url
    assert "next:" in card


def test_the_line_of_code_is_shown(page_of, folders):
    page = ready(page_of(folders("planted"), live=True))
    with bp.open_run(folders("planted")) as run:
        alert = next(one for one in run.alerts if one.source is not None)
        at = list(run.alerts).index(alert)
    page.locator("nav .pick").nth(at).click()
    assert page.locator("#details .card pre").first.inner_text() == alert.source.text.strip()
    assert f"{alert.source.file}:{alert.source.line}" in page.locator("#details .card").first.inner_text()


# keys, search, address


def test_everything_can_be_done_with_keys(page_of, folders):
    page = ready(page_of(folders("planted"), live=True))
    press = lambda *keys: [(page.keyboard.press(key), settled(page)) for key in keys]
    chosen = lambda: page.locator(".row.chosen").get_attribute("title")
    press("ArrowDown")
    assert chosen() == "h"
    press("ArrowLeft")
    assert row(page, "h").get_attribute("aria-expanded") == "false" and page.locator(".row").count() == 1
    press("ArrowRight", "ArrowRight")
    assert chosen() == "h.0"
    press("End")
    assert chosen() == "h.3.mlp"
    press("ArrowLeft")
    assert chosen() == "h.3"
    press(".", ".", "Enter")
    assert "step=1" in page.url and page.locator("#details").is_visible()
    press("Escape")
    assert page.locator("#details").count() == 0
    press("+")
    assert "from=" in page.url
    press("]", "z", "v")
    assert "from=" not in page.url and page.locator("[role=radio][aria-checked=true]").inner_text() == "least"
    press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    press("n")
    assert page.locator("nav [aria-current=true]").count() == 1
    press("?")
    assert page.locator("dialog").is_visible() and "the next NaN or Inf" in page.locator("dialog").inner_text()
    press("Escape")
    assert not page.locator("dialog").is_visible()
    press("/")
    page.keyboard.type("2 attn")
    settled(page)
    assert page.locator(".row .label").all_inner_texts() == ["h.2.attn"] or "h.2.attn" in [
        one.get_attribute("title") for one in page.locator(".row").all()
    ]


def test_the_address_holds_what_is_seen(page_of, folders, chromium):
    page = ready(page_of(folders("planted")))
    row(page, "h.1").locator(".turn").click()
    page.locator("#field").select_option("value.absmax")
    page.keyboard.press("Escape")
    page.get_by_role("radio", name="change").click()
    page.locator(".row", has_text="h.2").first.click() if row(page, "h.2").count() == 0 else row(page, "h.2").click()
    for key in (".", ".", "+", "l"):
        page.keyboard.press(key)
        settled(page)
    page.evaluate("document.activeElement.blur()")
    page.mouse.move(700, 5)
    settled(page)
    url, picture = page.url, seen_in(page)
    again = page.context.new_page()
    asking(again)
    again.goto(url)
    ready(again)
    settled(again)
    assert seen_in(again) == picture


def seen_in(page):
    """The texts, and the pixels of the tracks."""
    drawn = page.evaluate("document.querySelector('#tracks canvas').toDataURL()")
    return page.locator("body").inner_text(), drawn


# empty and extreme


@pytest.mark.parametrize("name", EMPTY)
def test_runs_with_little_in_them_are_shown(page_of, folders, name):
    page = page_of(folders(name))
    if EMPTY[name] is None:
        ready(page)
    else:
        expect(page.locator("main")).to_contain_text(EMPTY[name])
    expect(page.locator("header")).to_contain_text("ended")


def test_no_run_is_said(page_of, tmp_path):
    (tmp_path / "runs").mkdir()
    page = page_of(tmp_path / "runs", live=True)
    expect(page.locator("body")).to_contain_text("No run yet")
    planted_runs.one_name(tmp_path / "runs" / "first")
    ready(page)
    assert page.locator(".row").all_inner_texts()[0].split() == ["weight"]


@pytest.mark.parametrize("live", [True, False], ids=["live", "file"])
def test_a_hostile_run_runs_nothing(page_of, folders, live):
    page = ready(page_of(folders("hostile"), live=live))
    page.keyboard.press("e")
    for key in ["n", "n", "b", "b", "b", "v", "End", "Enter", "ArrowUp", "Enter", "ArrowUp", "Enter", ".", "."]:
        page.keyboard.press(key)
        settled(page)
    assert page.evaluate("document.querySelectorAll('img, main b > b, #tracks b b').length") == 0
    assert page.evaluate("document.scripts.length") == 2
    assert HOSTILE.split("\u2028")[0].strip() in page.locator("nav").inner_text().replace("\n", " ")


def test_a_cut_run_is_said_to_be_damaged(page_of, folders, tmp_path):
    shutil.copytree(folders("planted"), tmp_path / "cut")
    file = tmp_path / "cut" / "rank-0.sqlite"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 3])
    page = page_of(tmp_path / "cut", live=True, expected=("409",))
    expect(page.locator("main")).to_contain_text("cannot be read")


# live


def test_a_training_is_followed(page_of, tmp_path):
    """A step is seen within two seconds of its commit; a run that died is said to have died, and one that goes on."""
    writer = planted_runs.planted(tmp_path / "run", 20, is_ended=False)
    page = ready(page_of(tmp_path / "run", live=True))
    expect(page.locator(".state")).to_contain_text("running: step 19")
    writer.append(next_step(writer, 20))
    writer.commit()
    began = time.monotonic()
    expect(page.locator(".state")).to_contain_text("running: step 20")
    page.wait_for_function("document.querySelector('#tracks') !== null")
    assert time.monotonic() - began < 2
    page.keyboard.press("f")
    expect(page.get_by_role("button", name="standing still")).to_be_visible()
    writer.append(next_step(writer, 21))
    writer.commit()
    page.wait_for_timeout(1000)
    expect(page.locator(".state")).to_contain_text("running: step 20")
    page.keyboard.press("f")
    expect(page.locator(".state")).to_contain_text("running: step 21")
    writer.abandon()
    expect(page.locator(".state")).to_contain_text("died: nothing after step 21")
    again = planted_runs.RunWriter(tmp_path / "run", 0, {"every": 1}, "bp.watch(model, folder)")
    expect(page.locator(".state")).to_contain_text("running: step 21")
    again.close()
    expect(page.locator(".state")).to_contain_text("ended at step 21")


def next_step(writer, number):
    import numpy

    from backprobe.record.statistics import measured
    from backprobe.storage.runs.layout import StepData

    matrix = numpy.array([measured(numpy.array([1.0]))] * writer.height).T
    return StepData(number, matrix, time.time(), 1)


def test_a_server_that_ends_is_said_and_what_was_seen_stays(page_of, folders):
    page = ready(page_of(folders("planted"), live=True, expected=("ERR_", "Failed to load")))
    rows = page.locator(".row").count()
    page_of.viewers[-1].close()
    expect(page.locator(".lost")).to_contain_text("does not answer")
    assert page.locator(".row").count() == rows


def test_the_token_is_not_in_the_address(page_of, folders):
    page = ready(page_of(folders("planted"), live=True))
    assert "token" not in page.url
    page.reload()
    ready(page)  # this tab remembers it
    other = page.context.new_page()
    other.on("console", lambda message: None)
    other.goto(page.url.partition("#")[0])
    expect(other.locator("body")).to_contain_text("no token")


# reading it


@pytest.mark.parametrize("scheme, width", SIZES)
def test_all_of_it_can_be_read(page_of, folders, scheme, width):
    """WCAG's contrast of text at level AA, no element wider than the page, each control with a name."""
    page = ready(page_of(folders("planted"), scheme=scheme, width=width, fragment="&name=h.2.attn&step=399&open=1"))
    texts = "h1, h2, h3, p, span, small, li, td, th, button, b, dt, dd, pre, label"
    assert page.evaluate((Path(__file__).parent / "contrast.js").read_text(), texts) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    unnamed = page.evaluate(
        "[...document.querySelectorAll('button, select, input')].filter((one) => !(one.innerText || one.ariaLabel ||"
        " one.labels?.length)).map((one) => one.outerHTML)"
    )
    assert unnamed == []


def test_a_screen_reader_gets_the_tree_and_the_table(page_of, folders):
    page = ready(page_of(folders("planted"), live=True, fragment="&name=h.0.attn&step=0&open=1"))
    page.wait_for_selector("#details table")
    tree = page.get_by_role("tree")
    item = tree.get_by_role("treeitem", name=re.compile("^h.0.attn, has NaN or Inf"))
    assert item.get_attribute("aria-level") == "3" and item.get_attribute("aria-posinset") == "2"
    assert tree.get_attribute("aria-activedescendant") == item.get_attribute("id")
    table = page.locator("#details").get_by_role("table").first
    assert table.get_by_role("columnheader").all_inner_texts()[1:] == ["value", "grad", "param", "update"]
    assert table.get_by_role("rowheader").first.inner_text() == "rms"
    assert page.get_by_role("img").count() >= 2


def test_it_can_be_printed(page_of, folders):
    page = ready(page_of(folders("planted")))
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    settled(page)
    assert page.evaluate("document.querySelector('#tracks').clientHeight") >= 18 * page.locator(".row").count()
    assert not page.locator("#search").is_visible()
    assert len(page.pdf()) > 10_000
