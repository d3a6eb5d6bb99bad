"""What is left of gradients that cancel is said as it is, in JAX and TensorFlow: exactly 0, or rounding."""

import pytest

from cancelled import IN_JAX, IN_TENSORFLOW, judged


@pytest.mark.parametrize("case", IN_JAX)
def test_what_is_left_in_jax_is_said_as_it_is(case, tmp_path, monkeypatch):
    assert not judged(IN_JAX[case], tmp_path, monkeypatch)


@pytest.mark.parametrize("case", IN_TENSORFLOW)
def test_what_is_left_in_tensorflow_is_said_as_it_is(case, tmp_path, monkeypatch):
    assert not judged(IN_TENSORFLOW[case], tmp_path, monkeypatch)
