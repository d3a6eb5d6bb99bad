"""The first step at which two runs part is the first at which a number of one is another number of the other."""

import numpy
import pytest

import backprobe as bp
from backprobe.record.statistics import measured
from backprobe.storage.runs import parting
from backprobe.storage.runs.layout import StepData
from written_runs import rows, writer


def made(folder, steps, change=lambda step, name: 1.0, names=("a", "b", "c")):
    one = writer(folder)
    one.add_rows(rows(names, ["grad"]))
    for step in steps:
        numbers = [numpy.array([step + 1.0, 2.0, 3.0]) * change(step, name) for name in names]
        one.append(StepData(step, numpy.array([measured(each) for each in numbers]).T, 0.0, 1))
    one.close()
    return folder


@pytest.mark.parametrize("block", [1, 1 << 19])
def test_the_first_step_of_any_bit_and_of_a_tenth(tmp_path, monkeypatch, block):
    monkeypatch.setattr(parting, "BLOCK", block)
    change = lambda step, name: {(7, "b"): 1 + 2**-40, (9, "a"): 1.05, (12, "b"): 1.2, (12, "c"): numpy.nan}.get(
        (step, name), 1
    )
    first, second = made(tmp_path / "a", range(20)), made(tmp_path / "b", range(3, 30), change)
    with bp.open_run(first) as one, bp.open_run(second) as two:
        exact, tenth = parting.partings(one._reader, two._reader, (0.0, 0.1))
        assert (exact.step, exact.rows) == (7, [("b", "grad")])
        assert (tenth.step, tenth.rows) == (12, [("b", "grad"), ("c", "grad")])
        assert parting.partings(two._reader, one._reader, (0.0, 0.1)) == [exact, tenth]


def test_runs_that_do_not_part(tmp_path):
    """Only steps and names that both have are compared."""
    first = made(tmp_path / "a", range(20))
    second = made(tmp_path / "b", range(10, 40), lambda step, name: 1.0 if step < 20 else 2.0, ("b", "a", "d"))
    third = made(tmp_path / "c", range(50, 60))
    with bp.open_run(first) as one, bp.open_run(second) as two, bp.open_run(third) as three:
        assert parting.partings(one._reader, two._reader, (0.0, 0.1)) == [None, None]
        assert parting.partings(one._reader, three._reader, (0.0,)) == [None]
