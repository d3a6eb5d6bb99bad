"""Random programs as models: what a journal of a program says is what is said where none is kept."""

import sys

import pytest
import torch
from torch import nn

import backprobe as bp
from block_cases import course, traces
from random_programs.compare import load, plain_output
from random_programs.drawn import check_many
from random_programs.interpreter import ARGUMENTS
from random_programs.statements import generate
from same_records import differences
from sampled import count, drawn

STEPS = 4


class Runs(nn.Module):
    """A model whose forward is a program, with a module before and after."""

    def __init__(self, function, arguments):
        super().__init__()
        self.function, self.last = function, nn.Identity()
        self.names = [f"given_{at}" for at in range(len(arguments))]
        for name, one in zip(self.names, arguments, strict=True):
            self.register_parameter(name, nn.Parameter(one.clone()))

    def forward(self):
        given = [getattr(self, name) * 1.0 for name in self.names]
        returned = self.function(*given)
        return self.last(returned)


def said(rec, other):
    """In what two recordings differ. Backward may take another way from a view that is written: PyTorch makes the
    nodes of such a view anew when somebody first asks for them, and they are the newest then.
    """
    return [line for line in differences(rec, other) if not line.startswith("backward[")]


def steps(model, journals, monkeypatch):
    """The recordings of several steps, with journals as the switch says."""
    monkeypatch.setattr(traces, "JOURNALS", journals)
    found = []
    for _ in range(STEPS):
        with bp.probe(model, ["**", "**:*"]) as rec:
            model().sum().backward()
        found.append(rec)
    return found


@drawn
@pytest.mark.parametrize("compared", [False, True], ids=["followed", "read"])
def test_random_programs_say_the_same_with_a_journal(tmp_path, monkeypatch, compared):
    """Where a segment is followed, and where it is read and compared with what would be followed."""
    monkeypatch.delitem(sys.modules, "torch.distributed.pipelining.stage", raising=False)
    run, segments = [], []

    def compare(known, made):
        segments.append(known)
        assert not course.differences(known, made), course.differences(known, made)

    if compared:
        monkeypatch.setattr(course, "compare", compare)

    def check(program):
        run.append(program)
        function = load(program, tmp_path / f"program_{len(run)}.py")
        given = [torch.tensor(v, dtype=torch.float64) for v in ARGUMENTS[: function.__code__.co_argcount]]
        if plain_output(function, given) is None:
            return False
        alone, *_ = steps(Runs(function, given), "", monkeypatch)
        for at, rec in enumerate(steps(Runs(function, given), "all", monkeypatch)):
            found = said(rec, alone)
            assert not found, f"step {at} of\n{program}\n" + "\n".join(map(str, found))
        return True

    check_many(generate, check, count(120))
    assert bool(segments) == compared
