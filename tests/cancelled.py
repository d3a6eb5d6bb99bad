"""Trainings in which all ways of some parameters into the loss cancel, and what is truly left of their gradients.

Each program prints ``left: NAME LARGEST`` for these parameters in each iteration: the largest number of the gradient.
"""

import contextlib
import io
import json
import re
import runpy
import textwrap
from collections import defaultdict

from commands import in_folder, invoked

TORCH = """\
import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(0)
{setup}
opt = torch.optim.SGD([{trained}], 1e-2)
for step in range(3):
    x, y, t = torch.randn(16, 8), torch.randn(16), torch.randint(0, 4, (16,))
{body}
    opt.zero_grad()
    loss.backward()
    for name, one in {watched}:
        print("left:", name, one.grad.abs().max().item())
    opt.step()
"""


def looped(setup, body, trained, watched):
    """A training in PyTorch."""
    lines = textwrap.indent(textwrap.dedent(body), "    ").rstrip("\n")
    return TORCH.format(setup=textwrap.dedent(setup).strip(), body=lines, trained=trained, watched=watched)


def of_layer(name):
    return f"[('{name}.weight', {name}.weight), ('{name}.bias', {name}.bias)]"


TWO = "*score.parameters(), *out.parameters()"
SCORE = "score, out = nn.Linear(8, 1), nn.Linear(8, 1)"
IN_TORCH = {
    "over its own sum": looped(
        SCORE,
        """\
        a = score(x).exp()
        a = a / a.sum(-1, keepdim=True)
        loss = (out(a * x)[:, 0] - y).pow(2).mean()
        """,
        TWO,
        of_layer("score"),
    ),
    "over its own sum, in double precision": looped(
        "torch.set_default_dtype(torch.float64)\n" + SCORE,
        """\
        a = score(x).exp()
        a = a / a.sum(-1, keepdim=True)
        loss = (out(a * x)[:, 0] - y).pow(2).mean()
        """,
        TWO,
        of_layer("score"),
    ),
    "added and taken away": looped(
        "enc, out = nn.Linear(8, 8), nn.Linear(8, 1)",
        """\
        r = enc(x)
        h = r + (x - r)
        loss = (out(h)[:, 0] - y).pow(2).mean()
        """,
        "*enc.parameters(), *out.parameters()",
        of_layer("enc"),
    ),
    "rounded without a detach": looped(
        "w, out = nn.Parameter(torch.randn(8, 8)), nn.Linear(8, 1)",
        """\
        few = w + (w.round() - w)
        loss = (out(x @ few)[:, 0] - y).pow(2).mean()
        """,
        "w, *out.parameters()",
        "[('w', w)]",
    ),
    "a normalization of single numbers": looped(
        "enc, norm, out = nn.Linear(8, 1), nn.LayerNorm(1), nn.Linear(9, 1)",
        """\
        h = norm(enc(x))
        loss = (out(torch.cat([x, h], 1))[:, 0] - y).pow(2).mean()
        """,
        "*enc.parameters(), *norm.parameters(), *out.parameters()",
        of_layer("enc"),
    ),
    "a centering of one": looped(
        "p, out = nn.Parameter(torch.randn(8, 1)), nn.Linear(8, 1)",
        """\
        c = p.sin()
        c = c - c.mean(1, keepdim=True)
        loss = (out(x + c[:, 0])[:, 0] - y).pow(2).mean()
        """,
        "p, *out.parameters()",
        "[('p', p)]",
    ),
    "what softmax takes away": looped(
        "gate, out = nn.Linear(8, 4), nn.Linear(8, 4)",
        """\
        p = gate(x).softmax(-1)
        loss = F.cross_entropy(out(x), t) + 0.4 * p.mean(0).sum()
        """,
        "*gate.parameters(), *out.parameters()",
        of_layer("gate"),
    ),
    "what softmax takes away, of an input that is 0": looped(
        "gate, out = nn.Linear(8, 4), nn.Linear(8, 4)",
        """\
        p = gate(torch.zeros_like(x)).softmax(-1)
        loss = F.cross_entropy(out(x), t) + 0.4 * p.mean(0).sum()
        """,
        "*gate.parameters(), *out.parameters()",
        of_layer("gate"),
    ),
    "halves that are added up and taken away whole": looped(
        SCORE,
        """\
        h = score(x).sigmoid()
        rest = 0.3 * h + 0.7 * h - h
        loss = (out(x) + rest - y[:, None]).pow(2).mean()
        """,
        TWO,
        of_layer("score"),
    ),
}

JAX = """\
import jax
import jax.numpy as jnp
k = jax.random.split(jax.random.key(0), 8)
N = jax.random.normal
{setup}
def f(p, x, y):
{body}
gradient = {gradient}
for step in range(3):
    x = N(jax.random.key(step), (16, 4))
    g = gradient(p, x, x.sum(-1, keepdims=True) + 1)
    for name in {watched}:
        print("left:", "p." + name, float(jnp.abs(g[name]).max()))
    p = jax.tree.map(lambda one, own: one - 0.01 * own, p, g)
"""


def in_jax(setup, body, *watched, gradient="jax.grad(f)"):
    """A training in JAX."""
    lines = textwrap.indent(textwrap.dedent(body), "    ").rstrip("\n")
    return JAX.format(setup=setup, body=lines, watched=watched, gradient=gradient)


GATED = 'p = {"gate": N(k[0], (4, 1)), "w": N(k[1], (4, 1))}'
OVER_ITSELF = """\
gate = jnp.exp(x @ p["gate"])
gate = gate / gate.sum(axis=1, keepdims=True)
return ((x @ p["w"] * gate - y) ** 2).mean()
"""
IN_JAX = {
    "over its own sum": in_jax(GATED, OVER_ITSELF, "gate"),
    "over its own sum, compiled": in_jax(GATED, OVER_ITSELF, "gate", gradient="jax.jit(jax.grad(f))"),
    "added and taken away": in_jax(
        'p = {"enc": N(k[0], (4, 4)), "w": N(k[1], (4, 1))}',
        """\
        r = x @ p["enc"]
        h = r + (x - r)
        return ((h @ p["w"] - y) ** 2).mean()
        """,
        "enc",
    ),
    "what softmax takes away": in_jax(
        'p = {"gate": N(k[0], (4, 3)), "w": N(k[1], (4, 1))}',
        """\
        chosen = jax.nn.softmax(x @ p["gate"])
        return ((x @ p["w"] - y) ** 2).mean() + 0.3 * chosen.mean(0).sum()
        """,
        "gate",
    ),
    "halves that are added up and taken away whole": in_jax(
        GATED,
        """\
        h = jax.nn.sigmoid(x @ p["gate"])
        rest = 0.3 * h + 0.7 * h - h
        return ((x @ p["w"] + rest - y) ** 2).mean()
        """,
        "gate",
    ),
}

TENSORFLOW = """\
import keras, tensorflow as tf
from keras import layers
keras.utils.set_random_seed(0)
score, out = layers.Dense({width}), layers.Dense(1)
score(tf.zeros([1, 4])), out(tf.zeros([1, 4]))
trained = score.trainable_variables + out.trainable_variables
opt = keras.optimizers.SGD(1e-2)
for step in range(3):
    x = tf.random.normal([16, 4])
    y = tf.reduce_sum(x, axis=1, keepdims=True)
    with tf.GradientTape() as tape:
{body}
    g = tape.gradient(loss, trained)
    for name, own in zip(["score.kernel", "score.bias"], g):
        print("left:", name, float(tf.reduce_max(tf.abs(own))))
    opt.apply_gradients(zip(g, trained))
"""


def in_tensorflow(width, body):
    """A training with a tape of TensorFlow."""
    return TENSORFLOW.format(width=width, body=textwrap.indent(textwrap.dedent(body), " " * 8).rstrip("\n"))


IN_TENSORFLOW = {
    "over its own sum": in_tensorflow(
        1,
        """\
        a = tf.exp(score(x))
        a = a / tf.reduce_sum(a, axis=1, keepdims=True)
        loss = tf.reduce_mean(tf.square(out(x) * a - y))
        """,
    ),
    "added and taken away": in_tensorflow(
        4,
        """\
        r = score(x)
        loss = tf.reduce_mean(tf.square(out(r + (x - r)) - y))
        """,
    ),
    "what softmax takes away": in_tensorflow(
        3,
        """\
        chosen = tf.nn.softmax(score(x))
        loss = tf.reduce_mean(tf.square(out(x) - y)) + 0.3 * tf.reduce_sum(tf.reduce_mean(chosen, axis=0))
        """,
    ),
    "halves that are added up and taken away whole": in_tensorflow(
        1,
        """\
        h = tf.sigmoid(score(x))
        loss = tf.reduce_mean(tf.square(out(x) + 0.3 * h + 0.7 * h - h - y))
        """,
    ),
    "a norm of one unit": in_tensorflow(
        1,
        """\
        loss = tf.reduce_mean(tf.square(out(x) * tf.math.l2_normalize(score(x), axis=1) - y))
        """,
    ),
}

LEFT = re.compile(r"^left: (\S+) (\S+)$", re.MULTILINE)
EXACT, ROUNDED, EITHER = "exactly 0", "rounding alone", "0 but for rounding"
OF, ITERATION = "the gradients of: ", re.compile(r"this is iteration (\d+)")


def left(text, tmp_path, monkeypatch):
    """By name of a parameter, what is left of its gradient in each iteration of the program."""
    printed = io.StringIO()
    with in_folder(tmp_path, monkeypatch, {"train.py": text}), contextlib.redirect_stdout(printed):
        runpy.run_path("train.py", run_name="__main__")
    found = defaultdict(list)
    for name, number in LEFT.findall(printed.getvalue()):
        found[name].append(float(number))
    return found


def judged(text, tmp_path, monkeypatch):
    """What is wrong with what is said of gradients that cancel: each sentence must be true of all that it names."""
    truth = left(text, tmp_path, monkeypatch)
    with in_folder(tmp_path, monkeypatch, {"train.py": text}):
        _, out, err = invoked("explain", "--json", "train.py")
    report = json.loads(out[out.index("{") :])
    found = [one for one in report["findings"] if one["kind"] == "cancels"]
    seen = next((int(one[1]) for one in map(ITERATION.search, report["notes"]) if one), 3)
    wrong = [] if found else [f"nothing is said of it: {report}"]
    for one in found:
        listed = next((fact.partition(": ")[2].split(", ") for fact in one["facts"] if OF in fact), [one["name"]])
        numbers = [number for name in listed for number in truth[name][:seen]]
        assert numbers, (listed, truth)
        said = {words for words in (EXACT, ROUNDED, EITHER) if words in one["headline"]}
        true = {EXACT} if not any(numbers) else {ROUNDED, EITHER} if all(numbers) else {EITHER}
        wrong += [] if said and said <= true else [f"{one['headline']}; of {listed} is left: {numbers}"]
    return wrong
