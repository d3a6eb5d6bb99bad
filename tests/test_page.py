"""The page that explores a recording, as a file: what it holds, what it leaves out, and that nothing in it can run."""

import re

import numpy
import pytest
import torch

import backprobe as bp
from circuit_pages import recorded

HOSTILE = "</script><img src=x onerror=alert(1)>'\"& \\ \u2028 é 数 <!--"


def toy(x, w, b):
    u = x * w
    v = u + b
    return torch.relu(v)


def test_the_page_is_a_file_by_itself(tmp_path):
    drawing = bp.draw(bp.probe(toy, partials=True)(3.0, 2.0, 1.0), tmp_path / "toy.html")
    text = (tmp_path / "toy.html").read_text()
    assert text == drawing.page and text.startswith("<!doctype html>")
    assert repr(drawing) == "<backprobe.Drawing of 6 values, as a page>"
    assert re.findall(r"\b(?:src|href)=|@import|url\((?!#)|\bfetch\(|https?://(?!www.w3.org/2000/svg)", text) == []
    assert not re.search(r"^(import|export) ", text, re.MULTILINE)


def test_the_numbers_are_those_of_the_recording():
    rec = bp.probe(toy, partials=True)(3.0, 2.0, 1.0)
    data = recorded(bp.draw(rec).page)
    assert data["heading"] == "gradients are of return"
    assert {value["name"]: (value["value"], value["number"]) for value in data["values"]} == {
        "x": ("3", 2.0),
        "w": ("2", 3.0),
        "b": ("1", 1.0),
        "u": ("6", 1.0),
        "v": ("7", 1.0),
        "return": ("7", 1.0),
    }
    assert {(edge["from"], edge["to"]): edge["number"] for edge in data["edges"]} == {
        (0, 3): 2.0,
        (1, 3): 3.0,
        (3, 4): 1.0,
        (2, 4): 1.0,
        (4, 5): 1.0,
    }


def test_dashed_lines_are_explained_where_there_are_any():
    def cut(x, w):
        stop = (x * w).detach()
        return x * stop

    dashed = "dashed line: read, but nothing flows back"
    assert dashed in recorded(bp.draw(bp.probe(cut)(3.0, 2.0)).page)["footer"]
    assert dashed not in recorded(bp.draw(bp.probe(toy)(3.0, 2.0, 1.0)).page)["footer"]


def test_a_large_tensor_is_statistics_and_a_histogram_of_a_sample():
    values = torch.linspace(-1, 3, 400_000).reshape(400, 1000)
    values[3, 4] = torch.nan
    (value, *_) = recorded(bp.draw(bp.probe(lambda x: (x * 2).nansum())(values)).page)["values"]
    found = value["valueStatistics"]
    assert (found["size"], found["nonfinite"], len(found["bars"])) == (400_000, 1, 24)
    assert sum(found["bars"]) in (found["read"], found["read"] - 1) and 30_000 < found["read"] <= 32_768
    assert abs(found["least"] + 1) < 1e-3 and abs(found["greatest"] - 3) < 1e-3 and abs(found["median"] - 1) < 1e-3
    assert max(found["bars"]) - min(found["bars"]) < 0.02 * found["read"]  # evenly spaced numbers stay even
    assert value["gradientStatistics"]["median"] == 2.0


@pytest.mark.parametrize("layout", [lambda t: t.t(), lambda t: t[:, ::2], lambda t: t.to(torch.bfloat16)])
def test_a_sample_is_of_the_tensor_as_it_lies(layout):
    tensor = layout(torch.arange(60_000.0).reshape(200, 300))
    from backprobe.backends.discover import load_arrays

    sample = load_arrays("torch").sample(tensor, 1000)
    own = set(tensor.double().flatten().tolist())
    assert 900 < sample.size <= 1000 and set(sample.tolist()) <= own
    assert numpy.allclose(sample.mean(), tensor.double().mean(), rtol=0.02)


def test_numbers_that_are_not_finite_are_no_json_of_their_own():
    data = recorded(bp.draw(bp.probe(lambda x: x / (x - x), partials=True)(torch.tensor(1.0))).page)
    assert (
        data["values"][0]["number"] in ("NaN", "Infinity", "-Infinity") and data["values"][0]["health"] == "nonfinite"
    )


def test_hostile_texts_are_data():
    table = {HOSTILE: torch.tensor(2.0, requires_grad=True)}

    def program(x):
        table["made"] = x * table[HOSTILE]  # </script><script>alert(1)</script>
        return {HOSTILE: table["made"] * 1}

    text = bp.draw(bp.probe(program, of=lambda result: result[HOSTILE])(torch.tensor(3.0, requires_grad=True))).page
    assert text.count("</script>") == 2 and text.count("<script") == 2 and "<img" not in text
    data = recorded(text)
    assert any("</script><script>alert(1)</script>" in value.get("statement", "") for value in data["values"])
    assert re.search(r"script-src 'sha256-[^']+'", text) and "unsafe" not in text


def test_a_notebook_gets_the_page_in_a_frame_that_reaches_nothing(monkeypatch):
    rec = bp.probe(toy)(3.0, 2.0, 1.0)
    monkeypatch.setitem(__import__("sys").modules, "pygraphviz", None)  # as where the extra is not installed
    drawing = bp.draw(rec)
    shown = drawing._repr_html_()
    assert 'sandbox="allow-scripts"' in shown and "<script" not in shown and "&lt;script" in shown
    assert drawing._repr_svg_() is None
    with pytest.raises(bp.NotInstalled, match="pygraphviz"):
        drawing.svg  # noqa: B018


def test_depth_closes_boxes_from_there_on():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    data = recorded(bp.draw(bp.probe(model, of=lambda y: y.sum())(torch.ones(1, 2)), depth=1).page)
    assert data["depth"] == 1 and {box["label"] for box in data["boxes"]} >= {"0", "1"}
    assert "weight" in {value["title"] for value in data["values"]}


def test_open_opens_the_boxes_that_a_pattern_matches():
    model = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()), torch.nn.Linear(2, 1))
    data = recorded(bp.draw(bp.probe(model, of=lambda y: y.sum())(torch.ones(1, 2)), depth=1, open="0.0").page)
    assert {data["boxes"][box]["name"] for box in data["open"]} == {"0", "0.0"}


def test_paths_are_said_to_sum_to_a_gradient_only_where_that_was_compared():
    def hooked(x):
        u = x * 2
        u.register_hook(lambda gradient: gradient * 3)
        return u * x

    compared = recorded(bp.draw(bp.probe(toy, partials=True)(3.0, 2.0, 1.0)).page)
    unknown = recorded(bp.draw(bp.probe(toy)(3.0, 2.0, 1.0)).page)
    rec = bp.probe(hooked, partials=True)(torch.tensor(2.0))
    assert compared["unsummed"] == [] and len(unknown["unsummed"]) == 6
    assert not rec.path_sums.agree or recorded(bp.draw(rec).page)["unsummed"]


def test_a_tensor_of_equal_numbers_has_no_histogram():
    (value, *_) = recorded(bp.draw(bp.probe(lambda x: x.sum())(torch.full((100,), 0.5))).page)["values"]
    assert "bars" not in value["valueStatistics"] and value["valueStatistics"]["least"] == 0.5
