"""What ``make test`` takes a sample of, and ``make test-sweeps`` all: sweeps that are heavy and hardly ever fail."""

import os

import pytest

WHOLE = bool(os.environ.get("SWEEPS"))
drawn = pytest.mark.drawn
"""For a test that draws programs: ``make test-sweeps`` runs it again, with as many as ``count`` says."""


def count(many, few=None):
    """How many programs are drawn: this many, and a quarter of them, or few, in ``make test``."""
    return many if WHOLE else few or many // 4


def sampled(cases, *kept):
    """Cases, by names or numbers, as parameters; ``make test`` takes those that are kept."""
    assert set(kept) <= set(cases), set(kept) - set(cases)
    return [pytest.param(case, id=str(case), marks=() if case in kept else pytest.mark.sweep) for case in cases]


def every(step, cases):
    """Names of cases as parameters; ``make test`` takes one of so many."""
    return sampled(cases, *list(cases)[::step])


def one_in(step, values, name=str):
    """Values as parameters, which are called as ``name`` says; ``make test`` takes one of so many."""
    return [
        pytest.param(value, id=name(value), marks=() if at % step == 0 else pytest.mark.sweep)
        for at, value in enumerate(values)
    ]


def without(cases, *left):
    """Names of cases as parameters; ``make test`` takes all but those that are left."""
    return sampled(cases, *(case for case in cases if case not in left))
