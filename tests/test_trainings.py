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


def test_a_fault_begins_at_the_step_of_the_run_in_which_it_is_planted():
    """Of the run, a step is that of the optimizer, which here has four batches; a run that goes on begins later."""
    row = score.trained(case_of("several_optimizers", "gathered for ever"), 0)
    assert row["at"] == 25
    assert "accumulated" in score.kinds(score.after(row))
    assert score.trained(case_of("fine_tuning", "wrong labels"), 0)["at"] == 180


def test_a_run_that_is_kept_is_not_trained_again(tmp_path, monkeypatch):
    case = case_of("regression", "not_finite")
    first = score.trained(case, 0, tmp_path)
    monkeypatch.setattr(planted, "load", None)
    assert score.trained(case, 0, tmp_path) == first


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
    low, high = score.bounds(1990, 2000)  # of so many a binomial is no longer a float
    assert (round(low, 4), round(high, 4)) == (0.9908, 0.9976)


CASES = {
    "jax": {
        "bandits": (8, 2),
        "classes": (16, 7),
        "factors": (8, 4),
        "language": (8, 6),
        "regression": (18, 12),
        "texts": (100, 0),
        "unseen": (2, 2),
    },
    "tensorflow": {"fine_tuning": (6, 4), "pictures": (8, 5), "regression": (8, 8), "texts": (8, 4), "unseen": (2, 2)},
    "torch": {
        "adversarial": (12, 4),
        "autoencoder": (12, 8),
        "chosen": (51, 45),
        "contrastive": (8, 4),
        "deep": (16, 9),
        "embeddings": (16, 7),
        "fine_tuning": (20, 6),
        "graphs": (12, 5),
        "half_precision": (10, 7),
        "held_out": (33, 32),
        "language": (16, 12),
        "physics": (8, 4),
        "pictures": (12, 12),
        "regression": (29, 19),
        "reinforcement": (12, 6),
        "several_optimizers": (10, 6),
        "texts": (18, 0),
        "unseen": (6, 6),
        "varied": (55, 0),
        "varied_faults": (0, 75),
    },
}
"""How many healthy trainings a family has, and how many with a fault: none is lost."""


def test_no_training_is_lost():
    assert {(path.parent.name, path.stem) for path in FAMILIES} == {(of, name) for of in CASES for name in CASES[of]}
    for name, path in TORCH.items():
        cases = planted.cases(path)
        healthy = sum(case.fault is None for case in cases)
        assert (healthy, len(cases) - healthy) == CASES["torch"][name], name
        assert len({case.label for case in cases}) == len(cases), name


def test_no_text_is_lost():
    """Those of JAX are counted where they run."""
    scripts = [path.stem for path in (planted.HERE / "torch" / "scripts").glob("*.py")]
    assert len(scripts) == 12


def test_a_training_that_is_data_alone_is_run_as_others_are(tmp_path):
    case = case_of("chosen", "dead ReLUs: first layer")
    runs = [
        planted.load(TORCH["chosen"]).make(seed, **case.settings).run(tmp_path / at, 8)
        for at, seed in (("one", 0), ("again", 0), ("other", 1))
    ]
    assert len(runs[0]) == 8
    assert runs[0] == runs[1] != runs[2]
    row = {"fault": vars(case.fault), **score.trained(case, 0)}
    assert score.is_named(row)


def test_there_are_enough_trainings_of_enough_families():
    assert len(FAMILIES) >= 15
    assert {path.parent.name for path in FAMILIES} == {"torch", "tensorflow", "jax"}
    cases = [case for path in TORCH.values() for case in planted.cases(path)]
    assert sum(case.fault is None for case in cases) >= 150
    assert {case.fault.kind for case in cases if case.fault} >= set(planted.WORDS)
