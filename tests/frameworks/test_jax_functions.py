"""Functions in JAX: jit in every spelling, probes inside transformations, arguments of every kind, what is left."""

import ast
import functools
import gc
import math
import weakref
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from flax.core import FrozenDict
from jax import lax
from jax_expected import W, X, as_jax, grads, on, same, statuses

import backprobe as bp
from asked import at_once, message, round_trip, says
from backprobe.backends.jax import calls
from backprobe.backends.jax.primitives import TAPS
from backprobe.probe.cell import probe_cell
from backprobe.source.cell import Cell

SECTION = "What only some frameworks have"


def supports(claim, answer="yes"):
    return pytest.mark.supports(claim, SECTION, answer=answer)


# jit


def powered(x, n, name="cube"):
    u = x * x
    return u * x if name == "cube" else u**n


@jax.jit
def decorated(x):
    u = jnp.sin(x)
    return u * x


class Layer:
    def __init__(self, factor):
        self.factor = factor

    @functools.partial(jax.jit, static_argnums=0)
    def forward(self, x):
        u = x * self.factor
        return decorated(u) * u


@supports("`jit`, in every spelling, also of functions compiled and called before")
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: jax.jit(powered, static_argnums=(1, 2)), "/powered:u"),
        (lambda: jax.jit(powered, static_argnames=("n", "name")), "/powered:u"),
        (lambda: functools.partial(jax.jit, static_argnums=(1, 2))(powered), "/powered:u"),
        (lambda: functools.partial(jax.jit(powered, static_argnames="name"), name="square"), "/powered:u"),
        (lambda: jax.jit(jax.jit(powered, static_argnums=(1, 2)), static_argnums=(1, 2)), "/powered:u"),
        (lambda: jax.jit(lambda x, n: jax.jit(decorated)(x) * 2), "/<lambda>/decorated:u"),
        (lambda: lambda x, n: Layer(3.0).forward(x), "/<lambda>/forward:u"),
        (lambda: jax.jit(functools.partial(powered, name="square")), "/powered:u"),
    ],
)
def test_a_jitted_function_that_was_called_before(make, name):
    """It is cached: called as it is, it would run the program that was compiled without a name in it."""
    jitted = make()
    first = jitted(jnp.asarray(0.7), 2)

    def f(x):
        y = jitted(x, 2)
        return y * 2

    rec = bp.probe(f)(jnp.asarray(0.7))
    same(rec.result, 2 * first)
    same(rec["x"].grad, jax.grad(f)(jnp.asarray(0.7)))
    assert rec[name].status == "ok"
    same(jitted(jnp.asarray(0.7), 2), first)


def test_an_argument_that_would_be_donated_stays():
    jitted = jax.jit(lambda x: jnp.sin(x * 2), donate_argnums=0)
    x = jnp.asarray(0.7)
    same(bp.probe(jitted)(x)["x"].grad, 2 * np.cos(1.4))
    same(x, 0.7)


def test_a_method_that_is_jitted():
    rec = bp.probe(Layer(3.0).forward)(X)

    def by_hand(x, at):
        u = x * 3 + at
        return jnp.sin(u) * u * u

    grads(rec, u=jax.grad(by_hand, 1)(X, 0.0), x=jax.grad(by_hand)(X, 0.0))
    assert rec["/decorated:u"].status == "ok"


@jax.jit
def changing(batch, scale):
    batch["made"] = batch["x"] * scale.at[0].set(2.0)
    return batch["made"].sum()


@on(X).gives({"x": 3})
def test_jit_gives_the_function_containers_of_its_own(x):
    """What a jitted function does to its arguments does not reach the caller, with a probe or without."""
    batch = {"x": x}
    y = changing(batch, np.ones(2, "float32"))
    assert list(batch) == ["x"]
    return y


def test_jit_around_a_function_inside_a_derivative_is_opened():
    jitted = jax.jit(lambda t: inner(t) * t)

    def inner(t):
        u = t * t
        return u

    jitted(X)
    jax.grad(jitted)(X)

    def f(x, w):
        return jax.grad(jitted)(x) + jax.vmap(jitted)(w).sum() + jax.checkpoint(jitted)(x)

    jax.vmap(jitted)(W)
    rec = bp.probe(f)(X, W)
    grads(rec, x=6 * X + 3 * X**2, **{"/<lambda>#1/inner:u": W, "/<lambda>#2/inner:u": X})
    grads(rec, **{"/<lambda>#0/inner:u": 1.0})


# a probe inside a transformation


def within(x, w):
    def step(c, t):
        u = c * t
        return jnp.sin(u) + x, u

    h = lax.cond(x > 0.5, lambda t: t * 2, lambda t: t * 3, x)
    last, us = lax.scan(step, h, w)
    frozen = w[0] * 2 if w is None else jnp.ones(2)
    return last * us.sum() * frozen[0]


def later(change):
    """What the loop of ``within`` ends with, where what its steps return is changed."""

    def step(c, item):
        t, own = item
        return jnp.sin(c * t) + X + own, None

    return lax.scan(step, X * (2 if X > 0.5 else 3), (W, change))[0]


def batched(x, w):
    def one(t):
        u = t * x
        return jnp.sin(u)

    y = jax.vmap(one)(w)
    return (y * jax.checkpoint(jnp.cos)(y)).sum()


def gradients(x, w):
    rec = bp.probe(within)(x, w)
    return {name: (entry.value, entry.grad) for name, entry in rec.items() if entry.status == "ok"}, rec.result


@supports("a probe inside `jit`: traced values, computed when the jitted function runs")
def test_a_probe_inside_jit():
    eager, result = gradients(X, W)
    jitted = jax.jit(gradients)
    for x in (X, X, X + 0.2):
        eager, result = gradients(x, W)
        found, again = jitted(x, W)
        same(again, result)
        for name in set(eager) & set(found) - {"/<lambda>:t"}:
            for one, other in zip(found[name], eager[name], strict=True):
                same(one, other, name)
        assert {"x", "w", "h", "/step:c", "/step:u", "last", "us", "return"} <= found.keys() & eager.keys()


@supports("a probe inside `jax.grad`, `vmap`, `lax.scan`, `lax.map`")
@pytest.mark.parametrize(
    "wrap", [pytest.param(lambda g: g, id="eager"), pytest.param(jax.jit, id="jit", marks=pytest.mark.sweep)]
)
def test_a_probe_inside_other_transformations(wrap):
    xs = jnp.asarray([0.6, 0.7, 1.5])
    gradient = lambda x: bp.probe(within)(x, W)["x"].grad
    wanted = jax.vmap(jax.grad(within), (0, None))(xs, W)
    same(wrap(jax.vmap(gradient))(xs), wanted)
    same(wrap(lambda xs: lax.scan(lambda c, x: (c, gradient(x)), 0.0, xs)[1])(xs), wanted)
    same(wrap(lambda xs: lax.map(gradient, xs))(xs), wanted)
    same(wrap(jax.grad(gradient))(X), jax.grad(jax.grad(within))(X, W))


def test_values_and_results_inside_an_outer_batch_belong_to_their_example():
    def one(x, k):
        rec = bp.probe(lambda x: held(x, k), of="loss")(x)
        return rec.result["loss"], rec.result["k2"], rec["/held:k2"].value, rec["/held:u"].value, rec["/held:u"].grad

    def held(x, k):
        k2 = k * 2
        u = x * k2
        return {"loss": u * u, "k2": k2}

    xs, ks = jnp.asarray([1.0, 2.0]), jnp.asarray([3.0, 5.0])
    loss, k2, value, u, slope = jax.vmap(one)(xs, ks)
    same(k2, 2 * ks)
    same(value, 2 * ks)
    same(u, xs * 2 * ks)
    same(slope, 2 * u)
    same(loss, u * u)


def test_a_derivative_outside_goes_through_what_the_probe_does_not_differentiate():
    def outside(k):
        rec = bp.probe(lambda x: (x * k, k * 3), of=0)(X)
        return rec.result[1] * rec["x"].grad

    same(jax.grad(outside)(X), 6 * X)


# arguments


class Pair(NamedTuple):
    first: object
    second: object


@jax.tree_util.register_pytree_node_class
class Registered:
    def __init__(self, weight, note):
        self.weight, self.note = weight, note

    def tree_flatten(self):
        return (self.weight,), self.note

    @classmethod
    def tree_unflatten(cls, note, children):
        return cls(*children, note)


@supports("containers as arguments: dicts keep their order, pytrees of other classes are flattened")
def test_containers_as_arguments():
    def f(parameters, pair, registered, frozen):
        u = parameters["b"] * pair.first + parameters["a"]["deep"] * registered.weight
        v = frozen["k"] * u
        assert registered.note == "kept"
        return v.sum() * pair.second

    def given():
        return ({"b": W, "a": {"deep": X}}, Pair(X * 2, 2), Registered(X + 1, "kept"), FrozenDict({"k": W + 1}))

    parameters, pair, registered, frozen = given()
    rec = bp.probe(f)(parameters, pair, registered, frozen)
    assert [name for name in rec if name.startswith("parameters")] == ["parameters.b", "parameters.a.deep"]
    wanted = jax.grad(lambda p, q, r, k: f(p, Pair(q, 2), r, k), (0, 1, 2, 3))(parameters, X * 2, registered, frozen)
    grads(rec, **{"parameters.b": wanted[0]["b"], "parameters.a.deep": wanted[0]["a"]["deep"], "pair.first": wanted[1]})
    assert statuses(rec)["u"] == "ok"
    assert parameters["b"] is W
    assert registered.weight.aval == (X + 1).aval
    assert not isinstance(registered.weight, jax.core.Tracer)


def test_what_the_program_adds_to_a_callers_container_comes_back_as_numbers():
    def f(x, kept):
        u = x * 2

        def step(c, t):
            v = c * t
            return v, v

        kept.append(lax.scan(step, u, W)[1])
        kept.append({"u": u, "x": x})
        return u * kept[0].sum()

    kept, x = [], jnp.asarray(0.7)
    rec = bp.probe(f)(x, kept)
    same(kept[0], rec["/step:v"].value)
    same(kept[1]["u"], 1.4)
    assert kept[1]["x"] is x
    assert not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(kept))


def test_a_value_under_a_second_name_that_is_not_selected():
    """Whoever uses it, under whichever name: the gradient is the total."""

    def f(x):
        a = x * 2
        b = a
        held = [a]
        held.append(b)
        c = held[0] * held[1] + a * 3 + b
        return c * held[-1]

    total = jax.grad(lambda a: (a * a + a * 4) * a)(2 * X)
    for select in (["a"], ["b"], ["a", "b"], ["held"]):
        rec = bp.probe(f, select)(X)
        same(next(iter(rec.values())).grad, total)


def test_an_argument_is_the_same_value_wherever_it_is_read():
    def f(parameters):
        v = parameters["w"]
        return (v * parameters["w"]).sum() * parameters["w"][0]

    rec = bp.probe(f, "v")({"w": W})
    same(rec["v"].grad, jax.grad(f)({"w": W})["w"])

    def read(registered):
        v = registered.weight
        return jnp.vdot(v, registered.weight)

    rec = bp.probe(read, "v")(Registered(W, "kept"))
    same(rec["v"].grad, 2 * W)


@supports("integers, booleans, random keys beside floating values")
def test_integers_booleans_and_random_keys():
    def f(x, w):
        key = jax.random.key(0)
        raw, other = jax.random.split(jax.random.PRNGKey(1))
        noise = jax.random.normal(key, (3,))
        at = jnp.argmax(w)
        mask = w * noise > 0
        return jnp.where(mask, w * noise, 0).sum() * x + w[at]

    rec = bp.probe(f)(X, W)
    says(rec, statuses={**dict.fromkeys(("raw", "at", "mask"), "not_float"), "noise": "frozen"})
    assert "key" not in rec
    as_jax(rec, f, X, W)


@supports("complex values inside loops: PyTorch's convention")
def test_complex_values_in_a_loop():
    def f(z):
        def step(c, t):
            u = c * t
            return u * (1 + 2j), None

        last, _ = lax.scan(step, z, W)
        return (last * jnp.conj(last)).real

    z = jnp.asarray(0.3 + 0.4j, "complex64")
    rec = bp.probe(f)(z)
    factor = 6 * (1 + 2j) ** 3
    same(rec["z"].grad, 2 * z * abs(factor) ** 2)
    last = z * factor
    same(rec["/step:u"].grad[2], np.conj(1 + 2j) * 2 * last)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_narrow_dtypes_in_loops_and_batches(dtype, tmp_path):
    def f(x, w):
        def step(c, t):
            u = c * t
            return u, None

        return lax.scan(step, x, w)[0] + jax.vmap(lambda t: t * x)(w).sum()

    x, w = X.astype(dtype), W.astype(dtype)
    rec = bp.probe(f)(x, w)
    assert {entry.dtype for entry in rec.values() if entry.shape is not None} == {dtype}
    assert rec["/step:u"].grad.dtype == dtype
    wanted = jax.grad(f)(x, w)
    assert np.allclose(np.asarray(rec["x"].grad, float), np.asarray(wanted, float), 2e-2)
    loaded = round_trip(rec, tmp_path)
    assert loaded["/step:u"].axes == ("step",)
    assert np.array_equal(loaded["/step:u"].grad, rec["/step:u"].grad)


def test_wide_dtypes_and_weak_types():
    def f(x, n):
        u = x * 2
        return u * n

    with jax.enable_x64(True):
        rec = bp.probe(f, wrt="x")(jnp.asarray(3.0), 2)
        assert (rec["x"].dtype, rec["n"].value) == ("float64", 2)
    rec = bp.probe(f, backend="jax")(3.0, np.float32(2))
    assert (rec["u"].dtype, rec.result.weak_type) == ("float32", False)


def test_of_cotangent_and_jacobian():
    def f(w):
        def g(t):
            u = jnp.sin(t)
            return u, u * 2

        return jax.vmap(g)(w)

    vector = jnp.asarray([1.0, -1.0, 0.5])
    rec = bp.probe(f, of=1, cotangent=vector)(W)
    grads(rec, w=2 * jnp.cos(W) * vector, **{"/g:u": 2 * vector})
    same(bp.jacobian(f, "w", of=0)(W), np.diag(np.cos(W)))
    same(bp.jacobian(f, "/g:t", of=1)(W), 2 * np.diag(np.cos(W)))


@supports("partials of every kind of value: the paths sum to the gradients; a line into a loop has no number")
def test_partials_in_loops_and_batches(tmp_path):
    rec = bp.probe(within, partials="full")(X, W)
    assert rec.path_sums.agree
    assert set(rec.path_sums.unjudged) == {"x", "w", "h", *(name for name in rec if name.startswith("/step:"))}
    assert {name: rec[name].partials for name in rec if name.startswith("/step:")} == dict.fromkeys(
        (name for name in rec if name.startswith("/step:")), {}
    )
    same(rec["last"].partials["/step:return.0"], jax.jacrev(later)(jnp.zeros(3)))
    rec = bp.probe(batched, partials="full")(X, W)
    assert rec.path_sums.agree and not rec.path_sums.unjudged
    bp.draw(rec, tmp_path / "rec.svg") if bp.draw.__code__.co_argcount > 1 else bp.draw(rec)
    rec = bp.probe(lambda x: jax.checkpoint(lambda t: shifted(t) * 2)(x * 1.5), partials=True)(X)
    assert {edge.name: float(edge.partial) for edge in rec["/<lambda>/shifted:v"].inputs} == {"/<lambda>/shifted:u": 3}


def shifted(t):
    u = t + 1
    v = u * 3
    return v


@on(jnp.asarray(1.0), partials=True).gives(partials={"∂u/∂x": 0, "∂v/∂u": np.inf, "∂return/∂v": 1, "∂return/∂x": 1})
def test_partials_of_infinite_values(x):
    u = x * 0
    v = jnp.sqrt(u)
    return v + x


# what is left behind


def everything(raises):
    def f(big):
        u = big * 2

        def step(c, t):
            k = c + t
            return jax.checkpoint(jnp.sin)(k), None

        s, _ = lax.scan(step, u, jnp.ones((2, 64, 64)))
        r = lax.cond(s.sum() > 0, jnp.sum, jnp.mean, s)
        if raises:
            raise RuntimeError
        return jax.vmap(lambda row: row.sum())(s).sum() + r

    return f


def test_nothing_is_kept_alive():
    def count():
        gc.collect()
        return sum(one.size >= 64 * 64 for one in jax.live_arrays())

    before, big = count(), jnp.ones((64, 64))
    rec = bp.probe(everything(raises=False), "u")(big)
    held = weakref.ref(rec["u"].value)
    assert count() == before + 3  # the argument, and the value and gradient that were asked for
    assert not TAPS
    del rec
    gc.collect()
    assert held() is None
    with pytest.raises(RuntimeError):
        bp.probe(everything(raises=True))(big)
    assert count() == before + 1
    assert not TAPS


def test_an_exception_inside_a_loop_leaves_the_containers_as_they_were():
    def f(parameters):
        def step(c, t):
            u = c * t
            raise RuntimeError("mine")

        parameters["made"] = parameters["w"] * 2
        return lax.scan(step, parameters["w"], W)

    parameters = {"w": X}
    with pytest.raises(RuntimeError, match="mine") as caught:
        bp.probe(f)(parameters)
    assert parameters["w"] is X
    same(parameters["made"], 2 * X)
    assert any("the last name bound was 'u'" in note for note in caught.value.__notes__)
    assert bp.probe(lambda x: x * 2)(X)["x"].grad == 2


def test_two_threads_at_once():
    found = {}

    def work(factor):
        def f(x):
            def step(c, t):
                u = c * factor
                return u, None

            return lax.scan(step, x, W)[0]

        found[factor] = [float(bp.probe(f)(X)["/step:u"].grad[0]) for _ in range(3)]

    at_once(work, (2.0,), (3.0,))
    assert found == {2.0: [4.0] * 3, 3.0: [9.0] * 3}


def test_loops_that_are_not_compiled():
    with jax.disable_jit():
        rec = bp.probe(within)(X, W)
        wanted = jax.grad(within)(X, W)
    same(rec["x"].grad, wanted)
    assert "/step#2:u" in rec
    assert rec["/step#2:u"].axes == ()


# bad input

REFUSED = {
    "a function that was compiled": (
        lambda: bp.probe(jax.jit(powered, static_argnums=(1, 2)).lower(X, 2).compile())(X),
        bp.Unsupported,
        "a compiled function cannot be probed",
    ),
    "a function that was traced": (
        lambda: bp.probe(jax.jit(decorated).trace(X))(X),
        bp.Unsupported,
        "a compiled function cannot be probed",
    ),
    "a function that was lowered": (
        lambda: bp.probe(jax.jit(decorated).lower(X), backend="jax")(X),
        bp.BadOption,
        "Lowered is neither",
    ),
    "a shape without numbers": (
        lambda: bp.probe(decorated, backend="jax")(jax.ShapeDtypeStruct((), "float32")),
        bp.Unsupported,
        "an argument is a shape without numbers",
    ),
    "`create_graph=True`": (
        lambda: bp.probe(decorated, create_graph=True)(X),
        bp.Unsupported,
        "gradients of JAX cannot be differentiated again",
    ),
    "a block around a function": (
        lambda: bp.probe(decorated, backend="jax").__enter__(),
        bp.Unsupported,
        "a block cannot be probed in JAX",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case):
    call, kind, text = REFUSED[case]
    with pytest.raises(kind, match=text) as caught:
        call()
    assert "\n  next:  " in str(caught.value)


@supports("a notebook cell", "refused: a gradient is of a function")
def test_a_cell_is_refused():
    tree = ast.parse("y = x * 2\ny")
    cell = Cell(tree, ["y = x * 2", "y"], "<cell>", compile, {"x": X}, {"x": X})
    assert message(bp.Unsupported, lambda: probe_cell(cell)) == (
        "a cell cannot be probed in JAX\n"
        "  asked: %%probe\n"
        "  found: JAX\n"
        "  why:   in JAX a gradient belongs to a function, with respect to its arguments; no tensor requires one by "
        "itself\n"
        "  next:  put the lines into a function f and write rec = bp.probe(f)(x)"
    )


def test_numbers_of_a_recording_made_inside_jit():
    @jax.jit
    def inside(x):
        rec = bp.probe(decorated)(x)
        str(rec)
        return rec["x"].grad

    with pytest.raises(bp.Unsupported, match="made inside jit has no numbers yet"):
        inside(X)


def test_a_jit_of_flax_that_makes_a_plain_function_hides_no_function(monkeypatch):
    """That of Flax 0.10.4 does, whose type is that of every function."""
    monkeypatch.setattr(nnx, "jit", lambda function: functools.wraps(function)(lambda *given: function(*given)))
    calls._made_by.cache_clear()
    try:
        rec = bp.probe(lambda x: jnp.sin(twice(x)))(0.5)
        assert {"x", "/twice:y"} <= {*rec} and rec["x"].grad == pytest.approx(2 * math.cos(1.0))
    finally:
        calls._made_by.cache_clear()


def twice(x):
    y = 2 * x
    return y
