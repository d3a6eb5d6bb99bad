"""Ports to Equinox, whose layers have their weights as PyTorch has them. Examples go singly."""

import equinox as eqx
import jax
import jax.numpy as jnp

import backprobe as bp
from ports.port import TOKENS, Port, images, in_torch, mean_square, weights
from ports.torch_models import HEADS, WIDTH, Cnn, GruCell, Mlp, Recurrent, Torch, seeded

KEY = jax.random.key(0)
ONE = TOKENS[0]


def with_weights(layer, **arrays):
    """A layer with these parameters."""
    for name, array in arrays.items():
        layer = eqx.tree_at(lambda layer, name=name: getattr(layer, name), layer, array)
    return layer


def linear(given, name):
    out, size = given[f"{name}.weight"].shape
    made = eqx.nn.Linear(size, out, key=KEY)
    return with_weights(made, weight=given[f"{name}.weight"], bias=given[f"{name}.bias"])


def conv(given, name):
    out, size, *window = given[f"{name}.weight"].shape
    made = eqx.nn.Conv2d(size, out, window, padding=1, key=KEY)
    return with_weights(made, weight=given[f"{name}.weight"], bias=given[f"{name}.bias"][:, None, None])


def embed(given):
    return with_weights(eqx.nn.Embedding(*given["embed.weight"].shape, key=KEY), weight=given["embed.weight"])


class JaxMlp(eqx.Module):
    linear1: eqx.nn.Linear
    linear2: eqx.nn.Linear
    linear3: eqx.nn.Linear

    def __call__(self, x):
        x = jax.nn.relu(jax.vmap(self.linear1)(x))
        x = jax.nn.relu(jax.vmap(self.linear2)(x))
        return jax.vmap(self.linear3)(x)


def mlp(is_faulty):
    model, x = seeded(Mlp), images(5, 4)
    given = weights(model)
    port = JaxMlp(*(linear(given, f"linear{at}") for at in (1, 2, 3)))
    if is_faulty:
        port = eqx.tree_at(lambda port: port.linear2.weight, port, given["linear2.weight"].T)
    return in_torch(model, x), bp.probe(port, of=mean_square)(jnp.asarray(x))


class JaxCnn(eqx.Module):
    """Layers in a list, as the examples have them."""

    layers: list

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def cnn(is_faulty):
    model, x = seeded(Cnn), images(2, 4, 4)
    given = weights(model)
    pool = eqx.nn.AvgPool2d(2, 2)
    layers = [
        conv(given, "conv1"),
        jax.nn.relu,
        pool,
        conv(given, "conv2"),
        jax.nn.relu,
        lambda x: x.mean((1, 2)),
        linear(given, "fc"),
    ]
    if is_faulty:
        layers[3] = with_weights(layers[3], weight=given["conv2.weight"].transpose(0, 1, 3, 2))
    port = bp.probe(JaxCnn(layers), of=mean_square)(jnp.asarray(x))
    return in_torch(model, x), port


class JaxRecurrent(eqx.Module):
    embed: eqx.nn.Embedding
    cell: eqx.nn.LSTMCell
    head: eqx.nn.Linear

    def __call__(self, tokens):
        x = jax.vmap(self.embed)(tokens)
        state = jnp.zeros(5), jnp.zeros(5)
        for step in range(len(tokens)):
            state = self.cell(x[step], state)
        return self.head(state[0])


def recurrent(is_faulty):
    model = seeded(Recurrent)
    given = weights(model)
    bias = given["cell.bias_ih"] + (0 if is_faulty else given["cell.bias_hh"])
    cell = with_weights(
        eqx.nn.LSTMCell(5, 5, key=KEY), weight_ih=given["cell.weight_ih"], weight_hh=given["cell.weight_hh"], bias=bias
    )
    port = JaxRecurrent(embed(given), cell, linear(given, "head"))
    return in_torch(model, ONE), bp.probe(port, of=mean_square)(jnp.asarray(ONE))


class JaxTransformer(eqx.Module):
    embed: eqx.nn.Embedding
    ln_1: eqx.nn.LayerNorm
    ln_2: eqx.nn.LayerNorm
    attn: eqx.nn.MultiheadAttention
    up: eqx.nn.Linear
    down: eqx.nn.Linear
    head: eqx.nn.Linear

    def __call__(self, tokens):
        x = jax.vmap(self.embed)(tokens)
        n = jax.vmap(self.ln_1)(x)
        x = x + self.attn(n, n, n)
        h = jax.nn.relu(jax.vmap(self.up)(jax.vmap(self.ln_2)(x)))
        return jax.vmap(self.head)(x + jax.vmap(self.down)(h))


def norm(given, name, eps):
    return with_weights(eqx.nn.LayerNorm(WIDTH, eps), weight=given[f"{name}.weight"], bias=given[f"{name}.bias"])


def attention(given):
    """The attention of Equinox, whose projections PyTorch has in one parameter."""
    bias = dict.fromkeys(("use_query_bias", "use_key_bias", "use_value_bias", "use_output_bias"), True)
    made = eqx.nn.MultiheadAttention(HEADS, WIDTH, **bias, key=KEY)
    for at, name in enumerate(("query_proj", "key_proj", "value_proj")):
        part = slice(at * WIDTH, (at + 1) * WIDTH)
        own = with_weights(
            getattr(made, name), weight=given["attn.in_proj_weight"][part], bias=given["attn.in_proj_bias"][part]
        )
        made = eqx.tree_at(lambda made, name=name: getattr(made, name), made, own)
    return eqx.tree_at(lambda made: made.output_proj, made, linear(given, "attn.out_proj"))


def transformer(is_faulty):
    model = seeded(Torch)
    given = weights(model)
    eps = 1e-12 if is_faulty else 1e-5
    port = JaxTransformer(
        embed(given),
        norm(given, "ln_1", eps),
        norm(given, "ln_2", eps),
        attention(given),
        *(linear(given, name) for name in ("up", "down", "head")),
    )
    return in_torch(model, ONE), bp.probe(port, of=mean_square)(jnp.asarray(ONE))


class JaxGru(eqx.Module):
    embed: eqx.nn.Embedding
    cell: eqx.nn.GRUCell
    head: eqx.nn.Linear

    def __call__(self, tokens):
        x, h = jax.vmap(self.embed)(tokens), jnp.zeros(5)
        for step in range(len(tokens)):
            h = self.cell(x[step], h)
        return self.head(h)


def gru(is_faulty):
    model = seeded(GruCell)
    given = weights(model)
    own, state = given["cell.bias_ih"], given["cell.bias_hh"]
    cell = with_weights(
        eqx.nn.GRUCell(4, 5, key=KEY),
        weight_ih=given["cell.weight_ih"],
        weight_hh=given["cell.weight_hh"],
        bias=jnp.concatenate([own[:10] + state[:10], own[10:]]),
        bias_n=own[10:] if is_faulty else state[10:],
    )
    port = JaxGru(embed(given), cell, linear(given, "head"))
    return in_torch(model, ONE), bp.probe(port, of=mean_square)(jnp.asarray(ONE))


MNIST = "https://docs.kidger.site/equinox/examples/mnist/"
RNN = "https://docs.kidger.site/equinox/examples/train_rnn/"
BERT = "https://docs.kidger.site/equinox/examples/bert/"

EQUINOX = (
    Port("equinox-mlp", mlp, "a weight that is transposed", ("linear2.weight",)),
    Port("equinox-cnn", cnn, "the axes of a window exchanged", ("conv2.weight",), is_whole=False, address=MNIST),
    Port("equinox-lstm", recurrent, "a bias that is left out", ("cell.bias_ih",), address=RNN),
    Port("equinox-gru", gru, "the bias of one gate taken for another", ("cell.bias_hh",)),
    Port("equinox-attention", transformer, "another epsilon", ("ln_1",), is_whole=False, address=BERT),
)
