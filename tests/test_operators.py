"""No observer effect on any operator that PyTorch has, in any way to write it."""

import gc

import pytest
import torch

from operators import FORMS, OPERATORS, compare, dtype_of

# the operators themselves warn, of what is deprecated, in beta or slow
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module", autouse=True)
def quick():
    """One core is enough, and what was imported so far is not looked through each time that garbage is collected."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
    torch.set_num_threads(threads)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_is_the_same_under_a_probe(name, form):
    tally = compare(OPERATORS[name], form)
    assert tally.wrong == []
    assert bool(tally.samples) == (dtype_of(OPERATORS[name]) is not None)
