"""Haiku: functions with parameters that `hk.transform` takes out of them."""

import haiku as hk
import jax
import jax.numpy as jnp

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
    fixed = jax.lax.stop_gradient(hidden)  # <- cut
    return hk.Linear(3, name="second")(fixed)


cut_network = hk.without_apply_rng(hk.transform(cut_net))


def cut_loss(params, images):
    logits = cut_network.apply(params, images)
    return jnp.sum(logits**2)


def nan_net(images):
    hidden = hk.Linear(5, name="first")(images)
    logs = jnp.log(hidden - 100.0)  # <- nan
    return hk.Linear(3, name="second")(logs)


nan_network = hk.without_apply_rng(hk.transform(nan_net))


def nan_loss(params, images):
    logits = nan_network.apply(params, images)
    return jnp.sum(logits**2)
