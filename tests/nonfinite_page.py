"""Makes the table of docs/nonfinite.md: ``python tests/nonfinite_page.py`` runs each case, and writes the page.

Each program runs twice: under ``bp.probe(..., nonfinite=True)``, and bare in PyTorch's anomaly mode. The table says
what each of them answers. What is written by hand stands above it.
"""

import re
import warnings
from pathlib import Path

import torch

import backprobe as bp
from nonfinite_cases import CASES

PAGE = Path(__file__).parent.parent / "docs" / "nonfinite.md"
BIRTHS = ("born", "born_backward", "came_in", "came_in_backward", "unknown")
BELOW = """## Compared with anomaly mode

Each row is a program of the tests whose births are known (`tests/nonfinite_cases.py`), run in both; `python
tests/nonfinite_page.py` makes the table.
"""


def ours(case):
    """What explain answers: the headlines of the births, and whether their lines are those that are known."""
    report = bp.explain(bp.probe(case.program, nonfinite=True)(*case.args))
    found = [finding for finding in report.findings if finding.kind in BIRTHS]
    lines = {finding.source.line for finding in found}
    is_right = lines == {*case.lines("forward"), *case.lines("backward")}
    return "; ".join(finding.headline for finding in found) or "nothing", is_right


def anomaly(case):
    """What anomaly mode answers: the function that it blames and the line in our file that called it, or None."""
    args = [arg.clone().requires_grad_() for arg in case.args]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            with torch.autograd.set_detect_anomaly(True):
                output = case.program(*args)
                output.backward(torch.ones_like(output))
        except RuntimeError as error:
            blamed = re.search(r"Function '(\w+)' returned nan", str(error))
            places = [re.findall(r'nonfinite_cases\.py", line (\d+)', str(one.message)) for one in said]
            return blamed[1], int(next(found for found in places if found)[-1])
    return None


def verdict(case, answer):
    """Is what anomaly mode blames where NaN or Inf began?"""
    forward, backward = case.lines("forward"), case.lines("backward")
    if answer is None:
        return "raises nothing" if case.births else "raises nothing, rightly"
    blamed, line = answer
    first = (forward or backward)[0] if forward else None
    if line in backward or (first is not None and line == first):
        return f"blames `{blamed}` at the line"
    return f"blames `{blamed}` at another line" if line not in forward else f"blames `{blamed}` at a later line of them"


def table():
    """The rows, and a count of what each says."""
    rows, right, missed, elsewhere, ill = [], 0, 0, 0, 0
    for case in CASES:
        said, is_right = ours(case)
        answer = verdict(case, anomaly(case))
        ill += bool(case.births)
        right += is_right and bool(case.births)
        missed += answer == "raises nothing"
        elsewhere += "another line" in answer or "later line" in answer
        rows.append(f"| {case.title} | {said.replace('|', chr(92) + '|')} | {answer} |")
    summary = (
        f"Of {ill} programs with a birth, backprobe names the right line in {right}. Anomaly mode raises nothing in "
        f"{missed}, since it looks at\nthe backward pass alone and only for NaN, and blames another line, or a later "
        f"one of several, in {elsewhere}."
    )
    return "\n".join([BELOW, summary, "", "| program | `bp.explain(rec)` | anomaly mode |", "|---|---|---|", *rows, ""])


def made():
    """The page as the programs give it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PAGE.read_text().partition(BELOW.splitlines()[0])[0] + table()


if __name__ == "__main__":
    PAGE.write_text(made())
