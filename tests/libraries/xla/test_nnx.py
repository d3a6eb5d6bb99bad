"""Flax NNX: its transforms, around modules that hold their variables."""

import jax
import jax.numpy as jnp
from flax import nnx
from in_jax import descending

import backprobe as bp

FRAMEWORK, LIBRARIES = "JAX", ("flax",)

X = jnp.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])

# https://flax.readthedocs.io/en/stable/guides/transforms.html (layers that are scanned over)


class Block(nnx.Module):
    def __init__(self, dim, rngs):
        self.linear = nnx.Linear(dim, dim, rngs=rngs)
        self.norm = nnx.LayerNorm(dim, rngs=rngs)

    def __call__(self, x):
        h = self.linear(self.norm(x))
        act = nnx.gelu(h)
        return x + act


class Scanned(nnx.Module):
    def __init__(self, dim, depth, rngs):
        @nnx.split_rngs(splits=depth)
        @nnx.vmap(in_axes=(0,), out_axes=0)
        def create(rngs):
            return Block(dim, rngs)

        self.blocks = create(rngs)
        self.head = nnx.Linear(dim, 1, rngs=rngs)

    def __call__(self, x):
        @nnx.scan(in_axes=(0, nnx.Carry), out_axes=nnx.Carry)
        def forward(block, x):
            return block(x)

        x = forward(self.blocks, x)
        out = self.head(x)
        return jnp.mean(out**2)


# https://flax.readthedocs.io/en/stable/guides/randomness.html and nnx.remat


class Dropped(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(3, 4, rngs=rngs)
        self.drop = nnx.Dropout(0.5, rngs=rngs)
        self.bn = nnx.BatchNorm(4, rngs=rngs)
        self.second = nnx.Linear(4, 1, rngs=rngs)

    @nnx.remat
    def encode(self, x):
        hidden = self.first(x)
        return jnp.tanh(hidden)

    def __call__(self, x):
        h = self.encode(x)
        h = self.bn(self.drop(h))
        y = self.second(h)
        return jnp.sum(y**2)


# https://flax.readthedocs.io/en/stable/api_reference/flax.nnx/nn/lora.html


class Adapted(nnx.Module):
    def __init__(self, rngs):
        self.base = nnx.Linear(3, 2, rngs=rngs)
        self.lora = nnx.LoRA(3, 2, 2, rngs=rngs)
        self.lora.lora_b[...] = jnp.array([[0.1, 0.2], [0.3, -0.1]])

    def __call__(self, x):
        adapted = self.base(x) + self.lora(x)
        return jnp.sum(adapted**2)


# https://flax.readthedocs.io/en/stable/api_reference/flax.nnx/transforms.html (an ensemble, by vmap)


class Ensemble(nnx.Module):
    def __init__(self, rngs):
        @nnx.split_rngs(splits=3)
        @nnx.vmap(in_axes=(0,), out_axes=0)
        def create(rngs):
            return nnx.Linear(3, 2, rngs=rngs)

        self.members = create(rngs)

    def __call__(self, x):
        votes = nnx.vmap(lambda member, x: member(x), in_axes=(0, None))(self.members, x)
        mean = votes.mean(0)
        return jnp.sum(mean**2)


# a step as users write it: split, and merged within the loss
# https://flax.readthedocs.io/en/stable/guides/performance.html

GRAPHDEF, STATE = nnx.split(Block(3, nnx.Rngs(0)))


def functional_loss(state, x):
    model = nnx.merge(GRAPHDEF, state)
    out = model(x)
    return jnp.mean((out - 1.0) ** 2)


# planted


class Cut(nnx.Module):
    def __init__(self, rngs):
        self.first, self.second = nnx.Linear(3, 4, rngs=rngs), nnx.Linear(4, 1, rngs=rngs)

    def __call__(self, x):
        hidden = self.first(x)
        fixed = jax.lax.stop_gradient(hidden)  # <- cut
        return jnp.sum(self.second(fixed))


class Nan(nnx.Module):
    def __init__(self, rngs):
        self.first, self.second = nnx.Linear(3, 4, rngs=rngs), nnx.Linear(4, 1, rngs=rngs)

    def __call__(self, x):
        hidden = self.first(x)
        spread = hidden - hidden
        unit = spread / jnp.linalg.norm(spread)  # <- nan
        return jnp.sum(self.second(unit))


# asked


def asked(ask, make, *names, tolerance=1e-5):
    """A model that is called as usual, and merged within a function; its gradients are those of `nnx.grad`.

    Each is made anew, since a call draws random numbers and writes running statistics.
    """
    graphdef = nnx.graphdef(make())

    def merged(state, x):
        return nnx.merge(graphdef, state)(x)

    rec = ask.function(merged, lambda: (nnx.state(make()), X))
    by_x = jax.grad(merged, (0, 1), allow_int=True)(nnx.state(make()), X)[1]
    ask.gradients(rec, {"x#0" if "x#0" in rec else ":x": by_x}, tolerance)
    whole = bp.probe(make(), ["**", "**:*"])(X)
    right = nnx.to_flat_state(nnx.grad(lambda model: model(X))(make()))
    ask.gradients(whole, {".".join(map(str, path)): leaf[...] for path, leaf in right}, tolerance)
    ask.names(whole, *names)
    ask.clean(whole)
    return whole


def test_scanned(ask):
    rec = asked(ask, lambda: Scanned(3, 2, nnx.Rngs(0)), "head", "head.kernel", "blocks.linear.kernel", "out", "x#0")
    ask.gradients(rec, {"out": 2 * rec["out"].value / 2})
    ask.works("`nnx.scan` over layers that `nnx.vmap` made")


def test_remat(ask):
    rec = asked(ask, lambda: Dropped(nnx.Rngs(0)), "first.kernel", "second", "bn.scale", "h#1", "y")
    ask.gradients(rec, {"y": 2 * rec["y"].value})
    ask.works("`nnx.remat`, dropout and batch normalisation")


def test_adapted(ask):
    rec = asked(ask, lambda: Adapted(nnx.Rngs(0)), "base.kernel", "lora.lora_a", "lora.lora_b", "adapted")
    ask.gradients(rec, {"adapted": 2 * rec["adapted"].value})
    ask.works("`nnx.LoRA`")


def test_ensemble(ask):
    rec = asked(ask, lambda: Ensemble(nnx.Rngs(0)), "members.kernel", "votes", "mean")
    ask.gradients(rec, {"mean": 2 * rec["mean"].value, "votes": jnp.broadcast_to(2 * rec["mean"].value / 3, (3, 2, 2))})
    ask.works("an ensemble by `nnx.vmap`")


def test_functional(ask):
    rec = ask.function(functional_loss, lambda: (STATE, X))
    ask.gradients(rec, {"out": 2 * (rec["out"].value - 1) / 6})
    right = jax.grad(functional_loss)(STATE, X)
    ask.gradients(
        rec, {"state.linear.kernel": right["linear"]["kernel"][...], "state.norm.scale": right["norm"]["scale"][...]}
    )
    ask.clean(rec)
    last = ask.watched_function(descending(functional_loss, STATE, [(X,)] * 20))
    ask.rows(last, "out")
    ask.works("`nnx.split` and `nnx.merge` within a loss, under `bp.watch_function` too")


def test_planted(ask):
    ask.cut(bp.probe(Cut(nnx.Rngs(0)), ["**", "**:*"])(X), Cut.__call__)
    ask.nan(bp.probe(Nan(nnx.Rngs(0)), ["**", "**:*"], nonfinite=True)(X), Nan.__call__)
