"""Fixtures that files share; ``asked``, ``block_cases`` and ``programs`` have the programs that they share."""

import gc
import os

import pytest

# Before a framework is imported, one thread, also for the processes that tests start: on tensors as small as these,
# threads that wait for each other take most of the time; and a sum is the same on a machine of any number of cores.
os.environ["OMP_NUM_THREADS"] = "1"
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


def pytest_collection_finish():
    """What is imported by now is not looked through whenever garbage is collected: it is millions of objects."""
    gc.collect()
    gc.freeze()


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
