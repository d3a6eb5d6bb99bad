"""40 programs with a numerical bug are provoked, and their stable twins are not: judged by the frameworks alone."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import provoke_page
import pytest
import tensorflow as tf
import torch

TRIES = re.compile(r"\| \d+ \||\d+ tries")  # rounding differs between machines
EACH = [(title, case) for title, cases, _ in provoke_page.frameworks() for case in cases]


def run_bare(title, function, args):
    """Everything that the framework itself computes: the result, and the gradients of its sum."""
    if title == "PyTorch":
        args = [one.requires_grad_() for one in args]
        result = function(*args)
        gradients = torch.autograd.grad(result.sum(), args, allow_unused=True)
        return [one.detach().numpy() for one in (result, *gradients) if one is not None]
    if title == "TensorFlow":
        with tf.GradientTape() as tape:
            tape.watch(args)
            result = function(*args)
        return [one.numpy() for one in (result, *tape.gradient(result, args)) if one is not None]
    result, back = jax.vjp(function, *args)
    return [np.asarray(one) for one in (result, *back(jnp.ones_like(result)))]


def are_finite(arrays):
    return all(np.isfinite(one).all() for one in arrays)


pytestmark = pytest.mark.sweep


def test_there_are_forty():
    assert len(EACH) == len({case.name for _, case in EACH}) == 40


@pytest.mark.parametrize(("title", "case"), EACH, ids=[case.name for _, case in EACH])
def test_it_breaks_in_a_run_without_a_probe_and_its_twin_does_not(title, case):
    finding, twin = next((found, twin) for _, one, found, twin in provoke_page.provoked() if one is case)
    arrays = run_bare(title, case.broken, finding.args)
    assert are_finite(arrays[:1]) == (finding.broken == "gradient")
    assert not are_finite(arrays)
    assert finding.tries <= 100
    assert twin.ok, twin
    assert are_finite(run_bare(title, case.stable, finding.args))


@pytest.mark.parametrize(("title", "case"), EACH, ids=[case.name for _, case in EACH])
def test_the_input_is_within_the_bounds(title, case):
    finding = next(found for _, one, found, _ in provoke_page.provoked() if one is case)
    names = case.broken.__code__.co_varnames[: case.broken.__code__.co_argcount]
    for name, tensor, example in zip(names, finding.args, case.example, strict=True):
        asked = case.bounds.get(name, ()) if isinstance(case.bounds, dict) else case.bounds or ()
        numbers, example = np.asarray(tensor.detach() if title == "PyTorch" else tensor), np.asarray(example, "float32")
        if asked is None:
            np.testing.assert_array_equal(numbers, example)
        low, high = asked or (example.min(), example.max())
        assert numbers.min() >= np.float32(low)
        assert numbers.max() <= np.float32(high)


def test_the_stored_table_is_the_one_that_the_programs_give():
    stored, made = provoke_page.PAGE.read_text(), provoke_page.made()
    assert TRIES.sub("", stored) == TRIES.sub("", made), "run python tests/frameworks/provoke_page.py"
