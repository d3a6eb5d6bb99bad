"""An iterator among the arguments is used up by the first run, so verbs that run a program again refuse it."""

import pytest
import torch

import backprobe as bp

X = torch.tensor(2.0)


def f(x, rest):
    return x * next(iter(rest))


VERBS = {
    "noise_floor": bp.noise_floor(f),
    "provoke": bp.provoke(f, tries=2),
    "sweep": bp.sweep(f, "x", replace=lambda x: x * 0),
    "diff_live": bp.diff_live(f, f),
}


@pytest.mark.parametrize("verb", VERBS)
def test_an_iterator_is_refused_before_it_is_used(verb):
    rest = iter([3.0, 4.0])
    with pytest.raises(bp.BadOption, match=f"(?s)use up a list_iterator.*asked: bp.{verb}"):
        VERBS[verb](X, rest)
    assert next(rest) == 3.0


@pytest.mark.parametrize("verb", [one for one in VERBS if one != "sweep"])
def test_what_it_says_instead_runs(verb):
    VERBS[verb](X, [3.0, 4.0])


def test_it_is_found_inside_a_container():
    with pytest.raises(bp.BadOption, match="a generator"):
        bp.noise_floor(lambda x, given: x * next(given["rest"]))(X, {"rest": (one for one in [3.0])})
