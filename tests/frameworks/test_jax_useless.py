"""Gradients of JAX that are there and useless: found in small faulty trainings, and never in healthy ones."""

import contextlib
import re
import textwrap

import jax
import pytest
from healthy_jax import HEALTHY

from commands import in_folder, invoked
from sampled import every

HEAD = """\
import jax
import jax.numpy as jnp
import optax

k = jax.random.split(jax.random.key(0), 12)
N = jax.random.normal


def keys(i):
    return jax.random.split(jax.random.key(100 + i), 6)


def layers(key, *sizes):
    own = jax.random.split(key, len(sizes))
    return [{"w": N(one, (a, b)) / a**0.5, "b": jnp.zeros(b)} for one, a, b in zip(own, sizes, sizes[1:])]


def run(made, x):
    for one in made[:-1]:
        x = jax.nn.relu(x @ one["w"] + one["b"])
    return x @ made[-1]["w"] + made[-1]["b"]


def numbers(i):
    a, b, *_ = keys(i)
    x = N(a, (16, 4))
    return x, x.sum(-1, keepdims=True) + N(b, (16, 1))


def classes(i):
    a, b, *_ = keys(i)
    return N(a, (16, 4)), jax.random.randint(b, (16,), 0, 3)


def train(f, p, batch):
    tx = optax.adam(1e-2)
    state = tx.init(p)

    @jax.jit
    def step(p, state, *given):
        g = jax.grad(f)(p, *given)
        updates, state = tx.update(g, state, p)
        return optax.apply_updates(p, updates), state

    for i in range(4):
        p, state = step(p, state, *batch(i))


"""

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
    "gate over one group": ("p.gate goes into the loss only by ways that cancel", '''
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
}  # fmt: skip
"""By what is wrong: what is said, and the program, whose line with an arrow is named."""


def explained(program, tmp_path, monkeypatch):
    text = HEAD + textwrap.dedent(program).lstrip()
    with in_folder(tmp_path, monkeypatch, {"train.py": text}), restored_options():
        return text, *invoked("explain", "train.py")


@contextlib.contextmanager
def restored_options():
    was = jax.config.jax_enable_x64
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", was)


@pytest.mark.parametrize("name", FAULTY)
def test_what_is_wrong_is_said_with_its_line(name, tmp_path, monkeypatch):
    says, program = FAULTY[name]
    text, code, out, err = explained(program, tmp_path, monkeypatch)
    line = next(number for number, each in enumerate(text.splitlines(), 1) if each.endswith("# <-"))
    joined = " ".join(out.split())
    assert code == 1, (out, err)
    assert re.search(says, joined), out
    assert f"train.py:{line}" in out, out


@pytest.mark.parametrize("name", every(6, HEALTHY))
def test_nothing_of_a_healthy_training_is_useless(name, tmp_path, monkeypatch):
    _, code, out, err = explained(HEALTHY[name], tmp_path, monkeypatch)
    assert code == 0, (out, err)
    assert re.match(r"(all \d+ parameters|the only parameter) got a gradient\n", out), out
