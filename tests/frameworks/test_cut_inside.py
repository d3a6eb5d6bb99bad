"""Cuts inside of what a line calls: the remedy can be followed, also where a library is what is called."""

import jax
import jax.numpy as jnp
import pytest
import torch
from torch.autograd.functional import jacobian

import backprobe as bp

OWN = "by itself records its lines"


def jacobian_of_torch(x, w):
    u = x * w
    j = torch.autograd.functional.jacobian(lambda v: v**2, u)
    return (j.sum() * w).sum()


def scan_of_jax(p, xs):
    def cell(h, x):
        h = jnp.tanh(p * h + x)
        return jax.lax.stop_gradient(h), h

    h, hs = jax.lax.scan(cell, jnp.zeros(()), xs)
    return jnp.sum(h) + p


def jacobian_by_its_name(x, w):
    u = x * w
    j = jacobian(lambda v: v**2, u)
    return (j.sum() * w).sum()


PROGRAMS = {
    jacobian_by_its_name: (lambda: (torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])), "u"),
    jacobian_of_torch: (lambda: (torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])), "u"),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_nobody_is_sent_to_probe_a_function_of_a_library(program):
    arguments, name = PROGRAMS[program]
    rec = bp.probe(program)(*arguments())
    found = bp.explain(rec, name).of_kind("inside")[0]
    assert OWN not in found.remedy
    assert "in a library" in found.remedy
    assert OWN not in str(bp.explain(rec))


def test_the_lines_of_a_function_that_a_library_calls_are_there_already():
    rec = bp.probe(scan_of_jax)(jnp.array(0.5), jnp.arange(4.0))
    found = bp.explain(rec, "xs").of_kind("inside")[0]
    assert found.remedy.startswith("the lines of cell are recorded, under /cell")
    cut = "`jax.lax.stop_gradient(h)` cuts '/cell:return.0' off from '/cell:h#1'"
    assert [one.headline for one in bp.explain(rec)] == [cut]
    assert OWN not in str(bp.explain(rec))


def test_a_function_of_the_program_can_be_probed_by_itself():
    def outer(x, w):
        u = x * w
        v = hidden(u)
        return (v * w).sum()

    namespace = {"torch": torch}
    exec("def hidden(u):\n    return torch.ones(2) * u.sum().item()", namespace)  # without a source: not followed
    hidden = namespace["hidden"]
    rec = bp.probe(outer)(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    assert "look inside: bp.probe(hidden)(...)" in bp.explain(rec, "u").findings[0].remedy
