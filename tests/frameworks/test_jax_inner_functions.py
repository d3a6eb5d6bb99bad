"""Bodies of loops and branches in JAX: what they read from the function around them, and what was not run."""

import jax.numpy as jnp
import pytest
from jax import checkpoint, jit, lax, vmap

import backprobe as bp


def scanned(params, xs):
    w, b = params["w"], params["b"]

    def body(h, x):
        z = jnp.tanh(x * w + h)
        kept = lax.stop_gradient(z) * 1.0
        return kept, kept

    _, ys = lax.scan(body, jnp.zeros(3), xs)
    return ys.sum() + (b**2).sum()


def mapped(params, xs):
    w, b = params["w"], params["b"]

    def body(x):
        z = x * w
        return lax.stop_gradient(z)

    return vmap(body)(xs).sum() + (b**2).sum()


def checkpointed(params, xs):
    w, b = params["w"], params["b"]

    def body(x):
        z = x * w
        return lax.stop_gradient(z)

    return checkpoint(body)(xs).sum() + (b**2).sum()


def compiled(params, xs):
    w, b = params["w"], params["b"]

    @jit
    def body(x):
        z = x * w
        return lax.stop_gradient(z)

    return body(xs).sum() + (b**2).sum()


def parameters(*names):
    return {name: jnp.ones(3) for name in names}


@pytest.mark.parametrize("program", [scanned, mapped, checkpointed, compiled])
def test_a_cut_in_a_body_is_that_of_a_parameter_that_the_body_reads(program):
    report = bp.explain(bp.probe(program)(parameters("w", "b"), jnp.ones((4, 3))))
    (found,) = [one for one in report.findings if "stop_gradient" in one.headline]
    assert "params.w" in str(found)
    assert "computed from 'params.w'" not in str(report)
    assert "leads from 'params.w'" not in str(report)


def test_why_a_body_value_has_no_gradient_is_known_when_the_loop_has_run():
    rec = bp.probe(scanned)(parameters("w", "b"), jnp.ones((4, 3)))
    assert rec["/body:kept"].status == "detached"
    assert "computed from differentiated values" in rec["/body:kept"].reason


@pytest.mark.parametrize("branch", ["cond", "switch"])
def test_a_parameter_of_a_branch_that_was_not_taken(branch):
    def program(params, x):
        b, c = params["b"], params["c"]
        if branch == "cond":
            return lax.cond(x.sum() > 0, lambda h: h * b, lambda h: h * c, x).sum()
        return lax.switch(0, [lambda h: h * b, lambda h: h * c], x).sum()

    report = bp.explain(bp.probe(program)(parameters("b", "c"), jnp.ones(3)))
    (found,) = report.findings
    assert found.kind == "not_taken"
    assert "'params.c'" in found.headline
