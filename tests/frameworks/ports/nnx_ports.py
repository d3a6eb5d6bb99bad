"""Ports to Flax NNX."""

import math

import jax
import jax.numpy as jnp
from flax import nnx

import backprobe as bp
from ports.port import TOKENS, Port, images, in_torch, mean_square, weights
from ports.torch_models import (
    HEADS,
    WIDTH,
    WORDS,
    Attention,
    Cnn,
    GruCell,
    InputFirst,
    Mlp,
    OneProjection,
    Recurrent,
    Residual,
    Torch,
    Transformer,
    Upsampling,
    heads,
    seeded,
)

EMPTY = nnx.Rngs(0)


def linear(given, name, *, is_turned=True):
    """A Linear with the weights that the reference has under this name."""
    kernel = given[f"{name}.weight"].T if is_turned else given[f"{name}.weight"]
    made = nnx.Linear(*kernel.shape, rngs=EMPTY)
    made.kernel[...], made.bias[...] = kernel, given[f"{name}.bias"]
    return made


def conv(given, name, **options):
    weight = given[f"{name}.weight"]
    out, size, *window = weight.shape
    has_bias = f"{name}.bias" in given
    made = nnx.Conv(size, out, tuple(window), use_bias=has_bias, rngs=EMPTY, **options)
    made.kernel[...] = weight.transpose(2, 3, 1, 0)
    if has_bias:
        made.bias[...] = given[f"{name}.bias"]
    return made


def layer_norm(given, name, epsilon=1e-5):
    made = nnx.LayerNorm(len(given[f"{name}.weight"]), epsilon=epsilon, rngs=EMPTY)
    made.scale[...], made.bias[...] = given[f"{name}.weight"], given[f"{name}.bias"]
    return made


def batch_norm(given, name, epsilon=1e-5):
    made = nnx.BatchNorm(len(given[f"{name}.weight"]), use_running_average=True, epsilon=epsilon, rngs=EMPTY)
    made.scale[...], made.bias[...] = given[f"{name}.weight"], given[f"{name}.bias"]
    made.mean[...], made.var[...] = given[f"{name}.running_mean"], given[f"{name}.running_var"]
    return made


def embed(given, name="embed"):
    made = nnx.Embed(*given[f"{name}.weight"].shape, rngs=EMPTY)
    made.embedding[...] = given[f"{name}.weight"]
    return made


class JaxMlp(nnx.Module):
    def __init__(self, given, is_faulty):
        self.linear1, self.linear3 = linear(given, "linear1"), linear(given, "linear3")
        self.linear2 = linear(given, "linear2", is_turned=not is_faulty)

    def __call__(self, x):
        x = nnx.relu(self.linear1(x))
        x = nnx.relu(self.linear2(x))
        return self.linear3(x)


def mlp(is_faulty):
    model, x = seeded(Mlp), images(5, 4)
    return in_torch(model, x), bp.probe(JaxMlp(weights(model), is_faulty), of=mean_square)(jnp.asarray(x))


class JaxCnn(nnx.Module):
    def __init__(self, given, is_faulty):
        self.conv1, self.conv2 = conv(given, "conv1"), conv(given, "conv2")
        if is_faulty:
            self.conv2.kernel[...] = given["conv2.weight"].transpose(3, 2, 1, 0)
        self.fc = linear(given, "fc")

    def __call__(self, x):
        x = nnx.avg_pool(nnx.relu(self.conv1(x)), (2, 2), (2, 2))
        x = nnx.relu(self.conv2(x))
        return self.fc(x.mean((1, 2)))


def cnn(is_faulty):
    model, x = seeded(Cnn), images(2, 2, 4, 4)
    port = JaxCnn(weights(model), is_faulty)
    return in_torch(model, x), bp.probe(port, of=mean_square)(jnp.asarray(x).transpose(0, 2, 3, 1))


class JaxResidual(nnx.Module):
    def __init__(self, given, is_faulty):
        self.conv1, self.bn1 = conv(given, "conv1"), batch_norm(given, "bn1", 1e-3 if is_faulty else 1e-5)
        self.conv2, self.bn2 = conv(given, "conv2"), batch_norm(given, "bn2")
        self.fc = linear(given, "fc")

    def __call__(self, x):
        y = nnx.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return self.fc(nnx.relu(x + y).mean((1, 2)))


def residual(is_faulty):
    model, x = seeded(Residual), images(2, 3, 4, 4)
    port = JaxResidual(weights(model), is_faulty)
    return in_torch(model, x), bp.probe(port, of=mean_square)(jnp.asarray(x).transpose(0, 2, 3, 1))


def lstm_cell(given, gates="ifgo"):
    """A cell, whose gates PyTorch has in one parameter in the order i, f, g, o."""
    size = given["cell.weight_hh"].shape[1]
    made = nnx.LSTMCell(given["cell.weight_ih"].shape[1], size, rngs=EMPTY)
    for at, gate in enumerate(gates):
        part = slice(at * size, (at + 1) * size)
        own, state = getattr(made, "if_" if gate == "f" else f"i{gate}"), getattr(made, f"h{gate}")
        own.kernel[...], state.kernel[...] = given["cell.weight_ih"][part].T, given["cell.weight_hh"][part].T
        state.bias[...] = (given["cell.bias_ih"] + given["cell.bias_hh"])[part]
    return made


class JaxRecurrent(nnx.Module):
    def __init__(self, given, is_faulty):
        self.embed, self.head = embed(given), linear(given, "head")
        self.cell = lstm_cell(given, "figo" if is_faulty else "ifgo")

    def __call__(self, tokens):
        x = self.embed(tokens)
        carry = (jnp.zeros((x.shape[0], 5)),) * 2
        for step in range(x.shape[1]):
            carry, h = self.cell(carry, x[:, step])
        return self.head(h)


def recurrent(is_faulty):
    model = seeded(Recurrent)
    port = JaxRecurrent(weights(model), is_faulty)
    return in_torch(model, TOKENS), bp.probe(port, of=mean_square)(jnp.asarray(TOKENS))


def mixed(q, k, v, scale):
    scores = heads(q) @ heads(k).swapaxes(-1, -2) * scale
    return (jax.nn.softmax(scores, -1) @ heads(v)).swapaxes(-2, -3).reshape(q.shape)


SCALE = 1 / math.sqrt(WIDTH // HEADS)


class Separate(nnx.Module):
    def __init__(self, given, scale):
        self.q, self.k, self.v, self.o = (linear(given, f"attn.{name}") for name in "qkvo")
        self.scale = scale

    def __call__(self, x):
        return self.o(mixed(self.q(x), self.k(x), self.v(x), self.scale))


class JaxTransformer(nnx.Module):
    def __init__(self, given, attention, epsilon=1e-5):
        self.embed, self.ln_1, self.ln_2 = (
            embed(given),
            layer_norm(given, "ln_1", epsilon),
            layer_norm(given, "ln_2", epsilon),
        )
        self.attn = attention
        self.up, self.down, self.head = linear(given, "up"), linear(given, "down"), linear(given, "head")

    def __call__(self, tokens):
        x = self.embed(tokens)
        x = x + self.attn(self.ln_1(x))
        x = x + self.down(nnx.relu(self.up(self.ln_2(x))))
        return self.head(x)


def separate(is_faulty):
    model = seeded(Transformer, lambda: Attention("q", "k", "v", "o"))
    given = weights(model)
    port = JaxTransformer(given, Separate(given, 1.0 if is_faulty else SCALE))
    return in_torch(model, TOKENS), bp.probe(port, of=mean_square)(jnp.asarray(TOKENS))


class OneLinear(nnx.Module):
    def __init__(self, given, is_turned=True):
        self.c_attn, self.c_proj = (linear(given, f"attn.{name}", is_turned=is_turned) for name in ("c_attn", "c_proj"))

    def __call__(self, x):
        return self.c_proj(mixed(*jnp.split(self.c_attn(x), 3, -1), SCALE))


def one_projection(is_faulty):
    model = seeded(Transformer, OneProjection)
    given = weights(model)
    port = JaxTransformer(given, OneLinear(given), 1e-6 if is_faulty else 1e-5)
    return in_torch(model, TOKENS), bp.probe(port, of=mean_square)(jnp.asarray(TOKENS))


def input_first(is_faulty):
    model = seeded(Transformer, InputFirst)
    given = weights(model)
    port = JaxTransformer(given, OneLinear(given, is_turned=False))
    if is_faulty:
        port.attn.c_proj.kernel[...] = given["attn.c_proj.weight"].T
    return in_torch(model, TOKENS), bp.probe(port, of=mean_square)(jnp.asarray(TOKENS))


def packed_attention(given, names):
    """The attention of Flax, from the one parameter that PyTorch has."""
    made = nnx.MultiHeadAttention(HEADS, WIDTH, decode=False, rngs=EMPTY)
    for at, name in enumerate(names):
        part = slice(at * WIDTH, (at + 1) * WIDTH)
        own = getattr(made, name)
        own.kernel[...] = given["attn.in_proj_weight"][part].T.reshape(WIDTH, HEADS, -1)
        own.bias[...] = given["attn.in_proj_bias"][part].reshape(HEADS, -1)
    made.out.kernel[...] = given["attn.out_proj.weight"].T.reshape(HEADS, -1, WIDTH)
    made.out.bias[...] = given["attn.out_proj.bias"]
    return made


def packed(is_faulty):
    model = seeded(Torch)
    given = weights(model)
    names = ("key", "query", "value") if is_faulty else ("query", "key", "value")
    port = JaxTransformer(given, packed_attention(given, names))
    return in_torch(model, TOKENS), bp.probe(port, of=mean_square)(jnp.asarray(TOKENS))


class JaxGru(nnx.Module):
    """The cell of NNX adds one bias alone: the reference has 0 for the other."""

    def __init__(self, given, is_faulty):
        self.embed, self.head, self.cell = embed(given), linear(given, "head"), nnx.GRUCell(4, 5, rngs=EMPTY)
        self.cell.dense_i.kernel[...], self.cell.dense_i.bias[...] = given["cell.weight_ih"].T, given["cell.bias_ih"]
        order = [*range(5, 10), *range(5), *range(10, 15)] if is_faulty else [*range(15)]
        self.cell.dense_h.kernel[...] = given["cell.weight_hh"][jnp.array(order)].T

    def __call__(self, tokens):
        x = self.embed(tokens)
        h = jnp.zeros((x.shape[0], 5))
        for step in range(x.shape[1]):
            h, _ = self.cell(h, x[:, step])
        return self.head(h)


def gru(is_faulty):
    model = seeded(GruCell)
    model.cell.bias_hh.data.zero_()
    port = JaxGru(weights(model), is_faulty)
    return in_torch(model, TOKENS), bp.probe(port, of=mean_square)(jnp.asarray(TOKENS))


class JaxUpsampling(nnx.Module):
    def __init__(self, given, is_faulty):
        self.depthwise, self.pointwise = (
            nnx.Conv(3, 3, (3, 3), feature_group_count=3, rngs=EMPTY),
            conv(given, "pointwise"),
        )
        self.depthwise.kernel[...], self.depthwise.bias[...] = (
            given["depthwise.weight"].transpose(2, 3, 1, 0),
            given["depthwise.bias"],
        )
        self.up = nnx.ConvTranspose(4, 2, (3, 3), 3, padding="VALID", transpose_kernel=True, rngs=EMPTY)
        kernel = given["up.weight"].transpose(2, 3, 1, 0)
        self.up.kernel[...], self.up.bias[...] = kernel.swapaxes(0, 1) if is_faulty else kernel, given["up.bias"]

    def __call__(self, x):
        return self.up(nnx.relu(self.pointwise(nnx.relu(self.depthwise(x)))))


def upsampling(is_faulty):
    model, x = seeded(Upsampling), images(2, 3, 4, 4)
    port = JaxUpsampling(weights(model), is_faulty)
    return in_torch(model, x), bp.probe(port, of=mean_square)(jnp.asarray(x).transpose(0, 2, 3, 1))


BASICS = "https://flax.readthedocs.io/en/latest/nnx_basics.html"
MNIST = "https://flax.readthedocs.io/en/latest/mnist_tutorial.html"
MINI_GPT = "https://docs.jaxstack.ai/en/latest/JAX_for_LLM_pretraining.html"
NANO_GPT = "https://github.com/karpathy/nanoGPT/blob/master/model.py"
GPT_2 = "https://github.com/huggingface/transformers/blob/main/src/transformers/pytorch_utils.py"

NNX = (
    Port("nnx-mlp", mlp, "a weight that is not transposed", ("linear2.weight",), address=BASICS),
    Port("nnx-cnn", cnn, "the axes of a window exchanged", ("conv2.weight",), address=MNIST),
    Port("nnx-batch-norm", residual, "another epsilon", ("bn1",), is_whole=False),
    Port("nnx-lstm", recurrent, "two gates exchanged", ("cell.weight_ih",), is_whole=False),
    Port("nnx-gru", gru, "two gates exchanged", ("cell.weight_hh",), is_whole=False),
    Port("nnx-upsampling", upsampling, "the axes of a window exchanged", ("up.weight",)),
    Port("nnx-separate", separate, "attention without its scale", ("attn.o",)),
    Port("nnx-one-projection", one_projection, "another epsilon", ("ln_1",), address=NANO_GPT),
    Port(
        "nnx-input-first",
        input_first,
        "a weight that is transposed",
        ("attn.c_proj.weight", "attn.c_proj"),
        address=GPT_2,
    ),
    Port("nnx-packed", packed, "q and k exchanged", ("attn.in_proj_weight",), is_whole=False, address=MINI_GPT),
)
assert WORDS > TOKENS.max()
