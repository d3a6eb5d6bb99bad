"""Every gradient and name of random programs, against finite differences of an interpreter of their own.

``RANDOM_PROGRAMS=20000 pytest tests/test_random_programs.py`` runs more of them than a normal run does.
"""

import os
from dataclasses import replace

import numpy as np
import pytest
import torch

import backprobe as bp
from random_programs.compare import Tally, check, compare_gradient, compare_names, differences, load
from random_programs.drawn import check_many
from random_programs.expressions import INDEXES
from random_programs.interpreter import ARGUMENTS, Interpreter
from random_programs.names import Binding
from random_programs.statements import generate
from sampled import count, drawn

COUNT = int(os.environ.get("RANDOM_PROGRAMS", count(500)))


@drawn
def test_probe_agrees_with_finite_differences_on_random_programs(tmp_path):
    tally = Tally()
    check_many(generate, lambda program: check(program, tmp_path, tally), COUNT)
    print(tally)
    assert tally.run - tally.discarded.total() >= COUNT
    assert tally.discarded.total() < 0.15 * tally.run
    assert set(tally.statuses) <= {"ok", "not_connected", "not_tensor"}
    assert tally.statuses["ok"] > 0.2 * tally.statuses.total()


# the oracle: that it says what the definition says, and that it can say no

# the view is read, then its memory is written, then it is read again
WRITTEN_BASE = """
def f(x, z):
    r = z[0:2]
    a = r[0] * 5.0
    z *= 3.0
    return a + r[1]
"""
# a write through the view, and then all of it is read through the base
WRITTEN_VIEW = """
def f(x, z):
    r = z[0:2]
    r *= 3.0
    return z[0] + z[2]
"""
WRITTEN_PART = """
def f(x, z):
    z[0:2] *= 3.0
    return z[0] - z[2]
"""


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (
            WRITTEN_BASE,
            {":z#0": [5, 3, 0], ":r#0": [5, 0], ":a#0": 1, ":z#1": [0, 1, 0], ":r#1": [0, 1], ":return#0": 1},
        ),
        (WRITTEN_VIEW, {":z#0": [3, 0, 1], ":r#0": [3, 0], ":r#1": [1, 0], ":z#1": [1, 0, 1], ":return#0": 1}),
        (WRITTEN_PART, {":z#0": [3, 0, -1], ":z#1": [1, 0, -1], ":return#0": 1}),
    ],
    ids=["base", "view", "part"],
)
def test_oracle_says_what_was_worked_out_by_hand(program, expected):
    bindings = bound(program)
    found = differences(program, bindings)
    by_name = {binding.name: found[binding.moment] for binding in bindings}
    assert by_name.keys() == {":x#0", *expected}
    for name, gradient in expected.items():
        assert by_name[name] == pytest.approx(np.array(gradient, float), abs=1e-8), name


def bound(program):
    oracle = Interpreter()
    oracle.run(program)
    return oracle.names.bindings


def recorded(program, folder):
    arguments = [torch.tensor(values, dtype=torch.float64) for values in ARGUMENTS[:2]]
    return bound(program), bp.probe(load(program, folder / "program.py"))(*arguments)


def test_comparison_refuses_a_wrong_gradient(tmp_path):
    bindings, recording = recorded(WRITTEN_PART, tmp_path)
    binding, entry = bindings[1], recording["z#0"]
    right = np.array([3.0, 0.0, -1.0])
    compare_gradient(binding, entry, right)
    for wrong in (right + [1e-5, 0, 0], right * (1 + 1e-5), right[::-1]):
        with pytest.raises(AssertionError, match=r"(?s):z#0 has gradient\n.*and not\n"):
            compare_gradient(binding, entry, wrong)
    unconnected = recording["x"]
    compare_gradient(bindings[0], unconnected, np.zeros(3))
    with pytest.raises(AssertionError, match="not_connected"):
        compare_gradient(bindings[0], unconnected, np.array([0.0, 1e-9, 0.0]))


def test_comparison_refuses_wrong_names_and_values(tmp_path):
    bindings, recording = recorded(WRITTEN_PART, tmp_path)
    compare_names(bindings, recording)
    wrong = {
        "is missing": [*bindings, Binding(":z#2", 99, bindings[1].value)],
        "and not": bindings[1:],
        "has value": [replace(bindings[0], value=bindings[0].value + 1e-6), *bindings[1:]],
        "another entry": [bindings[0], bindings[1], replace(bindings[2], moment=bindings[1].moment), *bindings[3:]],
    }
    for message, changed in wrong.items():
        with pytest.raises(AssertionError, match=message):
            compare_names(changed, recording)


def test_what_fails_says_its_program(tmp_path):
    program = "def f(x):\n    return x.sum().nonsense()\n"
    with pytest.raises(AttributeError) as caught:
        check(program, tmp_path, Tally())
    assert caught.value.__notes__ == [program]


def test_every_subscript_is_a_view_of_the_size_it_says():
    for (whole, part), indexes in INDEXES.items():
        for index in indexes:
            assert eval(f"torch.ones({whole})[{index}]").shape == ((part,) if part else ())
