"""The tables of the docs about explaining are what the programs give."""

import subprocess
import sys

import explain_page


def test_the_stored_tables_are_those_that_the_programs_give():
    ran = subprocess.run([sys.executable, explain_page.__file__, "--check"], capture_output=True, text=True)
    assert ran.returncode == 0, f"run python tests/explain_page.py\n{ran.stdout}{ran.stderr}"


def test_a_cell_with_a_bar_stays_one_cell():
    assert explain_page.table(("a", "b"), [("1", "x | y")]).splitlines()[-1] == "| 1 | x \\| y |"
