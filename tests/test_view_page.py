"""The viewer's page as a file: what is in it, how large it is, and that it is made of the sources beside it."""

import base64
import gzip
import hashlib
import html
import json
import math
import re
import sys
from pathlib import Path

import numpy
import pytest
import torch

import backprobe as bp
from asked import message
from circuit_pages import recorded
from written_runs import fill, rows, writer

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "src" / "backprobe" / "view" / "page"
VENDORED = {
    "htm.LICENSE": "db23695901376335f19bdd79a8f97ea53881d5437aac0c7bb63440cf32f894e2",
    "preact.LICENSE": "1fe6958409c8c257a70c587a18b6f7f412b179b456630790d30b2ec9a8e4b7d4",
    "preact.js": "12224bdae6411bafa7fcc1a46d1861c23b97f71f7761ce701cdab6ec71cce999",
}
"""preact 10.29.8 with htm 3.1.1 as ``make page`` bundles them."""
MOST, MOST_ZIPPED = 130_000, 49_100  # bytes of the page, its libraries and what draws circuits, without data
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"' & \\ \u2028 é 数"


@pytest.fixture
def folder(tmp_path):
    one = writer(tmp_path / "run")
    one.add_rows([*rows(["a", HOSTILE]), *rows(["loss"], ["logged"])])
    fill(one, range(20), 5)
    one.close()
    return tmp_path / "run"


def data_of(page):
    """The data in a page, as JavaScript reads it."""
    return json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', page)[1])


def test_what_is_vendored_is_what_it_was():
    files = [*PAGE.glob("*.LICENSE"), *(ROOT / "tools" / "page" / "vendor").iterdir()]
    assert {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files} == VENDORED


def test_the_page_is_made_of_its_sources():
    """``make page`` bundles them, which needs Node; that it was run after the last change is seen without it."""
    sys.path.insert(0, str(ROOT / "tools" / "page"))
    try:
        from build import digest
    finally:
        sys.path.remove(str(ROOT / "tools" / "page"))
    for name in ("page", "circuit"):
        bundle = gzip.decompress((PAGE / f"{name}.js.gz").read_bytes()).decode()
        assert bundle.startswith(f"// sources {digest()}\n"), "run: make page"


def test_the_page_is_small(folder):
    with bp.view(folder, open=False) as viewer:
        page = viewer._server.page.encode()
    circuits = gzip.decompress((PAGE / "circuit.js.gz").read_bytes()) + (PAGE / "circuit.css").read_bytes()
    assert len(page) + len(circuits) <= MOST
    assert len(gzip.compress(page, 9)) + len(gzip.compress(circuits, 9)) <= MOST_ZIPPED


def test_a_file_holds_a_run_and_needs_nothing_else(folder, tmp_path):
    with bp.open_run(folder) as run:
        run.save(tmp_path / "run.html")
    page = (tmp_path / "run.html").read_text()
    store = data_of(page)["store"]
    assert {key.partition("?")[0] for key in store} == {"about", "alerts", "nonfinite", "series", "grid", "step"}
    outside = re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?([a-z]+:[^"')\s>]*)""", page)
    assert {one for one in outside if not one.startswith("data:")} <= {"http://www.w3.org/2000/svg"}
    policy = html.unescape(re.search(r'Content-Security-Policy" content="(.*?)"', page)[1])
    assert "default-src 'none'" in policy and "connect-src 'none'" in policy and "unsafe" not in policy


def test_names_that_are_markup_are_text(folder, tmp_path):
    with bp.open_run(folder) as run:
        run.save(tmp_path / "run.html")
    page = (tmp_path / "run.html").read_text()
    assert page.count("<script") == page.count("</script>") == 2 and "<img" not in page.partition("<script")[0]
    assert "alert(1)" not in re.sub(r"<script[^>]*>.*?</script>", "", page, flags=re.DOTALL)


def test_a_notebook_shows_the_page_in_a_frame(folder):
    with bp.open_run(folder) as run:
        shown = run._repr_html_()
    page = html.unescape(re.search(r'srcdoc="(.*?)" sandbox="allow-scripts"', shown, re.DOTALL)[1])
    assert [key for key in data_of(page)["store"] if key.startswith("grid")] == ["grid?run=0&field=grad.rms&bins=200"]
    with bp.view(folder, open=False) as viewer:
        assert html.escape(viewer.url) in viewer._repr_html_() and "<iframe" in viewer._repr_html_()


def test_a_run_without_steps_is_shown_in_words(tmp_path):
    writer(tmp_path).close()
    with bp.open_run(tmp_path) as run:
        assert "none so far" in run._repr_html_() and "<iframe" not in run._repr_html_()
        run.save(tmp_path / "run.html")


@pytest.mark.parametrize(
    "path, found",
    [("run.png", "the ending '.png'"), ("run", "no ending"), (f"{__file__}/run.html", f"{__file__} is a file")],
)
def test_a_page_is_refused_before_anything_is_read(folder, path, found):
    with bp.open_run(folder) as run, pytest.raises(bp.BadOption) as raised:
        run.save(path)
    assert raised.value.found == found and raised.value.next and raised.value.asked == f"run.save({path!r})"


# circuits, comparisons and sweeps


def scaled(x, by):
    u = x * by
    return u.sum()


@pytest.fixture
def report():
    x = torch.tensor([1.0, -2.0, 3.0])
    return bp.diff(*(bp.probe(scaled, wrt="x")(x, torch.tensor(by)) for by in (1.0, 2.0)))


@pytest.fixture
def swept():
    x = torch.tensor([1.0, 2.0, float("inf")])
    return bp.sweep(scaled, ["x", "u"], replace=torch.zeros_like, axis=0)(x, torch.tensor(2.0))


def unpacked(text):
    """The head and the arrays of an answer in a file."""
    body = gzip.decompress(base64.b64decode(text))
    size = int.from_bytes(body[:4], "little")
    head, at = json.loads(body[4 : 4 + size]), 4 + size
    for name, kind, length in head.pop("arrays"):
        head[name] = numpy.frombuffer(body, f"<{kind}", length, at)
        at += 4 * length
    return head


def test_a_comparison_is_saved_with_both_values(report, tmp_path):
    report.save(tmp_path / "diff.html")
    page = (tmp_path / "diff.html").read_text()
    assert page == bp.draw(report).page
    data = recorded(page)
    (u,) = [one for one in data["values"] if one["name"] == "u"]
    assert data["kind"] == "diff" and (u["first"]["value"], u["value"]) == ("[1, -2, 3]", "[2, -4, 6]")
    assert (u["first"]["gradient"], u["gradientText"]) == ("[1, 1, 1]", "[1, 1, 1]")
    assert u["brief"][-1] == "[1, -2, 3] | [2, -4, 6]"
    assert [one["name"] for one in data["values"] if one["health"] == "blamed"] == ["by"]
    assert u["weight"] == next(row.value.excess for row in report.rows if row.b.name == "u")


def powered(x, times):
    y = x
    for at in range(times):
        y = y * (at + times)
    return y.sum()


def test_numbers_of_python_are_compared_too():
    x = torch.tensor([1.0, -2.0, 3.0])
    report = bp.diff(*(bp.probe(powered)(x, times) for times in (3, 4)))
    values = {one["name"]: one for one in recorded(bp.draw(report).page)["values"]}
    assert values["times"]["brief"][-1] == "3 | 4"


def test_a_sweep_is_saved_with_what_each_run_changed(swept, tmp_path):
    swept.save(tmp_path / "sweep.html")
    store = data_of((tmp_path / "sweep.html").read_text())["store"]
    assert store.keys() == {"others?", "other?other=0", "names?other=0"}
    found = unpacked(store["other?other=0"])
    assert found["shown"]["rows"] == ["x", "u"] and found["shown"]["width"] == 3 and found["shown"]["axes"] == [0]
    assert found["was"].tolist() == [1.0] * 6
    assert numpy.array_equal(found["effect"], numpy.ravel(swept.grid).astype("f4"), equal_nan=True)


def test_runs_circuits_and_sweeps_are_one_page(folder, report, swept):
    with bp.view(folder, report, swept, open=False) as viewer:
        assert repr(viewer).endswith("a diff, a sweep>")
        shown = viewer._repr_html_()
    page = html.unescape(re.search(r'srcdoc="(.*?)" sandbox="allow-scripts"', shown, re.DOTALL)[1])
    store = data_of(page)["store"]
    assert [one["kind"] for one in unpacked(store["others?"])["others"]] == ["diff", "sweep"]
    assert unpacked(store["circuit?"])["script"].startswith("// sources ")
    assert "u" in unpacked(store["names?other=0"])["names"] and unpacked(store["names?other=1"])["names"] == ["x", "u"]


def chain(x):
    u = x * x
    v = torch.sqrt(u - u) + u
    return v.sum()


def test_an_attribution_is_shown_as_one():
    """And what is not finite in it has to be seen."""
    clean, corrupt = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0])
    result = bp.attribute(chain, clean, corrupt, ["x", "u", "v"])
    with bp.view(result, open=False) as viewer:
        assert repr(viewer).endswith("an attribution>")
        page = html.unescape(re.search(r'srcdoc="(.*?)" sandbox="allow-scripts"', viewer._repr_html_(), re.DOTALL)[1])
    store = data_of(page)["store"]
    assert [one["kind"] for one in unpacked(store["others?"])["others"]] == ["attribution"]
    data = unpacked(store["other?other=0"])["shown"]
    assert data == recorded(result.draw().page)
    assert (data["kind"], data["weighs"], data["alarm"]) == ("attribution", "attribution", "not finite")
    bad = {name for name, number in result.numbers.items() if not math.isfinite(number)}
    assert bad == {one["name"] for one in data["values"] if one["health"] == "blamed"} == {"x", "u"}


def test_an_empty_sweep_is_a_page(tmp_path):
    bp.Sweep("f", "loss", 1.0).save(tmp_path / "sweep.html")
    found = unpacked(data_of((tmp_path / "sweep.html").read_text())["store"]["other?other=0"])
    assert found["shown"]["rows"] == [] and found["effect"].size == 0


@pytest.mark.parametrize("what", ["report", "swept"])
def test_what_is_no_page_is_refused(what, request, tmp_path):
    one = request.getfixturevalue(what)
    with pytest.raises(bp.BadOption) as raised:
        one.save(tmp_path / "it.png")
    assert raised.value.found == "the ending '.png'" and raised.value.next.endswith(".html'")
    with pytest.raises(bp.BadOption):
        one.save(3)


# what was saved as a page


def store_of(viewer):
    """The answers in the page of a viewer in a notebook."""
    shown = html.unescape(re.search(r'srcdoc="(.*?)" sandbox="allow-scripts"', viewer._repr_html_(), re.DOTALL)[1])
    return data_of(shown)["store"]


def test_pages_are_shown_as_what_they_were_made_of(folder, report, swept, tmp_path):
    """Of a recording, a comparison, an attribution and a sweep: the same answers as of the objects themselves."""
    rec = bp.probe(chain)(torch.tensor([1.0, 2.0]))
    result = bp.attribute(chain, torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0]), ["x", "u", "v"])
    made = {"rec": rec, "diff": report, "attribution": result, "sweep": swept}
    bp.draw(rec, tmp_path / "rec.html")
    bp.draw(result, tmp_path / "attribution.html")
    report.save(tmp_path / "diff.html")
    swept.save(tmp_path / "sweep.html")
    with bp.view(folder, *(str(tmp_path / f"{name}.html") for name in made), open=False) as viewer:
        assert repr(viewer).endswith("a circuit, a diff, an attribution, a sweep>")
        found = store_of(viewer)
    with bp.view(folder, *made.values(), open=False) as viewer:
        expected = store_of(viewer)
    assert found.keys() == expected.keys()
    for question in ("others?", *(f"{what}?other={at}" for at in range(4) for what in ("other", "names"))):
        one, other = unpacked(found[question]), unpacked(expected[question])
        assert one.keys() == other.keys()
        for key in one:
            same = (
                numpy.array_equal(one[key], other[key], equal_nan=True)
                if key in ("effect", "was")
                else one[key] == other[key]
            )
            assert same, (question, key)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, "FileNotFoundError"),
        ("<html>", "no data of backprobe in it"),
        ('<title>backprobe: x</title><script id="data" type="application/json">{"circuit":"AAAA"}</script>', "damaged"),
        ('<title>backprobe: x</title><script id="data" type="application/json">[]</script>', "damaged"),
    ],
    ids=["none", "another page", "cut", "a list"],
)
def test_what_is_no_page_of_these_is_refused(tmp_path, text, found):
    path = tmp_path / "page.html"
    if text is not None:
        path.write_text(text)
    said = message(bp.BadRecording, lambda: bp.view(path, open=False))
    assert said.startswith(f"{path} is not a page of a recording, a comparison, an attribution or a sweep")
    assert found in said and "next:" in said


def test_the_page_of_a_run_is_refused(folder, tmp_path):
    with bp.open_run(folder) as run:
        run.save(tmp_path / "run.html")
    said = message(bp.BadRecording, lambda: bp.view(tmp_path / "run.html", open=False))
    assert "a page of a run" in said and "of a run, its folder" in said
