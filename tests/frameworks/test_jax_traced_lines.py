"""Lines in JAX that cannot be traced, or not gone back through: its own error names them, and `explain` of a script."""

import math
from traceback import extract_tb

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import backprobe as bp
from commands import invoked, printed

X = jnp.array([1.0, 2.0])


def open_while(x):
    h = x * 2
    r = lax.while_loop(lambda c: c < 10, lambda c: c * 2 + x[0], h[1])  # here
    return r * 2


def numpy_in_jit(x):
    @jax.jit
    def inner(t):
        u = t * 2
        return np.sin(u)  # here

    return inner(x).sum()


def branch_in_scan(x):
    def step(c, t):
        if c > 0:  # here
            c = c * 2
        return c + t, None

    return lax.scan(step, x[0], x)[0]


def python_number(x):
    h = jnp.sum(x * 2)
    return jnp.asarray(float(h)) * 2  # here


def numpy_array(x):
    h = x * 2
    return jnp.sum(jnp.asarray(np.asarray(h)))  # here


def of_math(x):
    h = jnp.sum(x * 2)
    root = math.sqrt(h)  # here
    return root * h


def value_left_in_a_list(x):
    kept = []

    def step(c, t):
        kept.append(c * t)
        return c + t, None

    total, _ = lax.scan(step, x[0], x)
    return total + sum(kept)  # here


def vector(x):
    return jnp.sum(jax.grad(lambda w: w**2)(x))  # here


def given_by_keyword(x):
    return jnp.sum(jax.grad(lambda w, y: jnp.sum(w * y), argnums=1)(x, y=x))  # here


def other_sizes(x):
    return jnp.sum(jax.vmap(lambda a, b: a * b)(x, jnp.ones(4)))  # here


PROGRAMS = (
    open_while,
    numpy_in_jit,
    branch_in_scan,
    python_number,
    numpy_array,
    of_math,
    value_left_in_a_list,
    vector,
    given_by_keyword,
    other_sizes,
)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_an_error_of_jax_says_what_it_says_without_a_probe(program):
    with pytest.raises(Exception) as plain:  # noqa: PT011  each of these is another error of JAX's
        jax.grad(program)(X)
    with pytest.raises(type(plain.value)) as probed:
        bp.probe(program)(X)
    assert said(probed.value) == said(plain.value)
    ours = [note for note in probed.value.__notes__ if note.startswith("backprobe: ")]
    doing = "differentiating" if program is open_while else "running"
    assert len(ours) == 1 and ours[0].startswith(f"backprobe: raised while {doing} {program.__name__} under a probe")
    assert any(place.filename == __file__ and place.line.endswith("# here") for place in places(probed.value))


def said(error):
    return str(error).partition("\n")[0]


def places(error):
    """The lines of an error, and of the one that JAX adds to say where an operation was traced."""
    return [place for one in (error, error.__cause__) if one is not None for place in extract_tb(one.__traceback__)]


BRANCH = "@jax.jit\ndef loss(w):\n    h = (w * 2).sum()\n    if h > 0:\n        return h**2\n    return h\n"
LOOPS = {
    "in the function": "return lax.while_loop(lambda c: c.sum() < 10.0, lambda c: c * 2, w).sum()",
    "of a minimizer": "return minimize(lambda x: ((x - w) ** 2).sum(), w, method='BFGS').x.sum()",
}


@pytest.fixture
def explained(tmp_path, monkeypatch):
    def explain(text):
        (tmp_path / "train.py").write_text(
            f"import jax, jax.numpy as jnp\nfrom jax import lax\n\n{text}\n\nprint(jax.grad(loss)(jnp.ones(2)))\n"
        )
        monkeypatch.chdir(tmp_path)
        return invoked("explain", "train.py")

    return explain


def test_a_script_that_runs_uncompiled_alone(explained):
    out = printed(explained(BRANCH), 1)
    assert "where JAX traces this line, it raises TracerBoolConversionError" in out
    assert "if h > 0:" in out.split("line:")[1].split("seen:")[0]


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_a_loop_without_a_reverse_mode_fails_with_the_error_of_jax(loop, explained):
    code, out, err = explained(f"from jax.scipy.optimize import minimize\n\ndef loss(w):\n    {loop}\n")
    assert (code, out) == (3, "") and "Reverse-mode differentiation does not work for lax.while_loop" in err
    assert loop in err and "compil" not in err


def test_an_error_that_does_not_come_from_tracing_is_not_said_to(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text(
        "import jax, jax.numpy as jnp\n\nsteps = iter([2.0])\n\ndef loss(w):\n    return (w * next(steps)).sum()\n\n"
        "print(jax.grad(loss)(jnp.ones(2)))\n"
    )
    monkeypatch.chdir(tmp_path)
    _, out, err = invoked("explain", "train.py")
    assert "could not be taken again: StopIteration" in out and "traces this line" not in out + err
