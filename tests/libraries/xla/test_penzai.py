"""penzai: models that are trees of layers, over named axes."""

import jax
import jax.numpy as jnp
from in_jax import by, descending
from penzai import pz

FRAMEWORK, LIBRARIES = "JAX", ("penzai",)

X = pz.nx.wrap(jnp.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])).tag("batch", "features")

# https://penzai.readthedocs.io/en/stable/notebooks/how_to_think_in_penzai.html

MLP = pz.nn.Sequential(
    [
        pz.nn.Affine.from_config("first", jax.random.key(0), {"features": 3}, {"features_out": 4}),
        pz.nn.RenameAxes("features_out", "features"),
        pz.nn.Elementwise(jax.nn.tanh),
        pz.nn.Affine.from_config("second", jax.random.key(1), {"features": 4}, {"features_out": 1}),
    ]
)
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
        fixed = pz.nx.nmap(jax.lax.stop_gradient)(argument)
        return fixed


def cut(factor, x):
    model = pz.nn.Sequential([Scale(factor), Stopped(), MLP])
    out = model(x)  # <- cut
    return jnp.sum(out.unwrap("batch", "features_out") ** 2) * jnp.sum(x.unwrap("batch", "features"))


def nan(factor, x):
    out = pz.nn.Sequential([Scale(factor), MLP])(x)
    plain = out.unwrap("batch", "features_out")
    logs = jnp.log(plain - 100.0)  # <- nan
    return jnp.sum(logs)


# asked


def test_mlp(ask):
    rec = ask.function(mlp_loss, lambda: (FROZEN, X))
    right = jax.grad(mlp_loss)(FROZEN, X)
    ask.gradients(rec, {f"params.{at}.value": one.value.data_array for at, one in enumerate(right)})
    ask.names(rec, "out", "squares", "loss", "x")
    ask.clean(rec)
    ask.works("a model of layers: variables that are bound to it within the loss")


def test_attention(ask):
    inputs = tuple(jax.random.normal(jax.random.key(at), (3, 2)) for at in range(3))
    rec = ask.function(attention, lambda: inputs)
    ask.gradients(rec, by(attention, *inputs) | {"out": 2 * rec["out"].value})
    ask.names(rec, "queries", "out", "weights", "mixed")
    ask.clean(rec)
    ask.works("named axes: `nmap`, `contract`, tags")


def test_patched(ask):
    factor = jnp.array(1.5)
    rec = ask.function(patched_loss, lambda: (factor, X))
    ask.gradients(rec, {"factor": jax.grad(patched_loss)(factor, X)})
    ask.names(rec, "factor", "out")
    ask.clean(rec)
    ask.works("layers of one's own, put into a model by a selector")


def test_planted(ask):
    factor = jnp.array(1.5)
    ask.cut(ask.function(cut, lambda: (factor, X)), cut)
    ask.nan(ask.function(nan, lambda: (factor, X), nonfinite=True), nan)


def test_watch(ask):
    def loss(params, x):
        return patched_loss(params["factor"], x)

    last = ask.watched_function(descending(loss, {"factor": jnp.array(0.5)}, [(X,)] * 20))
    ask.rows(last, "params.factor")
    ask.works("`bp.watch_function` over 20 steps")
