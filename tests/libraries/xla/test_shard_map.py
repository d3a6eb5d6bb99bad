"""jax.shard_map on four devices of the host: what each device computes, and what they exchange."""

import jax
import jax.numpy as jnp
from in_jax import by, descending
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

FRAMEWORK, LIBRARIES = "JAX", ("jax",)

MESH = jax.make_mesh((4,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
X = jnp.arange(16.0).reshape(8, 2) / 8 - 0.6
W = jnp.array([[0.5, -0.25, 1.0], [0.75, 0.1, -0.4]])

# https://docs.jax.dev/en/latest/notebooks/shard_map.html (a batch over devices)


def data_parallel(w, x):
    def local_loss(w, x):
        h = jnp.tanh(x @ w)
        mean = jax.lax.pmean(jnp.mean(h**2), "i")
        return mean

    return jax.shard_map(local_loss, mesh=MESH, in_specs=(P(), P("i")), out_specs=P())(w, x)


# (a product whose inner dimension is divided)


def tensor_parallel(w1, w2, x):
    def mlp(w1, w2, x):
        h = jax.nn.relu(x @ w1)
        part = h @ w2
        return jax.lax.psum(part, "i")

    out = jax.shard_map(mlp, mesh=MESH, in_specs=(P(None, "i"), P("i", None), P()), out_specs=P())(w1, w2, x)
    return jnp.sum(out**2)


# (neighbours that hand on)


def ring(x):
    def shifted(x):
        neighbour = jax.lax.ppermute(x, "i", [(j, (j + 1) % 4) for j in range(4)])
        difference = x - 0.5 * neighbour
        return difference

    out = jax.shard_map(shifted, mesh=MESH, in_specs=P("i"), out_specs=P("i"))(x)
    return jnp.sum(out**2)


def gathered(x, w):
    @jax.shard_map(mesh=MESH, in_specs=(P("i"), P()), out_specs=P("i"))
    def attention(x, w):
        everything = jax.lax.all_gather(x, "i", tiled=True)
        scores = (x @ w) @ (everything @ w).T
        weights = jax.nn.softmax(scores)
        return weights @ everything

    mixed = attention(x, w)
    return jnp.sum(mixed**3)


def placed():
    """Arguments as users hold them: the batch is divided over the devices, and the weights are on all."""
    return jax.device_put(W, NamedSharding(MESH, P())), jax.device_put(X, NamedSharding(MESH, P("i")))


# planted


def cut(w, x):
    def local_loss(w, x):
        h = jax.lax.stop_gradient(jnp.tanh(x @ w))
        return jax.lax.pmean(jnp.mean(h**2) + jnp.mean(x), "i")

    mapped = jax.shard_map(local_loss, mesh=MESH, in_specs=(P(), P("i")), out_specs=P())
    return mapped(w, x)  # <- cut


def nan(w, x):
    def local_loss(w, x):
        h = x @ w
        logs = jnp.log(h - 100.0)
        return jax.lax.pmean(jnp.mean(logs), "i")

    mapped = jax.shard_map(local_loss, mesh=MESH, in_specs=(P(), P("i")), out_specs=P())
    return mapped(w, x)  # <- nan


# asked


def test_data_parallel(ask):
    rec = ask.function(data_parallel, placed)
    h = jnp.tanh(X @ W)
    back = 2 * h * (1 - h**2) / h.size
    ask.gradients(rec, {"w": X.T @ back, "x": back @ W.T})
    ask.gradients(rec, by(data_parallel, *placed()))
    ask.clean(rec)
    said = [str(one) for one in [*rec.notes, *rec]]
    ask.that(any("local_loss" in one for one in said), f"no word of local_loss: {said}")
    ask.works("`shard_map` over four devices: what goes in and comes out, also with arguments that are divided")
    ask.refuses("what the function on each device binds: a note")


def test_tensor_parallel(ask):
    inputs = jnp.ones((2, 4)) * 0.3, jnp.ones((4, 2)) * 0.2, X
    rec = ask.function(tensor_parallel, lambda: inputs)
    ask.gradients(rec, by(tensor_parallel, *inputs) | {"out": 2 * rec["out"].value})
    ask.names(rec, "w1", "w2", "x", "out")
    ask.clean(rec)
    ask.works("a product whose inner dimension is divided, with `psum`")


def test_ring(ask):
    rec = ask.function(ring, lambda: (X,))
    out = rec["out"].value
    ask.gradients(rec, by(ring, X) | {"out": 2 * out, "x": 2 * (out - 0.5 * jnp.roll(out, -2, 0))})
    ask.clean(rec)
    ask.works("`ppermute` and `all_gather`")


def test_gathered(ask):
    rec = ask.function(gathered, lambda: (X, W))
    ask.gradients(rec, by(gathered, X, W) | {"mixed": 3 * rec["mixed"].value ** 2})
    ask.clean(rec)


def test_planted(ask):
    ask.cut(ask.function(cut, placed), cut)
    ask.nan(ask.function(nan, placed, nonfinite=True), nan)


def test_watch(ask):
    def loss(params, x):
        return data_parallel(params["w"], x)

    w, x = placed()
    last = ask.watched_function(descending(loss, {"w": w}, [(x,)] * 20))
    ask.rows(last, "params.w")
    ask.works("`bp.watch_function` over 20 steps")
