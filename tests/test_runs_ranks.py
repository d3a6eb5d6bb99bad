"""Runs of several processes, of which one is sick, one died, one came back, and one has a clock of its own."""

import math

import numpy
import pytest

import backprobe as bp
from backprobe.record.statistics import measured
from backprobe.storage.runs.layout import StepData
from written_runs import kinds, rows, writer

RANKS, STEPS = 6, 60


def numbers(rank, step, times=1.0, bad=()):
    random = numpy.random.default_rng(100 * step + rank)
    return measured(numpy.concatenate([times * random.normal(size=20), bad]))


def run_of(folder, sick=(3,), at=40, dead=None, back=None, clock=None, times=1.0, bad=(math.nan,), kind="grad"):
    """A run of one name with the gradients of each process: those of the sick are larger, and have NaN once."""
    for rank in range(RANKS):
        one = writer(folder, rank, every=1)
        one.add_rows(rows(["h.0", "h.1"], (kind,)))
        for step in range(STEPS):
            if rank == back and 10 <= step < 30:
                continue
            if rank == dead and step == 20:
                break
            own = numbers(rank, step, times if rank in sick else 1.0, bad if rank in sick and step == at else ())
            late = 3600.0 if rank == clock else 0.0
            one.append(StepData(step, numpy.array([own, numbers(rank, step)]).T, 1e9 + step + late, backwards=1))
        if rank == dead:
            one.commit()
            one.abandon()
        else:
            one.close()
    return bp.open_run(folder)


def nonfinite(run):
    return next(one for one in run.alerts.findings if one.kind == "nonfinite")


def test_the_process_with_nan_is_named(tmp_path):
    run = run_of(tmp_path / "run")
    alert = nonfinite(run)
    assert (alert.name, alert.step, alert.ranks, alert.number) == ("h.0", 40, (3,), 1.0)
    assert alert.facts[0] == "rank 3 alone has it, of 6 processes that have this name in the step"
    assert not any("median" in fact for fact in alert.facts)
    assert alert.to_dict()["ranks"] == [3] and "rank 3 alone has it" in str(run.report())


def test_how_much_larger_its_gradients_were_is_said(tmp_path):
    alert = nonfinite(run_of(tmp_path / "run", times=5.0))
    (said,) = (fact for fact in alert.facts if "median" in fact)
    assert 4.0 < float(said.split()[4]) < 6.0 and said.startswith("its gradients there were ")


def test_several_of_them_and_all_of_them(tmp_path):
    assert nonfinite(run_of(tmp_path / "two", sick=(1, 4))).ranks == (1, 4)
    every = nonfinite(run_of(tmp_path / "all", sick=range(RANKS)))
    assert every.ranks == () and not any("alone" in fact or "ranks" in fact for fact in every.facts)


@pytest.mark.parametrize("bad", [(math.inf,), (-math.inf, 1.0)])
@pytest.mark.parametrize("kind", ["value", "grad"])
def test_inf_and_values_too(tmp_path, bad, kind):
    assert nonfinite(run_of(tmp_path / "run", bad=bad, kind=kind)).ranks == (3,)


def test_one_that_died_came_back_or_has_another_clock_changes_nothing_of_it(tmp_path):
    run = run_of(tmp_path / "run", dead=5, back=1, clock=2)
    alert = nonfinite(run)
    assert (alert.step, alert.ranks) == (40, (3,))
    assert alert.facts[0] == "rank 3 alone has it, of 5 processes that have this name in the step"
    assert run.steps.tolist() == list(range(STEPS))
    counts = run.series("h.1", "grad.count")[1]
    assert counts[:10].tolist() == [120.0] * 10 and counts[10:20].tolist() == [100.0] * 10
    assert counts[20:30].tolist() == [80.0] * 10 and counts[30:].tolist() == [100.0] * 30
    assert run.at(30).time == 1e9 + 30
    assert run.grid("grad.rms")[2].shape == (2, STEPS) and kinds(run)


def test_the_sick_one_may_be_the_only_one_in_a_step(tmp_path):
    for rank in range(2):
        one = writer(tmp_path / "run", rank, every=1)
        one.add_rows(rows(["h.0"], ("grad",)))
        for step in range(5 if rank == 0 else 9):
            bad = (math.nan,) if rank == 1 and step == 7 else ()
            one.append(StepData(step, numpy.array([numbers(rank, step, bad=bad)]).T, backwards=1))
        one.close()
    assert nonfinite(bp.open_run(tmp_path / "run")).ranks == ()  # nobody else could have it


def test_what_a_process_writes_late_is_judged(tmp_path):
    writers = [writer(tmp_path / "run", rank, every=1) for rank in range(2)]
    for one in writers:
        one.add_rows(rows(["h.0"], ("grad",)))
    for step in range(30):
        writers[0].append(StepData(step, numpy.array([numbers(0, step)]).T, backwards=1))
        if step < 10:
            writers[1].append(StepData(step, numpy.array([numbers(1, step)]).T, backwards=1))
    for one in writers:
        one.commit()
    run = bp.open_run(tmp_path / "run")
    assert [one for one in run.alerts.findings if one.kind == "nonfinite"] == []
    for step in range(10, 20):  # which the first has had for long
        bad = (math.nan,) if step == 15 else ()
        writers[1].append(StepData(step, numpy.array([numbers(1, step, bad=bad)]).T, backwards=1))
    writers[1].commit()
    assert (nonfinite(run).step, nonfinite(run).ranks) == (15, (1,))
    for one in writers:
        one.close()
