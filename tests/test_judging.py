"""A run that is judged step by step has the alerts of one judged at once, in made runs where much goes wrong."""

import numpy
import pytest

import backprobe as bp
from backprobe.record.gaps import GapCode
from backprobe.record.statistics import NOTHING, measured
from written_runs import IS_OPEN, RowKey, StepData, writer

LAYERS = 4
STEPS = 130
VALUE = ("well", "dead", "sigmoid", "tanh", "none", "infinite", "ends")
LOSSES = "falls", "flat", "jumps", "swings", "negative", "none"
MANY = 12
"""Layers of a run of so many rows that some are read without the others."""


def keys(layers):
    return [
        *(RowKey(f"h.{at}", kind) for at in range(layers) for kind in ("value", "grad")),
        RowKey("return", "value"),
        RowKey("return", "grad"),
        *(
            RowKey(f"h.{at}.{name}", kind, "once")
            for at in range(layers)
            for name in ("weight", "bias")
            for kind in ("grad", "param", "update")
        ),
        RowKey("loss", "logged"),
        RowKey("loss_b", "logged"),
    ]


def numbers(random, kind, mode, scale, held):
    """Numbers of a value, gradient or parameter in one step, by what is the matter with them."""
    if mode == "none":
        return None
    if kind == "param" and mode == "still":
        return held
    if kind == "value" and mode in ("dead", "sigmoid", "tanh", "infinite", "ends"):
        return {
            "dead": numpy.zeros(128),
            "sigmoid": random.uniform(0.96, 0.999, 16),
            "tanh": random.choice([-1, 1], 16) * 0.99,
            "ends": numpy.repeat([1.0, 0.0], 8),
            "infinite": numpy.append(numpy.ones(12), -numpy.inf),
        }[mode]
    if mode == "zero":
        return numpy.zeros(16)
    if mode == "nan":
        return numpy.append(random.normal(size=15), numpy.nan)
    return scale * random.normal(size=16)


class Made:
    """A run whose rows change what is the matter with them now and then, by a seed."""

    def __init__(self, seed, layers=LAYERS):
        self.random, self.keys = numpy.random.default_rng(seed), keys(layers)
        self.modes, self.scales, self.held = {}, {}, {}
        self.calm = self.random.random() < 0.3
        self.loss = LOSSES[seed % len(LOSSES)]

    def mode(self, key):
        kinds = {
            "value": VALUE,
            "grad": ("well", "zero", "none", "small"),
            "param": ("well", "still", "none"),
            "update": ("well", "large", "tiny"),
            "logged": ("well",),
        }[key.kind]
        if key not in self.modes or self.random.random() < (0.0 if self.calm else 0.04):
            first = self.random.random() < 0.7
            self.modes[key] = "well" if first else str(self.random.choice(kinds))
            self.scales[key] = {"small": 1e-5, "large": 300.0, "tiny": 1e-7}.get(self.modes[key], 1.0)
        return self.modes[key]

    def number(self, at):
        noise = self.random.normal()
        return {
            "falls": 3 * 0.98**at + 0.05 * noise,
            "flat": 0.7 + 0.05 * noise,
            "jumps": 1 + 2 * (at > 70) + 0.1 * noise,
            "swings": 2 + 1.9 * (-1) ** at * min(at / 30, 1),
            "negative": -1 - at / 20,
            "none": 1.0,
        }[self.loss]

    def row(self, key, at):
        mode = self.mode(key)
        if key.kind == "logged":
            missing = mode == "none" or self.loss == "none" or (key.name == "loss_b" and at < 20)
            return NOTHING if missing else measured(numpy.array([self.number(at)]))
        scale = self.scales[key] * (0.01 if key.kind == "update" else 1.0)
        found = numbers(self.random, key.kind, mode, scale, self.held.get(key))
        if found is None:
            found = None if mode == "none" else self.random.normal(size=16)
        self.held[key] = found if found is not None else self.held.get(key)
        return NOTHING if found is None else measured(found)

    def step(self, at):
        ill = not self.calm and self.random.random() < 0.003
        rows = [self.row(key, at) for key in self.keys]
        if ill:
            rows[int(self.random.integers(len(rows)))] = measured(numpy.array([1.0, numpy.nan]))
        if self.modes[self.keys[1]] == "zero":
            rows = [
                measured(numpy.zeros(16)) if key.kind == "grad" else row
                for key, row in zip(self.keys, rows, strict=True)
            ]
        skipped = 0 if self.calm else int(self.random.choice([0, 1, IS_OPEN], p=[0.95, 0.04, 0.01]))
        gaps = [(key.name, key.kind, GapCode.NO_GRAD.value) for key in self.keys if self.modes[key] == "none"]
        gaps += [("other", "param", GapCode.NOT_STEPPED.value)] * (20 < at < 60)
        return StepData(at, numpy.array(rows).T, backwards=3, skipped=skipped, gaps=gaps, uncleared=int(at > 80))


def written(folder, seed, steps=STEPS, layers=LAYERS):
    made, one = Made(seed, layers), writer(folder, left_out=["x"], frozen=[])
    one.add_rows(made.keys)
    for at in range(steps):
        one.append(made.step(at))
    one.close()
    return bp.open_run(folder)


def said(report):
    # sums of wide matrices may differ in their last digit from those of narrow ones
    return [str(report), *((one.kind, one.step, f"{one.number:.9g}", one.facts) for one in report.findings)]


@pytest.mark.parametrize("seed", range(8))
def test_step_by_step_is_as_at_once(tmp_path, seed):
    run = written(tmp_path, seed)
    assert run.alerts.findings
    alerts, reader = bp.rules.alerts, run._reader
    judge = bp.rules.judge.Judge(reader)
    for at, until in enumerate(range(0, STEPS, 1 + seed % 3)):
        found = said(alerts(reader, until, judge))
        assert at % 6 or found == said(alerts(reader, until)), until
    assert said(alerts(reader, None, judge)) == said(alerts(reader))
    run.close()


@pytest.mark.parametrize(("seed", "layers"), [(0, LAYERS), (3, LAYERS), (4, MANY), (5, MANY)])
def test_blocks_of_any_size_say_the_same(tmp_path, monkeypatch, seed, layers):
    with written(tmp_path, seed, layers=layers) as run:
        once = said(bp.rules.alerts(run._reader))
        for size in (1, 2, 7, 41, STEPS - 1):
            for limit in ("FEWEST", "MOST"):
                monkeypatch.setattr(bp.rules.judge, limit, size)
            assert said(bp.rules.alerts(run._reader)) == once, size


def test_a_loss_whose_square_is_infinite_is_judged_without_a_warning(tmp_path):
    one = writer(tmp_path)
    one.add_rows([RowKey("w", "param", "once"), RowKey("loss", "logged")])
    for at in range(40):
        weight, loss = numpy.full(8, 1.0 + at), numpy.array([1e300 * (at % 2)])
        one.append(StepData(at, numpy.array([measured(weight), measured(loss)]).T, backwards=1))
    one.close()
    with bp.open_run(tmp_path) as run:
        assert "40 steps" in run.alerts.heading


def test_much_goes_wrong_in_these(tmp_path):
    kinds = set()
    for seed in range(8):
        with written(tmp_path / str(seed), seed) as run:
            kinds |= {one.kind for one in run.alerts.findings}
    assert kinds >= {
        "nonfinite",
        "dead",
        "saturated",
        "exploding",
        "zero_gradient",
        "unchanged",
        "no_step",
        "left_out",
        "accumulated",
        "rising_loss",
        "flat_loss",
        "large_updates",
    }
