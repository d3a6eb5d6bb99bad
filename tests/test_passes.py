"""Every pass counts: programs that take gradients themselves, probed in each form in which people probe them."""

import pytest

from passes.forms import observed, wrong_in, wrong_in_block, wrong_in_explain, wrong_in_table
from passes.programs import PROGRAMS
from test_notebook import Notebook, shell  # noqa: F401  a fixture

pytestmark = pytest.mark.filterwarnings("ignore:Using backward\\(\\) with create_graph")
each_program = pytest.mark.parametrize("one", PROGRAMS, ids=str)


@each_program
def test_block(one, tmp_path):
    """A block has every gradient of every output, as worked out by hand."""
    assert wrong_in_block(one, tmp_path) == []


@each_program
def test_cell(one, shell):  # noqa: F811
    """So does a cell that is run below ``%%probe rec``."""
    assert wrong_in(one, Notebook(shell).probe(one.text)) == []


@each_program
def test_probe(one, tmp_path):
    """``backprobe probe FILE`` prints the values and what each output brings them."""
    assert wrong_in_table(one, tmp_path) == []


@each_program
def test_explain(one, tmp_path):
    """``backprobe explain FILE`` says nothing that is not so."""
    assert wrong_in_explain(one, tmp_path) == []


@each_program
def test_observed(one, tmp_path):
    """What the program leaves is the same with a block and without, bit by bit."""
    assert observed(one, tmp_path) == []


def test_most_programs_are_written_after_others():
    assert len(PROGRAMS) >= 60
    assert sum(bool(one.source) for one in PROGRAMS) >= len(PROGRAMS) / 2
