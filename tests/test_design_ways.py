"""The lists of calls in docs/design are what runs: a value's way through the house, and a missing gradient's."""

import re
import sys
from pathlib import Path

import pytest
import torch

import backprobe as bp

SOURCE = Path(bp.__file__).parent
DESIGN = Path(__file__).parents[1] / "docs" / "design"
ROW = re.compile(r"^ +(?:-> )?(?P<module>[a-z_/*]+) +(?P<name>[A-Za-z_.]+)(?: |$)", re.MULTILINE)
QUALIFIED = re.compile(r"`([A-Za-z_]+\.[a-z_]+)`")


@pytest.fixture(scope="module")
def called():
    """Each call inside of backprobe, in order, as module and qualified name, while a gradient goes missing."""

    def f(x, w):
        u = (x * w).detach()
        return u * x

    x, w = (torch.tensor(number, requires_grad=True) for number in (2.0, 3.0))
    calls = []

    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(SOURCE)):
            module = Path(code.co_filename).relative_to(SOURCE).with_suffix("").as_posix().removesuffix("/__init__")
            calls.append((module, code.co_qualname))

    sys.setprofile(note)
    try:
        rec = bp.probe(f)(x, w)
        rec["w"].grad_or_none  # noqa: B018
        str(bp.explain(rec, "w"))
    finally:
        sys.setprofile(None)
    return calls


def rows_of(file):
    """The modules and names in the first list of calls of a design note."""
    text = (DESIGN / file).read_text().split("```")[1]
    return [(found["module"], found["name"]) for found in ROW.finditer(text)]


def missing(rows, calls):
    """The first row that is not called after the rows above it; None if all are."""
    rest = iter(calls)
    return next((row for row in rows if row not in rest), None)


def test_the_calls_of_a_missing_gradient_are_those_of_the_list(called):
    listed = rows_of("014-explaining.md")
    rows = [(module.replace("*", "torch"), name.replace("Tape.", "TorchTape.")) for module, name in listed]
    assert len(rows) > 18
    assert missing(rows, called) is None
    assert missing(rows[::-1], called) is not None


def defines(module, name):
    """Does a module, or that of each backend, define a class or function of this name?"""
    files = [*SOURCE.glob(f"{module}.py"), *SOURCE.glob(f"{module}/__init__.py")]
    defined = re.compile(rf"^(class|def) \w*{name}\b", re.MULTILINE)
    return bool(files) and all(defined.search(file.read_text()) for file in files)


def test_the_way_of_a_value_names_what_is_there(called):
    rows = rows_of("017-tracing.md")
    assert len(rows) > 10
    assert [row for row in rows if not defines(*row)] == [("source/reporting", "a")]  # it is described in words
    steps = (DESIGN / "017-tracing.md").read_text().partition("\n1. ")[2].partition("\nWhat a called function")[0]
    named = {*QUALIFIED.findall(steps)} - {"scope.bind", "transcribe.over"}
    assert len(named) > 8
    run = {name.replace("TorchTape.", "Tape.") for _, name in called}
    assert named - run == {"Versions.sweep", "Codes.of", "FinishedRun.grads"} - run  # a write, a container, no entries
