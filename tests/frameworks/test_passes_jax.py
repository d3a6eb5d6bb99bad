"""Derivatives that scripts of JAX take in other ways than with ``jax.grad``: seen, or named with what to write."""

import sys

import pytest

import backprobe as bp
from backprobe.source.derivative_calls import derivative_calls
from commands import invoked, printed

HEAD = """\
import jax
import jax.numpy as jnp

def f(x, w, b):
    u = x * w
    v = u + b
    a = jax.nn.relu(v)
    return a

def cut(x, w, b):
    u = jax.lax.stop_gradient(x * w)
    return u + b

def rows(x):
    u = jnp.sin(x)
    return u * u

def both(x):
    u = jnp.sin(x)
    return {"one": u, "two": (u * u).sum()}

"""


@pytest.fixture
def explain(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)

    def run(text, *words):
        (tmp_path / "train.py").write_text(HEAD + text)
        status, out, err = invoked("explain", *words, "train.py")
        return status, out + err

    return run


SEEN = {
    "y, back = jax.vjp(f, 3.0, 2.0, 1.0)\nprint(y, back(2.0))": "all 3 parameters got a gradient",
    "y, back = jax.vjp(lambda w: f(3.0, w, 1.0), 2.0)\nprint(back(1.0))": "the only parameter got a gradient",
    "y, back = jax.vjp(rows, jnp.ones(3))\nprint(back(jnp.arange(3.0)))": "the only parameter got a gradient",
    "y, back = jax.vjp(both, jnp.ones(3))\nprint(back({'one': jnp.ones(3), 'two': 2.0}))": "the only parameter got a gradient",  # noqa: E501
    "y, back, aux = jax.vjp(lambda x: (rows(x), x), jnp.ones(3), has_aux=True)\nprint(back(jnp.ones(3)))": "the only parameter got a gradient",  # noqa: E501
    "print(jax.jacrev(rows)(jnp.ones(3)))": "the only parameter got a gradient",
    "print(jax.jacrev(f, argnums=(0, 1))(3.0, 2.0, 1.0))": "all 2 parameters got a gradient",
    "print(jax.jacrev(both)(jnp.ones(3)))": "the only parameter got a gradient",
    "print(jax.hessian(lambda x: rows(x).sum())(jnp.ones(2)))": "the only parameter got a gradient",
    "print(jax.grad(f)(3.0, 2.0, 1.0), jax.value_and_grad(f, argnums=2)(3.0, 2.0, 1.0))": "the only parameter got a gradient",  # noqa: E501
    "print(jax.grad(jax.grad(lambda x: rows(x)))(2.0))": "the only parameter got a gradient",
    "print(jax.grad(lambda w, x: (f(x, w, 1.0), w), has_aux=True)(2.0, 3.0))": "the only parameter got a gradient",
}


@pytest.mark.parametrize("program", SEEN)
def test_derivatives_that_are_seen(program, explain, capfd):
    status, out = explain(program + "\n")
    assert status == 0, out
    assert SEEN[program] in out.splitlines()


@pytest.mark.parametrize("program", [*SEEN][:9])
def test_a_script_prints_what_it_prints_alone(program, explain, tmp_path, capsys):
    exec(compile(HEAD + program, str(tmp_path / "alone.py"), "exec"), {})
    alone = capsys.readouterr().out
    assert explain(program + "\n")[1].startswith(alone)


@pytest.mark.parametrize(
    "call", ["y, back = jax.vjp(cut, 3.0, 2.0, 1.0); back(1.0)", "jax.jacrev(cut, argnums=(0, 1, 2))(3.0, 2.0, 1.0)"]
)
def test_a_cut_is_found_in_them(call, explain):
    status, out = explain(call + "\n")
    assert status == 1, out
    assert "2 of 3 parameters got no gradient" in out
    assert "`jax.lax.stop_gradient(x * w)`" in out and "train.py:11" in out


def test_nan_that_a_pullback_brings_is_explained(explain):
    program = "y, back = jax.vjp(lambda x: jnp.sqrt(x * 0), 1.0); back(1.0)\n"
    status, out = explain(program, "--nonfinite")
    assert status == 1, out
    assert "the derivative of sqrt is infinite at 0" in out


def test_the_cotangent_is_that_of_the_program(monkeypatch):
    from backprobe.backends.discover import load_backend
    from backprobe.backends.guards import GuardListener

    jax = pytest.importorskip("jax")
    seen = []
    backend = load_backend("jax")

    def came(asked, bad, is_value):
        args, kwargs = asked.arguments()
        seen.append(bp.probe(asked.function, of=asked.of, cotangent=asked.cotangent)(*args, **kwargs))

    def program(x):
        u = jax.numpy.sin(x)
        return u * 2

    x = jax.numpy.arange(3.0)
    with backend.guards.functions(GuardListener(lambda name: True, gradient=came, every=True)):
        y, back = jax.vjp(program, x)
        (given,) = back(jax.numpy.array([1.0, 10.0, 100.0]))
        assert jax.tree.structure(back) is not None  # the program has JAX's own
    (rec,) = seen
    assert rec["x"].grad.tolist() == given.tolist()
    assert rec["return"].grad.tolist() == [1, 10, 100]


UNSEEN = {
    "jax.jvp(rows, (2.0,), (1.0,))": "backprobe explain train.py:rows x=2.0",
    "jax.linearize(rows, 2.0)": "backprobe explain train.py:rows x=2.0",
    "jax.jacfwd(rows)(jnp.ones(2))": "rec = bp.probe(rows, of=lambda out: out.sum())(jnp.ones(2)) in the script, and",
}


@pytest.mark.parametrize("call", UNSEEN)
def test_derivatives_that_are_not_seen_are_named(call, explain):
    _, out = explain(f"print({call})\n")
    assert "no gradient of PyTorch, TensorFlow or JAX was seen in train.py" in out
    assert f"line 22: {call}" in out
    assert UNSEEN[call] in out


def test_what_to_type_can_be_typed(explain, tmp_path):
    explain("print(jax.jvp(rows, (2.0,), (1.0,)))\n")
    printed(invoked("explain", "train.py:rows", "x=2.0"))


def test_a_block_names_the_call_and_the_probe_of_its_function(tmp_path):
    text = (
        HEAD + "import backprobe as bp\nwith bp.probe() as rec:\n    g = jax.grad(f, argnums=(0, 1))(3.0, 2.0, 1.0)\n"
    )
    (tmp_path / "block.py").write_text(text)
    names = {}
    with pytest.raises(bp.Unsupported) as caught:
        exec(compile(text, str(tmp_path / "block.py"), "exec"), names)
    assert str(caught.value) == (
        "a block cannot be probed in JAX\n"
        "  asked: with bp.probe() as rec:\n"
        "  found: line 24: jax.grad(f, argnums=(0, 1))(3.0, 2.0, 1.0)\n"
        "  why:   in JAX a gradient belongs to a function, with respect to its arguments; no tensor requires one by "
        "itself\n"
        "  next:  rec = bp.probe(f)(3.0, 2.0, 1.0)"
    )
    exec(caught.value.next, names)
    assert float(names["rec"]["u"].grad) == 1


def test_calls_are_read_from_the_text():
    import ast

    tree = ast.parse("from jax import vjp\nimport jax\nvjp(f, 1.0)\njax.grad(g)(x)\nother.grad(g)(x)\n")
    found = derivative_calls([tree], "jax", {"grad", "vjp"})
    assert [(one.line, one.name, one.probed) for one in found] == [
        (3, "jax.vjp", "bp.probe(f)(1.0)"),
        (4, "jax.grad", "bp.probe(g)(x)"),
    ]
