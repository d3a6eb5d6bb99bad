"""Fixtures that files share; ``asked``, ``block_cases`` and ``programs`` have the programs that they share."""

import os

import pytest

COMPARED = "COMPARE_SCHEMAS"


def pytest_configure(config):
    """With ``COMPARE_SCHEMAS=1`` in the environment each schema that is used again is compared with its log, read anew.

    Speed rests on this: a program whose log is known is not named again. No test may tell the two apart.
    """
    if os.environ.get(COMPARED):
        from backprobe.tracing import schema

        def compare(known, made):
            assert not schema.differences(known, made), schema.differences(known, made)

        schema.compare = compare


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
