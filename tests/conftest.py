"""Fixtures that files share; ``asked``, ``block_cases`` and ``programs`` have the programs that they share."""

import compileall
import gc
import os
import shutil
import sys
import warnings
from pathlib import Path

import pytest

import budget
from budget import pytest_runtest_logfinish, pytest_runtest_logstart  # noqa: F401
from budget import pytest_sessionfinish as finished
from goldens import pytest_collection_modifyitems as collected
from goldens import pytest_runtest_call  # noqa: F401

# Before a framework is imported, one thread, also for the processes that tests start: on tensors as small as these,
# threads that wait for each other take most of the time; and a sum is the same on a machine of any number of cores.
os.environ["OMP_NUM_THREADS"] = "1"
COMPARED = "COMPARE_SCHEMAS"
# Bytecode of ours is kept, whatever the environment says, for the processes that tests start and the next run. That of
# programs that tests write is not: one of the same second and size would be taken for the next.
sys.dont_write_bytecode = False
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
compileall.compile_dir(Path(__file__).parents[1] / "src", quiet=1)
# What tests write, 400 MB, is kept in memory where there is room: the databases of runs wait for a disk.
MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 4 * 2**30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
gc.disable()  # while modules and tests are collected, which stay


def pytest_configure(config):
    """With ``COMPARE_SCHEMAS=1`` in the environment each schema that is used again is compared with its log, read anew.

    Speed rests on this: a program whose log is known is not named again. No test may tell the two apart.
    """
    if os.environ.get(COMPARED):
        from backprobe.tracing import schema

        def compare(known, made):
            assert not schema.differences(known, made), schema.differences(known, made)

        schema.compare = compare


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """With ``ONE_IN=2`` in the environment, every second test alone is run; with ``FROM=1`` too, the other ones."""
    collected(config, items)
    budget.mark(items)
    if not config.option.collectonly:  # a page of the docs lists all of them
        items[:] = items[int(os.environ.get("FROM", 0)) :: int(os.environ.get("ONE_IN", 1))]


def pytest_collection_finish():
    """What is imported by now is not looked through whenever garbage is collected: it is millions of objects."""
    sys.dont_write_bytecode = True
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """Nor is what the tests of a file have left: libraries that they imported, and what is remembered of programs."""
    if nextitem is not None and nextitem.path != item.path:
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


def pytest_sessionfinish():
    """A process of pytest-xdist that does not end by itself is killed: what it ran under coverage is written before."""
    finished()
    coverage = sys.modules.get("coverage") if "PYTEST_XDIST_WORKER" in os.environ else None
    if coverage is not None and (now := coverage.Coverage.current()) is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one that has run no test has nothing to write
            now.save()
