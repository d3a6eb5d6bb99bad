"""Small trainings with and without planted faults: some are run, the heads of all are looked at."""

import numpy as np
import pytest

from trainings import planted, score

FAMILIES = planted.families()
TORCH = {path.stem: path for path in FAMILIES if path.parent.name == "torch"}


def case_of(family, name):
    return next(each for each in planted.cases(TORCH[family]) if each.name == name)


@pytest.mark.parametrize(("family", "name"), [("deep", "biases kill"), ("regression", "not_finite")])
def test_a_faulty_training_is_run_and_judged(family, name):
    row = {"fault": vars(case_of(family, name).fault), **score.trained(case_of(family, name), 0)}
    assert row["harm"]
    assert score.after(row)
    assert score.is_named(row)


def test_a_healthy_training_is_run():
    case = case_of("contrastive", "batch 4, temperature 0.5, optimizer adam")
    assert score.trained(case, 0)["harm"]


def test_a_training_is_the_same_for_the_same_seed(tmp_path):
    case = case_of("half_precision", "autocast, no step")
    runs = [
        planted.load(TORCH["half_precision"]).make(seed, **case.settings).run(tmp_path / name, 12)
        for name, seed in [("one", 3), ("again", 3), ("other", 4)]
    ]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_harm_is_seen_in_the_losses():
    steady, noise = np.full(100, 1.0), np.random.default_rng(0).normal(size=140)
    fault = planted.Fault("learning_rate")
    assert fault.end == 140
    assert not fault.does_harm(np.concatenate([steady, steady[:40]]) + 0.1 * noise)
    assert fault.does_harm(np.concatenate([steady, np.linspace(1, 3, 40)]) + 0.1 * noise)
    assert planted.Fault("wrong_sign", 0).does_harm(np.linspace(-1, -3, 40))


def test_bounds_are_exact():
    low, high = score.bounds(95, 100)
    assert (round(low, 4), round(high, 4)) == (0.8872, 0.9836)
    assert score.bounds(10, 10)[1] == 1.0


def test_there_are_enough_trainings_of_enough_families():
    assert len(FAMILIES) >= 15
    assert {path.parent.name for path in FAMILIES} == {"torch", "tensorflow", "jax"}
    cases = [case for path in TORCH.values() for case in planted.cases(path)]
    assert sum(case.fault is None for case in cases) >= 150
    assert {case.fault.kind for case in cases if case.fault} >= set(planted.WORDS)
