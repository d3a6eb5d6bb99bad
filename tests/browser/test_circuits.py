"""What is shown beside runs, in the same page: circuits with layers rolled up, comparisons, sweeps."""

import math
import re
import shutil
from pathlib import Path
from typing import get_type_hints

import planted_runs
import pytest
from planted_runs import HOSTILE
from playwright.sync_api import expect
from test_viewer import SIZES, folders, page_of, ready, row  # noqa: F401  # fixtures

import backprobe as bp
from conftest import RECORDED, settled


def swept(axes=(1,), hostile=False):
    """A sweep of known effects: -1 of h.1.mlp at 2, NaN of h.3.ln1 at 4, and none of h.0.ln1 after 3."""
    replaced = get_type_hints(bp.Sweep)["runs"].__args__[0]
    names = [f"h.{block}.{part}" for block in range(4) for part in ("ln1", "attn", "mlp")] + [HOSTILE] * hostile
    runs = []
    for at, name in enumerate(names):
        for index in range(6 if axes else 1):
            effect = -1.0 if (name, index) == ("h.1.mlp", 2) else 0.01 * at
            effect = math.nan if (name, index) == ("h.3.ln1", 4) else effect
            if (name, index > 3) != ("h.0.ln1", True):
                places = (index,) * len(axes)
                runs.append(replaced(name, places, f"{name}[:, {index}]", 2.0 + effect, effect / 2))
    return bp.Sweep("net", HOSTILE if hostile else "loss", 2.0, tuple(runs), axes, True)


def item(page, name):
    return page.locator(f"[role=treeitem][aria-label^='{name}, ']")


def colours(page, name, columns):
    """The colours in the middle of the cells of a row."""
    return page.evaluate(
        """([name, columns]) => {
          const row = [...document.querySelectorAll('.row')].find((one) => one.title === name).getBoundingClientRect();
          const canvas = document.querySelector('#tracks canvas');
          const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true });
          copy.drawImage(canvas, 0, 0);
          const y = Math.round(row.top - canvas.getBoundingClientRect().top + 4);
          return Array.from({ length: columns }, (_, at) =>
            [...copy.getImageData(Math.round(((at + 0.3) / columns) * canvas.width), y, 1, 1).data].slice(0, 3));
        }""",
        [name, columns],
    )


# layers rolled up


def test_layers_that_are_alike_are_one_box_at_first(opened, recording):
    page = opened("deep")
    box = item(page, "layers.0 … layers.39")
    assert box.get_attribute("aria-label") == "layers.0 … layers.39, 40 alike"
    assert page.get_by_role("treeitem").count() < 40
    expect(item(page, "last.0")).to_have_count(1)  # others are of another width, and few enough to be seen
    rec = recording("deep")
    sizes = [float((rec[f"layers.{at}"].grad ** 2).mean() ** 0.5) for at in range(40)]
    low, high = map(float, re.findall(r"rms (\S+) to (\S+)", box.locator(".ends").inner_text())[0])
    assert (low, high) == pytest.approx((min(sizes), max(sizes)), rel=5e-3)
    drawn = [float(y) for y in re.findall(r",([\d.]+)", box.locator(".spark path").get_attribute("d"))]
    assert len(drawn) == 40 and box.locator(".spark rect").count() == 0
    assert sorted(range(40), key=lambda at: -drawn[at]) == sorted(range(40), key=lambda at: sizes[at])
    box.click()
    expect(item(page, "layers.17")).to_be_visible()
    assert page.locator("#details tbody tr").count() == 40
    assert float(page.locator("#details tbody td").nth(17).inner_text()) == pytest.approx(sizes[17], rel=5e-3)


def test_a_layer_that_is_searched_is_shown_in_what_is_rolled_up(opened):
    page = opened("deep")
    page.keyboard.press("/")
    page.keyboard.type("layers.23.up.weight")
    page.keyboard.press("Enter")
    expect(page.locator("[role=treeitem].selected b")).to_have_text("weight")
    expect(item(page, "layers.22")).to_be_visible()


def test_what_is_rolled_up_hides_no_nan(opened, recording):
    page = opened("deep_nan")
    rec = recording("deep_nan")
    bad = [name for name, one in rec.items() if one.grad_or_none is not None and not math.isfinite(one.grad.sum())]
    layers = {int(re.findall(r"\d+", name)[0]) for name in bad if name.startswith("layers.")}
    assert 17 in layers and 18 not in layers
    boxes = page.locator("[role=treeitem].rolled")
    own = boxes.filter(has_text="layers.0 …")
    assert "nonfinite" in own.get_attribute("class")
    inside = int(re.search(r"(\d+) not finite inside", own.inner_text())[1])
    assert inside > 0 and own.locator(".spark rect").count() >= 1
    own.click()
    listed = page.locator("#details li .link").all_inner_texts()
    assert len(listed) == min(40, inside) and set(listed) <= set(bad)


# turns of loops


def test_the_turns_of_a_loop_are_one_box_at_first(opened, recording):
    """Also where several values are bound in each."""
    page, rec = opened("turns"), recording("turns")
    box = page.locator("[role=treeitem].rolled")
    assert box.get_attribute("aria-label").startswith("u#0, h#1 … u#99, h#100, 100 turns")
    expect(page.get_by_role("treeitem")).to_have_count(4)  # with x, w and loss
    sizes = [abs(float(rec[f"h#{at}"].grad)) for at in range(1, 101)]
    low, high = map(float, re.findall(r"rms (\S+) to (\S+)", box.locator(".ends").inner_text())[0])
    assert (low, high) == pytest.approx((min(sizes), max(sizes)), rel=5e-3)
    drawn = [float(y) for y in re.findall(r",([\d.]+)", box.locator(".spark path").get_attribute("d"))]
    assert len(drawn) == 100 and box.locator(".spark rect").count() == 0
    box.click()
    expect(page.locator("#details h3").first).to_have_text("100 turns")
    assert page.locator("#details tbody tr").count() == 100
    page.locator("#details").get_by_role("button", name="u#41, h#42").click()
    expect(page.locator("[role=treeitem].selected")).to_have_attribute("aria-label", re.compile("^u#41, h#42, "))
    page.keyboard.press("/")
    page.keyboard.type("h#77")
    page.keyboard.press("Enter")
    expect(page.locator("[role=treeitem].selected b")).to_have_text("h#77")


def test_a_variable_that_is_bound_again_and_again_is_one_item(opened, recording):
    page, rec = opened("counted"), recording("counted")
    box = page.locator("[role=treeitem].rolled")
    assert box.get_attribute("aria-label").startswith("h#1 … h#100, 100 turns")
    box.click()
    assert page.get_by_role("treeitem").count() == len([one for one in rec.values() if one.status != "not_tensor"]) + 1
    name = page.locator("#details").get_by_role("button", name="h#50")
    name.click()
    expect(page.locator("#details h2")).to_contain_text("h#50")


def test_a_loop_that_is_rolled_up_hides_no_nan(opened, recording):
    page, rec = opened("turns_nan"), recording("turns_nan")
    bad = [name for name, one in rec.items() if one.grad_or_none is not None and not math.isfinite(one.grad)]
    assert "h#37" in bad and "h#38" not in bad
    boxes = page.locator("[role=treeitem].rolled")
    inside = [re.search(r"(\d+) not finite inside", text) for text in boxes.all_inner_texts()]
    own = boxes.first
    assert "nonfinite" in own.get_attribute("class") and own.locator(".spark rect").count() >= 37
    alone = page.locator("[role=treeitem].nonfinite:not(.rolled)").count()
    assert sum(int(one[1]) for one in inside if one) + alone == len(bad)


def test_what_a_report_names_in_a_loop_is_seen_at_first(opened, recording):
    report = bp.diff(recording("turns_but_None"), recording("turns_but_50"))
    page = opened("report", report=report)
    blamed = page.locator("[role=treeitem].blamed").filter(has_text=re.compile(rf"\b{report.first.name}\b"))
    assert report.first.name == "u#50"
    expect(blamed.first).to_be_visible()


# looks


@pytest.mark.parametrize("scheme, width", SIZES)
def test_a_circuit_can_be_read(opened, recording, scheme, width):
    for name, html in (("turns_nan", None), ("deep_nan", None), ("attribution", (RECORDED / "attribution.html"))):
        text = html and html.read_text(encoding="utf-8")
        page = opened(name, html=text, scheme=scheme, width=width)
        item = page.locator("[role=treeitem]").first
        item.click()
        expect(page.locator("#details h2")).to_be_visible()
        texts = "b, small, span, code, p, td, th, h1, h2, h3, dt, dd, pre, button"
        assert page.evaluate((Path(__file__).parent / "contrast.js").read_text(), texts) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        diagram, panel = page.locator("#diagram").bounding_box(), page.locator("#details").bounding_box()
        assert (panel["y"] > diagram["y"] + 50) == (width < 760)
        if name == "attribution":
            assert "No backward pass" not in page.locator("#details").inner_text()


# comparisons


def test_a_comparison_shows_both_values_beside_each_other(opened, recording):
    report = bp.diff(recording("net"), recording("port"))
    page = opened("report", report=report)
    page.locator(".blamed").click()
    down = recording("net")["blocks.1.down"], recording("port")["blocks.1.down"]
    value = page.locator("#details section").filter(has=page.get_by_role("heading", name="Value", exact=True))
    expect(value.locator("h4")).to_have_text(["first", "second"])
    shown = [float(text) for text in re.findall(r"rms\s+(\S+)", value.inner_text())]
    assert shown == pytest.approx([float((one.value**2).mean() ** 0.5) for one in down], rel=5e-3)
    assert " | rms " in page.locator(".blamed span").last.inner_text()


# sweeps


@pytest.mark.parametrize("live", [True, False], ids=["live", "file"])
def test_a_sweep_has_patches_in_the_place_of_steps(page_of, tmp_path, chromium, live):  # noqa: F811
    sweep = swept()
    page = shown(page_of, tmp_path, sweep, live)
    blue, _, none = colours(page, "h.1.mlp", 6)[2], None, colours(page, "h.0.ln1", 6)[4]
    assert blue[2] > blue[0] + 60 and none == [236, 239, 242]
    assert colours(page, "h.3.ln1", 6)[4] == [214, 0, 108]
    box = page.locator("#tracks canvas").bounding_box()
    middle = row(page, "h.1.mlp").bounding_box()["y"] + 9
    page.mouse.move(box["x"] + 2.5 / 6 * box["width"], middle)
    expect(page.locator(".tip")).to_contain_text("index 2 along axis 1")
    expect(page.locator(".tip")).to_contain_text("effect −1")
    page.mouse.click(box["x"] + 2.5 / 6 * box["width"], middle)
    expect(page.locator("#details h2")).to_have_text("h.1.mlp")
    assert page.locator("#details td").all_inner_texts() == ["1", "−1", "−0.5"]
    page.get_by_role("radio", name="gradient × change").click()
    box = page.locator("#tracks canvas").bounding_box()  # narrower, beside the details
    page.mouse.move(box["x"] + 2.5 / 6 * box["width"], middle)
    expect(page.locator(".tip")).to_contain_text("gradient × change −0.5")
    page.wait_for_function("() => ['value=h.1.mlp', 'patch=2'].every((one) => location.hash.includes(one))")


def shown(page_of, tmp_path, sweep, live=True, **look):  # noqa: F811
    """The page of a sweep alone."""
    if live:
        page = page_of(None, sweep, live=True, **look)
    else:
        sweep.save(tmp_path / "sweep.html")
        page = page_of(tmp_path / "sweep.html", **look)
    page.wait_for_selector(".row")
    settled(page)
    return page


def test_a_sweep_without_axes_has_bars(page_of, tmp_path):  # noqa: F811
    page = shown(page_of, tmp_path, swept(()))
    width = page.evaluate("document.querySelector('#tracks canvas').width")
    right = [one for one in range(12) if colours(page, f"h.3.{('ln1', 'attn', 'mlp')[one % 3]}", 12)[one][0] > 150]
    assert width > 500 and right
    page.keyboard.press("End")
    expect(page.locator("#details h2")).to_have_text("h.3.mlp")
    assert page.locator("#details td").all_inner_texts() == ["2.11", "0.11", "0.055"]


def test_a_hostile_sweep_runs_nothing(page_of, tmp_path):  # noqa: F811
    page = shown(page_of, tmp_path, swept(hostile=True), live=False)
    page.keyboard.press("e")
    for key in ("End", ".", "ArrowUp", "ArrowUp", "ArrowLeft", "End"):
        page.keyboard.press(key)
    assert (
        page.evaluate("document.querySelectorAll('img').length") == 0 and page.evaluate("document.scripts.length") == 2
    )
    assert "<script>alert(1)</script>" in page.locator("#details h2").inner_text()


@pytest.mark.parametrize("scheme, width", SIZES)
def test_a_sweep_can_be_read(page_of, tmp_path, scheme, width):  # noqa: F811
    page = shown(page_of, tmp_path, swept(), scheme=scheme, width=width)
    page.keyboard.press("End")
    expect(page.locator("#details h2")).to_be_visible()
    texts = "h1, h2, h3, p, span, small, li, td, th, button, b"
    assert page.evaluate((Path(__file__).parent / "contrast.js").read_text(), texts) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    tracks, panel = page.locator("#tracks canvas").bounding_box(), page.locator("#details").bounding_box()
    assert tracks["height"] > 100 and tracks["width"] > width / 3
    assert (panel["y"] > tracks["y"] + 50) == (width < 760)  # below them, where there is no room beside
    assert page.locator("#details table").evaluate("node => node.scrollWidth <= node.parentElement.clientWidth")


# beside a run


@pytest.mark.parametrize("with_run", [True, False], ids=["beside a run", "alone"])
def test_circuits_are_explored_beside_a_run(page_of, folders, recording, with_run):  # noqa: F811
    """In the same page: also of a hostile recording, and of a report of two that differ."""
    report = bp.diff(recording("net"), recording("port"))
    drawn = [recording("two_paths"), recording("hostile"), report]
    page = page_of(folders("planted") if with_run else None, *drawn, live=True)
    titles = page.locator("nav .pick")
    expect(titles.nth(2)).to_have_text(report.heading)
    for at, expected in enumerate(("u", "made", "blocks.1")):
        if with_run or at:
            titles.nth(at).click()
        expect(page.locator(".host [role=treeitem]").filter(has_text=expected).first).to_be_visible()
    assert page.locator("img, iframe").count() == 0
    page.keyboard.press("/")
    page.keyboard.type("1 down bias")  # letters of the search are no keys of the page
    page.keyboard.press("Enter")
    expect(page.locator(".host #details h2")).to_contain_text("blocks.1.down.bias")
    page.keyboard.press("Escape")
    expect(page.locator(".host #details")).to_be_hidden()
    if with_run:
        page.keyboard.press("Escape")
        expect(page.locator(".host")).to_have_count(0)
        assert ready(page).locator(".row").count() > 0


def test_a_name_leads_from_the_run_to_its_value_and_back(page_of, folders, tmp_path):  # noqa: F811
    page = ready(page_of(folders("planted"), swept(), live=True, fragment="&name=h.1.mlp&open=1"))
    page.get_by_role("button", name="show it in the sweep").click()
    expect(page.locator(".sweep #details h2")).to_have_text("h.1.mlp")
    page.get_by_role("button", name="show it in the run").click()
    expect(page.locator(".sweep")).to_have_count(0)
    expect(page.locator("#details h2")).to_have_text("h.1.mlp")
    expect(page.locator(".row.chosen")).to_have_attribute("title", "h.1.mlp")


@pytest.mark.parametrize("is_in_folder", [True, False], ids=["in the folder", "given"])
def test_a_layer_leads_from_the_run_to_the_circuit_and_back(page_of, recording, tmp_path, is_in_folder):  # noqa: F811
    planted_runs.layers(tmp_path / "run")
    if is_in_folder:
        shutil.copytree(RECORDED / "deep", tmp_path / "run" / "bad")
    others = [] if is_in_folder else [recording("deep")]
    page = ready(page_of(tmp_path / "run", *others, live=True, fragment="&name=layers.31&open=1"))
    page.get_by_role("button", name="show it in the circuit").click()
    expect(page.locator(".host #details h2")).to_contain_text("layers.31")
    expect(page.locator(".host .selected")).to_be_visible()
    page.get_by_role("button", name="show it in the run").click()
    expect(page.locator(".row.chosen")).to_have_attribute("title", "layers.31")
