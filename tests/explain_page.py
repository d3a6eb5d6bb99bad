"""Makes the tables of docs/explain.md from the programs in explain_cases.py: ``python tests/explain_page.py``.

Each program runs by itself, for what PyTorch says, and under a probe, for what ``bp.explain`` finds.
"""

import contextlib
import re
import warnings
from pathlib import Path

import torch

import backprobe as bp
from explain_cases import BLOCKS, ERRORS, FUNCTIONS, W, X

PAGE = Path(__file__).parent.parent / "docs" / "explain.md"
BELOW = """## Every cause, as tested

Each row is a program of the tests, run by itself and under a probe; `python tests/explain_page.py` makes the tables.
The words in quotation marks are PyTorch's own, from the error or warning of the program by itself.
"""
AT = re.compile(r"\(?\S*explain_cases\.py:\d+:? ?(.*?)(?:\)(, for .*)?)?$")
NO_LEAF = "is None, as for any value that is not a leaf"
LONGEST = 110


def arguments():
    return torch.tensor(X, requires_grad=True), torch.tensor(W, requires_grad=True)


def first_words(error):
    text = str(error).splitlines()[0].split(". ")[0].rstrip(".:")
    return f"“{text[:LONGEST]}…”" if len(text) > LONGEST else f"“{text}”"


@contextlib.contextmanager
def repeating_warnings():
    """Some of PyTorch's warnings come once in a process, which may have been before."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(before)


def torch_says(case, block):
    """The error or warning of a program without a probe, or what is then in ``.grad``."""
    x, w = arguments()
    with warnings.catch_warnings(record=True) as warned, repeating_warnings():
        warnings.simplefilter("always")
        try:
            if block:
                case.program(x, w, contextlib.nullcontext)
            else:
                case.program(x, w).backward()
        except RuntimeError as error:
            return first_words(error)
    if warned:
        return "a warning: " + first_words(warned[0].message)
    leaf = {"x": x, "w": w}.get(case.asked)
    if leaf is None:
        return f"nothing: its `.grad` {NO_LEAF}"
    if leaf.grad is None:
        return "nothing: `.grad` is None"
    return f"nothing: `.grad` is {leaf.grad.tolist()}"


def backprobe_says(case, block):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recording = case.program(*arguments(), bp.probe) if block else bp.probe(case.program)(*arguments())
    report = bp.explain(recording, case.asked)
    if report.ok:
        return f"nothing is missing: `rec[{case.asked!r}].grad` is {recording[case.asked].grad.tolist()}"
    return "<br>".join(f"{finding.kind}, at `{line_of(finding.source.text)}`" for finding in report.findings)


def note(case):
    try:
        case.program(*arguments(), bp.probe)
    except RuntimeError as error:
        said = error.__notes__[-1].removeprefix("backprobe: ").splitlines()
        lines = [AT.sub(lambda found: f"`{line_of(found[1])}`{found[2] or ''}", one).strip() for one in said]
        return "<br>".join(re.sub(r"  +", " ", one) for one in lines if not one.startswith(("next:", "or ")))
    raise ValueError(f"{case.name} raises nothing")


def line_of(text):
    return text.partition("  # <-")[0].strip()


def table(head, rows):
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)])


def made():
    """The page, as the programs give it."""
    gradients = [
        (case.row, torch_says(case, block), backprobe_says(case, block))
        for block, cases in ((False, FUNCTIONS), (True, BLOCKS))
        for case in cases
    ]
    errors = [(case.row, torch_says(case, True), note(case)) for case in ERRORS]
    above = PAGE.read_text().partition(BELOW.splitlines()[0])[0]
    return "\n".join(
        [
            above + BELOW,
            "### Missing, zero and silently wrong gradients",
            "",
            table(("the program", "what PyTorch says", "what backprobe finds"), gradients),
            "",
            "### Errors",
            "",
            table(("the program", "what PyTorch says", "the note that backprobe adds"), errors),
            "",
        ]
    )


if __name__ == "__main__":
    PAGE.write_text(made())
