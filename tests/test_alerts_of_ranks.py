"""A process whose gradients are several times those of its peers is named; healthy runs of several are silent."""

import numpy
import pytest

import backprobe as bp
from backprobe.record.statistics import measured
from backprobe.storage.runs.layout import StepData
from written_runs import rows, writer

NAMES = [f"h.{at}" for at in range(6)]
STEPS = 60


def run_of(folder, times, *, ranks=8, steps=STEPS, names=NAMES, merge="sum", has=None, noise=0.1, every=1):
    """A run whose gradients are ``times(rank, name, step, random)`` as large as its peers', with noise of a batch."""
    for rank in range(ranks):
        one, random = writer(folder, rank, every=every), numpy.random.default_rng(rank)
        own = names if has is None else [name for name in names if has(rank, name)]
        one.add_rows(rows(own, ("grad",), merge))
        for step in range(0, steps * every, every):
            of_batch = numpy.exp(noise * random.normal())
            made = [of_batch * times(rank, name, step, random) * random.normal(size=30) for name in own]
            one.append(StepData(step, numpy.array([*map(measured, made)]).T, 1e9 + step, backwards=1))
        one.close()
    return bp.open_run(folder)


def told(run):
    return [one for one in run.alerts.findings if one.kind == "uneven_ranks"]


def only(sick, factor, since=0):
    return lambda rank, name, step, random: factor if rank == sick and step >= since else 1.0


SICK = {
    "from the beginning": (only(3, 3.0), {}, 3, 19),
    "later": (only(5, 3.0, since=35), {}, 5, 59),
    "of four": (only(0, 3.0), {"ranks": 4}, 0, 19),
    "of forty": (only(37, 3.0), {"ranks": 40, "names": NAMES[:3]}, 37, 19),
    "ten times": (only(2, 10.0), {}, 2, 19),
    "in most names": (lambda rank, name, *_: 4.0 if rank == 1 and name != "h.5" else 1.0, {}, 1, 19),
    "in one name that all have": (only(6, 3.0), {"names": NAMES[:1]}, 6, 19),
    "every tenth step": (only(3, 3.0), {"every": 10}, 3, 190),
    "while all of them grow": (lambda rank, name, step, _: 1.1**step * (3.0 if rank == 4 else 1.0), {}, 4, 19),
    "with batches that differ": (only(3, 4.0), {"noise": 0.4}, 3, 19),
}
"""By what it is like: how large the gradients are, how the run is made, which rank it is, and the step of the alert."""


@pytest.mark.parametrize(("times", "how", "rank", "step"), SICK.values(), ids=SICK.keys())
def test_the_process_is_named(tmp_path, times, how, rank, step):
    run = run_of(tmp_path / "run", times, **how)
    (alert,) = told(run)
    assert alert.ranks == (rank,) and alert.step == step
    assert 2.0 < alert.number < 13.0 and alert.threshold == 2.0
    assert f"rank {rank}" in alert.headline and f"rank {rank}" in str(run.report())


def a_spike(rank, name, step, random):
    return 30.0 if step == 10 + 5 * rank else 1.0


def one_shard(rank, name, step, random):
    return 6.0 if (rank, name) == (3, "h.0") else 1.0


def by_layer(rank, name, step, random):
    return 10.0 ** int(name[-1])


HEALTHY = {
    "alike": (only(0, 1.0), {}),
    "batches that differ": (only(0, 1.0), {"noise": 0.5}),
    "half as large again": (only(3, 1.5), {}),
    "a spike of each": (a_spike, {}),
    "a name whose part on one is larger": (one_shard, {}),
    "layers of other sizes": (by_layer, {}),
    "two processes": (only(1, 3.0), {"ranks": 2}),
    "three processes": (only(1, 3.0), {"ranks": 3}),
    "stages of a pipeline": (
        lambda rank, *_: 10.0**rank,
        {"has": lambda rank, name: int(name[-1]) // 2 == rank % 3, "ranks": 3},
    ),
    "stages of a pipeline, two of each": (
        lambda rank, *_: 10.0 ** (rank % 3),
        {"has": lambda rank, name: int(name[-1]) // 2 == rank % 3, "ranks": 6},
    ),
    "the same in each": (only(3, 3.0), {"merge": "once"}),
    "few steps": (only(3, 3.0), {"steps": 12}),
    "half of them larger": (lambda rank, *_: 3.0 if rank % 2 else 1.0, {}),
    "all of them grow": (lambda rank, name, step, _: 1.1**step, {}),
    "sizes of a heavy tail": (lambda rank, name, step, random: float(numpy.exp(random.normal())), {}),
}


@pytest.mark.parametrize(("times", "how"), HEALTHY.values(), ids=HEALTHY.keys())
def test_healthy_runs_are_silent(tmp_path, times, how):
    assert told(run_of(tmp_path / "run", times, **how)) == []


def test_an_alert_does_not_change_with_later_steps(tmp_path):
    early = told(run_of(tmp_path / "early", only(3, 3.0), steps=40))
    late = told(run_of(tmp_path / "late", only(3, 3.0), steps=90))
    assert [one.to_dict() for one in early] == [one.to_dict() for one in late]


def test_two_of_many_are_told_apart(tmp_path):
    run = run_of(
        tmp_path / "run", lambda rank, name, step, _: {2: 3.0, 9: 5.0 if step >= 25 else 1.0}.get(rank, 1.0), ranks=12
    )
    assert [(one.step, one.ranks) for one in told(run)] == [(19, (2,)), (39, (9,))]
