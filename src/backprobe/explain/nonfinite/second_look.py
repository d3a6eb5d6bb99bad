"""Adds results of a second run, in which operations are observed one by one, to births whose cause is not clear."""

from __future__ import annotations

import linecache
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy

from backprobe.backends.heard_births import HeardBirth
from backprobe.explain.nonfinite import mechanism, operands
from backprobe.explain.nonfinite.arithmetic import ELEMENTWISE, FAILING, wider
from backprobe.explain.nonfinite.states import WORDS, of_numbers
from backprobe.explain.nonfinite.terms import known_as
from backprobe.explain.nonfinite.text import Mechanism, at_line, say
from backprobe.findings.phrasing import uncommented
from backprobe.findings.report import Finding, Report
from backprobe.record.source import Source
from backprobe.source.user_code import package

BORN = ("born", "unknown")
UNCLEAR = ("", "zero_gradient")
"""Causes of a birth in backward that do not say which derivative is not finite."""


def lacking(report: Report) -> list[Finding]:
    """The births in the forward pass, or in an optimizer's step, for which no mechanism was found."""
    return [one for one in report if one.kind in BORN and one.source is not None and "why" not in one.fields]


def lacking_in_backward(report: Report) -> list[Finding]:
    """The birth in backward for which no clear mechanism was found, if it is the only birth of the report."""
    return [one for one in _only_in_backward(report) if one.fields.get("why", "") in UNCLEAR]


def lacking_inside(report: Report) -> list[Finding]:
    """The birth in backward if it is the only birth. If its line calls a function of the program, the operation may be
    there.
    """
    return [one for one in _only_in_backward(report) if one.source is not None]


def _only_in_backward(report: Report) -> list[Finding]:
    # The birth in backward, if it is the only birth of the report.
    every = [one for one in report if one.kind in (*BORN, "born_backward") and not one.cause]
    return every if len(every) == 1 and every[0].kind == "born_backward" else []


def with_heard(report: Report, heard: Sequence[HeardBirth]) -> Report:
    """Return the report with the first observed operation that made NaN or Inf at each birth without a mechanism.

    The operation must have run on the line of the birth and made the same kind, NaN or Inf. For a birth in backward, it
    is the first observed operation of backward, and the report must have no other birth.
    """
    wanted = {id(one): fact for one in lacking(report) for fact in _facts(one, heard)[:1]}
    certain = {id(one): why for one in lacking(report) if (why := _made_by_line(one, heard)) is not None}
    first = [one for one in heard if one.is_backward][:1]
    unclear = lacking_in_backward(report)
    of_backward = unclear or [one for one in lacking_inside(report) if _is_inside(one, first)]
    wanted |= {id(one): fact for one in of_backward for fact in _said(one, first)}
    found = [
        one if id(one) not in wanted else replace(one, facts=(wanted[id(one)], *one.facts)) for one in report.findings
    ]
    found = [_born(new, certain.get(id(old))) for old, new in zip(report.findings, found, strict=True)]
    return replace(report, findings=tuple(found))


def _made_by_line(finding: Finding, heard: Sequence[HeardBirth]) -> Mechanism | None:
    # Return the mechanism for a finding that does not say whether the line made NaN or Inf, or something that the line
    # calls. The first operation observed on the line shows it: the line itself must have called this operation, with
    # better numbers.
    first = next((one for one in heard if is_at(finding, one.lines)), None)
    if "lost" not in finding.fields or first is None or first.is_backward or not is_at(finding, first.lines[:1]):
        return None
    if WORDS[of_numbers(first.result)] != finding.fields["word"]:
        return None
    given, own = [numpy.asarray(numbers) for _, numbers in first.operands], str(first.result.dtype)
    # the dtype is unknown if NumPy lacks it and has the numbers in a wider type, as for bfloat16
    dtype = own if own == finding.fields.get("dtype") else ""
    with numpy.errstate(all="ignore"):
        return mechanism.forward(first.operation, given, first.result, dtype, partial(_wider, first.operation, given))


def _wider(operation: str, given: Sequence[Any], moved: float) -> Any:
    # The result of an observed operation in a wider type, with its operands shifted by ``moved``; None if it is
    # unknown.
    function = ELEMENTWISE.get(known_as(operation))
    with suppress(*FAILING):
        return None if function is None else function(*[wider(one, moved) for one in given])
    return None


def _born(finding: Finding, why: Mechanism | None) -> Finding:
    if why is None:
        return finding
    fields = {name: one for name, one in finding.fields.items() if name not in ("lost", "verb")}
    headline = f"{say('born', born=fields['born'], name=fields['name'])}: {why}"
    return replace(finding, kind="born", headline=headline, fields={**fields, "why": why.code})


def is_at(finding: Finding, lines: Sequence[tuple[str, int]]) -> bool:
    """Is the line of a finding among the lines from which an operation was called?"""
    source = finding.source
    return source is not None and any(
        line == source.line and os.path.abspath(file) == os.path.abspath(source.file) for file, line in lines
    )


def is_of(finding: Finding, birth: HeardBirth) -> bool:
    """Was this operation observed on the finding's line, and with the same kind of result?

    If the finding already shows the line's own numbers, an operation on that very line adds nothing.
    """
    is_shown = bool(finding.fields.get("numbers")) and is_at(finding, birth.lines[:1])
    is_alike = finding.fields.get("word", "") in ("", WORDS.get(of_numbers(birth.result)))
    return is_alike and not is_shown and is_at(finding, birth.lines)


def _facts(finding: Finding, heard: Sequence[HeardBirth]) -> list[str]:
    return _said(finding, [one for one in heard if is_of(finding, one)])


def _said(finding: Finding, heard: Sequence[HeardBirth]) -> list[str]:
    found = []
    for one in heard:
        with numpy.errstate(all="ignore"):
            numbers = operands.of_operation(one.operation, one.operands, one.result)
        if numbers:
            found.append(say("heard", op=one.operation, numbers=numbers, line=_inside(finding, _lines(one))))
    return found


def _lines(birth: HeardBirth) -> Sequence[tuple[str, int]]:
    # Return the lines of a birth: for backward, those of the forward call; for a backward that the program defines, its
    # own line.
    own = [line for line in birth.lines[:1] if package(line[0]) is None]
    return birth.lines if not birth.is_backward else own or birth.forward_lines


def _is_inside(finding: Finding, heard: Sequence[HeardBirth]) -> bool:
    return any(is_at(finding, _lines(one)) and _inside(finding, _lines(one)) for one in heard)


def _inside(finding: Finding, lines: Sequence[tuple[str, int]]) -> str:
    # The line of the program on which the operation was called, if it differs from the finding's line.
    file, line = next(((file, line) for file, line in lines if package(file) is None), ("", 0))
    if not file or is_at(finding, [(file, line)]):
        return ""
    text = uncommented(Source(file, line, linecache.getline(file, line)))
    return say("heard_in", text=text, at=at_line(Source(file, line, text)))
