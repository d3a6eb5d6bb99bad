"""Random programs in every framework: names, values, gradients and statuses against an interpreter in NumPy.

``RANDOM_PROGRAMS=2000 pytest tests/frameworks/test_random_frameworks.py`` runs more of them than a normal run does.
"""

import os

import pytest
from plain_programs import check, compare_statuses, expanded, generate, recording

from random_programs.compare import Tally
from random_programs.drawn import check_many
from sampled import count, drawn

COUNT = int(os.environ.get("RANDOM_PROGRAMS", count(100, 15)))


@drawn
@pytest.mark.supports("random programs: all names, values and gradients, against finite differences", "Promises")
def test_probe_agrees_with_finite_differences_on_random_programs(framework, tmp_path):
    tally = Tally()
    check_many(generate, lambda program: check(program, framework, tmp_path / "program.py", tally), COUNT)
    print(tally)
    assert tally.run - tally.discarded.total() >= COUNT
    assert tally.discarded.total() < 0.15 * tally.run
    assert set(tally.statuses) <= {"ok", "not_connected", "not_tensor"}
    assert tally.statuses["ok"] > 0.2 * tally.statuses.total()


PROGRAM = """
def f(x, z, y):
    u = x * 2.0
    u *= z
    v = ops.sin(u)
    s = v[0:2]
    return ops.sum(s) + ops.sum(z)
"""


def test_the_verdict_on_a_right_program(framework, tmp_path):
    tally = Tally()
    assert check(PROGRAM, framework, tmp_path / "program.py", tally)
    assert (tally.names, dict(tally.statuses)) == (8, {"ok": 7, "not_connected": 1})
    assert "    u = u * (z)\n" in expanded(PROGRAM)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("u = x * 2.1", "has value"),
        ("u = x * 2.0; n = 3", "and not"),
        ("t = x * 2.0; u = t", "and not"),
        ("u = ops.stop_gradient(x) * 2.0", "x#0 has gradient\nnot_connected"),
    ],
)
def test_a_verdict_that_says_no(framework, tmp_path, wrong, why, monkeypatch):
    """The probe is of another program than the oracle's."""
    other = PROGRAM.replace("u = x * 2.0", wrong)
    monkeypatch.setattr("plain_programs.recording", lambda program, *rest: recording(other, *rest))
    with pytest.raises(AssertionError, match=why):
        check(PROGRAM, framework, tmp_path / "program.py", Tally())


def test_statuses_that_differ(framework, tmp_path):
    unconnected = PROGRAM.replace("+ ops.sum(z)", "+ ops.sum(z) + ops.sum(y) * 0.0")
    one, other = (recording(text, framework, tmp_path / "program.py") for text in (PROGRAM, unconnected))
    with pytest.raises(AssertionError, match="y is not_connected, in PyTorch ok"):
        compare_statuses(one, other)
