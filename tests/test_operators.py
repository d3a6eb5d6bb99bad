"""No observer effect on any operator that PyTorch has, in any way to write it."""

import gc

import pytest

from operators import OPERATORS, compare, dtype_of
from sampled import every

# the operators themselves warn, of what is deprecated, in beta or slow
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module", autouse=True)
def old_objects_are_not_looked_through():
    """Each operator's garbage is collected: among millions of objects of earlier tests that would take most of the
    time."""
    gc.collect()
    gc.freeze()


@pytest.mark.parametrize("name", every(3, OPERATORS))
def test_an_operator_is_the_same_under_a_probe(name):
    tally = compare(OPERATORS[name])
    assert tally.wrong == []
    assert bool(tally.samples) == (dtype_of(OPERATORS[name]) is not None)
