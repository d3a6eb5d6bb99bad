"""Functions inside what Equinox makes around them: their locals, beside those under JAX's own transformations."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import backprobe as bp

X = jnp.asarray([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
W = jnp.asarray([0.5, -1.0, 2.0])


def g(x):
    h = jnp.sin(x)
    k = h * x
    return k * 2


def weighed(row, w):
    u = row * w
    return jnp.tanh(u).sum()


class Squares(eqx.Module):
    scale: jax.Array

    def __call__(self, x):
        s = x * self.scale
        return s * s


SQUARES = Squares(jnp.asarray(1.5))

PAIRS = {
    "checkpoint": (lambda x: eqx.filter_checkpoint(g)(x).sum(), lambda x: jax.checkpoint(g)(x).sum()),
    "vmap": (lambda x: eqx.filter_vmap(g)(x).sum(), lambda x: jax.vmap(g)(x).sum()),
    "vmap of some": (
        lambda x: eqx.filter_vmap(weighed, in_axes=(0, None))(x, W).sum(),
        lambda x: jax.vmap(weighed, in_axes=(0, None))(x, W).sum(),
    ),
    "vmap by name": (
        lambda x: eqx.filter_vmap(weighed, in_axes={"w": None})(x, W).sum(),
        lambda x: jax.vmap(weighed, in_axes=(0, None))(x, W).sum(),
    ),
    "value and grad": (
        lambda x: eqx.filter_value_and_grad(lambda v: weighed(v, W))(x)[1].sum(),
        lambda x: jax.value_and_grad(lambda v: weighed(v, W))(x)[1].sum(),
    ),
    "grad": (lambda x: eqx.filter_grad(weighed)(x, W).sum(), lambda x: jax.grad(weighed)(x, W).sum()),
    "jit of vmap": (lambda x: eqx.filter_jit(eqx.filter_vmap(g))(x).sum(), lambda x: jax.jit(jax.vmap(g))(x).sum()),
    "vmap of jit": (lambda x: eqx.filter_vmap(eqx.filter_jit(g))(x).sum(), lambda x: jax.vmap(jax.jit(g))(x).sum()),
    "checkpoint of vmap": (
        lambda x: eqx.filter_checkpoint(eqx.filter_vmap(g))(x).sum(),
        lambda x: jax.checkpoint(jax.vmap(g))(x).sum(),
    ),
}


class Layer(eqx.Module):
    scale: jax.Array

    def __call__(self, x, *, key=None):
        s = x * self.scale
        return s * s

    def method(self, x):
        k = x * self.scale
        return k * k

    @eqx.filter_jit
    def jitted(self, x):
        k = x * self.scale
        return k * k


LAYER = Layer(jnp.asarray(1.5))


def double(x):
    d = x * 2
    return d


def converted(x):
    y = x * 2
    return eqx.filter_closure_convert(lambda v: v * y, x)(x).sum()


def with_tangent(x):
    values, tangents = eqx.filter_jvp(g, (x,), (jnp.ones_like(x),))
    return values.sum() + tangents.sum()


def pulled_back(x):
    out, pull = eqx.filter_vjp(g, x)
    return out.sum() + pull(jnp.ones_like(x))[0].sum()


FOLLOWED = {
    "jvp": (with_tangent, "/g:h"),
    "vjp": (pulled_back, "/g:h"),
    "jacrev": (lambda x: eqx.filter_jacrev(g)(x).sum(), "/g:h"),
    "hessian": (lambda x: eqx.filter_hessian(lambda v: g(v).sum())(x).sum(), "/<lambda>/g:h"),
    "a method": (lambda x: LAYER.method(x).sum(), "/method:k"),
    "a method under vmap": (lambda x: jax.vmap(LAYER.method)(x).sum(), "/method:k"),
    "a method under filter_vmap": (lambda x: eqx.filter_vmap(LAYER.method)(x).sum(), "/method:k"),
    "a method under filter_jit": (lambda x: eqx.filter_jit(LAYER.method)(x).sum(), "/method:k"),
    "a method that is jitted": (lambda x: LAYER.jitted(x).sum(), "/jitted:k"),
    "a partial": (lambda x: eqx.Partial(weighed, w=W)(x[0]), "/weighed:u"),
    "a partial in a loop": (lambda x: jax.lax.map(eqx.Partial(weighed, w=W), x).sum(), "/weighed:u"),
    "a trivial conversion": (lambda x: eqx.filter_closure_convert(g, x)(x).sum(), "/g:h"),
    "Lambda": (lambda x: eqx.nn.Lambda(g)(x).sum(), "/g:h"),
    "Sequential of functions": (
        lambda x: eqx.nn.Sequential([eqx.nn.Lambda(double), eqx.nn.Lambda(jax.nn.relu)])(x).sum(),
        "/double:d",
    ),
    "Sequential of modules": (lambda x: eqx.nn.Sequential([LAYER, eqx.nn.Identity()])(x).sum(), "/Layer:s"),
    "Sequential in Sequential": (lambda x: eqx.nn.Sequential([eqx.nn.Sequential([LAYER])])(x).sum(), "/Layer:s"),
}


@pytest.mark.parametrize("what", FOLLOWED)
def test_what_equinox_holds_a_function_in_is_followed(what):
    f, name = FOLLOWED[what]
    rec = bp.probe(f)(X)
    assert name in rec and rec.notes == ()
    assert float(rec.result) == pytest.approx(float(f(X)), rel=1e-6)
    assert np.allclose(rec["x"].grad, jax.grad(f)(X), rtol=1e-5)


def custom_vjp(x):
    own = eqx.filter_custom_vjp(double)
    own.def_fwd(lambda perturbed, x: (x * 2, None))
    own.def_bwd(lambda residuals, g, perturbed, x: 2 * g)
    return own(x).sum()


def custom_jvp(x):
    own = eqx.filter_custom_jvp(double)
    own.def_jvp(lambda primals, tangents: (primals[0] * 2, tangents[0] * 2))
    return own(x).sum()


def mlp(x):
    return jax.vmap(eqx.nn.MLP(3, 1, 4, 1, activation=double, key=jax.random.key(0)))(x).sum()


NOT_FOLLOWED = {
    "pmap": (lambda x: eqx.filter_pmap(double)(x[:1]).sum(), "double was not followed: it is hidden in an object of "),
    "a custom derivative": (custom_vjp, "double was not followed: it is hidden in an object of type filter_custom_vjp"),
    "a custom tangent": (custom_jvp, "double was not followed: it is hidden in an object of type filter_custom_jvp"),
    "a conversion": (converted, "_ClosureConvert was not followed: it is compiled"),
    "Sequential under vmap": (
        lambda x: jax.vmap(eqx.nn.Sequential([eqx.nn.Lambda(double)]))(x).sum(),
        "double was not followed: it is hidden in an object of type",
    ),
    "an activation": (mlp, "double was not followed: it is hidden in an object of type"),
}


@pytest.mark.parametrize("what", NOT_FOLLOWED)
def test_what_cannot_be_followed_is_noted(what):
    f, note = NOT_FOLLOWED[what]
    rec = bp.probe(f)(X)
    assert [one for one in rec.notes if one.startswith(note)], rec.notes
    assert np.allclose(rec["x"].grad, jax.grad(f)(X), rtol=1e-5)


def inside(rec):
    """The entries of the functions inside, by the last part of their names."""
    return {full.rpartition("/")[2]: rec[full] for full in rec if full.startswith("/")}


@pytest.mark.parametrize("pair", PAIRS)
def test_locals_under_equinox_are_those_under_jax(pair):
    ours, theirs = (bp.probe(f)(X) for f in PAIRS[pair])
    found, expected = inside(ours), inside(theirs)
    assert found.keys() == expected.keys() and len(found) >= 2
    for name, entry in expected.items():
        assert found[name].status == entry.status, name
        assert np.array_equal(found[name].value, entry.value), name
        if entry.status == "ok":
            assert np.array_equal(found[name].grad, entry.grad), name
    assert np.array_equal(ours["x"].grad, theirs["x"].grad)
    assert ours.notes == theirs.notes


def test_a_module_in_equinox_wrappers_is_followed_as_in_jax():
    ours, theirs = (
        bp.probe(f)(X) for f in (lambda x: eqx.filter_vmap(SQUARES)(x).sum(), lambda x: jax.vmap(SQUARES)(x).sum())
    )
    assert inside(ours).keys() == inside(theirs).keys()
    (s,) = (entry for name, entry in inside(ours).items() if name.endswith(":s"))
    assert np.array_equal(s.value, X * SQUARES.scale)
    assert np.array_equal(s.grad, 2 * X * SQUARES.scale)


def test_what_is_no_array_comes_out_of_a_checkpoint_as_it_went_in():
    def part(x, options):
        h = x * options["scale"]
        return {"h": h, "name": options["name"], "by": jnp.tanh, "count": 3, "none": None}

    seen = []

    def f(x):
        made = eqx.filter_checkpoint(part)(x, {"scale": 2.0, "name": "part"})
        seen.append({key: value for key, value in made.items() if key != "h"})
        return made["by"](made["h"]).sum()

    rec = bp.probe(f)(X)
    assert np.array_equal(rec["/part:h"].value, X * 2)
    assert f(X) == pytest.approx(float(rec.result), rel=1e-6)
    assert seen[0] == seen[-1] == {"name": "part", "by": jnp.tanh, "count": 3, "none": None}


def test_a_function_of_a_library_in_a_wrapper_is_called_as_it_is():
    rec = bp.probe(lambda x: eqx.filter_vmap(jax.nn.softplus)(x).sum())(X)
    assert np.allclose(rec["x"].grad, jax.nn.sigmoid(X))
    assert inside(rec) == {}


def test_an_error_inside_a_wrapper_is_the_programs_own():
    def wrong(row):
        h = row * 2
        raise ValueError(f"of {h.shape}")

    with pytest.raises(ValueError, match=r"of \(3,\)"):
        bp.probe(lambda x: eqx.filter_vmap(wrong)(x).sum())(X)


def test_a_model_that_a_function_of_jax_maps_over_is_data_for_it():
    """Though it can be called: exchanged for a function, it would be a single leaf, and its weights not frozen."""

    class Model(eqx.Module):
        layer: eqx.nn.Linear
        bias: jax.Array

        def __call__(self, x):
            return jnp.tanh(self.layer(x))

    model = Model(eqx.nn.Linear(X.size, 1, key=jax.random.key(0)), jnp.ones(2))

    def frozen(tree):
        return jax.tree_util.tree_map(lambda leaf: jax.lax.stop_gradient(leaf) if eqx.is_array(leaf) else leaf, tree)

    def loss_of(model, x):
        return jax.vmap(frozen(model))(x).sum() + (model.bias**2).sum()

    rec = bp.probe(loss_of, wrt="model")(model, X.reshape(1, -1))
    plain = eqx.filter_grad(loss_of)(model, X.reshape(1, -1))
    assert np.array_equal(rec["model.bias"].grad, plain.bias)
    assert rec["model.layer.weight"].grad_or_none is None
    assert not plain.layer.weight.any()
