"""What a program gives to functions of libraries, in tuples and through what compiles them, and gets no gradient of."""

import importlib
import sys

import jax
import jax.numpy as jnp
import pytest
import torch
from jax.sharding import AxisType, PartitionSpec

import backprobe as bp

LIBRARY = """
import dataclasses
import equinox as eqx
import jax

@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Solution:
    value: object
    count: object
    aux: object = None

def density(function, args, values):
    return function(*args, **values), {"x": {"scale": None, "is_observed": False}}

def solve(function, start, args):
    for _ in range(3):
        start = start - function(start, args)
    return Solution(start, 3)

@eqx.filter_jit
def compiled(function, start):
    return function(start) * 2
"""


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A module of an installed package, whose lines are not recorded."""
    folder = tmp_path / "site-packages" / "handed"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(folder.parent)
    yield importlib.import_module("handed")
    del sys.modules["handed"]


def only(rec):
    report = bp.explain(rec, experiments=False)
    (found,) = report.findings
    return found


def test_one_of_several_results_does_not_lead_back_to_what_a_tuple_holds(library):
    def model(x, y, slope):
        return ((y - jax.lax.stop_gradient(x)) ** 2).sum() + slope**2

    def program(slope, x):
        joint, trace = library.density(model, (x, jnp.ones(2)), {"slope": slope})
        return -joint

    found = only(bp.probe(program)(jnp.array(0.5), jnp.array([1.0, 2.0])))
    assert (found.kind, found.name, found.source.text.split()[0]) == ("inside", "joint", "joint,")
    assert found.fields["value"] == "'x'" and "'_" not in str(found)


def test_the_count_beside_a_solution_is_not_what_leads_nowhere(library):
    def program(start, rate):
        solution = library.solve(lambda y, args: y - args[0] - jax.lax.stop_gradient(args[1]), start, (start, rate))
        end = solution.value
        return end.sum()

    found = only(bp.probe(program)(jnp.array([0.5, -1.0]), jnp.array(0.1)))
    assert (found.kind, found.name, found.fields["value"]) == ("inside", "solution.value", "'rate'")


def test_of_several_results_of_which_one_leads_back_nothing_is_said(library):
    def program(a, b):
        both = library.density(lambda a, b: (a * 2, b * 3), (a, b), {})[0]
        first, second = both
        return first

    report = bp.explain(bp.probe(program)(jnp.array(1.0), jnp.array(2.0)), experiments=False)
    assert not [one for one in report if one.kind == "inside"], str(report)


def test_a_tuple_in_pytorch(library):
    def stopped(x, slope):
        return x.detach().sum() * slope

    def program(slope, x):
        joint, trace = library.density(stopped, (x,), {"slope": slope})
        return joint

    found = only(bp.probe(program)(torch.tensor(2.0), torch.ones(3)))
    assert (found.kind, found.name, found.fields["value"]) == ("inside", "joint", "'x'")


def test_a_function_that_compiled_code_of_a_library_is_given_has_a_note(library):
    def square(x):
        inner = x * x
        return inner

    rec = bp.probe(lambda x: library.compiled(square, x).sum())(jnp.array([1.0, 2.0]))
    (note,) = [str(one) for one in rec.notes if "square" in str(one)]
    assert note.endswith("square, and was not followed: what is computed there has no names")


def test_what_is_lost_inside_of_shard_map_is_lost_at_its_call():
    mesh = jax.make_mesh((1,), ("i",), axis_types=(AxisType.Auto,))

    def local(w, x):
        return jax.lax.pmean((jax.lax.stop_gradient(w) * x).mean(), "i")

    def program(w, x):
        mapped = jax.shard_map(
            local, mesh=mesh, in_specs=(PartitionSpec(), PartitionSpec("i")), out_specs=PartitionSpec()
        )
        out = mapped(w, x)
        return out * 2

    found = only(bp.probe(program)(jnp.array(2.0), jnp.arange(4.0)))
    assert (found.kind, found.name, found.fields["value"]) == ("inside", "out", "'w'")
    assert found.remedy.startswith("no value of local can be seen inside of that transformation")


def test_a_comment_writes_no_nan(library):
    def root(x):
        return jnp.sqrt(x - 3.0).sum()

    def program(x):
        joint, trace = library.density(root, (x,), {})  # nan where x is small
        return joint

    report = bp.explain(bp.probe(program, nonfinite=True)(jnp.array([0.5, 1.0])))
    assert "why" not in report.findings[0].fields, str(report)
    assert "in `return jnp.sqrt(x - 3.0).sum()`" in str(report)
