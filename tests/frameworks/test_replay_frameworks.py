"""Each verb leaves the state of a TensorFlow or JAX program as its contract says; see ``replay/score.py``."""

import os

import pytest

from replay import page, programs_jax, programs_tensorflow, score
from sampled import every, sampled

MODULES = {"tensorflow": programs_tensorflow, "jax": programs_jax}
PROGRAMS = {f"{name}-{make.__name__}": (module, make) for name, module in MODULES.items() for make in module.PROGRAMS}
CASES = {
    f"{name}-{verb.replace(' ', '_')}": (*program, verb) for name, program in PROGRAMS.items() for verb in score.VERBS
}
LONG = {
    f"jax-{make.__name__}-check" for make in programs_jax.PROGRAMS
}  # it compiles each call anew in double precision
SHORT = [name for name in CASES if name not in LONG]
STOPPED = SHORT[::5]  # all of them with a Ctrl-C take minutes: python tests/replay/score.py


PART = int(os.environ.get("SWEEPS") or 1)
"""The sweeps take one of so many of these: all of them take as long as the other sweeps together."""


def some(step):
    """The cases as parameters; ``make test`` takes one of so many of those that are short."""
    kept = SHORT[::step]
    return sampled(dict.fromkeys([*[*CASES][::PART], *kept]), *kept)


@pytest.mark.parametrize("name", every(5, PROGRAMS))
def test_a_plain_call_changes_the_state_that_a_program_declares(name):
    assert score.vacuous(*PROGRAMS[name]) == []
    assert page.shown_of(*PROGRAMS[name], page.PLAIN) == page.changed(*PROGRAMS[name]), page.STALE


@pytest.mark.parametrize("name", some(11))
def test_a_verb_leaves_no_other_state_than_its_contract_allows(name):
    wrong, found = score.left_by(*CASES[name])
    assert wrong == []
    assert page.shown_of(*CASES[name]) == page.said(wrong, found), page.STALE


@pytest.mark.parametrize("name", every(7, STOPPED))
def test_nor_does_it_where_a_ctrl_c_comes_half_way(name):
    module, make, verb = CASES[name]
    whole = score.run(module, make, score.VERBS[verb][0])
    wrong, stopped = score.left_by(module, make, verb, at=whole.ticks // 2 + 1)
    assert wrong == []
    assert stopped.end == "KeyboardInterrupt"


@pytest.mark.parametrize("framework", MODULES)
@pytest.mark.parametrize("verb", ["noise_floor", "sweep"])
def test_nor_where_an_error_or_a_ctrl_c_comes_at_any_of_its_calls(framework, verb):
    module = MODULES[framework]
    make, act = module.batchnorm_of_an_argument, score.VERBS[verb][0]
    ticks = score.run(module, make, act).ticks
    assert ticks > 2
    for at in range(1, ticks + 1):
        error = [KeyboardInterrupt, RuntimeError][at % 2]
        found = score.run(module, make, act, at, error)
        assert (found.changes, found.end) == ({}, error.__name__), at


@pytest.mark.parametrize("framework", MODULES)
def test_the_page_has_these_programs_and_no_others(framework):
    assert [*page.shown()[framework]] == [*map(page.title, MODULES[framework].PROGRAMS)], page.STALE
