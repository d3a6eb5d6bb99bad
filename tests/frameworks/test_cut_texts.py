"""What a line does to a value, where the text says it in a roundabout way: in dictionaries, by functions handed on."""

import jax
import jax.numpy as jnp
import pytest
import torch
from drawn_edges import edges, pairs
from flax import nnx
from jax import lax

import backprobe as bp

P = {"w": jnp.array([0.5, 1.5]), "b": jnp.array([0.1, 0.2])}
X = jnp.array([1.0, 2.0])


def in_a_dictionary(p, x):
    q = {k: lax.stop_gradient(v) for k, v in p.items()}
    return (x * q["w"] * p["b"]).sum()


def one_of_a_dictionary(p, x):
    q = {k: (lax.stop_gradient(v) if k == "w" else v) for k, v in p.items()}
    return (x * q["w"] + q["b"]).sum()


def some_of_a_dictionary(p, x):
    q = {k: lax.stop_gradient(v) for k, v in p.items() if k == "w"}
    return (x * q["w"] * p["b"]).sum()


def rounded_in_a_dictionary(p, x):
    q = {k: jnp.round(v) for k, v in p.items()}
    return (x * q["w"] * p["b"]).sum()


def counted_items(p, x):
    q = [lax.stop_gradient(v) if i == 0 else v for i, v in enumerate(p.values())]
    return (x * q[0] + q[1]).sum()


def written_in_a_loop(p, x):
    q = {}
    for k, v in p.items():
        q[k] = lax.stop_gradient(v) if k == "w" else v
    return (x * q["w"] + q["b"]).sum()


def mapped(p, x):
    w, b = map(lax.stop_gradient, (p["w"], p["b"]))
    return (x * w + p["b"]).sum()


def mapped_over_a_tree(p, x):
    q = jax.tree.map(lax.stop_gradient, p)
    return (x * q["w"] + p["b"]).sum()


def positions_under_vmap(p, x):
    k = jax.vmap(jnp.argmax)(jnp.stack([x * p["w"]] * 2))
    return (k * p["b"]).sum()


def steps_under_jit(p, x):
    k = jax.jit(jnp.floor)(x * p["w"])
    return (k * p["b"]).sum()


def by_another_name(p, x):
    rounded = jnp.round
    k = rounded(x * p["w"])
    return (k * p["b"]).sum()


def positions_by_another_name(p, x):
    best = jnp.argmax
    h = x * p["w"]
    k = best(h)
    return (k * p["b"]).sum()


def digits(p, x):
    h = x * p["w"]
    k = jnp.digitize(h, jnp.array([0.0, 1.0, 2.0]))
    return (k * p["b"]).sum()


def counted(p, x):
    h = x * p["w"]
    n = jnp.count_nonzero(h)
    return (n * p["b"]).sum()


CUTS = {
    in_a_dictionary: ("stop_gradient", "`{k: lax.stop_gradient(v) for k, v in p.items()}` cuts 'q.w' off from 'p.w'"),
    one_of_a_dictionary: ("stop_gradient", "`{k: lax.stop_gradient(v) if k == 'w' else v for k, v in p.items()}` cuts"),
    some_of_a_dictionary: ("stop_gradient", "for k, v in p.items() if k == 'w'}` cuts 'q.w' off from 'p.w'"),
    rounded_in_a_dictionary: ("zero_derivative", "the derivative of 'q.w' with respect to 'p.w'"),
    counted_items: ("stop_gradient", "for i, v in enumerate(p.values())]` cuts 'q.0' off from 'p.w'"),
    written_in_a_loop: ("stop_gradient", "`lax.stop_gradient(v)` cuts 'q[k]#0' off from 'p.w'"),
    mapped: ("stop_gradient", "`map(lax.stop_gradient, (p['w'], p['b']))` cuts 'w' off from 'p.w'"),
    mapped_over_a_tree: ("stop_gradient", "`jax.tree.map(lax.stop_gradient, p)` cuts 'q.w' off from 'p.w'"),
    positions_under_vmap: ("index", "`jax.vmap(jnp.argmax)(jnp.stack([x * p['w']] * 2))` gives positions"),
    steps_under_jit: ("zero_derivative", "the derivative of 'k' with respect to 'x' that backward uses is 0"),
    by_another_name: ("zero_derivative", "the derivative of 'k' with respect to 'x' that backward uses is 0"),
    positions_by_another_name: ("index", "`best(h)` gives positions"),
    digits: ("index", "`jnp.digitize(h, jnp.array([0.0, 1.0, 2.0]))` gives positions"),
    counted: ("count", "`jnp.count_nonzero(h)` counts"),
}


@pytest.mark.parametrize("program", CUTS)
def test_the_cut_is_named_and_not_what_hands_it_on(program):
    kind, said = CUTS[program]
    (found,) = bp.explain(bp.probe(program)(P, X)).findings
    assert found.kind == kind and said in found.headline
    assert "look inside" not in found.remedy and "in a library" not in found.remedy
    assert "p.w" in f"{found.title} {found.facts} {found.chain}"


def detached(p, x):
    q = {k: (v.detach() if k == "w" else v) for k, v in p.items()}
    return (x * q["w"] + q["b"]).sum()


def detached_by_map(p, x):
    w, b = map(torch.detach, (p["w"], p["b"]))
    return (x * w + p["b"]).sum()


@pytest.mark.parametrize("program", [detached, detached_by_map])
def test_the_same_in_pytorch(program):
    parameters = {name: torch.tensor(value.tolist()) for name, value in P.items()}
    (found,) = bp.explain(bp.probe(program)(parameters, torch.tensor([1.0, 2.0]))).findings
    assert found.kind == "detach" and found.facts[0] == "it copies the values and not the gradient history"


def test_a_dictionary_of_others_by_key_cuts_nothing():
    def doubled(p, x):
        q = {k: 2 * v for k, v in p.items()}
        return (x * q["w"] + q["b"]).sum()

    report = bp.explain(bp.probe(doubled)(P, X))
    assert report.ok and not report.notes


# functions of the program that a library runs


def helper(t, w):
    return lax.stop_gradient(t * w)


def transformed(p, x):
    y = jax.jit(jax.vmap(lambda t, w: lax.stop_gradient(t * w)))(x, p["w"])
    return (y * p["b"]).sum()


def with_a_helper(p, x):
    y = jax.vmap(helper)(x, p["w"])
    return (y * p["b"]).sum()


REMEDIES = {transformed: "select '/<lambda>:*' too", with_a_helper: "bp.probe(helper)(...)"}


@pytest.mark.parametrize("program", REMEDIES)
def test_where_to_look_inside(program):
    (found,) = bp.explain(bp.probe(program, ["p.*", "x", "y"])(P, X)).of_kind("inside")
    assert REMEDIES[program] in found.remedy and "library" not in found.remedy
    inside = "/<lambda>:*" if program is transformed else "/helper:*"
    every = bp.probe(program, ["p.*", "x", "y", inside])(P, X)
    assert bp.explain(every).of_kind("stop_gradient")


# what is missing because of a line


def test_what_flows_past_a_cut_is_not_missing_because_of_it():
    def scaled(v):
        s = jnp.sqrt((v**2).sum() + 1e-6)
        return v / lax.stop_gradient(s)

    def program(p, x):
        h = x * p["w"]
        t = lax.stop_gradient(scaled(h))
        return (t * p["b"]).sum()

    first, second = bp.explain(bp.probe(program)(P, X)).findings
    assert first.consequence == "no gradient comes to /scaled:s"
    assert second.consequence.startswith("no gradient comes to p.w, x, h")


def test_an_output_is_not_where_a_value_ends():
    def program(p, x):
        def step(c, t):
            h = c * p["w"]
            return c + t * p["b"], h

        c, hs = lax.scan(step, x, jnp.ones((3, 2)))
        return c.sum()

    (found,) = bp.explain(bp.probe(program)(P, X)).findings
    assert found.chain == ("p.w", "/step:h", "hs")
    (ends,) = [fact for fact in found.facts if "ends there" in fact]
    assert "'hs'" in ends and "'return'" not in ends


# one leaf of a container


class Model(nnx.Module):
    def __init__(self, rngs):
        self.a, self.b = nnx.Param(jnp.ones(4)), nnx.Param(jnp.ones(4))
        self.lin = nnx.Linear(3, 4, rngs=rngs)


def a_leaf_of_a_dictionary(p, x):
    k = lax.stop_gradient(p["w"])
    return (k * x * p["b"]).sum()


def leaves_of_a_model(model, x):
    h = lax.stop_gradient(model.lin(x))
    k = lax.stop_gradient(model.a * 2)
    return (h * k + model.b).sum()


def test_only_the_leaf_that_is_mentioned_is_read():
    solid, dashed = edges(bp.probe(a_leaf_of_a_dictionary)(P, X))
    assert (solid, dashed) == (pairs("p.b,x>return"), pairs("p.w>k k>return"))
    rec = bp.probe(leaves_of_a_model)(Model(nnx.Rngs(0)), jnp.ones((2, 3)))
    solid, dashed = edges(rec)
    parts = {("model.lin.bias", "h"), ("model.lin.kernel", "h"), ("x", "h"), ("model.a", "k")}
    assert dashed == {*parts, ("h", "return"), ("k", "return")}
    found = {one.source.text: str(one) for one in bp.explain(rec).findings}
    assert len(found) == 2
    assert "model.a" not in found["h = lax.stop_gradient(model.lin(x))"]
    assert "model.lin" not in found["k = lax.stop_gradient(model.a * 2)"]
    assert not any("does not show why" in one for one in found.values())
