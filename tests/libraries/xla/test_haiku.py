"""Haiku: functions with parameters that `hk.transform` takes out of them."""

import haiku as hk
import jax
import jax.numpy as jnp
from in_jax import by, descending

FRAMEWORK, LIBRARIES = "JAX", ("dm-haiku",)

KEY = jax.random.PRNGKey(3)
X = jnp.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
LABELS = jnp.array([0, 2])

# https://github.com/google-deepmind/dm-haiku#quickstart


def net_fn(images):
    mlp = hk.Sequential([hk.Linear(5), jax.nn.relu, hk.Linear(3)])
    logits = mlp(images)
    return logits


network = hk.without_apply_rng(hk.transform(net_fn))


def cross_entropy(params, images, labels):
    logits = network.apply(params, images)
    labels = jax.nn.one_hot(labels, 3)
    likelihood = jnp.sum(labels * jax.nn.log_softmax(logits))
    return -likelihood / labels.shape[0]


# https://dm-haiku.readthedocs.io/en/latest/api.html#hk-transform-with-state


class Encoder(hk.Module):
    def __init__(self, width, name=None):
        super().__init__(name=name)
        self.width = width

    def __call__(self, x, is_training):
        scale = hk.get_parameter("scale", [x.shape[-1]], init=jnp.ones)
        scaled = x * scale
        hidden = hk.Linear(self.width, name="inner")(scaled)
        normed = hk.BatchNorm(True, True, 0.9)(hidden, is_training)
        return jnp.tanh(normed)


def encode(x, is_training):
    h = Encoder(4, name="encoder")(x, is_training)
    return hk.Linear(1, name="head")(h)


stateful = hk.without_apply_rng(hk.transform_with_state(encode))


def batch_norm_loss(params, state, x):
    out, state = stateful.apply(params, state, x, True)
    loss = jnp.mean(out**2)
    return loss + jnp.mean(x * 0.0), state


def evaluated(params, state, x):
    out, _ = stateful.apply(params, state, x, False)
    return jnp.mean(out**2)


# https://github.com/google-deepmind/dm-haiku/blob/main/examples/rnn/model.py


def unroll_net(seqs):
    core = hk.LSTM(4)
    initial = core.initial_state(seqs.shape[1])
    outs, state = hk.dynamic_unroll(core, seqs, initial)
    read = hk.BatchApply(hk.Linear(1))(outs)
    return read, state


rnn = hk.without_apply_rng(hk.transform(unroll_net))


def sequence_loss(params, seqs):
    preds, _ = rnn.apply(params, seqs)
    error = preds[:-1] - seqs[1:, :, :1]
    return jnp.mean(error**2)


# https://dm-haiku.readthedocs.io/en/latest/api.html#hk-layer-stack and hk.remat, hk.dropout


def stacked(x):
    def block(h):
        h = h + hk.remat(hk.Linear(3))(jnp.tanh(h))
        return h

    h = hk.experimental.layer_stack(3)(block)(x)
    h = hk.dropout(hk.next_rng_key(), 0.5, h)
    return h


stack = hk.transform(stacked)


def stack_loss(params, key, x):
    out = stack.apply(params, key, x)
    return jnp.sum(out**2)


# planted


def cut_net(images):
    hidden = hk.Linear(5, name="first")(images)
    fixed = jax.lax.stop_gradient(hidden)
    return hk.Linear(3, name="second")(fixed)


cut_network = hk.without_apply_rng(hk.transform(cut_net))


def cut_loss(params, images):
    logits = cut_network.apply(params, images)  # <- cut
    return jnp.sum(logits**2)


def nan_net(images):
    hidden = hk.Linear(5, name="first")(images)
    logs = jnp.log(hidden - 100.0)  # <- nan
    return hk.Linear(3, name="second")(logs)


nan_network = hk.without_apply_rng(hk.transform(nan_net))


def nan_loss(params, images):
    logits = nan_network.apply(params, images)
    return jnp.sum(logits**2)


# asked


def test_quickstart(ask):
    params = network.init(KEY, X)
    rec = ask.function(cross_entropy, lambda: (params, X, LABELS))
    hot = jax.nn.one_hot(LABELS, 3)
    hidden = jax.nn.relu(X @ params["linear"]["w"] + params["linear"]["b"])
    logits = hidden @ params["linear_1"]["w"] + params["linear_1"]["b"]
    back = (jax.nn.softmax(logits) - hot) / 2
    right = {"params.linear_1.w": hidden.T @ back, "params.linear_1.b": back.sum(0), "logits": back, "likelihood": -0.5}
    ask.gradients(rec, right | by(cross_entropy, params, X, LABELS))
    ask.names(rec, "params.linear.w", "images", "logits", "likelihood")
    ask.statuses(rec, {"labels#0": "not_float"})
    ask.clean(rec)
    said = [str(one) for one in [*rec.notes, *rec]]
    ask.that(any("net_fn" in one for one in said), f"no word of net_fn: {said}")
    ask.works("`hk.transform`: parameters by module and name, and what the loss binds")
    ask.refuses("what the transformed function binds: a note")


def test_running_statistics(ask):
    params, state = stateful.init(KEY, X, True)
    rec = ask.function(batch_norm_loss_alone, lambda: (params, state, X))
    ask.gradients(rec, by(batch_norm_loss_alone, params, state, X), tolerance=1e-4)
    rec = ask.function(evaluated, lambda: (params, state, X))
    ask.gradients(rec, by(evaluated, params, state, X), tolerance=1e-4)
    ask.names(rec, "params.encoder.scale", "params.`encoder/inner`.w", "state.`encoder/batch_norm/~/mean_ema`.average")
    ask.clean(ask.function(evaluated, lambda: (params, state, X), wrt="params"))
    ask.select('names with a slash between back-quotes, as the errors spell them; with a state, `wrt="params"`')
    ask.works("`transform_with_state` with batch normalisation")


def batch_norm_loss_alone(params, state, x):
    loss, state = batch_norm_loss(params, state, x)
    return loss


def test_recurrent(ask):
    seqs = jnp.arange(12.0).reshape(3, 2, 2) / 6
    params = rnn.init(KEY, seqs)
    rec = ask.function(sequence_loss, lambda: (params, seqs))
    error = rec["error"].value
    ask.gradients(rec, by(sequence_loss, params, seqs) | {"error": 2 * error / error.size})
    ask.names(rec, "params.`lstm/linear`.w", "preds", "error")
    ask.clean(rec)
    ask.works("`hk.LSTM` under `hk.dynamic_unroll`")


def test_layer_stack(ask):
    params = stack.init(KEY, X)
    rec = ask.function(stack_loss, lambda: (params, KEY, X))
    ask.gradients(rec, by(stack_loss, params, KEY, X) | {"out": 2 * rec["out"].value})
    ask.clean(rec)
    ask.works("`hk.experimental.layer_stack`, `hk.remat`, `hk.dropout`")


def test_planted(ask):
    params = cut_network.init(KEY, X)
    ask.cut(ask.function(cut_loss, lambda: (params, X)), cut_loss)
    params = nan_network.init(KEY, X)
    ask.nan(ask.function(nan_loss, lambda: (params, X), nonfinite=True), nan_net)


def test_watch(ask):
    last = ask.watched_function(descending(cross_entropy, network.init(KEY, X), [(X, LABELS)] * 20))
    ask.rows(last, "params.linear.w", "params.linear_1.b", "logits")
    ask.works("`bp.watch_function` over 20 steps")
