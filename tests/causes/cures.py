"""Remedies that are code: put into the program as they are written, and whether the gradient then arrives."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import textwrap
import warnings

WRITTEN = re.compile(r"(?:write|gradient flows:) (?P<new>.+)", re.DOTALL)
ENDS = re.compile(r"(?: instead|,|;|\n|$)")
LEFT_OUT = re.compile(r"leave out (?P<name>\w+)\(\)")
QUOTED = re.compile(r"`(?P<old>[^`]+)`")


def is_cured(program, report, asked, arguments):
    """Whether a function's gradient arrives with all remedies put in; None where one of them is no code."""
    lines, first = inspect.getsourcelines(program)
    for finding in report.findings:
        at = finding.source.line - first if finding.source else -1
        if at not in range(len(lines)) or (line := changed(lines[at], finding)) is None:
            return None
        lines[at] = line
    start = next(number for number, line in enumerate(lines) if line.lstrip().startswith("def "))
    text = textwrap.dedent("".join(lines[start:]))
    file = f"<{program.__name__} with its remedies>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    try:
        code = compile(text, file, "exec")
    except SyntaxError:
        return None
    cured = dict(program.__globals__)
    exec(code, cured)
    return arrives(cured[program.__name__], asked, arguments)


def changed(line, finding):
    """A line after the remedy of its finding, None where the remedy does not say what to write."""
    old = QUOTED.search(finding.headline)
    if old and old["old"] not in line and old["old"] in finding.source.text:
        return line  # an earlier finding's remedy has taken its place
    if (new := written(finding.remedy)) and old and line.count(old["old"]) == 1:
        return line.replace(old["old"], new)
    if (word := LEFT_OUT.search(finding.remedy)) and line.count(f".{word['name']}()") == 1:
        return line.replace(f".{word['name']}()", "")
    return None


def written(remedy):
    """The expression that a remedy says to write, None if it says none."""
    if (said := WRITTEN.search(remedy)) is None:
        return None
    parts = [said["new"][: end.start()] for end in ENDS.finditer(said["new"])]
    return next((part for part in reversed(parts) if is_expression(part)), None)


def is_expression(text):
    """Whether a text is one expression, and no tuple of some."""
    try:
        return not isinstance(ast.parse(text, mode="eval").body, ast.Tuple)
    except SyntaxError:
        return False


def arrives(function, asked, arguments):
    """Whether the gradient of a value arrives, which may be one that the function computes."""
    import backprobe as bp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            recording = bp.probe(function)(*arguments())
        except (bp.BackprobeError, RuntimeError, TypeError, IndexError):  # it does not even run
            return False
        return recording[asked].status == "ok"
