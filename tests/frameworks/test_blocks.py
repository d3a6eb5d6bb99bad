"""The block form where frameworks differ: who runs backward, from what, and what happens around it."""

import gc
import sys
import threading
import weakref
from functools import partial
from os.path import relpath
from typing import Any

import equinox
import flax.nnx
import jax.numpy as jnp
import keras
import numpy as np
import pytest
import tensorflow as tf
import torch
from backends import JAX, TENSORFLOW, TORCH
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import context, execute, record

import backprobe as bp
from asked import at_once, message, says
from both_forms import Cache, Pair, agree, both_forms, same

SECTION = "Blocks"
FUNCTION = "a block has the names and numbers of a function with the same lines"
EAGER = "the probe's tape differentiates what the block asks gradients of, else the variable computed last"


def supports(claim, answer="yes", **options):
    return pytest.mark.supports(claim, SECTION, answer=answer, **options)


def vector(*numbers):
    return tf.constant(numbers)


# the same names and numbers as the function form


def turned(value):
    step = value * 1.5
    return step


COMMON = """
u = x * w
v = u + 1
v += x
p = q = v * 2
a, b = u * 2, u * 3
(c, [d, *e]) = a, (b, ops.sin(u), ops.cos(u))
cache.last = d * 2
cache.parts[0] = cache.last + 1
table["key"] = c + d
table["sum"] = ops.sum(table["key"])
r = (m := u * 4) + 1
for part in (u * 5, u * 6):
    s = part + 1
for index, (one, two) in enumerate([(u, v), (v, u)]):
    t = one - two
with held(u) as h, held(v) as (k, l):
    n = h * k
items = [element * 2 for element in (u, v)]
named = {key: item * 3 for key, item in zip("ab", items)}
total = sum(ops.sum(item) for item in items)
pair = Pair(u * 7, v)
f = scaled(u, 3.0, u, v, plus=w, other=1)
still = ops.stop_gradient(f)
gathered = [half for half in halves(f)]
lamb = (lambda value: value * 2)(f)
whole = ops.cast(ops.argmax(u), ops.integer)
del total
loss = ops.sum(f + lamb + n + s + t + r + e[0] + p + pair.first + sum(items) + still) + table["sum"] + gathered[0]
"""

OF_TENSORFLOW = """
y = x * variable
variable.assign_add(x)
z = variable * y
variable[0].assign(5.0)
b = variable + layer(z[None])[0]
c = tf.cond(b[0] > 0, lambda: turned(b), lambda: b)
e = tf.while_loop(lambda k: tf.reduce_sum(k) < 50, lambda k: (turned(k),), [tf.abs(c)])[0]
r = tf.gather(variable, [1])
with tf.GradientTape() as tape:
    tape.watch(e)
    g = tf.reduce_sum(e * e)
inner = tape.gradient(g, e)
v = tf.vectorized_map(lambda one: one * 2, inner)
loss = tf.reduce_sum(v) + tf.reduce_sum(r)
"""


@pytest.fixture
def forms(tmp_path, monkeypatch):
    """A module that has the same lines as a function and as a block."""

    monkeypatch.syspath_prepend(str(tmp_path))
    return partial(both_forms, tmp_path, __name__)


@pytest.mark.parametrize(
    "framework",
    [pytest.param(f, id=f.name, marks=supports(FUNCTION, on=f.name)) for f in (TORCH, TENSORFLOW)],
)
def test_a_block_has_the_names_and_numbers_of_a_function(framework, forms):
    made = forms(COMMON, "x, w, ops, cache, table", "        loss.backward()\n" if framework is TORCH else "")

    def arguments():
        x, w = framework.tensor([1.0, 2.0], "float64"), framework.tensor([3.0, -1.0], "float64")
        if framework is TORCH:
            x.requires_grad_(), w.requires_grad_()
        return x, w, framework.ops, Cache(), {}

    agree(bp.probe(made.function)(*arguments()), made.block(*arguments()))


def test_variables_loops_and_tapes_in_a_block(forms):
    made = forms(OF_TENSORFLOW, "x, variable, layer")

    def arguments():
        keras.utils.set_random_seed(0)
        layer = keras.layers.Dense(2)
        layer.build((None, 2))
        return vector(1.0, 2.0), tf.Variable([3.0, 4.0]), layer

    function, block = bp.probe(made.function)(*arguments()), made.block(*arguments())
    agree(function, block)
    assert [block[f"variable#{n}"].value.numpy().tolist() for n in range(3)] == [[3, 4], [4, 6], [5, 6]]


def test_the_same_numbers_as_a_tape_of_ones_own():
    x, w = vector(1.0, 2.0), tf.Variable([3.0, 4.0])
    with bp.probe() as rec:
        u = tf.sin(x * w)
        loss = tf.reduce_sum(u * u)
    with tf.GradientTape() as tape:
        tape.watch(x)
        u = tf.sin(x * w)
        loss = tf.reduce_sum(u * u)
    wanted = tape.gradient(loss, {"x": x, "w": w, "u": u})
    assert all(same(rec[name].grad, gradient) for name, gradient in wanted.items())


# what is differentiated


@supports(EAGER, on="tensorflow")
def test_the_variable_that_was_computed_last_is_differentiated():
    x = vector(1.0, 2.0)
    with bp.probe() as rec:
        loss = tf.reduce_sum(x * 3.0)
        best = x  # bound last, and not computed in the block
        accuracy = tf.cast(tf.reduce_sum(x) > 1, tf.float32)  # computed last, and not differentiated
    says(rec, outputs=["loss"], grads={"x": [3, 3]}, statuses={"accuracy": "detached"})
    assert rec["best"] is rec["x"]


@supports(EAGER, on="tensorflow")
@pytest.mark.parametrize("of, gradient", {"u": 3.0, "loss": 5.0, "held.first": 7.0}.items())
def test_of_names_the_variable_or_a_part_of_it(of, gradient):
    x = tf.constant(2.0)
    with bp.probe(of=of) as rec:
        u = x * 3.0
        held = Pair(x * 7.0, None)
        loss = x * 5.0
        later = loss + u
    says(rec, outputs=[of], grads={"x": gradient}, values={"later": 16})


def test_the_output_has_an_entry_whatever_is_selected():
    x = tf.constant(2.0)
    with bp.probe(select="u") as rec:
        u = x * 3.0
        loss = u * u
    says(rec, names=["u", "loss"], grads={"u": 12})
    with pytest.raises(bp.NothingMatched, match="the pattern 'v' matches nothing in a block"), bp.probe(select="v"):
        loss = x * 3.0
    assert loss.numpy() == 6


def test_a_gradient_that_the_program_has_taken_is_not_what_it_is_about():
    x = tf.constant(2.0)
    with bp.probe() as rec:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            loss = x * x * x
            twice = loss * 2
        dx = tape.gradient(loss, x)
        dy = tape.gradient(twice, x)
    assert [entry.name for entry in rec.outputs] == ["loss", "twice"]
    assert [float(one) for one in rec["x"].grads.values()] == [12, 24] == [dx.numpy(), dy.numpy()]
    with pytest.raises(bp.NoGradient, match="'x' has a gradient of each of several outputs"):
        rec["x"].grad  # noqa: B018
    with bp.probe(of="dx") as rec:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = x * x * x
        dx = tape.gradient(loss, x)
    assert (rec["dx"].value.numpy(), rec["x"].grad.numpy()) == (12, 12)  # the second derivative, 6x


def test_a_gradient_penalty():
    x, w = vector(1.0, 2.0), tf.Variable([3.0, 4.0])
    with bp.probe() as rec:
        with tf.GradientTape() as tape:
            tape.watch(x)
            score = tf.reduce_sum(tf.sin(x * w))
        slope = tape.gradient(score, x)
        loss = tf.reduce_sum(slope**2)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as tape:
            tape.watch(x)
            score = tf.reduce_sum(tf.sin(x * w))
        slope = tape.gradient(score, x)
        loss = tf.reduce_sum(slope**2)
    assert same(rec["w"].grad, outer.gradient(loss, w))
    assert [entry.name for entry in rec.outputs] == ["loss"]


def test_an_output_that_is_no_scalar_needs_a_cotangent():
    x = vector(1.0, 2.0)
    with bp.probe(of="u", cotangent=np.array([1.0, 10.0])) as rec:
        u = x * 3.0
    assert rec["x"].grad.numpy().tolist() == [3, 30]
    with bp.probe() as rec:
        u = x * 3.0
    assert [str(note) for note in rec.notes] == [
        "the block was not differentiated: the output is not a scalar (shape (2,))"
    ]
    with bp.probe() as complex_output:
        z = tf.complex(x, x)[0]
    assert (
        complex_output.record.notes[0].fields["next"]
        == "cotangent=1.0, or a last line that makes it real, loss = abs(...)"
    )
    assert z.shape == ()
    assert rec["u"].status == "backward_not_run"  # what there is, is there
    assert same(rec["u"].value, u)


def test_a_variable_that_is_not_there():
    x = vector(1.0, 2.0)
    with pytest.raises(bp.BadOutput) as caught, bp.probe(of="los"):
        u = x * 3.0
        loss = tf.reduce_sum(u)
    assert str(caught.value) == (
        "the block has nothing at 'los'\n  asked: of='los'\n  found: a block with u, loss; no 'los'\n  next:  of='loss'"
    )
    assert loss.numpy() == 9


def cannot_be_differentiated(rec):
    (note,) = rec.record.notes
    assert note.code == "block_not_differentiated"
    assert str(note) in str(rec)
    report = bp.explain(rec)
    assert not report.ok
    assert report.findings[-1].headline == str(note)
    return note.fields["why"], report


def test_a_variable_that_cannot_be_differentiated():
    x = vector(1.0, 2.0)
    with bp.probe(of="n") as rec:
        n = tf.argmax(x * 2)
    why, report = cannot_be_differentiated(rec)
    assert why == "the selected output is not a floating-point tensor (a tensor of shape () and dtype int64)"
    assert [found.kind for found in report.findings] == ["index", "backward_not_run"]
    with bp.probe(of="n") as rec:
        n = tf.stop_gradient(x * 2)
    why, report = cannot_be_differentiated(rec)
    assert why == "the output does not depend on any differentiated value"
    assert [found.kind for found in report.findings] == ["stop_gradient", "backward_not_run"]
    with bp.probe() as rec:
        n = tf.cast(tf.argmax(x), tf.float32)
    why, report = cannot_be_differentiated(rec)
    assert why == "no variable of the block holds a value that can be differentiated"
    line = report.findings[0].source
    assert str(report) == (
        f"0 of 2 values with a gradient\n"
        f"  1. `tf.argmax(x)` at test_blocks.py:{line.line} gives positions, which have no derivative\n"
        f"       line:  {relpath(line.file)}:{line.line}: n = tf.cast(tf.argmax(x), tf.float32)\n"
        f"       path:  x -> n\n"
        f"       seen:  they jump or stay the same as 'x' changes\n"
        f"       seen:  'x' is differentiated, 'n' is detached\n"
        f"       next:  use something smooth instead (softmax weights instead of argmax),\n"
        f"              or take the value at that position, whose gradient flows: tf.reduce_max(x, axis=0)\n"
        f"  2. the block was not differentiated: no variable of the block holds a value that can be differentiated; "
        f"no gradient comes to x\n"
        f"       next:  loss = ..., in the block, from its Variables or from the tensors that it reads"
    )
    (found, _) = bp.explain(rec, "x").findings
    assert found == report.findings[0]
    assert n.numpy() == 1


REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str, str]] = {
    "wrt": (
        {"wrt": "x"},
        bp.BadOption,
        "wrt is not available in blocks",
        "rec = bp.probe(f, wrt=...)(x), with the block in a function f",
    ),
    "partials": (
        {"partials": True},
        bp.BadOption,
        "partials is not available in blocks",
        "rec = bp.probe(f, partials=True)(x), with the block in a function f",
    ),
    "strategy": ({"strategy": "hooks"}, bp.StrategyRefused, "the strategy 'hooks' is PyTorch's", 'strategy="edges"'),
    "create_graph": (
        {"create_graph": True},
        bp.Unsupported,
        "gradients of TensorFlow cannot be differentiated again",
        "with tf.GradientTape() as tape: ... around bp.probe(...), and tape.gradient(rec['u'].grad, x)",
    ),
    "of, a function": (
        {"of": lambda found: found},
        bp.BadOption,
        "of is the name of a variable in a block",
        'of="loss", with loss = ... in the block',
    ),
    "operations": (
        {"select": ":*()"},
        bp.Unsupported,
        "operations without a name cannot be seen in a block",
        "put the block into a function f and write rec = bp.probe(f, ...)(x), or give the operation a name",
    ),
}


@pytest.mark.parametrize("option", REFUSED)
def test_options_that_are_refused(option):
    options, kind, text, instead = REFUSED[option]
    x = vector(1.0, 2.0)
    with pytest.raises(kind, match=text) as caught, bp.probe(**options):
        raise AssertionError(x)
    assert caught.value.next == instead
    untouched()


def test_what_to_write_instead_of_create_graph():
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        with bp.probe() as rec:
            u = x * x
            loss = u * x
        gradient = rec["x"].grad
    assert tape.gradient(gradient, x).numpy() == 18
    says(rec, values={"loss": 27})


# what is read, and written


def test_what_the_block_reads_from_outside_is_differentiated():
    x, frozen, given = tf.constant(2.0), tf.Variable(3.0, trainable=False), {"scale": tf.constant(5.0)}
    count, plain = tf.constant(2), 4.0
    with bp.probe() as rec:
        made = tf.constant(7.0)
        loss = x * frozen * given["scale"] * made * plain * tf.cast(count, tf.float32)
    says(rec, all_grads={"x": 840, "given.scale": 336, "loss": 1})
    assert {name: str(entry.status) for name, entry in rec.missing().items()} == {
        "frozen": "frozen",
        "made": "frozen",
        "count": "not_float",
    }


def test_variables_that_the_block_writes_have_versions():
    x, w = tf.constant(2.0), tf.Variable(3.0)
    with bp.probe() as rec:
        y = w * x
        w.assign_add(10.0)
        z = x * w
        loss = y * z
    says(rec, both={"w#0": (3, 52), "w#1": (13, 12), "loss": (156, 1)}, grads={"x": 3 * 26 + 13 * 6})


def test_a_function_that_is_compiled_runs_as_it_is():
    v = tf.Variable(3.0)
    runs = []

    @tf.function
    def compiled(t):
        runs.append(tf.executing_eagerly())
        inside = t * v
        return tf.sin(inside)

    x = tf.constant(2.0)
    compiled(x)
    with bp.probe() as rec:
        u = x * 2.0
        y = compiled(u)
        loss = y * y
    with tf.GradientTape() as tape:
        tape.watch(x)
        u = x * 2.0
        y = compiled(u)
        loss = y * y
    wanted = tape.gradient(loss, {"x": x, "u": u, "y": y})
    assert not any(runs)
    assert list(rec) == ["x", "u", "y", "loss"]
    assert all(same(rec[name].grad, gradient) for name, gradient in wanted.items())
    assert rec.notes == ("compiled was not followed: it is compiled, and runs as a whole",)


def test_a_function_that_autograph_converts_is_not_followed():
    x = vector(1.0, 2.0)
    with bp.probe() as rec:
        y = tf.map_fn(turned, x)
        loss = tf.reduce_sum(y)
    note = "what autograph converts was not followed: it is compiled, and runs as a whole"
    says(rec, all_grads={"x": [1.5, 1.5], "y": [1, 1], "loss": 1}, notes=(note,))


class Own(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.inner = keras.layers.Dense(2, kernel_initializer="ones")

    def call(self, x):
        hidden = self.inner(x)
        return hidden * 2.0


def test_a_layer_is_followed_as_the_function_that_it_is():
    x, layer = tf.ones((1, 2)), Own()
    with bp.probe() as rec:
        y = layer(x)
        loss = tf.reduce_sum(y)
    says(rec, all_grads={"x": [[4, 4]], "/Own:hidden": [[2, 2]], "y": [[1, 1]], "loss": 1}, notes=())
    assert rec["/Own:x"] is rec["x"]


@tf.custom_gradient
def doubled(value):
    twice = value * 2
    return twice, lambda upstream: upstream * 10


def test_a_gradient_of_ones_own():
    x = tf.constant(2.0)
    with bp.probe() as rec:
        u = x * 3.0
        y = doubled(u)
        loss = y * y
    says(rec, all_grads={"x": 720, "u": 240, "y": 24, "loss": 1})


# a tape of the program's own


def network(build=True):
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(4, activation="relu", name="hidden"), keras.layers.Dense(1, name="head")]
    model = keras.Sequential(layers)
    if build:
        model.build((None, 3))
    return model


X, TARGET = tf.reshape(tf.range(6.0), (2, 3)), tf.constant([[1.0], [2.0]])


def train(model, optimizer):
    with tf.GradientTape() as tape:
        scores = model(X, training=True)
        loss = tf.reduce_mean((scores - TARGET) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss, gradients


@pytest.mark.parametrize("around", ["the model", "its own variables"])
@pytest.mark.parametrize("how", ["eager", "compiled"])
def test_training_goes_on_bit_by_bit_as_without_the_probe(around, how):
    found = []
    for probed in (False, True):
        model = network()
        optimizer = keras.optimizers.Adam(0.1)
        optimizer.build(model.trainable_variables)
        step = tf.function(train) if how == "compiled" else train
        for _ in range(2):
            if not probed:
                loss, gradients = step(model, optimizer)
            elif around == "the model":
                with bp.probe(model, of="loss") as rec:
                    loss, gradients = step(model, optimizer)
            else:
                with bp.probe(of="loss", backend="tensorflow") as rec:
                    loss, gradients = step(model, optimizer)
            found.append([loss, *gradients, *map(tf.convert_to_tensor, model.trainable_variables)])
    for bare, with_probe in zip(found[:2], found[2:], strict=True):
        assert all(map(same, bare, with_probe))
    assert rec["loss"].grad.numpy() == 1
    untouched()


@supports("a block around a Keras model, and around training steps with a tape of their own", on="tensorflow")
@pytest.mark.parametrize("build", [True, False])
def test_a_block_around_a_model_that_is_trained(build):
    model = network(build)
    with bp.probe(model) as rec:
        loss, gradients = train(model, keras.optimizers.SGD(0.1))
    names = ["hidden.kernel", "hidden.bias", "head.kernel", "head.bias"]
    assert {*rec} == {"hidden", "head", *names, "loss"}
    assert [entry.name for entry in rec.outputs] == ["loss"]
    assert all(same(rec[name].grad, gradient) for name, gradient in zip(names, gradients, strict=True))
    expected = bp.probe(network(), of=lambda y: tf.reduce_mean((y - TARGET) ** 2))(X)
    assert all(same(rec[name].grad, expected[name].grad) for name in ["hidden", "head", *names])
    assert all(same(rec[name].value, expected[name].value) for name in ["hidden", "head", *names])


def test_locals_of_layers_and_calls_that_repeat():
    class Twice(keras.Model):
        def __init__(self):
            super().__init__()
            self.shared = keras.layers.Dense(3)

        def call(self, x):
            first = self.shared(x)
            second = self.shared(first)
            return second

    model = Twice()
    with bp.probe(model, ["shared", ":first"]) as rec:
        loss = tf.reduce_sum(model(X))
    says(rec, names=["shared#0", "shared#1", "loss"], grads={"shared#1": [[1, 1, 1], [1, 1, 1]]})
    assert rec["first"] is rec["shared#0"]
    with bp.probe(model, "shared") as rec:
        model.shared(X)  # a part alone
        y = tf.reduce_sum(model.shared(X))
    says(rec, names=["shared#0", "shared#1", "y"], statuses={"shared#0": "not_connected"})


def test_layers_before_the_first_weight_that_is_trained():
    model = network()
    model.get_layer("hidden").trainable = False
    with bp.probe(model) as rec:
        loss = tf.reduce_sum(model(X))
    says(rec, statuses={"hidden": "ok", "hidden.kernel": "frozen"})


def test_a_model_that_runs_in_a_compiled_function_is_not_seen():
    model = network()
    compiled = tf.function(lambda x: model(x))
    for _ in range(2):
        with bp.probe(model) as rec:
            loss = tf.reduce_sum(compiled(X))
        reason = "it did not run, or it ran inside <lambda>, which is compiled"
        says(rec, statuses={"hidden": "opaque"}, reasons={"hidden": reason}, grads={"head.bias": [2]})
        assert any("is compiled" in note for note in rec.notes)
    with bp.probe(model, of="loss") as rec:
        model.get_layer("hidden")(X)
        loss = tf.reduce_sum(model.get_layer("hidden")(X))
    says(rec, statuses={"head": "not_executed"})


# while it is open, and where it is left


def test_what_there_is_can_be_read_while_the_block_is_open():
    x = vector(1.0, 2.0)
    with bp.probe() as rec:
        assert list(rec) == []
        u = x * 3.0
        says(rec, names=["x", "u"], statuses={"u": "backward_not_run"}, values={"u": [3, 6]})
        assert "backward_not_run" in str(rec)
        with pytest.raises(bp.NoGradient, match="backward_not_run"):
            rec["u"].grad  # noqa: B018
        loss = tf.reduce_sum(u)
    says(rec, all_grads={"x": [3, 3], "u": [1, 1], "loss": 1}, names=["x", "u", "loss"], values={"loss": 9})


def untouched():
    """Nothing of a probe is left in this thread."""
    assert not context.context().op_callbacks
    assert sys.gettrace() is None or "backprobe" not in repr(sys.gettrace())
    for owner, name in [
        (execute, "execute"),
        (record, "record_operation"),
        (pywrap_tfe, "TFE_Py_FastPathExecute"),
        (tf.GradientTape, "gradient"),
        (keras.layers.Layer, "__call__"),
    ]:
        assert type(vars(owner)[name]).__name__ != "Exchanged"
    with tf.GradientTape() as tape:
        x = tf.constant(1.0)
        tape.watch(x)
        y = x * 2
    assert [one.name for one in tape.watched_variables()] == []
    assert tape.gradient(y, x).numpy() == 2


@pytest.mark.parametrize("raised", [ZeroDivisionError, KeyboardInterrupt])
def test_an_exception_in_the_block(raised):
    x, model = vector(1.0, 2.0), network()
    error = raised("stop")

    def fail(value):
        inside = value * 2
        raise error

    with pytest.raises(raised) as caught, bp.probe() as rec:
        u = x * 3.0
        fail(u)
    assert caught.value is error
    assert error.__notes__[0].startswith("backprobe: raised while running a block under a probe; the last name bound")
    assert [*rec] == ["x", "u", "/fail:inside"]
    assert {str(entry.status) for entry in rec.values()} == {"backward_not_run"}
    assert same(rec["u"].value, u)
    untouched()
    with pytest.raises(raised), bp.probe(model, "**:*") as rec:
        model(X)
        raise error
    assert str(rec["head"].status) == "backward_not_run"
    assert not any("call" in vars(layer) for layer in (model, *model.layers))
    untouched()


def test_an_operation_without_a_derivative():
    x = vector(1.0, 2.0)
    with bp.probe() as rec:
        u = x * 3.0
        loss = tf.abs(tf.linalg.logm(tf.cast(tf.linalg.diag(u), tf.complex64))[0, 0])
    why, report = cannot_be_differentiated(rec)
    assert why == "LookupError: gradient registry has no entry for: MatrixLogarithm"
    assert "has no derivative in TensorFlow" in report.findings[-1].remedy
    assert loss.numpy() > 0
    says(rec, statuses={"u": "backward_not_run"})
    untouched()


def leaving(how):
    x = tf.constant(2.0)
    for _ in range(2):
        with bp.probe() as rec:
            loss = x * x
            if how == "return":
                return rec, loss
            if how == "break":
                break
            if how == "continue":
                continue
    return rec, loss


@pytest.mark.parametrize("how", ["return", "break", "continue", "its end"])
def test_ways_out_of_a_block(how):
    rec, _ = leaving(how)
    assert rec["x"].grad.numpy() == 4
    untouched()


def test_nothing_lives_longer_for_the_probe():
    kept = []

    def program():
        x = tf.constant(2.0)
        with bp.probe(select="u") as rec:
            u = x * 3.0
            dropped = u * 2
            loss = dropped * u
        kept.extend(map(weakref.ref, (x, dropped)))
        return rec

    rec = program()
    gc.collect()
    assert [ref() for ref in kept] == [None, None]
    assert list(rec) == ["u", "loss"]
    known = weakref.ref(rec["u"].value)
    del rec
    gc.collect()
    assert known() is None


# blocks, probes and threads in one another


def test_a_probe_in_a_block():
    def f(t):
        q = t * t
        return q

    x = tf.constant(3.0)
    with bp.probe() as rec:
        u = x * 2.0
        inner = bp.probe(f)(u)
        loss = u * inner["q"].grad  # 2u · u² would be more; the gradient of q is 1
    says(inner, all_grads={"t": 12, "q": 1})
    says(rec, grads={"x": 2}, values={"loss": 6})


def test_a_block_in_a_block():
    x = tf.constant(3.0)
    with bp.probe() as outer:
        u = x * x
        with bp.probe(of="v") as inner:
            v = u * 2.0
        loss = v * u
    says(inner, all_grads={"u": 2, "v": 1})
    says(outer, grads={"u": 36, "x": 216}, values={"loss": 162})
    untouched()


def test_a_probe_of_a_model_in_a_block_around_it():
    model = network()
    with bp.probe(model) as outer:
        inner = bp.probe(model, "hidden", of=tf.reduce_sum)(X)
        loss = tf.reduce_sum(model(X) * 2.0)
    assert same(outer["head.kernel"].grad, bp.probe(model, of=lambda y: tf.reduce_sum(y * 2.0))(X)["head.kernel"].grad)
    assert same(inner["hidden"].grad * 2.0, outer["hidden#1"].grad)
    says(outer, outputs=["loss"])
    untouched()


def test_objects_that_say_they_are_of_another_class():
    x = tf.constant(2.0)
    with bp.probe() as rec:
        array = tf.TensorArray(tf.float32, 2)
        array = array.write(0, x)
        array = array.write(1, x * x)
        loss = tf.reduce_sum(array.stack())
    says(rec, grads={"x": 5}, values={"loss": 6})


def test_a_jacobian_of_the_program_s_own():
    x = tf.constant(2.0)
    with bp.probe() as rec:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.stack([x * x, x * 3.0])
            loss = tf.reduce_sum(y)
        jacobian = tape.jacobian(y, x)
    says(rec, grads={"x": 7}, values={"jacobian": [4, 3]}, statuses={"jacobian": "not_connected"})
    assert rec.notes == (
        "tape.jacobian gives a derivative of each element of what it differentiates; the gradients here are those of "
        "the sum of these elements",
    )


def test_a_probe_that_is_used_twice():
    probe = bp.probe(of="loss", backend="tensorflow")
    x, found = tf.constant(3.0), []
    for power in (1.0, 2.0):
        with probe as rec:
            loss = x**power
        found.append(rec)
    assert [rec["x"].grad.numpy() for rec in found] == [1, 6]
    with probe as outer, probe as inner:
        loss = x * 5.0
    assert [rec["x"].grad.numpy() for rec in (outer, inner)] == [5, 5]
    assert loss.numpy() == 15


def test_threads_have_blocks_of_their_own():
    found = {}

    def work(by):
        x = tf.constant(2.0)
        with bp.probe() as rec:
            ready.wait()
            loss = x * by
            done.wait()
        found[by] = rec["x"].grad.numpy(), list(rec)

    ready, done = threading.Barrier(3), threading.Barrier(3)
    at_once(work, (0.0,), (1.0,), (2.0,))
    assert found == {by: (by, ["x", "loss"]) for by in (0.0, 1.0, 2.0)}
    untouched()


# which framework a block is of


def test_a_block_belongs_to_the_framework_of_what_it_reads():
    x = torch.tensor(3.0, requires_grad=True)
    with bp.probe() as in_torch:
        (x * 2).backward()
    assert in_torch.record.backend == "torch"

    def in_tensorflow():
        x = tf.Variable(3.0)
        with bp.probe() as rec:
            loss = x * 2.0
        return rec

    def by_name():
        with bp.probe() as rec:
            made = tf.Variable(3.0)
            loss = made * 2.0
        return rec

    assert in_tensorflow().record.backend == by_name().record.backend == "tensorflow"


def test_a_block_that_reads_values_of_two_frameworks():
    def both(**options):
        a, b = torch.tensor(3.0, requires_grad=True), tf.constant(2.0)
        with bp.probe(**options) as rec:
            u = a * 2
            loss = b * 3.0
            u.backward()
        return rec

    assert message(bp.NoBackend, both) == (
        "there are values of several frameworks, and a recording is of one\n"
        "  found: values of torch, tensorflow\n"
        '  next:  with bp.probe(backend="torch") as rec: or with bp.probe(backend="tensorflow") as rec:'
    )
    says(both(backend="torch"), grads={"a": 2})
    says(both(backend="tensorflow"), grads={"b": 3})


def test_a_block_that_reads_nothing():
    space: dict[str, Any] = {"bp": bp}
    with pytest.raises(bp.NoBackend, match="cannot infer the framework from the arguments") as caught:
        exec("with bp.probe() as rec: pass", space)
    assert caught.value.next == 'with bp.probe(backend="torch") as rec:'


class Tree(equinox.Module):
    weight: Any


class Net(flax.nnx.Module):
    def __init__(self):
        self.weight = flax.nnx.Param(jnp.ones(2))


IN_JAX = (
    "a block cannot be probed in JAX\n"
    "  asked: with bp.probe({}\n"
    "  found: JAX\n"
    "  why:   in JAX a gradient belongs to a function, with respect to its arguments; no tensor requires one by "
    "itself\n"
    "  next:  put the lines into a function f and write rec = bp.probe(f)(x)"
)


@pytest.mark.parametrize("target", [Tree(jnp.ones(2)), Net(), flax.linen.Dense(2)], ids=["equinox", "nnx", "linen"])
def test_a_block_around_a_model_of_jax_is_refused(target):
    with pytest.raises(bp.Unsupported) as caught, bp.probe(target):
        raise AssertionError
    assert str(caught.value) == IN_JAX.format("model)")


def test_a_block_in_jax_is_refused():
    x = JAX.tensor(3.0)
    with pytest.raises(bp.Unsupported) as caught, bp.probe():
        raise AssertionError(x * 2)
    assert str(caught.value) == IN_JAX.format(") as rec:")
