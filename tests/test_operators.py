"""No observer effect on any operator that PyTorch has, in any way to write it."""

import pytest

from operators import FORMS, OPERATORS, compare, dtype_of

# the operators themselves warn, of what is deprecated, in beta or slow
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_is_the_same_under_a_probe(name, form):
    tally = compare(OPERATORS[name], form)
    assert tally.wrong == []
    assert bool(tally.samples) == (dtype_of(OPERATORS[name]) is not None)
