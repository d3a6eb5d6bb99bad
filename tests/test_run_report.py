"""A run in a terminal: ``run.report()`` and ``backprobe report``."""

import json
import math
import sys
from pathlib import Path

import numpy
import pytest

import backprobe as bp
from asked import message
from backprobe.charts.spark import bins, spark
from backprobe.charts.tree import lines, tree
from backprobe.record.statistics import COLUMNS, NOTHING, measured
from backprobe.show.printing import encodable
from backprobe.storage.runs.layout import RowKey, StepData
from commands import invoked, printed, refused
from written_runs import rows, writer


def written(folder, keys, steps):
    """A run in which a row is so many times the same number; None for no numbers."""
    one = writer(folder)
    one.add_rows(keys)
    for at, numbers in enumerate(steps):
        made = [NOTHING if size is None else measured(numpy.array([size, -size])) for size in numbers]
        one.append(StepData(at, numpy.array(made).reshape(len(made), len(COLUMNS)).T))
    one.close()
    return folder


@pytest.fixture
def folder(tmp_path):
    """Gradients grow, one of them becomes NaN; one name comes late."""
    keys = rows(["h.0", "h.1", "h.2", "late"], ["value", "grad"]) + [RowKey("h.0.weight", "grad", "once")]
    steps = [
        [
            1,
            10.0**at,
            1,
            10.0 ** (at + 1),
            1,
            math.nan if at == 5 else 10.0**at,
            *([None, None] if at < 3 else [2, 3]),
            0,
        ]
        for at in range(6)
    ]
    return written(tmp_path / "run", keys, steps)


def test_a_run_in_80_columns(folder):
    with bp.open_run(folder) as run:
        text = str(run.report())
    assert max(map(len, text.splitlines()[1:])) <= 80
    assert text.partition("over the steps")[2] == (
        "                  rms of value              rms of gradient\n"
        "h\n"
        "  0                            1 ▄▄▄▄▄▄     1              1 ▁▂▄▅▇█     1e+05\n"
        "  1                            1 ▄▄▄▄▄▄     1             10 ▁▂▄▅▇█     1e+06\n"
        "  2                            1 ▄▄▄▄▄▄     1              1 ▁▃▅▆█!     1e+04\n"
        "late                           2 ▄▄▄        2              3 ▄▄▄        3\n"
        "\n"
        "over the steps                                            rms of gradient\n"
        "h.0.weight                                                 0 ______     0\n"
        "\n"
        "rms of the gradient across depth, from h.0 to late, on one scale:\n"
        "▁ is 1, █ is 1e+06\n"
        "step 0        ▁▂▁\n"
        "step 3        ▅▆▅▁\n"
        "step 5        ▇█ ▁"
    )


def test_the_columns_of_a_line():
    assert spark(numpy.array([1.0, 1.1])) == "▄▅"  # what changes by less than half is nearly level
    assert spark(numpy.geomspace(1, 1e8, 80)) == "▁▁▂▃▄▅▆▇██"
    assert spark(numpy.full(3, numpy.nan)) == "   "
    assert spark(numpy.zeros(0)) == ""
    assert spark(numpy.array([-1.0, -100.0])) == "▁█"
    assert sum(part.stop - part.start for part in bins(1003)) == 1003
    assert encodable(spark(numpy.geomspace(1, 128, 8)), "ascii") == ".:-=+*#@"


def test_a_large_tree_is_folded():
    names = [f"h.{at}.{part}" for at in range(30) for part in ("attn", "attn.q", "mlp", "mlp.fc")]
    found = lines(tree(["return", *names]), 40)
    assert [(one.label, one.depth, one.hidden) for one in found[:3]] == [("return", 0, 0), ("h", 0, 0), ("0", 1, 4)]
    assert len(found) == 32
    assert [one.name for one in lines(tree(["a:return.0", "`x.y`.b"]), 40)] == [None, "a:return.0", None, "`x.y`.b"]


def test_one_name_and_one_step(folder):
    with bp.open_run(folder) as run:
        text = str(run.report(name="h.2"))
        assert text.splitlines()[0] == "h.2"
        assert "step 5: the first NaN is in the gradient of 'h.2': 2 numbers" in text
        assert [line.split() for line in text.splitlines()[-2:]] == [
            ["grad.max", "1", "▁▃▅▆█", "1e+04", "1e+04"],
            ["grad.nan", "0", "_____▄", "2", "2"],
        ]
        late = str(run.report(step=3, name="late")).splitlines()
        assert late[0] == "step 3: 5 names, 0 backwards"
        assert late[2].split() == ["late", "2", "3"]
        assert str(run.report(step=5)).endswith("! has NaN or Inf, which rms leaves out")
        assert repr(run.report(step=3)) == f"<backprobe.RunReport of step 3 of {str(folder)!r}>"
        assert "<pre>" in run.report()._repr_html_()


def test_the_same_as_data(folder):
    with bp.open_run(folder) as run:
        whole = json.loads(json.dumps(run.report().to_dict()))
        assert whole["steps"] == list(range(6))
        assert whole["names"]["h.2"]["grad.rms"] == {"first": 1.0, "last": 1e4, "min": 1.0, "max": 1e4}
        assert [one["kind"] for one in whole["alerts"]] == ["zero_gradients", "nonfinite"]
        assert [one["step"] for one in whole["alerts"]] == [4, 5]
        name = run.report(name="h.2").to_dict()
        assert name["fields"]["grad.rms"][-1] is None
        assert name["fields"]["grad.nan"] == [0, 0, 0, 0, 0, 2]
        assert run.report(step=5).to_dict()["names"]["h.2"]["grad.nan"] == 2


def test_the_command(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    code, out, err = invoked("report", "run")
    assert (code, err) == (1, "")
    assert out.startswith("run in run\n")
    assert json.loads(printed(invoked("report", "run", "--name", "h.0", "--json")))["name"] == "h.0"
    assert printed(invoked("report", "run", "--step", "2")).startswith("step 2: 4 names")


def test_a_folder_with_one_run_shows_it(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    assert invoked("report", ".") == invoked("report", "run")
    assert invoked("report", ".", "--name", "late") == invoked("report", "run", "--name", "late")


def test_the_status_of_a_name_is_that_of_its_alerts(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    for name, status in (("h.2", 1), ("late", 0)):
        code, out, err = invoked("report", "run", "--name", name)
        assert (code, err) == (status, "") and ("no alerts" in out) == (not status)
        found = json.loads(invoked("report", "run", "--name", name, "--json")[1])["alerts"]
        assert [one["name"] for one in found] == [name] * status


def test_bad_input_says_what_to_type(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    assert refused(invoked("report", "none")).splitlines()[0] == ("BadRun: none is not a run: it has no rank-0.sqlite")
    assert refused(invoked("report", "run", "--name", "lat")).splitlines()[-1] == "  next:  --name late"
    assert refused(invoked("report", "run", "--step", "9")).splitlines()[2:] == [
        "  found: 6 steps, the nearest: 0, 1, 2, 3, 4, 5",
        "  next:  --step 5",
    ]
    written(folder.parent / "second", [], [])
    above = refused(invoked("report", "."))
    assert "found: a folder of runs: run, second" in above
    assert above.endswith("next:  backprobe report run\n")
    assert "next:  bp.open_run('run')" in message(bp.BadRun, lambda: bp.open_run(Path()))


def test_a_run_without_steps(tmp_path):
    with bp.open_run(written(tmp_path, [], [])) as run:
        assert str(run.report()).endswith("no loss was logged, so none was checked: run.log(loss=loss)")
        assert run.report().to_dict()["steps"] == []


def test_a_plot_without_matplotlib_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with bp.open_run(folder) as run:
        for plot in (lambda: run.plot("grad.rms"), lambda: run.plot_flow(step=3)):
            assert message(bp.NotInstalled, plot).endswith("  next:  pip install matplotlib")
        assert message(bp.BadOption, lambda: run.plot("grad.rmz")).endswith("next:  run.plot('grad.rms')")
        assert message(bp.UnknownStep, lambda: run.plot_flow(step=7)).endswith("next:  run.at(5)")
