"""What is not seen of a program in JAX is said to be unseen: it is not denied."""

import jax
import jax.numpy as jnp
import pytest

import backprobe as bp
from commands import invoked

P = {"w": jnp.array([0.5, 1.5]), "b": jnp.array([0.1, 0.2])}
X = jnp.array([1.0, 2.0])
DERIVED = """\
import jax, jax.numpy as jnp

def f(p):
    return jnp.sum(jnp.tanh(p))

p = jnp.ones(2)
{}
"""


def scanned(p, x):
    def body(c, t):
        h = jax.lax.stop_gradient(t * p["w"])
        return c + h + p["b"], None

    return jax.lax.scan(body, x, jnp.ones((3, 2)))[0].sum()


def looped(p, x):
    def body(i, c):
        h = jnp.round(c * p["w"])
        return h + p["b"]

    return jax.lax.fori_loop(0, 3, body, x).sum()


def mapped(p, x):
    def one(t):
        k = (t * p["w"]).astype(jnp.int32)
        return (k + p["b"]).sum()

    return jax.vmap(one)(jnp.ones((3, 2))).sum()


def in_another_branch(p, x):
    return jax.lax.cond(x[0] > 0, lambda y: y * p["b"], lambda y: y * p["w"], x).sum()


@pytest.mark.parametrize("program", [scanned, looped, mapped, in_another_branch])
def test_a_parameter_that_an_inner_function_uses_is_not_said_to_be_used_nowhere(program):
    report = str(bp.explain(bp.probe(program)(P, X)))
    assert "p.w" in report
    assert "computed from 'p.w'" not in report


@pytest.mark.parametrize(
    ("line", "call", "why"),
    [
        ("loss, push = jax.linearize(f, p); change = push(p)", "jax.linearize(f, p)", "forward"),
        ("loss, change = jax.jvp(f, (p,), (p,))", "jax.jvp(f, (p,), (p,))", "forward"),
        ("change = jax.jacfwd(f)(p)", "jax.jacfwd(f)(p)", "forward"),
    ],
)
def test_a_script_that_differentiates_in_another_way_is_told_which_call_is_not_seen(
    line, call, why, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(DERIVED.format(line))
    text = "".join(invoked("explain", "train.py")[1:])
    assert "took no gradient" not in text
    assert "was seen in train.py" in text and call in text and why in text
    assert "rec = bp.probe(f" in text and ")(p) in the script, and bp.explain(rec)" in text
