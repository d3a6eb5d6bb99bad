"""A list or dict that is joined with another: what is new in it is computed of nothing that it held before."""

import pytest
import torch

import backprobe as bp


def augmented(x, w, v):
    parts = [w * 1]
    parts += [v.detach() * 2]
    return (parts[1] * x).sum()


def added(x, w, v):
    parts = [w * 1]
    parts = parts + [v.detach() * 2]
    return (parts[1] * x).sum()


def starred(x, w, v):
    parts = [w * 1]
    both = [*parts, v.detach() * 2]
    return (both[1] * x).sum()


def of_dicts(x, w, v):
    parts = {"a": w * 1}
    parts = {**parts, "b": v.detach() * 2}
    return (parts["b"] * x).sum()


def updated(x, w, v):
    parts = {"a": w * 1}
    parts |= {"b": v.detach() * 2}
    return (parts["b"] * x).sum()


def of_its_item(x, w, v):
    parts = [w * v]
    parts += [parts[0].detach() * 2]
    return (parts[1] * x).sum()


def explained(program, name):
    args = (torch.ones(2, requires_grad=True) for _ in range(3))
    return bp.explain(bp.probe(program)(*args), name, experiments=False)


@pytest.mark.parametrize("program", [augmented, added, starred, of_dicts, updated])
def test_a_line_that_makes_a_new_item_cuts_off_no_other(program):
    (unused,) = explained(program, "w")
    (cut,) = explained(program, "v")
    assert (unused.kind, cut.kind) == ("unused", "detach")


def test_what_is_computed_of_an_item_is_followed():
    (cut,) = explained(of_its_item, "w")
    assert (cut.kind, cut.chain) == ("detach", ("w", "parts#0.0", "parts#1.1"))
