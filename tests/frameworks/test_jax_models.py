"""Models of Flax (linen and nnx) and Equinox: modules and parameters by path, and the user's model left as it was."""

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from jax_expected import grads, same, statuses

import backprobe as bp
from asked import at_once

SECTION = "What only some frameworks have"
KEY = jax.random.key(0)
X = jax.random.normal(KEY, (4, 3))


def supports(claim, answer="yes"):
    return pytest.mark.supports(claim, SECTION, answer=answer)


def leaves(tree):
    return [
        jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
        for leaf in jax.tree.leaves(tree)
    ]


def equal(found, wanted):
    for one, other in zip(leaves(found), leaves(wanted), strict=True):
        assert np.array_equal(one, other) or np.allclose(one, other, 1e-6, 1e-6)


# linen


class Block(nn.Module):
    width: int

    @nn.compact
    def __call__(self, x):
        h = nn.Dense(self.width)(x)
        a = nn.relu(h)
        return a


class Net(nn.Module):
    def setup(self):
        self.block = Block(4)
        self.blocks = [Block(4), Block(4)]
        self.out = nn.Dense(1)

    def __call__(self, x):
        z = self.block(x)
        for block in self.blocks:
            z = block(z)
        y = self.out(z)
        again = self.out(z * 2)
        return (y + again).sum()


class Layer(nn.Module):
    @nn.compact
    def __call__(self, c, _):
        h = nn.Dense(4)(c)
        u = jnp.tanh(h)
        return u, None


class Lifted(nn.Module):
    @nn.compact
    def __call__(self, x):
        z = nn.Dense(4)(x)
        z, _ = nn.scan(Layer, variable_axes={"params": 0}, split_rngs={"params": True}, length=3)()(z, None)
        z = nn.remat(Block)(4)(z)
        batched = nn.vmap(Block, variable_axes={"params": 0}, split_rngs={"params": True})(2)(z)
        return batched.sum() + nn.jit(Block)(3)(z).sum()


class Normed(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        h = nn.Dense(4)(x)
        h = nn.BatchNorm(use_running_average=not train)(h)
        h = nn.Dropout(0.5, deterministic=not train)(h)
        if train:
            skipped = None
        else:
            skipped = nn.Dense(2, name="skipped")(h)
        return h.sum()


def by_path(tree, prefix=""):
    """Leaves of nested dicts by dotted path."""
    for key, value in tree.items():
        yield from by_path(value, f"{prefix}{key}.") if isinstance(value, dict) else [(f"{prefix}{key}", value)]


@supports("Flax linen: modules and parameters by path, shared modules, lists of modules")
def test_a_linen_model():
    net = Net()
    variables = net.init(KEY, X)
    rec = bp.probe(net)(variables, X)
    wanted = jax.grad(lambda v: net.apply(v, X))(variables)["params"]
    grads(rec, **dict(by_path(wanted)))
    same(rec.result, net.apply(variables, X))
    modules = ["block.Dense_0", "block", "blocks_0", "blocks_1", "out#0", "out#1"]
    assert [name for name in rec if name in modules] == modules
    same(rec["out#1"].grad, np.ones((4, 1)))
    assert net.scope is None


def test_a_linen_model_that_is_bound():
    net = Net()
    variables = net.init(KEY, X)
    bound = net.bind(variables)
    rec = bp.probe(bound)(X)
    grads(rec, **dict(by_path(jax.grad(lambda v: net.apply(v, X))(variables)["params"])))
    assert bound.variables["params"]["out"]["bias"] is variables["params"]["out"]["bias"]


@supports("Flax linen: the locals of a module's `__call__`")
def test_the_locals_of_linen_modules():
    net = Net()
    variables = net.init(KEY, X)
    rec = bp.probe(net, ["block:*", "blocks_*:h", ":z", ":again"])(variables, X)
    assert list(rec) == ["block:x", "block:h", "block:a", "blocks_0:h", "z#1", "blocks_1:h", "z#2", "again", "return"]
    assert rec["z#0"] is rec["block:a"] is rec["block"]
    assert rec.notes == ()

    rec = bp.probe(net, "**:h")(variables, X)
    assert list(rec) == ["block:h", "blocks_0:h", "blocks_1:h", "return"]
    assert rec.notes == ()

    def by_hand(at):
        def changed(run, args, kwargs, context):
            result = run(*args, **kwargs)
            is_it = context.method_name == "__call__" and context.module.path == ("blocks_0", "Dense_0")
            return result + at if is_it else result

        with nn.intercept_methods(changed):
            return net.apply(variables, X)

    same(rec["blocks_0:h"].grad, jax.grad(by_hand)(jnp.zeros((4, 4))))


@supports("Flax linen: `nn.scan`, `nn.remat`, `nn.vmap`, `nn.jit`")
@pytest.mark.sweep
def test_lifted_transformations_of_linen():
    model = Lifted()
    variables = model.init(KEY, X)
    rec = bp.probe(model, ["**:h", "**:u", "*.*.*", "Dense_0.*"])(variables, X)
    grads(rec, **dict(by_path(jax.grad(lambda v: model.apply(v, X))(variables)["params"])))
    scan = rec["ScanLayer_0:h"]
    assert (scan.axes, scan.shape) == (("step",), (3, 4, 4))
    same(np.tanh(scan.value), rec["ScanLayer_0:u"].value)
    same(scan.grad, rec["ScanLayer_0:u"].grad * (1 - rec["ScanLayer_0:u"].value ** 2))
    assert rec["VmapBlock_0:h"].axes == ("batch",)
    same(rec["VmapBlock_0:h"].grad, (rec["VmapBlock_0:h"].value > 0).astype(float))
    same(rec["JitBlock_0:h"].grad, (rec["JitBlock_0:h"].value > 0).astype(float))
    assert rec["CheckpointBlock_0:h"].status == "ok"
    same(rec.result, model.apply(variables, X))


@supports("Flax linen: collections that change, and random numbers")
def test_linen_collections_and_random_numbers():
    model = Normed()
    variables = model.init({"params": KEY, "dropout": KEY}, X, False)
    options = {"mutable": ["batch_stats"], "rngs": {"dropout": jax.random.key(3)}}
    rec = bp.probe(model, of=0)(variables, X, True, **options)
    equal(rec.result, model.apply(variables, X, True, **options))

    def loss(params):
        return model.apply({**variables, "params": params}, X, True, **options)[0]

    wanted = jax.grad(loss)(variables["params"])
    grads(rec, **{name: grad for name, grad in by_path(wanted) if not name.startswith("skipped")})
    assert statuses(rec)["skipped"] == "not_executed"
    assert statuses(rec)["skipped.kernel"] == "not_connected"
    assert statuses(rec)["batch_stats.BatchNorm_0.mean"] == "not_connected"
    assert "batch_stats" not in rec
    rec = bp.probe(model)(variables, X, False)
    assert statuses(rec)["batch_stats.BatchNorm_0.mean"] == "ok"


# nnx


class Unit(nnx.Module):
    def __init__(self, inner, outer, rngs):
        self.linear = nnx.Linear(inner, outer, rngs=rngs)
        self.norm = nnx.BatchNorm(outer, rngs=rngs)
        self.drop = nnx.Dropout(0.5, rngs=rngs)
        self.count = nnx.Variable(jnp.zeros(()))

    def __call__(self, x):
        h = self.linear(x)
        self.count[...] = self.count[...] + 1
        h = self.norm(h)
        return nnx.relu(self.drop(h))


class Model(nnx.Module):
    def __init__(self, rngs):
        self.units = nnx.List([Unit(3, 4, rngs), Unit(4, 4, rngs)])
        self.shared = self.units[1].linear
        self.end = nnx.Sequential(nnx.Linear(4, 4, rngs=rngs), nnx.relu, nnx.Linear(4, 1, rngs=rngs))
        self.unused = nnx.Linear(2, 2, rngs=rngs)

    def __call__(self, x):
        for unit in self.units:
            x = unit(x)
        u = self.shared(x)
        return self.end(u).sum()


@supports("Flax nnx: lists, shared modules, Sequential; state changes as a plain call changes it")
def test_an_nnx_model():
    model, plain = Model(nnx.Rngs(0)), Model(nnx.Rngs(0))
    identities = [id(module) for _, module in nnx.iter_modules(model)]
    classes = [type(module) for _, module in nnx.iter_modules(model)]
    loss, wanted = nnx.value_and_grad(lambda m: m(X))(plain)
    rec = bp.probe(model)(X)
    same(rec.result, loss)
    equal(nnx.state(model), nnx.state(plain))
    assert float(model.units[0].count[...]) == 1
    assert [id(module) for _, module in nnx.iter_modules(model)] == identities
    assert [type(module) for _, module in nnx.iter_modules(model)] == classes
    for path, leaf in nnx.to_flat_state(wanted):
        name = ".".join(map(str, path))
        if name.startswith("unused"):
            assert statuses(rec)[name] == "not_connected"
        else:
            same(rec[name].grad, leaf[...], name)
    assert statuses(rec)["unused"] == "not_executed"
    assert rec["shared#1"].status == rec["end.layers.2"].status == "ok"
    same(rec["end"].grad, np.ones((4, 1)))
    rec = bp.probe(model, ["units.*:h", ":u", "end.layers.*"])(X)
    assert {"units.0:h#0", "units.1:h#1", "u", "end.layers.0"} <= set(rec)


class Stacked(nnx.Module):
    def __init__(self, rngs):
        self.layers = nnx.vmap(lambda keys: nnx.Linear(3, 3, rngs=keys))(rngs.fork(split=3))
        self.start = nnx.Linear(3, 3, rngs=rngs)

    def __call__(self, x):
        @nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
        def run(c, layer):
            u = layer(c)
            return nnx.relu(u)

        y = run(self.start(x), self.layers)
        again = nnx.jit(lambda module, x: module(x))(self.start, y)
        return nnx.remat(lambda module, x: module(x))(self.start, again).sum()


@supports("Flax nnx: `nnx.scan`, `nnx.jit`, `nnx.remat`")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_transformations_of_nnx():
    model = Stacked(nnx.Rngs(0))
    wanted = nnx.grad(lambda m: m(X))(model)
    rec = bp.probe(model)(X)
    for path, leaf in nnx.to_flat_state(wanted):
        same(rec[".".join(map(str, path))].grad, leaf[...])
    assert rec["layers"].axes == ("step",)
    assert rec["layers"].shape == (3, 4, 3)
    assert [rec[f"start#{at}"].status for at in range(3)] == ["ok"] * 3


def test_a_function_that_nnx_has_jitted():
    @nnx.jit
    def jitted(module, x):
        u = module(x)
        return (u * u).sum()

    module = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
    jitted(module, X)
    rec = bp.probe(lambda x: jitted(module, x) * 2)(X)
    same(rec["/jitted:u"].grad, 4 * rec["/jitted:u"].value)


# Equinox


class Part(eqx.Module):
    linear: eqx.nn.Linear
    name: str = eqx.field(static=True)
    size: int = eqx.field(static=True, default=4)

    def __call__(self, x):
        h = self.linear(x)
        return jax.nn.relu(h)


class Whole(eqx.Module):
    parts: list
    shared: eqx.nn.Linear
    head: eqx.nn.MLP
    unused: eqx.nn.Linear

    def __call__(self, x):
        for part in self.parts:
            x = part(x)
        x = self.shared(self.shared(x))
        u = eqx.filter_jit(self.head)(x)
        v = eqx.filter_checkpoint(self.head)(x)
        w = eqx.filter_vmap(self.shared)(x[None])
        return (u + v).sum() + w.sum()


@pytest.fixture
def whole():
    keys = jax.random.split(KEY, 5)
    parts = [Part(eqx.nn.Linear(3, 4, key=keys[0]), "first"), Part(eqx.nn.Linear(4, 4, key=keys[1]), "second")]
    head = eqx.nn.MLP(4, 2, 5, 1, key=keys[3])
    return Whole(parts, eqx.nn.Linear(4, 4, key=keys[2]), head, eqx.nn.Linear(2, 2, key=keys[4]))


def written(path):
    return "".join(str(key) for key in path).replace("[", ".").replace("]", "").removeprefix(".")


@supports("Equinox: nested and shared modules, static fields, `filter_jit`, `filter_vmap`, `filter_checkpoint`")
def test_an_equinox_model(whole):
    identities, classes = jax.tree.map(id, whole), [type(part) for part in whole.parts]
    rec = bp.probe(whole)(X[0])
    wanted = eqx.filter_grad(lambda model: model(X[0]))(whole)
    for path, leaf in jax.tree_util.tree_flatten_with_path(eqx.filter(wanted, eqx.is_array))[0]:
        name = written(path)
        if name.startswith("unused"):
            assert statuses(rec)[name] == "not_connected"
        else:
            same(rec[name].grad, leaf, name)
    assert statuses(rec)["unused"] == "not_executed"
    assert rec["shared#2"].axes == ("batch",)
    assert [rec[f"head#{at}"].status for at in (0, 1)] == ["ok", "ok"]
    assert jax.tree.map(id, whole) == identities
    assert [type(part) for part in whole.parts] == classes == [Part, Part]


@supports("Equinox: the locals of a module's `__call__`, also through `jax.vmap(model)` in a function")
def test_the_locals_of_equinox_modules(whole):
    rec = bp.probe(whole, ["parts.*:h", ":u"])(X[0])
    assert list(rec) == ["parts.0:h", "parts.1:h", "u", "return"]

    def loss(model, xs):
        y = jax.vmap(model)(xs)
        return y.sum()

    rec = bp.probe(loss)(whole.parts[0], X)
    assert not any("size" in name for name in rec)  # a static field is no value
    (name,) = [name for name in rec if name.endswith(":h")]
    same(rec[name].grad, (rec[name].value > 0).astype(float))
    assert rec[name].axes == ("batch",)
    wanted = jax.grad(loss)(whole.parts[0], X)
    same(rec["model.linear.weight"].grad, wanted.linear.weight)
    rec = bp.probe(jax.vmap(whole.parts[0]), of=lambda y: y.sum())(X)
    same(rec["h"].grad, (rec["h"].value > 0).astype(float))


def test_what_equinox_wraps_as_the_target(whole):
    part = whole.parts[0]

    @eqx.filter_jit
    def jitted(model, x):
        u = model(x)
        return (u * u).sum()

    jitted(part, X[0])
    rec = bp.probe(jitted)(part, X[0])
    same(rec["u"].grad, 2 * rec["u"].value)
    rec = bp.probe(eqx.filter_jit(part), of=lambda y: y.sum())(X[0])
    assert rec["h"].status == "ok"
    with pytest.raises(bp.Unsupported, match="what Equinox has wrapped a function in cannot be probed itself"):
        bp.probe(eqx.filter_vmap(part))(X)


class Stateful(eqx.Module):
    norm: eqx.nn.BatchNorm
    linear: eqx.nn.Linear
    drop: eqx.nn.Dropout

    def __call__(self, x, state, key):
        h = self.linear(x)
        n, state = self.norm(h, state)
        return self.drop(n, key=key), state


@supports("Equinox: state, BatchNorm and Dropout")
@pytest.mark.sweep
def test_the_state_of_an_equinox_model():
    def make():
        return Stateful(eqx.nn.BatchNorm(4, "batch", mode="batch"), eqx.nn.Linear(3, 4, key=KEY), eqx.nn.Dropout(0.5))

    model, state = eqx.nn.make_with_state(make)()

    def loss(model, xs, state):
        batched = jax.vmap(model, axis_name="batch", in_axes=(0, None, None), out_axes=(0, None))
        y, state = batched(xs, state, KEY)
        return (y * y).sum(), state

    rec = bp.probe(loss, of=0)(model, X, state)
    plain, after = loss(model, X, state)
    same(rec.result[0], plain)
    equal(jax.tree.leaves(rec.result[1]), jax.tree.leaves(after))
    wanted = eqx.filter_grad(lambda model: loss(model, X, state)[0])(model)
    same(rec["model.norm.weight"].grad, wanted.norm.weight)


# what a probe leaves behind, of any model


class Broken(eqx.Module):
    part: Part

    def __call__(self, x):
        h = self.part(x)
        raise RuntimeError("mine")


class BrokenUnit(nnx.Module):
    def __init__(self, rngs):
        self.linear = nnx.Linear(3, 4, rngs=rngs)
        self.count = nnx.Variable(jnp.zeros(()))

    def __call__(self, x):
        self.count[...] = self.count[...] + 1
        h = self.linear(x)
        raise RuntimeError("mine")


def test_an_exception_leaves_the_model_as_it_was(whole):
    broken = Broken(whole.parts[0])
    for _ in range(2):
        with pytest.raises(RuntimeError, match="mine"):
            bp.probe(broken)(X[0])
    assert type(broken) is Broken
    assert type(broken.part) is Part
    unit = BrokenUnit(nnx.Rngs(0))
    with pytest.raises(RuntimeError, match="mine"):
        bp.probe(unit)(X)
    assert type(unit.linear) is nnx.Linear
    assert not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(nnx.state(unit)))
    same(unit.linear(X), unit.linear(X))


def test_a_pattern_that_matches_no_module(whole):
    with pytest.raises(bp.NothingMatched, match="the nearest: shared"):
        bp.probe(whole, "shard")(X[0])


def test_models_in_two_threads(whole):
    found = []

    def work():
        found.extend(np.asarray(bp.probe(whole)(X[0])["shared.bias"].grad) for _ in range(2))

    at_once(work, (), ())
    assert len(found) == 4
    wanted = eqx.filter_grad(lambda model: model(X[0]))(whole).shared.bias
    for one in found:
        same(one, wanted)


def test_the_step_of_an_optimizer_is_healthy():
    """What it returns beside the loss is no output that was differentiated, and a count in it cuts nothing."""
    rule = optax.adam(1e-2)

    def step(params, state, x):
        def loss_of(params):
            return ((params["w"] * x) ** 2).mean()

        loss, gradients = jax.value_and_grad(loss_of)(params)
        updates, state = rule.update(gradients, state, params)
        params = optax.apply_updates(params, updates)
        return params, state, loss

    params = {"w": jnp.ones(3)}
    rec = bp.probe(step, of="2")(params, rule.init(params), jnp.ones(3))
    assert bp.explain(rec).ok
    assert [one.kind for one in bp.explain(rec, "state#0.0.mu.w").findings] == ["unused"]


class Dropped(nnx.Module):
    def __init__(self, rngs):
        self.linear, self.drop = nnx.Linear(3, 4, rngs=rngs), nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x):
        return (self.drop(self.linear(x)) ** 2).sum()


class Noisy(nnx.Module):
    def __init__(self, rngs):
        self.linear, self.rngs = nnx.Linear(3, 4, rngs=rngs), rngs

    def __call__(self, x):
        h = self.linear(x)
        return (h * jax.random.normal(self.rngs.noise(), h.shape)).sum()


class Counting(nnx.Module):
    def __init__(self, rngs):
        self.linear, self.calls = nnx.Linear(3, 4, rngs=rngs), nnx.Variable(jnp.asarray(0))

    def __call__(self, x):
        self.calls[...] = self.calls[...] + 1
        return self.linear(x).sum()


class Jitted(Dropped):
    @nnx.jit
    def __call__(self, x):
        return (self.drop(self.linear(x)) ** 2).sum()


@pytest.mark.parametrize(
    "kind, counter, counted, dtype",
    [
        (Dropped, "drop.rngs.count", 0, "uint32"),
        (Noisy, "rngs.noise.count", 0, "uint32"),
        (Noisy, "rngs.params.count", 2, "uint32"),
        (Counting, "calls", 0, "int32"),
        (Jitted, "drop.rngs.count", 0, "uint32"),
    ],
)
def test_an_integer_counter_of_nnx_has_a_value_and_no_gradient_as_it_is_not_floating(kind, counter, counted, dtype):
    model, plain = kind(nnx.Rngs(params=0, dropout=1, noise=2)), kind(nnx.Rngs(params=0, dropout=1, noise=2))
    x = jnp.ones((2, 3))
    rec = bp.probe(model)(x)
    assert (rec[counter].status, rec[counter].reason) == ("not_float", f"its dtype is {dtype}")
    assert counted <= int(rec[counter].value) <= counted + 1
    same(rec.result, plain(x))
    after, expected = (jax.tree.map(jax.random.key_data, nnx.state(one, nnx.RngKey)) for one in (model, plain))
    assert jax.tree.all(jax.tree.map(jnp.array_equal, after, expected))
    counts = [jax.tree.leaves(nnx.state(one, nnx.RngCount)) for one in (model, plain)]
    assert counts[0] == counts[1]


def test_a_whole_number_inside_what_jax_traces_is_seen_if_it_is_an_array():
    steps = jnp.asarray([3, 1])

    def f(x):
        def body(carry, row):
            known = steps
            return carry + row * known[0], None

        total, _ = jax.lax.scan(body, jnp.zeros(()), x)
        return total

    rec = bp.probe(f, ["**"])(jnp.ones(2))
    assert {str(rec[name].status) for name in rec if name.endswith("known")} == {"not_float"}
