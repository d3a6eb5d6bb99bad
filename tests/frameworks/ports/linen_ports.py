"""Ports to the linen API of Flax."""

import jax.numpy as jnp
from flax import linen as nn

import backprobe as bp
from ports.port import TOKENS, Port, images, in_torch, mean_square, weights
from ports.torch_models import (
    HEADS,
    WIDTH,
    WORDS,
    Attention,
    Cnn,
    Flattened,
    GruCell,
    Recurrent,
    Residual,
    Stack,
    Transformer,
    seeded,
)


def linear(given, name):
    return {"kernel": given[f"{name}.weight"].T, "bias": given[f"{name}.bias"]}


def conv(given, name):
    bias = {"bias": given[f"{name}.bias"]} if f"{name}.bias" in given else {}
    return {"kernel": given[f"{name}.weight"].transpose(2, 3, 1, 0), **bias}


def norm(given, name):
    return {"scale": given[f"{name}.weight"], "bias": given[f"{name}.bias"]}


def recorded(model, params, *arrays, **collections):
    return bp.probe(model, of=mean_square)({"params": params, **collections}, *arrays)


class JaxStack(nn.Module):
    """Layers that Flax names."""

    @nn.compact
    def __call__(self, x):
        for size in (6, 6, 6):
            x = nn.relu(nn.Dense(size)(x))
        return nn.Dense(3)(x)


def stack(is_faulty):
    model, x = seeded(Stack), images(5, 4)
    given = weights(model)
    params = {f"Dense_{at}": linear(given, f"layers.{at}") for at in range(4)}
    if is_faulty:
        params["Dense_2"]["kernel"] = params["Dense_2"]["kernel"].T
    return in_torch(model, x), recorded(JaxStack(), params, jnp.asarray(x))


class JaxCnn(nn.Module):
    """Layers that Flax names, by their classes."""

    @nn.compact
    def __call__(self, x):
        x = nn.avg_pool(nn.relu(nn.Conv(4, (3, 3))(x)), (2, 2), (2, 2))
        x = nn.relu(nn.Conv(4, (3, 3))(x))
        return nn.Dense(3)(x.mean((1, 2)))


def cnn(is_faulty):
    model, x = seeded(Cnn), images(2, 2, 4, 4)
    given = weights(model)
    params = {"Conv_0": conv(given, "conv1"), "Conv_1": conv(given, "conv2"), "Dense_0": linear(given, "fc")}
    image = jnp.asarray(x).transpose(0, 2, 3, 1) / (2.0 if is_faulty else 1.0)
    return in_torch(model, x), recorded(JaxCnn(), params, image)


class JaxResidual(nn.Module):
    epsilon: float

    def setup(self):
        self.conv1, self.conv2 = (nn.Conv(3, (3, 3), use_bias=False) for _ in range(2))
        self.bn1 = nn.BatchNorm(use_running_average=True)
        self.bn2 = nn.BatchNorm(use_running_average=True, epsilon=self.epsilon)
        self.fc = nn.Dense(2)

    def __call__(self, x):
        y = nn.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return self.fc(nn.relu(x + y).mean((1, 2)))


def residual(is_faulty):
    model, x = seeded(Residual), images(2, 3, 4, 4)
    given = weights(model)
    params = {name: conv(given, name) for name in ("conv1", "conv2")}
    params |= {name: norm(given, name) for name in ("bn1", "bn2")} | {"fc": linear(given, "fc")}
    statistics = {
        name: {"mean": given[f"{name}.running_mean"], "var": given[f"{name}.running_var"]} for name in ("bn1", "bn2")
    }
    image = jnp.asarray(x).transpose(0, 2, 3, 1)
    port = recorded(JaxResidual(1e-2 if is_faulty else 1e-5), params, image, batch_stats=statistics)
    return in_torch(model, x), port


class JaxRecurrent(nn.Module):
    def setup(self):
        self.embed, self.cell, self.head = nn.Embed(WORDS, 5), nn.OptimizedLSTMCell(5), nn.Dense(3)

    def __call__(self, tokens):
        x = self.embed(tokens)
        carry = (jnp.zeros((x.shape[0], 5)),) * 2
        for step in range(x.shape[1]):
            carry, h = self.cell(carry, x[:, step])
        return self.head(h)


def recurrent(is_faulty):
    model = seeded(Recurrent)
    given = weights(model)
    cell = {}
    for at, gate in enumerate("ifgo"):
        part = slice(at * 5, at * 5 + 5)
        cell[f"i{gate}"] = {"kernel": given["cell.weight_ih"][part].T}
        bias = given["cell.bias_ih"] + given["cell.bias_hh"]
        cell[f"h{gate}"] = {"kernel": given["cell.weight_hh"][part].T, "bias": bias[part]}
    if is_faulty:
        cell["hg"]["kernel"] = cell["hg"]["kernel"].T
    params = {"embed": {"embedding": given["embed.weight"]}, "cell": cell, "head": linear(given, "head")}
    return in_torch(model, TOKENS), recorded(JaxRecurrent(), params, jnp.asarray(TOKENS))


class JaxTransformer(nn.Module):
    def setup(self):
        self.embed = nn.Embed(WORDS, WIDTH)
        self.ln_1, self.ln_2 = nn.LayerNorm(epsilon=1e-5), nn.LayerNorm(epsilon=1e-5)
        self.attn = nn.MultiHeadDotProductAttention(HEADS)
        self.up, self.down, self.head = nn.Dense(16), nn.Dense(WIDTH), nn.Dense(WORDS)

    def __call__(self, tokens):
        x = self.embed(tokens)
        x = x + self.attn(self.ln_1(x))
        x = x + self.down(nn.relu(self.up(self.ln_2(x))))
        return self.head(x)


def transformer(is_faulty):
    model = seeded(Transformer, lambda: Attention("query", "key", "value", "out"))
    given = weights(model)
    attn = {
        name: {
            "kernel": given[f"attn.{name}.weight"].T.reshape(WIDTH, HEADS, -1),
            "bias": given[f"attn.{name}.bias"].reshape(HEADS, -1),
        }
        for name in ("query", "key", "value")
    }
    if is_faulty:
        attn["query"], attn["key"] = attn["key"], attn["query"]
    kernel = given["attn.out.weight"].T.reshape(HEADS, -1, WIDTH)
    params = {
        "embed": {"embedding": given["embed.weight"]},
        "ln_1": norm(given, "ln_1"),
        "ln_2": norm(given, "ln_2"),
        "attn": {**attn, "out": {"kernel": kernel, "bias": given["attn.out.bias"]}},
        **{name: linear(given, name) for name in ("up", "down", "head")},
    }
    return in_torch(model, TOKENS), recorded(JaxTransformer(), params, jnp.asarray(TOKENS))


class JaxGru(nn.Module):
    def setup(self):
        self.embed, self.cell, self.head = nn.Embed(WORDS, 4), nn.GRUCell(5), nn.Dense(3)

    def __call__(self, tokens):
        x = self.embed(tokens)
        h = jnp.zeros((x.shape[0], 5))
        for step in range(x.shape[1]):
            h, _ = self.cell(h, x[:, step])
        return self.head(h)


def gru(is_faulty):
    model = seeded(GruCell)
    given = weights(model)
    own, state, cell = given["cell.bias_ih"], given["cell.bias_hh"], {}
    for at, gate in enumerate("zrn" if is_faulty else "rzn"):
        part = slice(at * 5, at * 5 + 5)
        bias = own[part] if gate == "n" else own[part] + state[part]
        cell[f"i{gate}"] = {"kernel": given["cell.weight_ih"][part].T, "bias": bias}
        cell[f"h{gate}"] = {"kernel": given["cell.weight_hh"][part].T}
    cell["hn"]["bias"] = state[10:]
    params = {"embed": {"embedding": given["embed.weight"]}, "cell": cell, "head": linear(given, "head")}
    return in_torch(model, TOKENS), recorded(JaxGru(), params, jnp.asarray(TOKENS))


class JaxFlattened(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(3, (3, 3), name="conv")(x))
        return nn.Dense(2, name="fc")(nn.relu(nn.Dense(6, name="hidden")(x.reshape(x.shape[0], -1))))


def flattened(is_faulty):
    model, x = seeded(Flattened), images(2, 2, 4, 2)
    given = weights(model)
    rows = given["hidden.weight"].reshape(6, 3, 4, 2)
    rows = rows if is_faulty else rows.transpose(0, 2, 3, 1)
    params = {
        "conv": conv(given, "conv"),
        "hidden": {"kernel": rows.reshape(6, -1).T, "bias": given["hidden.bias"]},
        "fc": linear(given, "fc"),
    }
    return in_torch(model, x), recorded(JaxFlattened(), params, jnp.asarray(x).transpose(0, 2, 3, 1))


README = "https://github.com/google/flax/blob/main/README.md"
IMAGENET = "https://github.com/google/flax/blob/main/examples/imagenet/models.py"
SEQ2SEQ = "https://github.com/google/flax/blob/main/examples/seq2seq/models.py"
LM1B = "https://github.com/google/flax/blob/main/examples/lm1b/models.py"

LINEN = (
    Port("linen-mlp", stack, "a weight that is not transposed", ("layers.2.weight",), address=README),
    Port("linen-cnn", cnn, "an image that is scaled twice", ("x", "input", "conv1"), address=README),
    Port("linen-batch-norm", residual, "another epsilon", ("bn2",), is_whole=False, address=IMAGENET),
    Port(
        "linen-lstm",
        recurrent,
        "the weight of a gate not transposed",
        ("cell.weight_hh",),
        is_whole=False,
        address=SEQ2SEQ,
    ),
    Port("linen-gru", gru, "two gates exchanged", ("cell.weight_ih",), is_whole=False),
    Port("linen-flatten", flattened, "rows in the order of PyTorch", ("hidden.weight", "hidden")),
    Port("linen-attention", transformer, "q and k exchanged", ("attn.query.weight",), address=LM1B),
)
