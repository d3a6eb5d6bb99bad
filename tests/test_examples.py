"""Each program in ``examples`` runs, and prints what the README of that folder shows."""

import pytest

from examples_page import FOLDER, comparable, printed, shown

NAMES = sorted(file.stem for file in FOLDER.glob("*.py"))
AGAIN = "run python tests/examples_page.py, and look at what changed"


def test_the_page_shows_every_program():
    assert sorted(shown()) == NAMES
    assert len(NAMES) == 7


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.all_frameworks] if name.startswith("jax") else []) for name in NAMES]
)
def test_a_program_prints_what_the_page_shows(name):
    assert comparable(printed(name)) == comparable(shown()[name]), AGAIN


def test_another_cause_is_seen_and_another_last_digit_is_not():
    line = "relative error 0.18, 79,000 × the floor of 6 terms (port.py:18)"
    assert comparable(line) == comparable(line.replace("79,000", "79,100").replace("0.18", "0.17"))
    assert comparable(line) != comparable(line.replace("port.py:18", "port.py:19"))
    assert comparable(line) != comparable(line.replace("6 terms", "7 terms"))
