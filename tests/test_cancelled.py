"""What is left of gradients that cancel is said as it is: exactly 0, or rounding."""

import pytest
import torch

from cancelled import IN_TORCH, judged


@pytest.fixture(autouse=True)
def single_precision():
    """A program may choose another one for all that comes after it."""
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("case", IN_TORCH)
def test_what_is_left_is_said_as_it_is(case, tmp_path, monkeypatch):
    assert not judged(IN_TORCH[case], tmp_path, monkeypatch)
