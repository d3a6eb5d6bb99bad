"""What attributions, curvatures and per-sample gradients refuse: each error and note says what to type."""

import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf
import torch

import backprobe as bp

MAKES = {"torch": torch.tensor, "tensorflow": tf.constant, "jax": jnp.asarray}


@pytest.fixture(params=MAKES)
def made(request):
    return lambda numbers: MAKES[request.param](np.asarray(numbers, np.float32))


def f(x, w):
    h = x * w
    return (h * h)[0] + (h * h)[1]


def test_an_empty_selection(made):
    x, w = made([1.0, 2.0]), made([3.0, 4.0])
    for call, verb in (
        (lambda: bp.attribute(f, (x, w), (w, x), []), "bp.attribute("),
        (lambda: bp.curvature(f, [])(x, w), "bp.curvature("),
        (lambda: bp.per_sample(f, [])(x, w), "bp.per_sample("),
    ):
        with pytest.raises(bp.BadOption) as caught:
            call()
        assert "selects nothing" in str(caught.value)
        assert verb in caught.value.next
        assert "leave out" not in caught.value.next


@pytest.mark.parametrize(("side", "at"), [("clean", 0), ("corrupt", 1)])
@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_an_attribution_of_what_is_not_finite(made, side, at, number):
    runs = [(made([1.0, 2.0]), made([3.0, 4.0])), (made([2.0, 2.0]), made([3.0, 4.0]))]
    runs[at] = (made([number, 2.0]), made([3.0, 4.0]))
    (note,) = bp.attribute(f, *runs, "h").notes
    assert note.startswith(f"the output of the {side} run is ")
    assert f"bp.explain(bp.probe(f, nonfinite=True)(*{side})) says where that begins" in note
    assert bp.explain(bp.probe(f, nonfinite=True)(*runs[at])).findings
