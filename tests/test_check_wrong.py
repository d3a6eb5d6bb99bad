"""Every kind of wrong derivative is found, and its line, its input and the size of its error are told."""

import inspect
import re
from pathlib import Path

import pytest

import backprobe as bp
import check_page
from backprobe.check.text import SENTENCES
from backprobe.record import reasons
from wrong_derivatives import CASES


def line_of(program):
    lines, first = inspect.getsourcelines(program)
    (at,) = [at for at, line in enumerate(lines) if line.rstrip().endswith("# wrong")]
    return first + at


@pytest.mark.parametrize("what", CASES)
def test_the_wrong_derivative_is_found_and_no_other(what):
    case = CASES[what]
    report = check_page.checked(what)
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


@pytest.mark.parametrize(
    "what",
    [
        "the sign is flipped",
        "wrong where the input is negative",
        "gradients of two inputs are swapped",
        "its backward pass raises",
        "a gradient where nothing moves",
    ],
)
def test_a_finding_depends_on_no_sentence(what, monkeypatch):
    def found(report):
        places = [(one.kind, one.name, one.source.line, one.input, one.error) for one in report.findings]
        return places, report.judged, len(report.unjudged), len(report.notes)

    said = found(check_page.checked(what))
    monkeypatch.setattr(reasons, "render", lambda code, sentence, fields: code)
    assert found(bp.check(CASES[what].program)(*CASES[what].arguments)) == said


def test_each_code_of_a_check_has_a_sentence():
    folder = Path(bp.__file__).parent
    files = [
        *folder.glob("check/*.py"),
        *folder.glob("backends/*/recheck.py"),
        folder / "backends/pure_calls.py",
        folder / "backends/recheck.py",
    ]
    written = "\n".join(file.read_text() for file in files)
    codes = set(re.findall(r'(?:Reason|Uncheckable|\.remark)\("(\w+)"', written))
    assert codes <= SENTENCES.keys()
    made = {f"{code}_in_double" for code in ("raises", "other_outputs")}
    counted = {"outputs_at_kink", "outputs_too_large", "outputs_unsettled"}
    made |= {"derives_off", "not_derivative", "may_have_rule", "of_sum", "of_weights", "computes_derivatives"}
    assert SENTENCES.keys() == codes | made | counted


def test_there_are_enough_of_them():
    assert len(CASES) >= 20


def test_the_table_of_the_docs_is_what_the_checks_give():
    assert check_page.PAGE.read_text() == check_page.made(), "run python tests/check_page.py"
