"""Each planted fault is named first, with its line, and no program that is right in another way is blamed."""

from pathlib import Path

import pytest

import planted_page
from planted import FAULTS, RIGHT, is_found, planted, right

SUBTLE = {"u = F.gelu(y @ up, approximate='tanh')"}
"""An error of 1e-4 of what it should be: below the floor by dtype, and above the measured one."""


def label(one):
    return f"{one.kind} {one.model}" if hasattr(one, "kind") else f"{one.what} {one.model}"


def some(cases, kind):
    """In ``make test`` the first of each kind."""
    kept = list({kind(one): one for one in reversed(cases)}.values())
    return [pytest.param(one, id=label(one), marks=[] if one in kept else pytest.mark.sweep) for one in cases]


@pytest.mark.parametrize("fault", some(FAULTS, lambda one: one.kind))
def test_a_planted_fault_is_named_first(fault):
    by_dtype, measured = planted(fault)
    assert is_found(fault, measured), str(measured)
    assert is_found(fault, by_dtype) or fault.wrong in SUBTLE, str(by_dtype)
    assert measured.ok is by_dtype.ok is False


@pytest.mark.parametrize("pair", some(RIGHT, lambda one: one.what))
def test_a_right_program_is_not_blamed(pair):
    for report in right(pair):
        assert report.findings == (), str(report)
        excess = max(one.excess for row in report.rows for one in (row.value, row.gradient))
        assert excess < 0.5, str(report)  # nowhere near


def test_there_are_enough_faults():
    assert len(FAULTS) >= 40 and len({fault.model for fault in FAULTS}) == 3
    assert len({fault.kind for fault in FAULTS}) >= 12


@pytest.mark.sweep  # all of them are run for it
def test_the_page_has_the_table_of_these_faults():
    page = Path(planted_page.PAGE).read_text()
    assert planted_page.made() == page and "| together | | 48 | 48 | 48 |" in page
