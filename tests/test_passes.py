"""Every pass counts: programs that take gradients themselves, probed in each form in which people probe them."""

import pytest

from passes.forms import block, observed, wrong_in, wrong_in_explain, wrong_in_table
from passes.programs import PROGRAMS
from sampled import every
from test_notebook import Notebook, shell  # noqa: F401  a fixture

pytestmark = pytest.mark.filterwarnings("ignore:Using backward\\(\\) with create_graph")
BY_NAME = {str(one): one for one in PROGRAMS}
each_program = pytest.mark.parametrize("one", PROGRAMS, ids=str)


@each_program
def test_block(one, tmp_path):
    """A block has every gradient of every output, as worked out by hand, and leaves what the program does without it,
    bit by bit."""
    names = block(one, tmp_path)
    assert wrong_in(one, names["rec"]) == []
    assert observed(one, names, tmp_path) == []


@pytest.mark.parametrize("name", every(3, BY_NAME))
def test_cell(name, shell):  # noqa: F811
    """So does a cell that is run below ``%%probe rec``."""
    one = BY_NAME[name]
    assert wrong_in(one, Notebook(shell).probe(one.text)) == []


@each_program
def test_probe(one, tmp_path):
    """``backprobe probe FILE`` prints the values and what each output brings them."""
    assert wrong_in_table(one, tmp_path) == []


@each_program
def test_explain(one, tmp_path):
    """``backprobe explain FILE`` says nothing that is not so."""
    assert wrong_in_explain(one, tmp_path) == []


def test_most_programs_are_written_after_others():
    assert len(PROGRAMS) >= 60
    assert sum(bool(one.source) for one in PROGRAMS) >= len(PROGRAMS) / 2
