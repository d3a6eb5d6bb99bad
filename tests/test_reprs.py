"""Objects as text: one line as ``repr``, everything with ``print``."""

import os
from html.parser import HTMLParser

import pytest
import torch

import backprobe as bp
from backprobe.record.brief import path, place


def f(x, w):
    u = x * w
    d = u.detach()
    return (u * d).sum()


def described(size):
    recording = bp.probe(f, partials=True)(torch.ones(size), torch.ones(size))
    report = bp.explain(bp.probe(lambda x, w: (x.detach() * w).sum())(torch.ones(size), torch.ones(size)), "x")
    check = bp.check(f)(torch.ones(3), torch.ones(3))
    everything = [
        recording,
        *recording.values(),
        recording["u"].source,
        *recording["u"].inputs,
        *recording["u"].reads,
        recording.path_sums,
        report,
        *report.findings,
        bp.health(recording),
        check,
        *check.findings,
        bp.probe(f, "u"),
        bp.probe(),
        bp.check(f),
        bp.guard(),
    ]
    return {f"{type(one).__name__} {at}": one for at, one in enumerate(everything)}


@pytest.mark.parametrize("size", [2, 3000], ids=["small", "large"])
def test_every_object_is_one_short_line(size):
    for name, one in described(size).items():
        assert "\n" not in repr(one), name
        assert len(repr(one)) <= 170, (name, repr(one))


def test_ipython_shows_what_print_does(tmp_path):
    from IPython.lib.pretty import pretty

    recording, model = bp.probe(f)(torch.ones(2), torch.ones(2)), torch.nn.Linear(2, 1)
    with bp.watch(model, tmp_path) as watching:
        model(torch.ones(2)).sum().backward()
        watching.step()
    with bp.open_run(tmp_path) as run:
        everything = [
            recording["u"],
            bp.explain(recording),
            bp.health(recording),
            bp.check(f)(torch.ones(3), torch.ones(3)),
            bp.diff(recording, recording),
            run.report(),
            bp.names(f),
            bp.sweep(f, "u", replace=lambda u: u * 0)(torch.ones(2), torch.ones(2)),
            bp.provoke(f)(*torch.ones(2, 2)),
            bp.probe(f, of={"a": "u[0]", "b": "u[1]"})(torch.ones(2), torch.ones(2)).conflicts(),
        ]
        assert [type(one).__name__ for one in everything if pretty(one) != str(one)] == []


def test_an_entry():
    recording = bp.probe(f)(torch.ones(2, 3), torch.ones(2, 3))
    assert repr(recording["u"]).startswith("<Entry u: ok, 2×3 float32, test_reprs.py:")
    assert repr(recording["u"]).endswith(": u = x * w>")
    assert repr(recording["d"]).startswith("<Entry d: detached, 2×3 float32, ")
    lines = str(recording["d"]).splitlines()
    assert lines[0] == "d"
    assert lines[1:3] == ["  value:    [[1, 1, 1], [1, 1, 1]]", "  dtype:    float32 on cpu"]
    assert f"  gradient: detached: {recording['d'].reason}" in lines
    assert "3000 float32 rms 1 max 1" in str(described(3000)["Entry 3"])
    assert "\n  inputs:   x, w" in str(recording["u"])


@pytest.mark.parametrize("size", [2, 3000], ids=["small", "large"])
def test_an_entry_says_at_least_what_its_row_says(size):
    def program(x, b):
        k = 3
        u = v = x / (x - 1) * torch.pi
        d = u.detach() * k
        return (u * d).sum() + v.sum() + b.sum()

    recording = bp.probe(program)(torch.linspace(1.0, 2.0, size), torch.ones(3).bfloat16())
    table = str(recording).splitlines()
    for name, entry in recording.items():
        if entry.status is bp.GradStatus.NOT_TENSOR:
            assert f"{name} = {entry.held}" in str(recording)
            continue
        at = next(at for at, line in enumerate(table) if line.split()[0] == name)
        cells = table[at].split("  ") + table[at + 1].split("  ") * table[at + 1].startswith("= ")
        said = str(entry)
        assert all(cell.strip().removeprefix("= ") in said for cell in cells), (cells, said)


def test_a_lost_value_says_why():
    def overwritten(x):
        u = x * 2
        v = u.square()
        u.data.zero_()
        return v.sum()

    recording = bp.probe(overwritten)(torch.ones(3))
    lost = [entry for entry in recording.values() if "lost: " in str(entry)]
    for entry in lost:
        with pytest.raises(bp.Overwritten):
            entry.value  # noqa: B018  # reading it is what raises


def test_a_finding_and_a_report():
    report = bp.explain(bp.probe(lambda x, w: x.detach() * w)(2.0, 3.0), "x")
    assert repr(report) == f"<Report: {report.heading}; 1 finding>"
    (finding,) = report.findings
    assert repr(finding).startswith("<Finding detach: ")
    assert "test_reprs.py:" in repr(finding)
    assert repr(bp.probe(f, "u", of=None)) == "<Probe of f, select='u'>"
    assert repr(bp.probe()) == "<Probe of a block>"


def test_a_report_is_fitted_to_a_terminal_and_only_there(monkeypatch):
    report = bp.explain(bp.probe(lambda x, w: x.detach() * w)(2.0, 3.0), "x")
    whole = str(report)
    monkeypatch.setenv("COLUMNS", "50")
    assert str(report) == whole
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    lines = str(report).splitlines()
    assert max(map(len, lines)) <= 50 < max(map(len, whole.splitlines()))
    assert [" ".join(text.split()) for text in (str(report), whole)] == [" ".join(whole.split())] * 2
    at = next(at for at, line in enumerate(lines) if line.startswith("    next:"))
    assert lines[at + 1].startswith(" " * 11)
    finding = str(report.findings[0]).splitlines()
    assert max(map(len, finding)) <= 50
    monkeypatch.setenv("COLUMNS", "10")
    assert "differentiated" in str(report), "words are never broken"


class Text(HTMLParser):
    """The text of HTML, without its style."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)

    def handle_data(self, data):
        self.text += "" if self.tags[-1] == "style" else data + " "


def words(text):
    """The words of a text without the signs that labels, numbers and tables add."""
    return {word.strip(":") for word in text.split()} - {"1.", "2.", "note", "…"}


@pytest.mark.parametrize("size", [2, 3000], ids=["small", "large"])
def test_a_notebook_shows_the_facts_of_the_text(size):
    recording = bp.probe(f, partials=True)(torch.ones(size), torch.ones(size))
    report = bp.explain(bp.probe(lambda x, w: (x.detach() * w).sum())(torch.ones(size), torch.ones(size)), "x")
    check = bp.check(f)(torch.ones(3), torch.ones(3))
    for one in [
        recording,
        *recording.values(),
        recording["u"].source,
        report,
        *report.findings,
        bp.health(recording),
        check,
        *check.findings,
    ]:
        shown = Text(one._repr_html_())
        assert words(str(one)) <= words(shown.text), type(one).__name__
        assert shown.tags[:2] == ["div", "style"]
    edge = recording["u"].inputs[0]
    assert words(Text(edge._repr_html_()).text) >= {"x", "contribution"}
    assert Text(bp.probe(f, "u")._repr_html_()).text.split() == ["Probe", "of", "f", "select", "'u'"]
    assert Text(bp.probe()._repr_html_()).text.split() == ["Probe", "of", "a", "block"]
    checked, guarded = bp.check(f, skip=[torch.relu]), bp.guard(torch.nn.Linear(1, 1))
    assert (repr(checked), repr(guarded)) == ("<bp.check of f, skip=relu>", "<Guard of Linear>")
    assert Text(checked._repr_html_()).text.split() == ["bp.check", "of", "f", "skip", "relu"]
    assert Text(guarded._repr_html_()).text.split() == ["Guard", "of", "Linear"]


def test_what_a_notebook_shows_is_escaped():
    def program(x):
        table = {"<script>": x * 2}  # <img src=x onerror=alert(1)>
        return table["<script>"].detach() * x

    recording = bp.probe(program)(torch.tensor(2.0))
    report = bp.explain(recording, "x")
    entry = recording["table.<script>"]
    for one in (recording, entry, entry.source, report, *report.findings):
        shown = Text(one._repr_html_())
        assert not {"script", "img"} & set(shown.tags)
    assert "<img src=x onerror=alert(1)>" in Text(entry.source._repr_html_()).text


def test_places_are_seen_from_where_the_user_stands(tmp_path, monkeypatch):
    inside = tmp_path / "project" / "train.py"
    inside.parent.mkdir()
    monkeypatch.chdir(tmp_path)
    assert (place(str(inside), 3), path(str(inside), 3)) == ("train.py:3", os.path.join("project", "train.py:3"))
    assert path(str(tmp_path) + "2/train.py", 3) == f"{tmp_path}2/train.py:3"
    assert path("<string>", 1) == place("<string>", 1) == "<string>:1"
    inside.parent.joinpath("gone").mkdir()
    monkeypatch.chdir(inside.parent / "gone")
    os.rmdir(inside.parent / "gone")
    assert path(str(inside), 3) == f"{inside}:3"
