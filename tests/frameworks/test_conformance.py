"""Every program of the suite on every framework: names, statuses, values and gradients, as stated once for all."""

from dataclasses import replace

import numpy as np
import pytest
from backends import FRAMEWORKS, NUMPY

from programs import PROGRAMS
from programs.agreement import check
from programs.differences import differences
from torch_framework import close

EACH = [
    pytest.param(program, id=f"{program.section}-{program}", marks=pytest.mark.supports(program.claim, program.section))
    for program in PROGRAMS
]
SMOOTH = [program for program in PROGRAMS if program.smooth]


@pytest.mark.parametrize("program", EACH)
def test_what_a_recording_says(framework, program):
    check(program, framework, program.record(framework))


def facts(framework, rec):
    """All that a recording says but for its numbers, which differ by rounding, and the names of the libraries."""
    return {
        "entries": [
            (entry.name, entry.aliases, str(entry.status), entry.shape, entry.dtype, entry.op) for entry in rec.values()
        ],
        "reasons": {name: entry.reason for name, entry in rec.items()},
        "inputs": {name: [edge.name for edge in entry.inputs] for name, entry in rec.items()},
        "reads": {name: [(read.spelled, read.name) for read in entry.reads] for name, entry in rec.items()},
        "sources": {
            name: entry.source and (entry.source.file, entry.source.line, entry.source.text, entry.source.expression)
            for name, entry in rec.items()
        },
        "outputs": [entry.name for entry in rec.outputs],
        "notes": rec.notes,
    }


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_the_frameworks_say_the_same(program):
    said = {name: facts(framework, program.record(framework)) for name, framework in FRAMEWORKS.items()}
    for part in said["torch"]:
        for name in FRAMEWORKS:
            assert said[name][part] == said["torch"][part], f"{part}: {name} and torch"


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_asking_twice_gives_the_same_again(framework, program):
    first = program.record(framework)
    second = program.record(framework)
    assert facts(framework, first) == facts(framework, second)
    for name, gradient in first.grads().items():
        assert np.array_equal(framework.numpy(gradient), framework.numpy(second[name].grad))


@pytest.mark.parametrize("program", SMOOTH, ids=str)
def test_the_stated_gradients_of_arguments_are_difference_quotients(program):
    """No framework takes part: the same function in NumPy, moved a little this way and that."""
    found = differences(program, NUMPY)
    for name, quotient in found.items():
        _, gradient = program.wanted[name]
        wanted = np.zeros_like(quotient) if isinstance(gradient, str) else np.asarray(gradient)
        assert close(quotient, wanted, 1e-6), (name, quotient, gradient)


def test_a_wrong_statement_would_fail(framework):
    """The judge above can say no, to a name, a status, a value, a gradient and a reading."""
    program = next(each for each in PROGRAMS if str(each) == "rebinding")
    rec = program.record(framework)
    for changed in (
        {**program.wanted, "h#3": (21, 1)},
        {**program.wanted, "x": (3, "frozen")},
        {**program.wanted, "x": (3 + 1e-3, 7)},
        {**program.wanted, "x": (3, 7 + 1e-3)},
        {**program.wanted, "x": (3, [7])},
        dict(reversed(program.wanted.items())),
    ):
        with pytest.raises(AssertionError):
            check(replace(program, wanted=changed), framework, rec)
    with pytest.raises(AssertionError):
        check(replace(program, readings={"return": "h#1"}), framework, rec)
