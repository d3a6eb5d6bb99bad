"""Scripts of JAX that fail only where they are compiled, or only where they are not: ``explain`` says so."""

import pytest

from commands import in_folder, invoked

HEAD = """\
import jax, jax.numpy as jnp
w, x = jnp.array([0.5, -0.3]), jnp.array([[1.0, 2.0], [3.0, -1.0]])
def loss_of(w): return jnp.mean((x @ w - 1.0) ** 2)
"""
KEPT = """\
kept = []
@jax.jit
def step(w):
    kept.append(w.sum())
    return w - 0.1 * jax.grad(loss_of)(w)
def train(w, turns):
    for turn in range(turns):
        w = step(w)
        {use}
    return w
train(w, 3)
"""
FAILS = "jax.grad(loss_of)(w)\n@jax.jit\ndef step(w): return {}\nw = step(w)\njax.grad(loss_of)(w)\n"
COMPILED = "the script raises this only where JAX compiles its functions: run again without compiling, it did not"
UNCOMPILED = "raised only without compiling, as scripts are observed: run again compiled, the script came to its end"


@pytest.fixture
def explained(tmp_path, monkeypatch):
    def explain(text, *options):
        with in_folder(tmp_path, monkeypatch, {"train.py": HEAD + text}):
            return invoked("explain", *options, "train.py")

    return explain


def test_an_error_of_compiled_code_alone_is_shown_within_a_function(explained):
    code, out, err = explained(KEPT.format(use="total = kept[-1] + 1.0"))
    assert code == 3 and "UnexpectedTracerError" in err and COMPILED in err and "total = kept[-1] + 1.0" in err
    assert "got a gradient" not in out


@pytest.mark.parametrize("use", ["len(kept)", "with open('log.txt', 'a') as log: log.write('x')"])
def test_what_runs_compiled_or_has_effects_is_healthy(explained, use, tmp_path):
    code, out, err = explained(KEPT.format(use=use))
    assert (code, err) == (0, "") and "the only parameter got a gradient" in out
    assert "log.txt" not in use or (tmp_path / "log.txt").read_text() == "x"  # the first of two turns has written


def test_without_experiments_it_is_not_run_again(explained):
    code, out, err = explained(KEPT.format(use="total = kept[-1] + 1.0"), "--no-experiments")
    assert (code, err) == (0, "")


def test_an_error_that_comes_only_uncompiled_says_so(explained):
    code, out, err = explained(FAILS.format("w + 1 / isinstance(w, jax.core.Tracer)"))
    assert code == 3 and "ZeroDivisionError" in err and UNCOMPILED in err


def test_an_error_that_comes_in_both_says_nothing_of_it(explained):
    code, out, err = explained(FAILS.format("w + 1 / 0"))
    assert code == 3 and "ZeroDivisionError" in err and "compiling" not in err and "compiles" not in err
