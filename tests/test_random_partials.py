"""Local partials of random programs, against an interpreter that holds still whatever else has a name.

``RANDOM_PARTIALS=5000 pytest tests/test_random_partials.py`` runs more of them than a normal run does.
"""

import os
from dataclasses import replace

import numpy as np
import pytest
import torch

import backprobe as bp
from random_programs.compare import STEP, load
from random_programs.drawn import check_many
from random_programs.interpreter import ARGUMENTS, Interpreter
from random_programs.partials import Judge, Seen, check_partials
from random_programs.statements import generate
from random_programs.stillness import local_blocks, plain_run
from random_programs.views import generate_views
from sampled import count, drawn

COUNT = int(os.environ.get("RANDOM_PARTIALS", count(100)))


def agreeing(generator, folder):
    """What was seen over ``COUNT`` programs, none of which disagreed."""
    seen = Seen()
    check_many(generator, lambda program: check_partials(program, folder, seen), COUNT)
    print(seen)
    assert seen.run - seen.discarded.total() >= COUNT
    assert seen.discarded.total() < 0.2 * seen.run
    return seen


@drawn
def test_partials_agree_with_differences_of_one_value_at_a_time_on_random_programs(tmp_path):
    seen = agreeing(generate, tmp_path)
    assert seen.compared["blocks"] > 5 * COUNT
    assert seen.compared["sums over paths"] > 2 * COUNT


@drawn
def test_partials_agree_where_programs_write_through_views(tmp_path):
    seen = agreeing(generate_views, tmp_path)
    assert seen.compared["blocks"] > 3 * COUNT
    assert seen.compared["writes through views"] > 0.2 * COUNT
    assert seen.compared["sums over paths"] > COUNT


# the oracle: that it says what was worked out by hand, and that the judge can say no

DIRECT_AND_INDIRECT = """
def f(x):
    u = x * 3.0
    v = u * x
    return (u * v).sum()
"""
OVERWRITTEN = """
def f(x, z):
    u = z * 2.0
    u *= x
    return u.sum()
"""
WRITTEN_VIEW = """
def f(x, z):
    u = z * 2.0
    r = u[0:2]
    r *= 3.0
    return u.sum() + r[0]
"""
WRITTEN_BASE_WITHOUT_A_NAME = """
def f(x, z):
    u = z * 2.0
    p = u[0:2]
    s = u[0]
    u = x * x
    s.add_((s := x[1] * 3.0))
    return (u * p[0]).sum() + p[1]
"""


def named(program):
    """The oracle's blocks by names without ``:`` and ``#0``; those that are zero left out."""
    oracle, run = Interpreter(), plain_run(program)
    oracle.run(program)
    names = {b.moment: b.name.removeprefix(":").removesuffix("#0") for b in oracle.names.bindings}
    return {
        (names[value], names[by]): block
        for value, row in local_blocks(program, run, STEP).items()
        for by, block in row.items()
        if block.any()
    }


def test_oracle_holds_the_other_values_still():
    x, found = np.array(ARGUMENTS[0]), named(DIRECT_AND_INDIRECT)
    expected = {
        ("u", "x"): 3 * np.eye(3),
        ("v", "u"): np.diag(x),
        ("v", "x"): np.diag(3 * x),
        ("return", "u"): [3 * x * x],
        ("return", "v"): [3 * x],
    }
    assert found.keys() == expected.keys()
    for edge, block in expected.items():
        assert found[edge] == pytest.approx(np.array(block), abs=1e-8), edge


def test_oracle_takes_a_written_value_for_another_than_before():
    x, z, found = np.array(ARGUMENTS[0]), np.array(ARGUMENTS[1]), named(OVERWRITTEN)
    expected = {
        ("u", "z"): 2 * np.eye(3),
        ("u#1", "u"): np.diag(x),
        ("u#1", "x"): np.diag(2 * z),
        ("return", "u#1"): [[1, 1, 1]],
    }
    assert found.keys() == expected.keys()
    for edge, block in expected.items():
        assert found[edge] == pytest.approx(np.array(block), abs=1e-8), edge


def test_oracle_takes_what_is_written_through_a_view_for_a_part_of_its_base():
    found = named(WRITTEN_VIEW)
    assert found.keys() == {("u", "z"), ("r", "u"), ("u#1", "r"), ("u#1", "u"), ("return", "u#1")}
    assert found["u#1", "r"] == pytest.approx(np.array([[3, 0], [0, 3], [0, 0]], float), abs=1e-8)
    assert found["u#1", "u"] == pytest.approx(np.diag([0.0, 0.0, 1.0]), abs=1e-8)
    assert found["return", "u#1"] == pytest.approx(np.array([[2.0, 1.0, 1.0]]), abs=1e-8)


def judged(program, folder, change=lambda entry, edge: edge, sums=lambda sums: sums, against_oracle=True):
    """Every comparison of one program, after a change of the recorded edges or of the path sums."""
    oracle = Interpreter()
    oracle.run(program)
    function = load(program, folder / "program.py")
    arguments = [torch.tensor(v, dtype=torch.float64) for v in ARGUMENTS[: function.__code__.co_argcount]]
    record = bp.probe(function, partials="full")(*arguments).record
    entries = tuple(
        replace(entry, inputs=tuple(found for edge in entry.inputs if (found := change(entry, edge)) is not None))
        for entry in record.entries
    )
    recording = bp.Recording(replace(record, entries=entries, path_sums=sums(record.path_sums)))
    run = plain_run(program)
    judge = Judge(recording, oracle.names.bindings, run, Seen())
    judge.compare_sums()
    if against_oracle:
        judge.compare_blocks(local_blocks(program, run, STEP))
    judge.compare_contributions()
    judge.compare_totals()


def changing(value, by, **changes):
    """An edge with some of its numbers changed, or without the edge where there are no changes."""

    def change(entry, edge):
        if (entry.name, edge.name) != (value, by):
            return edge
        return replace(edge, **{key: make(edge) for key, make in changes.items()}) if changes else None

    return change


@pytest.mark.parametrize("program", [DIRECT_AND_INDIRECT, OVERWRITTEN, WRITTEN_VIEW, WRITTEN_BASE_WITHOUT_A_NAME])
def test_judge_takes_what_is_right(program, tmp_path):
    judged(program, tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changing("v", "u", partial=lambda edge: edge.partial + 1e-5), "a block of v is"),
        (changing("v", "u", partial=lambda edge: edge.partial.flip(0)), "a block of v is"),
        (changing("v", "x"), "a block of v is"),
        (changing("v", "x", name=lambda edge: "u"), "v has an input twice"),
        (changing("return", "v", partial=lambda edge: edge.partial[None]), r"∂return/∂v has shape"),
        (changing("v", "u", contribution=lambda edge: edge.contribution * (1 + 1e-6)), "v contributes"),
    ],
    ids=["a little off", "flipped", "no edge", "another name", "another shape", "contribution"],
)
def test_judge_refuses_wrong_edges(change, message, tmp_path):
    with pytest.raises(AssertionError, match=message):
        judged(DIRECT_AND_INDIRECT, tmp_path, change)


@pytest.mark.parametrize(
    "change", [{"agree": False}, {"difference": 1e-8}, {"judged": 2}, {"unjudged": ("u",)}], ids=lambda c: next(iter(c))
)
def test_judge_refuses_wrong_sums(change, tmp_path):
    with pytest.raises(AssertionError):
        judged(DIRECT_AND_INDIRECT, tmp_path, sums=lambda sums: replace(sums, **change))


def test_judge_refuses_a_wrong_block_of_a_write_through_a_view(tmp_path):
    with pytest.raises(AssertionError, match="a block of u#1"):
        judged(WRITTEN_VIEW, tmp_path, changing("u#1", "u#0", partial=lambda edge: edge.partial * 3))


def test_judge_refuses_a_wrong_block_of_a_view_whose_base_has_no_name_any_more(tmp_path):
    with pytest.raises(AssertionError, match="a block of p#1"):
        judged(WRITTEN_BASE_WITHOUT_A_NAME, tmp_path, changing("p#1", "u#0", partial=lambda edge: edge.partial * 3))


def test_judge_refuses_paths_that_do_not_sum_to_the_gradient(tmp_path):
    """A block and its contribution that are wrong together, which the oracle of single steps is not asked about."""
    wrong = changing(
        "return", "v", partial=lambda edge: edge.partial * 2, contribution=lambda edge: edge.contribution * 2
    )
    with pytest.raises(AssertionError, match="its paths sum to"):
        judged(DIRECT_AND_INDIRECT, tmp_path, wrong, against_oracle=False)


def test_what_fails_says_its_program(tmp_path):
    program = "def f(x):\n    return x.sum().nonsense()\n"
    with pytest.raises(KeyError) as caught:
        check_partials(program, tmp_path, Seen())
    assert caught.value.__notes__ == [program]
