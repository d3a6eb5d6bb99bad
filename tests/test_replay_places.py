"""Each verb leaves Python's own state as it was, wherever a program has it: ``replay/places_torch.py``."""

import pytest
import torch

import backprobe as bp
from replay import places_torch

X = torch.linspace(0.5, 1.5, 6).reshape(2, 3)


def sweep(f, *args):
    return bp.sweep(f, [":h"] if isinstance(f, torch.nn.Module) else ["h"], replace=lambda value: value * 0)(*args)


def explain(f, *args):
    # the run that is recorded is the program's own: what it leaves is seen by the state before it is explained
    return bp.explain(recordings[f])


recordings = {}
VERBS = {
    "check": lambda f, *args: bp.check(f)(*args),
    "provoke": lambda f, *args: bp.provoke(f, tries=2)(*args),
    "noise_floor": lambda f, *args: bp.noise_floor(f, runs=2)(*args),
    "diff_live": lambda f, *args: bp.diff_live(f, f, of=(lambda value: value, lambda value: value * 2))(*args),
    "sweep": sweep,
    "explain": explain,
}
programs = pytest.mark.parametrize("make", places_torch.PROGRAMS, ids=lambda make: make.__name__)
verbs = pytest.mark.parametrize("verb", VERBS)


def made(make, verb):
    torch.manual_seed(0)
    f, state = make()
    if verb == "explain":
        recordings.clear()
        recordings[f] = bp.probe(f)(X)
    return f, state


@programs
def test_a_plain_call_changes_it(make):
    f, state = made(make, "")
    before = state()
    f(X.clone().requires_grad_()).backward()
    assert state() != before


@programs
@verbs
def test_a_verb_leaves_it(make, verb):
    f, state = made(make, verb)
    before = state()
    VERBS[verb](f, X)
    assert state() == before


@programs
@pytest.mark.parametrize("verb", ["noise_floor", "sweep", "check"])
def test_nor_where_a_ctrl_c_comes_when_all_has_run(make, verb):
    f, state = made(make, verb)
    before = state()

    def interrupted(x):
        h = x + 0
        f(h)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        VERBS[verb](interrupted, X)
    assert state() == before
