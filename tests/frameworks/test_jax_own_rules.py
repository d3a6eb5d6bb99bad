"""Functions with a derivative rule of the program's own: what it gives is said, with the line that has it."""

import inspect

import jax
import jax.numpy as jnp
import pytest

import backprobe as bp

P, X = {"w": jnp.array([0.5, 1.5]), "b": jnp.array([0.1, 0.2])}, jnp.array([1.0, 2.0])


@jax.custom_vjp
def hard(x):
    return jnp.where(x > 0, 1.0, 0.0)


def nothing(kept, gradient):
    return (jnp.zeros_like(gradient),)


hard.defvjp(lambda x: (hard(x), None), nothing)


@jax.custom_jvp
def clipped(x):
    return jnp.clip(x, -1, 1)


@clipped.defjvp
def flat(primals, tangents):
    return clipped(primals[0]), 0.0 * tangents[0]


@jax.custom_vjp
def root(x):
    return jnp.sqrt(x)


def halved(kept, gradient):
    return (gradient / (2 * kept),)


root.defvjp(lambda x: (jnp.sqrt(x), jnp.sqrt(x)), halved)


def with_vjp(p, x):
    h = x * p["w"]
    q = hard(h)
    return (q * p["b"]).sum()


def with_jvp(p, x):
    h = x * p["w"]
    q = clipped(h)
    return (q * p["b"]).sum()


def line(function):
    return f"test_jax_own_rules.py:{inspect.getsourcelines(function)[1]}"


@pytest.mark.parametrize(("program", "name", "rule"), [(with_vjp, "hard", nothing), (with_jvp, "clipped", flat)])
def test_a_rule_that_gives_zero(program, name, rule):
    rec = bp.probe(program)(P, X)
    said = f"the derivative of {name} is a rule of the program's own, {rule.__name__}"
    report = bp.explain(rec, experiments=False)
    (note,) = [note for note in report.notes if said in note]
    assert report.ok and line(rule) in note and f"q = {name}(h)" in note
    (found,) = bp.explain(rec, "p.w").findings
    assert found.kind == "zero_derivative" and any(said in fact for fact in found.facts)
    assert "what that rule returns" in found.remedy


def test_a_rule_that_gives_zero_wherever_it_is_asked_is_a_finding():
    (found,) = bp.explain(bp.probe(with_jvp)(P, X))
    assert "the gradient of 'p.w' is 0 at 4 other points as well, and the output changes" in found.tried


def test_a_rule_that_gives_inf():
    rec = bp.probe(lambda x: root(x).sum(), nonfinite=True)(jnp.array([0.0, 1.0]))
    (found,) = bp.explain(rec).of_kind("born_backward")
    assert any("a rule of the program's own, halved" in fact and line(halved) in fact for fact in found.facts)


def test_a_rule_that_gives_a_gradient_is_no_remark():
    def program(p, x):
        return (root(p["w"]) * x * p["b"]).sum()

    report = bp.explain(bp.probe(program)(P, X))
    assert report.ok and not report.notes
