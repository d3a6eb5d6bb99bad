"""Fixtures that files share; ``asked``, ``block_cases`` and ``programs`` have the programs that they share."""

import pytest


@pytest.fixture
def leaves_nothing():
    """Nothing of a probe is alive or installed when the test is over."""
    from block_cases import nothing_left

    with nothing_left():
        yield


@pytest.fixture
def x():
    import torch

    return torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
