"""``bp.guard`` of a Keras model, and of a model of JAX: the call or the backward that brought NaN or Inf raises."""

from __future__ import annotations

import gc
import weakref

import equinox as eqx
import jax
import jax.numpy as jnp
import keras
import numpy as np
import optax
import pytest
import tensorflow as tf
from flax import linen, nnx

import backprobe as bp


@keras.saving.register_keras_serializable()
class Ratio(keras.Model):
    """Its output is not finite where the row is zero, nor its gradient where the root is at zero."""

    def __init__(self):
        super().__init__()
        self.inner = keras.layers.Dense(3)

    def call(self, x):
        h = self.inner(x)
        gap = h * tf.cast(x != 7, x.dtype)
        root = tf.sqrt(tf.abs(gap))
        return root / tf.reduce_sum(x, 1, keepdims=True)


@pytest.fixture(autouse=True)
def seeded():
    keras.utils.set_random_seed(0)


def ratio():
    net = Ratio()
    net(tf.ones((1, 3)))
    return net


def gradients(net, x, after=lambda out: out):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(after(net(x)))
    return tape.gradient(loss, net.trainable_variables)


POLE = tf.constant([[7.0, 1.0, 1.0]])


def test_a_call_that_returns_nan_raises_with_the_line():
    net = ratio()
    with bp.guard(net):
        gradients(net, tf.ones((4, 3)))
        with pytest.raises(bp.NotFinite) as caught:
            net(tf.zeros((4, 3)))
    first = caught.value.report.findings[0]
    assert (first.kind, first.headline) == ("born", "NaN is born at 'return': 0/0")
    assert first.source.text.strip() == "return root / tf.reduce_sum(x, 1, keepdims=True)"
    assert caught.value.headline == "NaN in what the call of Ratio returned"


def test_a_tape_that_gives_nan_raises_with_the_operation_before_the_optimizer_steps():
    net = ratio()
    before = net.get_weights()
    optimizer = keras.optimizers.SGD(0.1)
    with pytest.raises(bp.NotFinite) as caught, bp.guard(net):
        optimizer.apply_gradients(zip(gradients(net, POLE), net.trainable_variables))
    first = caught.value.report.findings[0]
    assert first.headline == "Inf is born in the backward of 'root': the derivative of sqrt is infinite at 0"
    assert first.source.text.strip() == "root = tf.sqrt(tf.abs(gap))"
    assert caught.value.headline == "NaN in the gradient of 'inner.kernel', 'inner.bias' after tape.gradient()"
    assert all(np.array_equal(a, b) for a, b in zip(before, net.get_weights()))


def test_what_the_loss_brought_is_not_blamed_on_the_model():
    net = ratio()
    with pytest.raises(bp.NotFinite) as caught, bp.guard(net):
        gradients(net, tf.ones((1, 3)), lambda out: tf.math.log(out * 0))
    (first,) = caught.value.report.findings
    assert first.kind == "came_in_backward"
    assert "what lies between it and tape.gradient(), such as the loss, brought it" in first.headline
    assert first.remedy.startswith("bp.explain(bp.probe(f, nonfinite=True)(x))")


def test_allowed_outputs_parameters_and_places_do_not_raise():
    net = ratio()
    with bp.guard(net, allow=":return"):
        net(tf.zeros((1, 3)))
    with bp.guard(net, allow=["inner.kernel", "inner.bias"]):
        gradients(net, POLE)
    with bp.guard(net, allow=[":root", ":gap", ":abs()"]):
        gradients(net, POLE)
    with pytest.raises(bp.NotFinite), bp.guard(net, allow="elsewhere"):
        gradients(net, POLE)


def test_a_layer_that_is_called_by_itself_is_guarded_too():
    class Pair(keras.Model):
        def __init__(self):
            super().__init__()
            self.encoder, self.head = Ratio(), keras.layers.Dense(1)

    model = Pair()
    with bp.guard(model, allow="nothing"), pytest.raises(bp.NotFinite) as caught:
        model.head(model.encoder(tf.zeros((1, 3))))
    assert caught.value.headline == "NaN in what the call of 'encoder' (Ratio) returned"


# programs


def trained(guarded, steps=20):
    keras.utils.set_random_seed(3)
    net = keras.Sequential(
        [
            keras.layers.Dense(8),
            keras.layers.BatchNormalization(),
            keras.layers.ReLU(),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(1),
        ]
    )
    net.build((None, 4))
    optimizer, losses = keras.optimizers.Adam(0.01), []
    with guarded(net):
        for _ in range(steps):
            x = tf.random.normal((16, 4))
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((net(x, training=True)[:, 0] - tf.reduce_sum(x, 1)) ** 2)
            given = tape.gradient(loss, net.trainable_variables)
            optimizer.apply_gradients(zip(given, net.trainable_variables))
            losses.append(float(loss))
    return losses, [variable.numpy() for variable in net.variables], tf.random.uniform((3,)).numpy()


def test_twenty_steps_are_bitwise_the_same():
    bare, guarded = trained(lambda net: tf.GradientTape()), trained(bp.guard)
    assert bare[0] == guarded[0]
    assert all(np.array_equal(one, other) for one, other in zip(bare[1], guarded[1], strict=True))
    assert np.array_equal(bare[2], guarded[2])


def test_dropout_and_running_statistics_are_as_in_the_call_itself():
    class Noisy(keras.Model):
        def __init__(self):
            super().__init__()
            self.norm, self.drop = keras.layers.BatchNormalization(), keras.layers.Dropout(0.5)
            self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False, name="calls")

        def call(self, x, training=False):
            self.calls.assign_add(1.0)
            h = self.drop(self.norm(x, training=training), training=training)
            return tf.math.log(tf.abs(self.calls - 3) + tf.abs(h) * 0)

    net = Noisy()
    net(tf.ones((1, 3)))
    net.calls.assign(0.0)
    with bp.guard(net):
        for _ in range(2):
            net(tf.random.normal((8, 3)), training=True)
        states = [variable.numpy() for variable in net.variables]
        with pytest.raises(bp.NotFinite) as caught:
            net(tf.random.normal((8, 3)), training=True)
    assert caught.value.report.findings[0].headline.startswith("Inf is born at 'return': log(0)")
    assert net.calls.numpy() == 3
    assert not np.array_equal(states[-2], net.variables[-2].numpy())


def test_random_numbers_that_go_on_are_said():
    class Draws(keras.Model):
        def call(self, x):
            return tf.math.log(x * 0 * tf.random.uniform(x.shape))

    net = Draws()
    with pytest.raises(bp.NotFinite) as caught, bp.guard(net):
        net(tf.ones(3))
    (first,) = caught.value.report.findings
    assert first.kind == "unknown"
    assert first.headline.endswith("it draws random numbers with RandomUniform, which draws others each time")


def test_variables_that_the_call_made_are_said():
    net = keras.Sequential([keras.layers.Dense(2), keras.layers.BatchNormalization()])
    with pytest.raises(bp.NotFinite) as caught, bp.guard(net):
        net(tf.constant([[np.inf]]), training=True)
    assert caught.value.report.findings[0].headline.endswith("what they began with is not known")
    plain = keras.Sequential([keras.layers.Dense(2)])
    with pytest.raises(bp.NotFinite) as caught, bp.guard(plain):
        plain(tf.constant([[np.inf]]))
    assert caught.value.report.findings[0].kind == "came_in"


def test_a_gan_with_two_models_and_a_guard_on_each():
    generator, judge = (keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)]) for _ in range(2))
    optimizers = [keras.optimizers.Adam(0.01), keras.optimizers.Adam(0.01)]

    def step(spoil):
        for net, optimizer, sign in ((judge, optimizers[1], 1.0), (generator, optimizers[0], spoil)):
            with tf.GradientTape() as tape:
                loss = sign * tf.reduce_mean(judge(generator(tf.random.normal((4, 2)))))
            optimizer.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))

    with bp.guard(generator), bp.guard(judge):
        for _ in range(3):
            step(-1.0)
        with pytest.raises(bp.NotFinite) as caught:
            step(np.inf)
    assert caught.value.report.findings[0].kind == "came_in_backward"


def test_a_gradient_penalty_and_a_persistent_tape_are_not_disturbed():
    net = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)])
    x = tf.random.normal((4, 3))

    def penalized():
        with tf.GradientTape(persistent=True) as tape:
            with tf.GradientTape() as inner:
                inner.watch(x)
                out = net(x)
            slope = inner.gradient(out, x)
            loss = tf.reduce_mean(out) + tf.reduce_mean((tf.norm(slope, axis=1) - 1) ** 2)
            other = tf.reduce_sum(out**2)
        jacobian = [] if tf.config.functions_run_eagerly() else [tape.jacobian(out, net.trainable_variables[0])]
        return [
            *tape.gradient(loss, net.trainable_variables),
            *tape.gradient(other, net.trainable_variables),
            *jacobian,
        ]

    bare = penalized()
    with bp.guard(net):
        found = penalized()
    assert all(np.array_equal(a, b) for a, b in zip(bare, found, strict=True))


def test_forward_mode_is_not_disturbed():
    net = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)])
    x = tf.random.normal((4, 3))

    def pushed():
        with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as forward, tf.GradientTape() as tape:
            out = net(x)
        return forward.jvp(out), tape.gradient(out, net.trainable_variables[0])

    bare = pushed()
    with bp.guard(net):
        found = pushed()
    assert all(np.array_equal(one, other) for one, other in zip(bare, found, strict=True))


def test_masks_of_keras_stay_with_outputs_and_sparse_gradients_are_read():
    embed = keras.layers.Embedding(5, 3, mask_zero=True)
    head = keras.layers.LSTM(2)
    ids = tf.constant([[1, 2, 0]])

    def run(scale):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(head(embed(ids))) * scale
        return tape.gradient(loss, embed.trainable_variables)

    bare = run(1.0)
    with bp.guard(embed):
        found = run(1.0)
        with pytest.raises(bp.NotFinite, match="in the gradient of 'embeddings'"):
            run(np.nan)
    assert np.array_equal(tf.convert_to_tensor(bare[0]), tf.convert_to_tensor(found[0]))


def test_an_overflow_that_a_loss_scale_handles_does_not_raise():
    net = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=2.0**126)
    optimizer.build(net.trainable_variables)
    x = tf.fill((2, 2), 100.0)

    def step(spoil=1.0):
        with tf.GradientTape() as tape:
            scaled = optimizer.scale_loss(tf.reduce_sum(net(x)) * spoil)
        optimizer.apply(tape.gradient(scaled, net.trainable_variables), net.trainable_variables)

    with bp.guard(net):
        for _ in range(4):
            step()
    assert float(optimizer.dynamic_scale) == 2.0**122
    optimizer.dynamic_scale.assign(1.0)
    with pytest.raises(bp.NotFinite), bp.guard(net):
        step(np.inf)


def compiled_model(**options):
    keras.utils.set_random_seed(0)
    net = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    net.compile("sgd", "mse", **options)
    return net


def test_fit_that_runs_eagerly_is_guarded():
    x, y = np.ones((4, 3), "float32"), np.ones((4, 1), "float32")
    net = compiled_model(run_eagerly=True)
    with bp.guard(net):
        net.fit(x, y, verbose=0)
    with pytest.raises(bp.NotFinite, match="what the call of Sequential returned"), bp.guard(net):
        net.fit(x * np.inf, y, verbose=0)
    with pytest.raises(bp.NotFinite, match="comes in with the gradient"), bp.guard(net):
        net.fit(x, y * np.inf, verbose=0)


@pytest.mark.parametrize("ran_before", [False, True])
def test_compiled_programs_run_as_they_do_and_the_guard_says_that_it_saw_nothing(ran_before):
    x, y = np.full((4, 3), np.inf, "float32"), np.ones((4, 1), "float32")
    net = compiled_model()
    if ran_before:
        net.fit(x, y, verbose=0)
    with pytest.warns(UserWarning, match=r"bp.guard\(Sequential\) saw no call of it"), bp.guard(net):
        net.fit(x, y, verbose=0)
    assert np.isnan(net.get_weights()[0]).all()


def test_the_program_may_go_on_after_it_has_caught_the_error():
    net = ratio()
    with bp.guard(net):
        with pytest.raises(bp.NotFinite):
            gradients(net, POLE)
        assert all(np.isfinite(one).all() for one in gradients(net, tf.ones((2, 3))))


def test_other_errors_come_out_as_they_are_and_the_guard_goes_on():
    class Fails(keras.Model):
        def call(self, x):
            if float(tf.reduce_sum(x)) < 0:
                raise ZeroDivisionError("negative")
            return x / 0

    net = Fails()
    with bp.guard(net):
        with pytest.raises(ZeroDivisionError):
            net(-tf.ones(2))
        with pytest.raises(bp.NotFinite):
            net(tf.ones(2))


def test_nothing_is_left_behind():
    net = ratio()
    before = keras.layers.Layer.__call__, tf.GradientTape.gradient, keras.optimizers.LossScaleOptimizer.scale_loss
    with bp.guard(net):
        assert keras.layers.Layer.__call__ is not before[0]
        with tf.GradientTape() as tape:
            out = net(POLE)
    assert before == (
        keras.layers.Layer.__call__,
        tf.GradientTape.gradient,
        keras.optimizers.LossScaleOptimizer.scale_loss,
    )
    assert "call" not in vars(net)
    assert np.isnan(tape.gradient(out, net.trainable_variables)[0]).any()  # no longer guarded


def test_a_step_that_is_over_is_not_kept():
    net, kept = ratio(), []
    with bp.guard(net):
        for _ in range(3):
            x = tf.ones((2, 3)) + 1
            kept.append(weakref.ref(x))
            gradients(net, x)
        del x
        gc.collect()
        assert [one() for one in kept] == [None] * 3


# JAX


class Share(eqx.Module):
    linear: eqx.nn.Linear

    def __init__(self, key=0):
        self.linear = eqx.nn.Linear(3, 3, key=jax.random.key(key))

    def __call__(self, x):
        h = self.linear(x)
        return h / x.sum()


ZERO_ROW = jnp.ones((4, 3)).at[2].set(0)


@pytest.mark.parametrize(
    "call",
    [
        lambda model: model(ZERO_ROW[2]),
        lambda model: jax.vmap(model)(ZERO_ROW),
        lambda model: jax.vmap(model, in_axes=1, out_axes=1)(ZERO_ROW.T),
        lambda model: jax.grad(lambda model: model(ZERO_ROW[2]).sum())(model),
        lambda model: eqx.filter_value_and_grad(lambda model: jax.vmap(model)(ZERO_ROW).sum())(model),
        lambda model: jax.jvp(model, (ZERO_ROW[2],), (ZERO_ROW[0],)),
        lambda model: jax.jacfwd(model)(ZERO_ROW[2]),
    ],
    ids=["plain", "vmap", "vmap_axes", "grad", "grad_vmap", "jvp", "jacfwd"],
)
def test_a_call_in_jax_raises_with_the_line(call):
    model = Share()
    with pytest.raises(bp.NotFinite) as caught, bp.guard(model):
        call(model)
    first = caught.value.report.findings[0]
    assert first.headline == "Inf is born at 'return': division by zero"
    assert first.source.text.strip() == "return h / x.sum()"
    assert all(one.kind != "born_backward" for one in caught.value.report.findings)
    assert caught.value.headline == "Inf in what the call of Share returned"


class Noisy(nnx.Module):
    def __init__(self, rngs):
        self.linear, self.drop = nnx.Linear(3, 8, rngs=rngs), nnx.Dropout(0.5, rngs=rngs)
        self.seen = nnx.Variable(jnp.zeros(8))

    def __call__(self, x):
        dropped = self.drop(self.linear(x))
        self.seen[...] = (dropped == 0).astype(float)
        scale = jnp.ones(8) / dropped.at[0].set(1)
        return {"scaled": scale, "plain": dropped}


def test_a_call_of_nnx_is_made_again_with_the_random_numbers_that_it_had():
    model = Noisy(nnx.Rngs(0))
    with bp.guard(model, allow=":return.scaled"):
        model(jnp.ones(3))
    with bp.guard(model), pytest.raises(bp.NotFinite) as caught:
        model(jnp.ones(3))
    count, mask = int(model.drop.rngs.count[...]), model.seen[...]
    first = caught.value.report.findings[0]
    assert f"{int(mask[1:].sum())} Inf of 8" in str(first)
    assert count == 2  # the call that was made again was of a copy
    with bp.guard(model), pytest.raises(bp.NotFinite):
        nnx.grad(lambda model: model(jnp.ones(3))["scaled"].sum())(model)


def trained_in_jax(guarded):
    model, optimizer = Share(), optax.adam(0.01)
    state, losses = optimizer.init(eqx.filter(model, eqx.is_array)), []
    with guarded(model):
        for at in range(20):
            x = jax.random.normal(jax.random.key(at), (8, 3)) + 3
            loss, given = eqx.filter_value_and_grad(lambda model: (jax.vmap(model)(x) ** 2).mean())(model)
            updates, state = optimizer.update(given, state)
            model = eqx.apply_updates(model, updates)
            losses.append(float(loss))
    return losses, jax.tree.leaves(model)


def test_twenty_steps_in_jax_are_bitwise_the_same_and_nothing_is_left_behind():
    before = vars(Share)["__call__"]
    bare = trained_in_jax(lambda model: jax.disable_jit(False))
    guarded = trained_in_jax(bp.guard)
    assert bare[0] == guarded[0]
    assert all(np.array_equal(one, other) for one, other in zip(bare[1], guarded[1], strict=True))
    model = Share()
    with bp.guard(model):
        for _ in range(2):
            with pytest.raises(bp.NotFinite):
                model(ZERO_ROW[2])
        assert vars(Share)["__call__"] is not before
    assert vars(Share)["__call__"] is before


def test_what_jit_traces_is_not_looked_at_and_said():
    model = Share()
    with pytest.warns(UserWarning, match=r"bp.guard\(Share\) saw no call of it"), bp.guard(model):
        assert jnp.isinf(eqx.filter_jit(model)(ZERO_ROW[2])).all()
    with jax.disable_jit(), bp.guard(model), pytest.raises(bp.NotFinite):
        eqx.filter_jit(lambda model, x: model(x))(model, ZERO_ROW[2])


def test_in_jax_linen_is_refused_with_what_to_write():
    with pytest.raises(bp.Unsupported, match="a linen model cannot be guarded") as caught, bp.guard(linen.Dense(1)):
        pass
    assert "with bp.guard(): around jax.grad of the loss" in str(caught.value)
    with pytest.raises(bp.BadOption, match="takes a model, or nothing"), bp.guard(lambda x: jnp.log(x)):
        pass


def test_a_compiled_call_raises_and_names_no_line_where_it_cannot_be_made_again():
    class Compiled(eqx.Module):
        weight: jax.Array

        @eqx.filter_jit
        def __call__(self, x):
            return self.weight / x

    model = Compiled(jnp.ones(2))
    with bp.guard(model), pytest.raises(bp.NotFinite) as caught:
        model(jnp.zeros(2))
    (first,) = caught.value.report.findings
    assert first.kind == "unknown"
    assert first.headline == "Inf comes out of the model: created inside it, or already in its inputs"
