"""The tables of the docs about explaining are what the programs give."""

import explain_page


def test_the_stored_tables_are_those_that_the_programs_give():
    assert explain_page.PAGE.read_text() == explain_page.made(), "run python tests/explain_page.py"


def test_a_cell_with_a_bar_stays_one_cell():
    assert explain_page.table(("a", "b"), [("1", "x | y")]).splitlines()[-1] == "| 1 | x \\| y |"
