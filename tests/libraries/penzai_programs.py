"""penzai: models that are trees of layers, over named axes."""

import jax
import jax.numpy as jnp
from penzai import pz

X = pz.nx.wrap(jnp.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])).tag("batch", "features")

# https://penzai.readthedocs.io/en/stable/notebooks/how_to_think_in_penzai.html

MLP = pz.nn.Sequential([
    pz.nn.Affine.from_config("first", jax.random.key(0), {"features": 3}, {"features_out": 4}),
    pz.nn.RenameAxes("features_out", "features"),
    pz.nn.Elementwise(jax.nn.tanh),
    pz.nn.Affine.from_config("second", jax.random.key(1), {"features": 4}, {"features_out": 1}),
])  # fmt: skip
UNBOUND, VARIABLES = pz.unbind_params(MLP)
FROZEN = [one.freeze() for one in VARIABLES]


def mlp_loss(params, x):
    model = pz.bind_variables(UNBOUND, params)
    out = model(x)
    squares = pz.nx.nmap(jnp.square)(out)
    loss = squares.untag("batch", "features_out").mean()
    return loss.unwrap()


# https://penzai.readthedocs.io/en/stable/notebooks/named_axes.html


def attention(queries, keys, values):
    q, k, v = (pz.nx.wrap(one).tag("seq", "proj") for one in (queries, keys, values))
    k, v = k.untag("seq").tag("kv_seq"), v.untag("seq").tag("kv_seq")
    scores = pz.nn.contract("proj", q, k)
    weights = pz.nx.nmap(jax.nn.softmax)(scores.untag("kv_seq")).tag("kv_seq")
    mixed = pz.nn.contract("kv_seq", weights, v)
    out = mixed.unwrap("seq", "proj")
    return jnp.sum(out**2)


# https://penzai.readthedocs.io/en/stable/notebooks/selectors.html (a layer put into a model by its selector)


@pz.pytree_dataclass
class Scale(pz.nn.Layer):
    by: jax.Array

    def __call__(self, argument, /, **_):
        scaled = argument * self.by
        return scaled


def patched_loss(factor, x):
    layer = Scale(factor)
    patched = pz.select(MLP).at_instances_of(pz.nn.Elementwise).insert_after(layer)
    out = patched(x)
    return jnp.sum(out.unwrap("batch", "features_out") ** 2)


# planted


@pz.pytree_dataclass
class Stopped(pz.nn.Layer):
    def __call__(self, argument, /, **_):
        fixed = pz.nx.nmap(jax.lax.stop_gradient)(argument)  # <- cut
        return fixed


def cut(factor, x):
    model = pz.nn.Sequential([Scale(factor), Stopped(), MLP])
    out = model(x)
    return jnp.sum(out.unwrap("batch", "features_out") ** 2)


def nan(factor, x):
    out = pz.nn.Sequential([Scale(factor), MLP])(x)
    plain = out.unwrap("batch", "features_out")
    logs = jnp.log(plain - 100.0)  # <- nan
    return jnp.sum(logs)
