"""Processes that train together: read as one, their rows are those of one process on the whole batch."""

import json
from pathlib import Path

import numpy
import pytest

import backprobe as bp
from commands import DISTRIBUTED, forked, printed
from watch_processes import MICROBATCHES, STEPS, data, made, train

SCRIPT = Path(__file__).parent / "watch_processes.py"
FIELDS = ("value.count", "value.rms", "value.max", "grad.rms", "grad.count", "param.rms", "param.count", "update.rms")


def started(kind, world, folder):
    """The exit codes of processes that train together."""
    ran = forked("-W", "default", SCRIPT, kind, world, folder, imported=DISTRIBUTED)
    said = printed((ran[0], ran[1], "")) if ran[1] else ran[2]
    return json.loads(said.splitlines()[-1])  # PyTorch 2.9 prints which processes are connected


def is_parameter(name):
    return name.endswith(("weight", "bias"))


def agrees_with_one_process(folder, kind):
    """Compared as runs they agree too, in either order; what cannot be compared is said."""
    there, back = ({"**": "module.**"}, {"module.**": "**"}) if kind == "DDP" else (None, None)
    for a, b, rename in (("one", "run", there), ("run", "one", back)):
        report = bp.diff(folder / a, folder / b, rename=rename)
        parted = {(row.pair.kind, row.parting.step) for row in report.rows if row.parting and row.pair.name != "return"}
        assert not parted, str(report)  # also of the stages of a pipeline, each of which returns a part
        assert report.ok is (kind != "pipeline") and not report.complete
        assert any("the runs are of different numbers of processes" in note for note in report.notes)
        whole = [note for note in report.notes if note.startswith("each process of one run has these whole")]
        assert bool(whole) == (kind == "TP")
        compared = {(row.pair.name.removeprefix("module."), row.pair.kind) for row in report.rows if row.steps == STEPS}
        assert {(name, of) for name in ("0.weight", "2.bias") for of in ("grad", "param", "update")} <= compared


@pytest.mark.parametrize(("kind", "world"), [("DDP", 4), ("FSDP2", 2), ("TP", 2), ("pipeline", 2)])
def test_merged_rows_are_those_of_one_process(tmp_path, kind, world):
    train(made(), tmp_path / "one", data())
    assert started(kind, world, tmp_path) == [0] * world
    with bp.open_run(tmp_path / "one") as alone, bp.open_run(tmp_path / "run") as together:
        assert together.ranks == list(range(world))
        for field in FIELDS:
            names, steps, grid = alone.grid(field)
            assert steps.tolist() == together.steps.tolist()
            for name, expected in zip(names, grid, strict=True):
                if name == "return" and kind == "pipeline":
                    continue  # of each stage
                if name == "2" and kind == "TP" and field.startswith("value"):
                    assert not len(together.series(name, field)[0])  # each process has a part of a sum
                    continue
                if field == "grad.rms" and not is_parameter(name):  # each loss is a mean over a part of the batch
                    expected = expected * {"TP": 1, "pipeline": MICROBATCHES}.get(kind, world)
                if field.endswith("count") and kind == "TP" and name in ("return", "2"):
                    expected = expected * world  # a tensor that does not say that it is the same in each process
                spelled = f"module.{name}" if kind == "DDP" and name != "return" else name
                found = together.series(spelled, field)[1]
                first = 1 if kind == "pipeline" and field.startswith("value") else 0  # which also infers shapes
                numpy.testing.assert_allclose(found[first:], expected[first:], rtol=1e-5, err_msg=f"{field} of {name}")
    agrees_with_one_process(tmp_path, kind)
    for rank in range(world):  # nothing is communicated for a watch
        bare, watched = json.loads((tmp_path / f"collectives-{rank}.json").read_text())
        assert bare == watched
        assert bare


def test_a_process_that_dies_leaves_its_acknowledged_steps_and_the_others(tmp_path):
    assert started("dying", 2, tmp_path) == [0, -9]
    with bp.open_run(tmp_path / "run") as run:
        assert run.ranks == [0, 1]
        steps, counts = run.series("module.0", "value.count")
        assert steps.tolist()[:2] == [0, 1]
        assert counts.tolist()[:2] == [32, 32]  # of both
