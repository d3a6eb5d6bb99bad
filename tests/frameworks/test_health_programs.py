"""Health of programs that are well, and of programs that are ill: the same in PyTorch, TensorFlow and JAX."""

from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import keras
import numpy
import pytest
import tensorflow as tf
import torch
from flax import nnx

import backprobe as bp
from asked import well

TORCH = SimpleNamespace(
    name="torch",
    make=lambda a: torch.tensor(numpy.asarray(a, "float32")),
    tanh=torch.tanh,
    sigmoid=torch.sigmoid,
    relu=torch.relu,
    mean=torch.mean,
    sum=torch.sum,
    round=torch.round,
    where=torch.where,
    softmax=lambda a: a.softmax(1),
)
TENSORFLOW = SimpleNamespace(
    name="tensorflow",
    make=lambda a: tf.constant(a, tf.float32),
    tanh=tf.tanh,
    sigmoid=tf.sigmoid,
    relu=tf.nn.relu,
    mean=tf.reduce_mean,
    sum=tf.reduce_sum,
    round=tf.round,
    where=tf.where,
    softmax=tf.nn.softmax,
)
JAX = SimpleNamespace(
    name="jax",
    make=lambda a: jnp.asarray(a, "float32"),
    tanh=jnp.tanh,
    sigmoid=jax.nn.sigmoid,
    relu=jax.nn.relu,
    mean=jnp.mean,
    sum=jnp.sum,
    round=jnp.round,
    where=jnp.where,
    softmax=jax.nn.softmax,
)
each_framework = pytest.mark.parametrize("lib", [TORCH, TENSORFLOW, JAX], ids=lambda lib: lib.name)
BEGINS = "'{}' is zero and has a gradient itself, as where training begins at zero (LoRA, zero-initialised layers)"


def normal(*shape, scale=1.0, seed=0):
    return (numpy.random.RandomState(seed).randn(*shape) * scale).astype("float32")


def kinds(report):
    return [finding.kind for finding in report.findings]


def square(y):
    return (y**2).mean() if not tf.is_tensor(y) else tf.reduce_mean(y**2)


def keras_model(*layers, x):
    keras.utils.set_random_seed(0)
    model = keras.Sequential(list(layers))
    model(x)
    return model


# what begins at zero


@each_framework
def test_an_argument_that_is_zero_explains_its_other_factor(lib):
    x = lib.make(normal(16, 8))

    def adapted(w, a, b):
        low = x @ a
        up = low @ b
        return lib.mean((x @ w + up) ** 2)

    rest = [lib.make(normal(8, 8)), lib.make(normal(8, 2, seed=1))]
    (note,) = well(bp.health(bp.probe(adapted)(*rest, lib.make(numpy.zeros((2, 8)))))).notes
    assert note == f"the gradient of 'low' is zero, which is not a finding: {BEGINS.format('b')}"
    nothing = bp.probe(adapted)(rest[0], lib.make(numpy.zeros((8, 2))), lib.make(numpy.zeros((2, 8))))
    assert kinds(bp.health(nothing)) == ["zero_gradient", "zero_gradient"]


@each_framework
def test_an_argument_of_a_container_that_is_zero_explains_its_other_factor(lib):
    x = lib.make(normal(16, 8))

    def adapted(p):
        return lib.mean((x @ p["w"] + (x @ p["a"]) @ p["b"]) ** 2)

    given = {"w": normal(8, 8), "a": normal(8, 2), "b": numpy.zeros((2, 8))}
    (note,) = well(bp.health(bp.probe(adapted)({key: lib.make(each) for key, each in given.items()}))).notes
    assert note.endswith(BEGINS.format("p.b"))


@each_framework
def test_a_term_that_is_zero_is_no_factor(lib):
    def f(p, x):
        h = x @ p["w"] - 100
        return lib.sum(lib.relu(h) + p["b"])

    given = {"w": lib.make(normal(3, 2)), "b": lib.make(numpy.zeros(2))}
    report = bp.health(bp.probe(f)(given, lib.make(normal(4, 3))))
    assert [finding.name for finding in report.of_kind("zero_gradient")] == ["h"]


def test_a_gate_that_is_zero_inside_a_scan():
    def rezero(weights, gates, x):
        def block(h, given):
            w, gate = given
            h = h + gate * jnp.tanh(h @ w)
            return h, None

        h, _ = jax.lax.scan(block, x, (weights, gates))
        return (h**2).mean()

    arguments = [jnp.asarray(each) for each in (normal(6, 8, 8, scale=0.4), numpy.zeros(6, "float32"), normal(16, 8))]
    well(bp.health(bp.probe(rezero)(*arguments)))


def test_an_equinox_model_that_begins_at_zero():
    net = eqx.nn.MLP(4, 4, 16, 1, key=jax.random.key(0))
    net = eqx.tree_at(lambda net: (net.layers[-1].weight, net.layers[-1].bias), net, (jnp.zeros((4, 16)), jnp.zeros(4)))
    x = jnp.asarray(normal(16, 4))

    def loss(net):
        y = x + jax.vmap(net)(x)
        return (y**2).mean()

    notes = well(bp.health(bp.probe(loss)(net))).notes
    assert notes and all(note.endswith(BEGINS.format("net.layers.1.weight")) for note in notes)


@pytest.mark.parametrize("select", [None, ["**", "**:*"]])
def test_the_adapter_of_keras_names_the_factor_and_not_the_bias(select):
    x = normal(16, 8)
    model = keras_model(keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1), x=x)
    model.layers[0].enable_lora(2)
    (note,) = well(bp.health(bp.probe(model, select, of=square)(x))).notes
    assert ".lora_kernel_b' is zero and has a gradient itself" in note


def test_a_bias_that_is_zero_explains_no_layer_that_is_flat():
    class Sign(keras.layers.Dense):
        def call(self, x):
            return super().call(tf.sign(x))

    x = normal(16, 8)
    model = keras_model(keras.layers.Dense(8), Sign(1), x=x)
    report = bp.health(bp.probe(model, of=square)(x))
    assert [finding.kind for finding in report.findings] == ["zero_gradient"], str(report.notes)


# experts


class TorchExperts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.router = torch.nn.Linear(8, 3)
        self.experts = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        gate = self.router(x).softmax(1)
        hot = torch.nn.functional.one_hot(gate.argmax(1), 3)
        return sum((hot * gate)[:, at : at + 1] * expert(x) for at, expert in enumerate(self.experts))


class KerasExperts(keras.Model):
    def __init__(self):
        super().__init__()
        self.router = keras.layers.Dense(3)
        self.experts = [keras.layers.Dense(8) for _ in range(3)]

    def call(self, x):
        gate = tf.nn.softmax(self.router(x))
        hot = tf.one_hot(tf.argmax(gate, 1), 3)
        return sum((hot * gate)[:, at : at + 1] * expert(x) for at, expert in enumerate(self.experts))


class NnxExperts(nnx.Module):
    def __init__(self):
        self.router = nnx.Linear(8, 3, rngs=nnx.Rngs(0))
        self.experts = nnx.List([nnx.Linear(8, 8, rngs=nnx.Rngs(at)) for at in range(3)])

    def __call__(self, x):
        gate = jax.nn.softmax(self.router(x))
        hot = jax.nn.one_hot(jnp.argmax(gate, 1), 3)
        return sum((hot * gate)[:, at : at + 1] * expert(x) for at, expert in enumerate(self.experts))


@pytest.mark.parametrize("select", [None, ["**", "**:*"]])
@pytest.mark.parametrize(
    ("experts", "lib"),
    [(TorchExperts, TORCH), (KerasExperts, TENSORFLOW), (NnxExperts, JAX)],
    ids=["torch", "keras", "nnx"],
)
def test_experts_that_a_router_sends_nothing_to(experts, lib, select):
    keras.utils.set_random_seed(0)
    torch.manual_seed(0)
    model, x = experts(), lib.make(numpy.ones((3, 8)))
    model(x)
    notes = well(bp.health(bp.probe(model, select, of=square)(x))).notes
    assert (
        sum("beside it has one, as where a router sends nothing to some of its experts" in note for note in notes) == 2
    )


@each_framework
def test_experts_that_are_products_in_one_function(lib):
    x = lib.make(numpy.ones((3, 8)))

    def f(r, a, b, c):
        gate = lib.softmax(x @ r)
        w = lib.where(gate > 0.5, gate, 0.0 * gate)
        e1 = x @ a
        e2 = x @ b
        e3 = x @ c
        y = w[:, :1] * e1 + w[:, 1:2] * e2 + w[:, 2:] * e3
        return lib.mean(y**2)

    assert len(well(bp.health(bp.probe(f)(*map(lib.make, (normal(8, 3, scale=3), *normal(3, 8, 8)))))).notes) == 2


@each_framework
def test_branches_of_which_one_is_dead_are_no_experts(lib):
    x = lib.make(normal(16, 8))

    def f(a, b):
        h1 = x @ a - 100
        h2 = x @ b
        y = lib.relu(h1) + lib.relu(h2)
        return lib.mean(y**2)

    assert kinds(bp.health(bp.probe(f)(lib.make(normal(8, 8)), lib.make(normal(8, 8))))) == ["zero_gradient"]


class KerasGathered(KerasExperts):
    def call(self, x):
        gate = tf.nn.softmax(self.router(x))
        top, y = tf.argmax(gate, 1), tf.zeros_like(x)
        for number, expert in enumerate(self.experts):
            at = tf.where(top == number)
            out = expert(tf.gather_nd(x, at)) * tf.gather_nd(gate[:, number : number + 1], at)
            y = tf.tensor_scatter_nd_add(y, at, out)
        return y


class TorchGathered(TorchExperts):
    def forward(self, x):
        gate = self.router(x).softmax(1)
        top, y = gate.argmax(1), torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            at = (top == number).nonzero()[:, 0]
            y = y.index_add(0, at, expert(x[at]) * gate[at, number : number + 1])
        return y


@pytest.mark.parametrize(("experts", "lib"), [(TorchGathered, TORCH), (KerasGathered, TENSORFLOW)])
def test_experts_that_are_given_no_rows(experts, lib):
    model, x = experts(), lib.make(numpy.ones((3, 8)))
    model(x)
    notes = well(bp.health(bp.probe(model, of=square)(x))).notes
    assert len(notes) == 4 and all("has no element: nothing was given to it in this step" in note for note in notes)


# gradients that the program takes


def test_a_penalty_of_a_tape_need_not_change_with_a_relu():
    x = tf.constant(normal(16, 4))

    def f(w, b, v):
        with tf.GradientTape() as tape:
            tape.watch(x)
            h = x @ w + b
            a = tf.nn.relu(h)
            y = a @ v
        slope = tape.gradient(y, x)
        return tf.reduce_mean((tf.norm(slope, axis=1) - 1) ** 2)

    (note,) = well(bp.health(bp.probe(f)(*map(tf.constant, (normal(4, 16), normal(16), normal(16, 1)))))).notes
    assert "'slope' is a gradient that the program has taken, and does not change with it" in note


def attacked(net, x, labels, loss_of):
    for _ in range(7):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = loss_of(labels, net(x))
        slope = tape.gradient(loss, x)
        x = tf.clip_by_value(x + 0.05 * tf.sign(slope), 0, 1)
    return x


@pytest.mark.parametrize("form", ["block", "model", "function"])
def test_an_attack_by_gradients_in_tensorflow(form):
    x, labels = tf.abs(tf.constant(normal(16, 8))), tf.constant(numpy.arange(16) % 3)
    net = keras_model(keras.layers.Dense(16, activation="relu"), keras.layers.Dense(3), x=x)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    if form == "function":
        rec = bp.probe(lambda x: loss_of(labels, net(attacked(net, x, labels, loss_of))))(x)
    else:
        with bp.probe(net) if form == "model" else bp.probe() as rec:
            adversarial = attacked(net, x, labels, loss_of)
            with tf.GradientTape() as tape:
                final = loss_of(labels, net(adversarial))
            tape.gradient(final, net.trainable_variables)
    well(bp.health(rec))


@pytest.mark.parametrize("select", [None, ["**", "**:*"]])
def test_steps_of_a_keras_recurrence_that_a_mask_skips(select):
    words = numpy.where(numpy.arange(6) < [[3], [6], [2], [4]], 7, 0)
    layers = keras.layers.Embedding(50, 8, mask_zero=True), keras.layers.LSTM(8), keras.layers.Dense(1)
    well(bp.health(bp.probe(keras_model(*layers, x=words), select, of=square)(words)))


# what is ill


def stacked(depth, activation, scale):
    return [
        keras.layers.Dense(
            8, activation=activation, kernel_initializer=keras.initializers.RandomNormal(0, scale, seed=at)
        )
        for at in range(depth)
    ]


@pytest.mark.parametrize(
    ("activation", "scale", "found"), [("sigmoid", 0.3, "vanishing"), ("relu", 2.5, "exploding"), ("tanh", 0.4, None)]
)
@pytest.mark.parametrize("select", [None, ["**", "**:*"]])
def test_the_layers_of_keras_are_a_depth(activation, scale, found, select):
    x = normal(16, 8)
    report = bp.health(bp.probe(keras_model(*stacked(10, activation, scale), x=x), select, of=square)(x))
    along = [finding for finding in report.findings if "on the way to" in finding.headline]
    assert [finding.kind for finding in along] == ([found] if found else [])


def test_a_series_of_layers_is_said_once():
    layers = [part for _ in range(9) for part in (torch.nn.Linear(8, 8), torch.nn.Sigmoid())]
    report = bp.health(bp.probe(torch.nn.Sequential(*layers), ["**", "**:*"], of=square)(torch.ones(4, 8)))
    assert kinds(report) == ["vanishing"]


@pytest.mark.parametrize(("dead", "found"), [(16, True), (12, True), (4, False)])
def test_dead_units_of_a_keras_layer_with_its_activation(dead, found):
    x = normal(16, 8)
    model = keras_model(keras.layers.Dense(16, activation="relu", name="hidden"), keras.layers.Dense(1), x=x)
    kernel, _ = model.layers[0].get_weights()
    model.layers[0].set_weights([kernel, numpy.where(numpy.arange(16) < dead, -90.0, 1.0)])
    report = bp.health(bp.probe(model, of=lambda y: square(y - 1))(x))
    report = [one for one in report if one.kind in ("dead", "dead_units")]
    said = (
        f"{dead} of 16 units of 'hidden' are dead"
        if dead < 16
        else "'hidden' is dead: a share of 1 of what it returns is 0"
    )
    assert [finding.headline for finding in report] == [said] * found
    assert all("so is the gradient of 'hidden.kernel', 'hidden.bias' for them" in str(each.facts) for each in report)


def test_a_layer_of_zeros_without_activation_is_not_dead():
    x = normal(16, 8)
    model = keras_model(keras.layers.Dense(16, kernel_initializer="zeros"), keras.layers.Dense(1), x=x)
    assert not bp.health(bp.probe(model, of=lambda y: square(y - 1))(x)).of_kind("dead")
