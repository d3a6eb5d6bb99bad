"""Gradients of JAX that are there and useless: found in small faulty trainings, and never in healthy ones."""

import contextlib
import re
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import backprobe as bp
from commands import in_folder, invoked
from sampled import every, without
from trainings.jax._texts import HEAD, HEALTHY

FAULTY = {
    "clipped scale": ("clip is flat there: the gradient of 'p.s'", '''
        def f(p, x, y):
            s = jnp.clip(p["s"], -3.0, 2.0)  # <-
            return (((run(p["m"], x) - y) / jnp.exp(s)) ** 2 + s).mean()
        train(f, {"m": layers(k[0], 4, 1), "s": jnp.array(5.0)}, numbers)
        '''),
    "dead gate": ("relu is flat there: the gradient of 'p.g' is", '''
        def f(p, x, y):
            gate = jax.nn.relu(x @ p["g"] - 100.0)  # <-
            return ((run(p["m"], x) + gate - y) ** 2).mean()
        train(f, {"m": layers(k[0], 4, 1), "g": N(k[1], (4, 1))}, numbers)
        '''),
    "advantages of one sample": ("'adv#1' is 0 everywhere: the gradient of 'p.pi'", '''
        def f(p, x, a):
            lp = jax.nn.log_softmax(x @ p["pi"])
            adv = x[:, :1] - x[:, :1].mean(axis=-1, keepdims=True)
            adv = adv[:, 0]
            loss = -(jnp.take_along_axis(lp, a[:, None], axis=1)[:, 0] * adv).mean()  # <-
            return loss + ((x @ p["v"] - 1) ** 2).mean()
        train(f, {"pi": N(k[0], (4, 3)), "v": N(k[1], (4, 1))}, classes)
        '''),
    "mask without a sample": ("'valid' is 0 everywhere: the gradient of 'p.aux'", '''
        def f(p, x, y, valid):
            other = jnp.where(valid, (x @ p["aux"] - y) ** 2, 0.0)  # <-
            return ((x @ p["w"] - y) ** 2).mean() + other.sum()
        train(f, {"w": N(k[0], (4, 1)), "aux": N(k[1], (4, 1))}, lambda i: (*numbers(i), jnp.zeros((16, 1), bool)))
        '''),
    "gate over one group": ("all ways from p.gate into the loss cancel", '''
        def f(p, x, y):
            gate = jnp.exp(x @ p["gate"])
            gate = gate / gate.sum(axis=1, keepdims=True)  # <-
            return ((run(p["m"], x) * gate - y) ** 2).mean()
        train(f, {"m": layers(k[0], 4, 8, 1), "gate": N(k[1], (4, 1))}, numbers)
        '''),
    "columns less rows": (r"broadcasts \[16, 1\] and \[16\] to \[16, 16\]", '''
        def f(p, x, y):
            error = run(p, x) - y[:, 0]  # <-
            return (error ** 2).mean()
        train(f, layers(k[0], 4, 8, 1), numbers)
        '''),
    "rows less columns": (r"broadcasts \[16\] and \[16, 1\] to \[16, 16\]", '''
        def f(p, x, y):
            return jnp.abs(run(p, x)[:, 0] - y).mean()  # <-
        train(f, layers(k[0], 4, 8, 1), numbers)
        '''),
    "where of both": (r"\[16, 16\]", '''
        def f(p, x, y):
            return jnp.where(y[:, 0] > 0, run(p, x), y[:, 0]).mean()  # <-
        train(f, layers(k[0], 4, 8, 1), numbers)
        '''),
    "cross entropy of probabilities": ("logsumexp is applied to what softmax has made", '''
        def f(p, x, y):
            q = jax.nn.softmax(run(p, x))
            return optax.softmax_cross_entropy_with_integer_labels(q, y).mean()  # <-
        train(f, layers(k[0], 4, 8, 3), classes)
        '''),
    "one hot cross entropy of probabilities": ("softmax has made", '''
        def f(p, x, y):
            q = jax.vmap(lambda one: jax.nn.softmax(run(p, one)))(x)
            return optax.softmax_cross_entropy(q, jax.nn.one_hot(y, 3)).mean()  # <-
        train(f, layers(k[0], 4, 8, 3), classes)
        '''),
    "softmax of normalised numbers": ("(log-softmax|logsumexp) is applied", '''
        def f(p, x, y):
            q = jnp.exp(run(p, x))
            q = q / q.sum(-1, keepdims=True)
            return -(jax.nn.one_hot(y, 3) * jax.nn.log_softmax(q)).sum(-1).mean()  # <-
        train(f, layers(k[0], 4, 8, 3), classes)
        '''),
    "softmax twice from equal numbers on": ("is applied to what softmax has made", '''
        def f(p, x, y):
            q = jax.nn.softmax(run(p, x))
            return optax.softmax_cross_entropy_with_integer_labels(q, y).mean()  # <-
        p = layers(k[0], 4, 8, 3)
        p[-1]["w"] = jnp.zeros((8, 3))
        def train_fast(f, p, batch):
            for i in range(3):
                g = jax.grad(f)(p, *batch(i))
                p = jax.tree.map(lambda a, b: a - 10 * b, p, g)
        train_fast(f, p, classes)
        '''),
    "scores picked by an index": ("is taken of what are no log-probabilities", '''
        def f(p, x, y):
            return -run(p, x)[jnp.arange(16), y].mean()  # <-
        train(f, layers(k[0], 4, 8, 3), classes)
        '''),
    "scores picked along an axis": ("is taken of what are no log-probabilities", '''
        def f(p, x, y):
            picked = jnp.take_along_axis(run(p, x), y[:, None], axis=1)  # <-
            return -jnp.sum(picked) / 16
        train(f, layers(k[0], 4, 8, 3), classes)
        '''),
    "scores times rows": ("is taken of what are no log-probabilities", '''
        def f(p, x, y):
            each = -(jax.nn.one_hot(y, 3) * run(p, x)).sum(-1)  # <-
            return each.mean()
        train(f, layers(k[0], 4, 8, 3), classes)
        '''),
    "scores picked under vmap": ("is taken of what are no log-probabilities", '''
        def f(p, x, y):
            each = jax.vmap(lambda one, at: -run(p, one)[at])(x, y)  # <-
            return each.mean()
        train(f, layers(k[0], 4, 8, 3), classes)
        '''),
    "steps of optax in 16 bits": ("updates of p.0.b, p.0.w are below the rounding of bfloat16", '''
        def f(p, x, y):
            return ((run(p, x.astype(jnp.bfloat16)) - y.astype(jnp.bfloat16)) ** 2).mean()
        p = jax.tree.map(lambda one: one.astype(jnp.bfloat16) + 1, layers(k[0], 4, 1))
        tx = optax.adamw(1e-5)
        state = tx.init(p)
        for i in range(4):
            updates, state = tx.update(jax.grad(f)(p, *numbers(i)), state, p)
            p = optax.apply_updates(p, updates)  # <-
        '''),
    "steps by hand within a function": ("updates of p.m.0.b, p.m.0.w are below the rounding of float32", '''
        def f(p, x, y):
            return ((run(p["m"], x) - y) ** 2).mean()

        @jax.jit
        def step(p, x, y):
            g = jax.grad(f)(p, x, y)
            return jax.tree.map(lambda one, by: one - 1e-9 * by, p, g)  # <-

        p = {"m": jax.tree.map(lambda one: one + 1.0, layers(k[0], 4, 1))}
        for i in range(4):
            p = step(p, *numbers(i))
        '''),
    "steps of large numbers": ("updates of at are below the rounding of float32", '''
        at = jnp.array([3.0e7, 4.0e7])
        def f(at, x, y):
            return jnp.abs(at - jnp.array([1e7, 2e7])).sum()
        for i in range(4):
            value, g = jax.value_and_grad(f)(at, *numbers(i))
            at -= 0.5 * g  # <-
        '''),
    "a sum that is dropped": (r"the result of `loss \+ 0.1 .* is dropped", '''
        def f(p, x, y):
            loss = ((run(p, x) - y) ** 2).mean()
            loss + 0.1 * (p[0]["w"] ** 2).sum()  # <-
            return loss
        train(f, layers(k[0], 4, 8, 1), numbers)
        '''),
    "a function of JAX that is dropped": ("the result of `jax.nn.relu.h.` is dropped", '''
        def f(p, x, y):
            h = x @ p[0]["w"] + p[0]["b"]
            jax.nn.relu(h)  # <-
            return ((h @ p[1]["w"] + p[1]["b"] - y) ** 2).mean()
        train(f, layers(k[0], 4, 8, 1), numbers)
        '''),
    "a mask that is dropped": (r"the result of `h.at.:, 0..set.0.0.` is dropped", '''
        def f(p, x, y):
            h = jnp.tanh(x @ p[0]["w"] + p[0]["b"])
            h.at[:, 0].set(0.0)  # <-
            return ((h @ p[1]["w"] + p[1]["b"] - y) ** 2).mean()
        train(f, layers(k[0], 4, 8, 1), numbers)
        '''),
}  # fmt: skip
"""By what is wrong: what is said, and the program, whose line with an arrow is named."""
HEAVY = ("clipped scale", "advantages of one sample", "softmax twice from equal numbers on", "gate over one group")
"""Programs that compile for seconds, again for each experiment."""


def explained(program, tmp_path, monkeypatch, head=HEAD):
    text = head + textwrap.dedent(program).lstrip()
    with in_folder(tmp_path, monkeypatch, {"train.py": text}), restored_options():
        return text, *invoked("explain", "train.py")


@contextlib.contextmanager
def restored_options():
    was = jax.config.jax_enable_x64
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", was)


@pytest.mark.parametrize("name", without(FAULTY, *HEAVY))
def test_what_is_wrong_is_said_with_its_line(name, tmp_path, monkeypatch):
    says, program = FAULTY[name]
    text, code, out, err = explained(program, tmp_path, monkeypatch)
    line = next(number for number, each in enumerate(text.splitlines(), 1) if each.endswith("# <-"))
    joined = " ".join(out.split())
    assert code == 1, (out, err)
    assert re.search(says, re.sub(r" (\(|at )train\.py:\d+\)?", "", joined)), out
    assert f"train.py:{line}" in out, out


@pytest.mark.parametrize("name", every(24, HEALTHY))
def test_nothing_of_a_healthy_training_is_useless(name, tmp_path, monkeypatch):
    _, code, out, err = explained(HEALTHY[name], tmp_path, monkeypatch)
    assert code == 0, (out, err)
    assert re.search(r"^(all \d+ parameters|the only parameter) got a gradient$", out, re.MULTILINE), out


def test_no_text_is_lost():
    assert len(HEALTHY) == 123


NOTED = """
def f(p, x, y):
    s = jnp.clip(p["s"], -3.0, 2.0)
    return (((run(p["m"], x) - y) / jnp.exp(s)) ** 2 + s).mean()
p = {"m": layers(k[0], 4, 1), "s": jnp.array(5.0)}
print(jax.tree.map(jnp.shape, jax.grad(f)(p, *numbers(0))))
"""


def test_a_gradient_that_is_zero_in_the_only_iteration_is_a_note(tmp_path, monkeypatch):
    _, code, out, err = explained(NOTED, tmp_path, monkeypatch)
    assert code == 0, (out, err)
    line = next(at for at, one in enumerate((HEAD + NOTED.lstrip()).splitlines(), 1) if "jnp.clip" in one)
    wanted = f"the gradient of 'p.s' is exactly 0 in the one iteration that was looked at, from clip (train.py:{line}:"
    assert wanted in " ".join(out.split())


def test_what_the_next_gradient_has_is_no_note_on_the_first(tmp_path, monkeypatch):
    text = NOTED + "p['s'] = jnp.array(1.0)\njax.grad(f)(p, *numbers(1))\n"
    _, code, out, err = explained(text, tmp_path, monkeypatch)
    assert code == 0, (out, err)
    assert "exactly 0" not in out


def in_dtype(text, dtype):
    """A program, or the head of one, whose numbers have another dtype."""
    wide = "jax.config.update('jax_enable_x64', True)\n" if dtype == "float64" else ""
    text = text.replace(
        "N = jax.random.normal\n",
        f"""\
{wide}def N(key, shape):
    return jax.random.normal(key, shape).astype(jnp.{dtype})
""",
    ).replace("jnp.zeros(b)", f"jnp.zeros(b, jnp.{dtype})")
    text = re.sub(r"jnp\.array\((-?[\d.]+|\[[\d.e, ]+\])\)", rf"jnp.array(\1, jnp.{dtype})", text)
    for rounded in ("astype(jnp.bfloat16)", "jnp.float32"):
        text = text.replace(rounded, rounded.replace("bfloat16", dtype).replace("float32", dtype))
    smaller = {"1e-9 *": "1e-20 *", "(1e-5)": "(1e-20)", "e7": "e17"} if dtype == "float64" else {}
    for before, after in smaller.items():
        text = text.replace(before, after)
    return text


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
@pytest.mark.parametrize("name", every(12, FAULTY))
def test_what_is_wrong_is_said_in_other_dtypes(name, dtype, tmp_path, monkeypatch):
    says, program = FAULTY[name]
    says = re.sub("rounding of [a-z0-9]+", f"rounding of {dtype}", says)
    text, code, out, err = explained(in_dtype(program, dtype), tmp_path, monkeypatch, in_dtype(HEAD, dtype))
    line = next(number for number, each in enumerate(text.splitlines(), 1) if each.endswith("# <-"))
    assert code == 1, (out, err)
    assert re.search(says, re.sub(r" (\(|at )train\.py:\d+\)?", "", " ".join(out.split()))), out
    assert f"train.py:{line}" in out, out


def dropped_update(x, w):
    state = w * w
    state.at[0].add(jnp.sum(jnp.sin(x)))
    return jnp.sum(state**2)


def dropped_in_a_part(x, w):
    parts = {"sum": w * 2}
    parts["sum"].at[1].multiply(x[0])
    return jnp.sum(parts["sum"] ** 2)


@pytest.mark.parametrize("function", [dropped_update, dropped_in_a_part])
def test_a_function_that_was_given_numpy_arrays_is_run_again_with_what_it_had(function):
    given = {"x": np.array([5.0, 2.0], np.float32), "w": np.array([3.0, 4.0], np.float32)}
    report = bp.explain(bp.probe(function)(**given))
    (found,) = report.of_kind("result_dropped")
    assert found.source.line == function.__code__.co_firstlineno + 2
    assert not any("second time" in note for note in report.notes)
    assert all(type(one) is np.ndarray for one in given.values())


def attention_over_one(x, w, y):
    weights = jax.nn.softmax(x @ w, axis=-1)
    return jnp.mean((x[:, 0] * weights[:, 0] - y) ** 2)


def attention_over_the_batch(x, w, y):
    weights = jax.nn.softmax(x @ w, axis=0)
    return jnp.mean((x[:, 0] * weights[:, 0] - y) ** 2)


def beyond_a_limit(x, w, y):
    return jnp.mean((x[:, 0] * jnp.clip(x @ w, 1e6, 2e6)[:, 0] - y) ** 2)


def asked_again(function, dtype):
    numbers = np.random.default_rng(0).normal
    given = [jnp.asarray(numbers(size=shape), dtype) for shape in ((6, 4), (4, 1), (6,))]
    return bp.explain(bp.probe(function, wrt="w")(*given))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_call_that_gives_the_same_whatever_it_is_given(dtype):
    (found,) = asked_again(attention_over_one, dtype)
    assert found.headline.startswith("softmax gives the same whatever it is given")
    assert found.source.line == attention_over_one.__code__.co_firstlineno + 1


@pytest.mark.parametrize("function", [attention_over_the_batch, beyond_a_limit])
def test_what_is_flat_here_alone_is_not_the_same_whatever_it_is_given(function):
    assert "gives the same whatever" not in str(asked_again(function, "float32"))
