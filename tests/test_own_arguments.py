"""A program may have arguments that are named like options: those of a verb are given before it is called."""

import pytest
import torch
from torch import nn

import backprobe as bp

X = torch.linspace(0.5, 1.5, 6).reshape(2, 3)
NAMES = (
    "seed",
    "bounds",
    "tries",
    "runs",
    "seconds",
    "select",
    "of",
    "wrt",
    "cotangent",
    "backend",
    "replace",
    "precision",
    "target",
    "args",
    "kwargs",
    "self",
    "held",
    "function",
    "module",
    "following",
    "value",
    "given",
    "name",
    "skip",
    "experiments",
    "axis",
    "noise",
    "rename",
    "layout",
    "convention",
    "nonfinite",
)
NUMBERS = {name: 1.0 + 0.1 * at for at, name in enumerate(NAMES)}


def product(x, *, seed, bounds, tries, runs, select, of, wrt, backend, target, held, function, **others):
    scale = seed * bounds * tries * runs * select * of * wrt * backend * target * held * function
    h = x * scale * others["self"] * others["kwargs"] * others["given"]
    return torch.log(h.square().sum() + others["value"])


def called(x, **own):
    h = product(x, **own)
    return h + product(x, **own)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x, *, seed, bounds, runs, **others):
        h = self.layer(x) * seed * bounds * runs * others["kwargs"]
        return torch.log(h.square().sum() + 1)


OF_A_MODEL = {name: number for name, number in NUMBERS.items() if name not in ("self", "args")}  # PyTorch has these
VERBS = {
    "probe": lambda f: bp.probe(f),
    "check": lambda f: bp.check(f),
    "provoke": lambda f: bp.provoke(f, tries=1, seed=3, bounds=(0.5, 9.0)),
    "noise_floor": lambda f: bp.noise_floor(f, runs=1),
    "diff_live": lambda f: bp.diff_live(f, f),
    "sweep": lambda f: bp.sweep(f, "h", replace=lambda h: h * 0),
}
verbs = pytest.mark.parametrize("verb", VERBS)


@verbs
def test_a_function_may_have_arguments_that_are_named_like_options(verb):
    assert VERBS[verb](called)(X, **NUMBERS) is not None


@verbs
def test_so_may_a_model(verb):
    if verb == "sweep":
        made = bp.sweep(Model(), ":h", replace=lambda h: h * 0)
    else:
        made = VERBS[verb](Model())
    assert made(X, **OF_A_MODEL) is not None


def test_the_program_is_given_what_it_was_called_with():
    rec = bp.probe(called, ":h")(X, **NUMBERS)
    assert torch.equal(rec["h"].value, product(X, **NUMBERS))
    assert bp.explain(rec, seconds=5.0, runs=3).ok


def test_what_a_recording_runs_again_with_is_the_same():
    rec = bp.probe(called)(X, **NUMBERS)
    assert not [note for note in bp.explain(rec).notes if "raised" in note]


def test_a_guard_takes_a_model_with_such_arguments():
    with pytest.raises(bp.NotFinite) as raised, bp.guard(model := Model()):
        model(X * float("nan"), **OF_A_MODEL)
    assert "made again, it raised" not in str(raised.value)
