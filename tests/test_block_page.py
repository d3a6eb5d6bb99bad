"""The tables of the docs about blocks are what the tests give."""

import pytest

import block_page
from commands import in_a_fork


def test_the_stored_tables_are_those_that_the_tests_give():
    code, out, errors = in_a_fork(lambda: block_page.main("--check"))
    assert code == 0, f"run python tests/block_page.py\n{out}{errors}"


def test_tables():
    made = block_page.tables({"B": {"two": "`opaque` | why"}, "A": {"one": "works"}})
    assert made.removeprefix(block_page.BELOW) == (
        "\n### A\n\n| | what you get |\n|---|---|\n| one | works |\n"
        "\n### B\n\n| | what you get |\n|---|---|\n| two | `opaque` \\| why |\n"
    )


def test_two_tests_that_disagree():
    class Item:
        def __init__(self, answer):
            self.marks = [pytest.mark.block("one", "A", answer=answer).mark]

        def iter_markers(self, name):
            return self.marks

    class Session:
        items = (Item("works"), Item("`opaque`"))

    with pytest.raises(ValueError, match="one: tests say works and `opaque`"):
        block_page.Collected().pytest_collection_finish(Session)
