"""Every kind of wrong derivative is found, and its line, its input and the size of its error are told."""

import inspect

import pytest

import backprobe as bp
import check_page
from wrong_derivatives import CASES


def line_of(program):
    lines, first = inspect.getsourcelines(program)
    (at,) = [at for at, line in enumerate(lines) if line.rstrip().endswith("# wrong")]
    return first + at


@pytest.mark.parametrize("what", CASES)
def test_the_wrong_derivative_is_found_and_no_other(what):
    case = CASES[what]
    report = bp.check(case.program)(*case.arguments)
    assert not report.ok
    found = [finding for finding in report.findings if finding.input == case.input]
    assert found, report
    finding = found[0]
    assert {(one.source.file, one.source.line) for one in report.findings} == {
        (__file__.replace("test_check_wrong", "wrong_derivatives"), line_of(case.program))
    }
    assert case.looks in "\n".join(finding.facts), report
    assert finding.error > 1e-4
    if case.error is not None:
        assert finding.error == pytest.approx(case.error, rel=1e-6)


def test_there_are_enough_of_them():
    assert len(CASES) >= 20


def test_the_table_of_the_docs_is_what_the_checks_give():
    assert check_page.PAGE.read_text() == check_page.made(), "run python tests/check_page.py"
