"""JAX programs that hold state, each in another place, as people write them with Flax NNX and Equinox.

They are made as those of ``programs_torch``. In JAX itself arrays cannot be written, keys are arguments and gradients
are results: it has no ``.grad``, no ``requires_grad``, no hooks and no random state of its own. State is in NNX's
Variables, among them the counts of its random streams and the modes of its modules, in Equinox's State, in mutable
references, and in the random states of Python and NumPy. Flax refuses to write a module of a closure, a global or an
attribute while its function is differentiated; one program shows that. So there, the state is of the other kinds.
"""

import random
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from replay.held import Held, Same, array_bytes, python_and_numpy, tick, walk

PURE = True
"""What a function writes to a model that it is given is a result, as of ``jax.grad``: the caller's own stays."""


def describe(**roots):
    """A function that describes the state reached from some objects, and the random states."""

    def state():
        into = python_and_numpy()
        seen = {}
        for name, root in roots.items():
            walk(name, root, leaf, into, seen)
        return into

    return state


def leaf(name, thing, into):
    if isinstance(thing, jax.Array):
        into[name], into[f"{name} is"] = number_bytes(thing), Same(thing)
    elif isinstance(thing, nnx.Variable):
        of_variable(name, thing, into)
    elif isinstance(thing, nnx.Pytree):
        for path, node in nnx.iter_graph(thing):
            of_node(".".join(map(str, (name, *path))), node, into)
    elif isinstance(thing, eqx.nn.State):
        into[f"{name} is"], into[f"{name} used"] = Same(thing), not isinstance(thing._state, dict)
        for number, value in enumerate(jax.tree.leaves(thing._state) if isinstance(thing._state, dict) else ()):
            into[f"{name}.{number}"] = number_bytes(value)
    elif isinstance(thing, eqx.Module):
        into[f"{name} is"] = Same(thing)
        for number, value in enumerate(jax.tree.leaves(thing)):
            into[f"{name}.{number}"] = number_bytes(value) if isinstance(value, jax.Array) else repr(type(value))
    elif isinstance(thing, jax.Ref):
        into[name], into[f"{name} is"] = number_bytes(thing[...]), Same(thing)
    elif isinstance(thing, int | float | str | bytes | None):
        into[name] = repr(thing)
    else:
        return False
    return True


def of_variable(name, variable, into):
    into[name], into[f"{name} is"] = (
        repr([number_bytes(each) for each in jax.tree.leaves(variable.get_value())]),
        Same(variable),
    )


def of_node(name, node, into):
    if isinstance(node, nnx.Variable):
        of_variable(name, node, into)
    elif isinstance(node, nnx.Pytree):
        attributes = {key: value for key, value in vars(node).items() if not key.startswith("_pytree")}
        into[f"{name} is"], into[f"{name} attributes"] = Same(node), ", ".join(sorted(attributes))
        for key, value in attributes.items():
            if isinstance(value, bool | int | float | str | None):
                into[f"{name} {key}"] = repr(value)


def number_bytes(value):
    # the state after a fault may hold what JAX traced with
    if isinstance(value, jax.core.Tracer):
        return b"traced"
    if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        return array_bytes(jax.random.key_data(value))
    return array_bytes(value)


def seeded():
    random.seed(1)
    np.random.seed(2)


def positive(*shape):
    return jnp.asarray(np.random.default_rng(sum(shape)).uniform(0.5, 1.5, shape), dtype=jnp.float32)


def infinite(x):
    return x.at[(0,) * x.ndim].set(jnp.inf)


def final(y):
    return jnp.log(jnp.mean(jnp.square(y)))


# Variables of NNX modules, by where the program finds the module


class Net(nnx.Module):
    # https://flax.readthedocs.io/en/latest/mnist_tutorial.html, with linear layers
    def __init__(self, rngs):
        self.linear1 = nnx.Linear(3, 4, rngs=rngs)
        self.batch_norm1 = nnx.BatchNorm(4, rngs=rngs)
        self.dropout1 = nnx.Dropout(rate=0.25, rngs=rngs)
        self.linear2 = nnx.Linear(4, 2, rngs=rngs)

    def __call__(self, x):
        tick()
        h = self.batch_norm1(self.dropout1(self.linear1(x)))
        tick()
        return final(self.linear2(nnx.relu(h)))


def batchnorm_and_dropout_of_a_model():
    seeded()
    model, x = Net(nnx.Rngs(0)), positive(5, 3)
    written = ("model.batch_norm1.mean", "model.batch_norm1.var", "model.dropout1.rngs.count")
    return Held(model, (x,), describe(model=model, x=x), written, (infinite(x),), select=":h", guarded=model)


def batchnorm_of_a_closure():
    seeded()
    layer, norm, x = nnx.Linear(3, 4, rngs=nnx.Rngs(0)), nnx.BatchNorm(4, rngs=nnx.Rngs(1)), positive(5, 3)

    def f(x):
        tick()
        h = layer(x)
        tick()
        y = norm(h)
        tick()
        return final(y * h)

    return Held(f, (x,), describe(layer=layer, norm=norm, x=x), ("norm.mean", "norm.var"), (infinite(x),))


SEEN = None


def on_the_global(x):
    tick()
    SEEN[...] += 1.0
    h = x * 2.0
    tick()
    return final(h)


def reference_of_a_global():
    global SEEN
    seeded()
    SEEN, x = jax.new_ref(jnp.zeros(2)), positive(5, 3)
    return Held(on_the_global, (x,), describe(seen=SEEN, x=x), ("seen",), (infinite(x),))


def batchnorm_of_an_argument():
    seeded()
    model = nnx.Sequential(nnx.Linear(3, 4, rngs=nnx.Rngs(0)), nnx.BatchNorm(4, rngs=nnx.Rngs(1)))

    def loss(model, x):
        tick()
        h = model(x)
        tick()
        return final(h + 0.1)

    x = positive(5, 3)
    written = ("model.layers.1.mean", "model.layers.1.var")
    return Held(loss, (model, x), describe(model=model, x=x), written, (model, infinite(x)))


class Trainer:
    __slots__ = ("noise", "seen")

    def __init__(self):
        self.seen, self.noise = jax.new_ref(jnp.array(0)), np.random.default_rng(6)

    def loss(self, x):
        tick()
        self.seen[...] += 1
        h = x + self.noise.uniform(0.0, 0.1, x.shape)
        tick()
        return final(h)


def reference_in_a_slot():
    seeded()
    trainer, x = Trainer(), positive(5, 3)
    written = ("trainer.seen", "trainer.noise")
    return Held(trainer.loss, (x,), describe(trainer=trainer, x=x), written, (infinite(x),))


class Count(nnx.Variable):
    pass


class Parts(nnx.Module):
    def __init__(self, rngs):
        self.counts = nnx.List([Count(jnp.array(0)), Count(jnp.array(5))])
        self.norms = nnx.Dict(a=nnx.BatchNorm(3, rngs=rngs))

    def __call__(self, x):
        tick()
        h = x * 2.0
        for count in self.counts:
            count[...] += len(x)
            tick()
        return final(self.norms["a"](h) + 0.1)


def variables_in_containers_of_a_model():
    seeded()
    model, x = Parts(nnx.Rngs(1)), positive(5, 3)
    written = ("model.counts.0", "model.counts.1", "model.norms.a.mean", "model.norms.a.var")
    return Held(model, (x,), describe(model=model, x=x), written, (infinite(x),), select=":h", guarded=model)


def generator_made_at_the_first_call():
    # What the program puts into its own dict stays there. The generator in it is to be as it was when it was made.
    seeded()
    cache = {}

    def f(x):
        tick()
        if "noise" not in cache:
            cache["noise"] = np.random.default_rng(6)
        h = x * 2.0 + cache["noise"].uniform()
        tick()
        return final(h)

    def noise():
        return {"noise": repr(cache.get("noise", np.random.default_rng(6)).bit_generator.state).encode()}

    x = positive(5, 3)
    others = describe(x=x)
    return Held(f, (x,), lambda: others() | noise(), ("noise",), (infinite(x),))


# Other Variables that a call writes


class StatefulLinear(nnx.Module):
    # https://flax.readthedocs.io/en/latest/nnx_basics.html
    def __init__(self, din, dout, *, rngs):
        self.w = nnx.Param(jax.random.uniform(rngs.params(), (din, dout)))
        self.count = Count(jnp.array(0, dtype=jnp.uint32))

    def __call__(self, x):
        tick()
        self.count[...] += 1
        h = x @ self.w
        tick()
        return final(h)


def counter_of_a_model():
    seeded()
    model, x = StatefulLinear(3, 2, rngs=nnx.Rngs(0)), positive(5, 3)
    return Held(model, (x,), describe(model=model, x=x), ("model.count",), (infinite(x),), select=":h", guarded=model)


class Critic(nnx.Module):
    def __init__(self, rngs):
        self.layer = nnx.SpectralNorm(nnx.Linear(3, 4, rngs=rngs), rngs=rngs)

    def __call__(self, x):
        tick()
        h = self.layer(x, update_stats=True)
        tick()
        return final(h)


def spectral_norm_of_a_critic():
    # https://flax.readthedocs.io/en/latest/api_reference/flax.nnx/nn/normalization.html
    seeded()
    model, x = Critic(nnx.Rngs(0)), positive(5, 3)
    held = Held(model, (x,), describe(model=model, x=x), ("model.layer.*",), (infinite(x),), select=":h")
    held.guarded = model
    return held


class Sower(nnx.Module):
    def __init__(self, rngs):
        self.layer = nnx.Linear(3, 2, rngs=rngs)

    def __call__(self, x):
        tick()
        h = self.layer(x)
        self.sow(nnx.Intermediate, "features", h)
        tick()
        return final(h)


def intermediates_that_are_sown():
    # https://flax.readthedocs.io/en/latest/guides/extracting_intermediates.html
    seeded()
    model, x = Sower(nnx.Rngs(0)), positive(5, 3)
    written = ("model attributes", "model.features", "model.features is")
    return Held(model, (x,), describe(model=model, x=x), written, (infinite(x),), select=":h", guarded=model)


class Actor(nnx.Module):
    # https://github.com/vwxyzjn/cleanrl/blob/master/cleanrl/ddpg_continuous_action_jax.py: a soft update, here of NNX
    def __init__(self, rngs):
        self.online, self.target = nnx.Linear(3, 2, rngs=rngs), nnx.Linear(3, 2, rngs=rngs)

    def __call__(self, x):
        tick()
        h = self.online(x) - self.target(x)
        tick()
        online, target = jax.lax.stop_gradient((nnx.state(self.online), nnx.state(self.target)))
        nnx.update(self.target, optax.incremental_update(online, target, 0.05))
        tick()
        return final(h)


def target_network():
    seeded()
    model, x = Actor(nnx.Rngs(0)), positive(5, 3)
    written = ("model.target.kernel",)
    return Held(model, (x,), describe(model=model, x=x), written, (infinite(x),), select=":h", guarded=model)


class Compiled(nnx.Module):
    def __init__(self):
        self.seen = Count(jnp.array(0))

    @nnx.jit
    def count(self, x):
        self.seen[...] += 1
        return x * 2.0

    def __call__(self, x):
        tick()
        h = self.count(x)
        tick()
        return final(h)


def counter_in_a_compiled_function():
    seeded()
    model, x = Compiled(), positive(5, 3)
    return Held(model, (x,), describe(model=model, x=x), ("model.seen",), (infinite(x),), select=":h", guarded=model)


# Modes


class Validated(nnx.Module):
    def __init__(self, rngs):
        self.norm, self.dropout = nnx.BatchNorm(3, rngs=rngs), nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x):
        tick()
        self.eval()
        h = self.dropout(self.norm(x))
        tick()
        return final(h)


def modes_set_in_a_call():
    # https://flax.readthedocs.io/en/latest/mnist_tutorial.html: model.eval() before the metrics, train() after them
    seeded()
    model, x = Validated(nnx.Rngs(0)), positive(5, 3)
    written = ("model.norm use_running_average", "model.dropout deterministic")
    return Held(model, (x,), describe(model=model, x=x), written, (infinite(x),), select=":h", guarded=model)


def modes_that_are_mixed():
    seeded()
    rngs = nnx.Rngs(0)
    model = nnx.Sequential(nnx.Linear(3, 4, rngs=rngs), nnx.BatchNorm(4, rngs=rngs), nnx.Dropout(0.5, rngs=rngs))
    model.layers[1].eval()

    def loss(model, x):
        tick()
        h = model(x)
        tick()
        return final(h + 0.1)

    x = positive(5, 3)
    held = Held(loss, (model, x), describe(model=model, x=x), ("model.layers.2.rngs.count",), (model, infinite(x)))
    held.guarded = model
    return held


# Random states


class Noisy(nnx.Module):
    # https://flax.readthedocs.io/en/latest/guides/randomness.html
    def __init__(self, rngs):
        self.rngs, self.layer = rngs, nnx.Linear(3, 2, rngs=rngs)

    def __call__(self, x):
        tick()
        h = x + 0.1 * jax.random.normal(self.rngs.noise(), (5, 3)) + 0.1 * jax.random.uniform(self.rngs(), (5, 3))
        tick()
        return final(self.layer(h))


def streams_of_a_model():
    seeded()
    model, x = Noisy(nnx.Rngs(0, noise=1)), positive(5, 3)
    written = ("model.rngs.noise.count", "model.rngs.default.count")
    return Held(model, (x,), describe(model=model, x=x), written, (infinite(x),), select=":h", guarded=model)


def streams_of_an_argument():
    seeded()
    rngs, x = nnx.Rngs(0), positive(5, 3)

    def f(x, rngs):
        tick()
        h = x + 0.1 * jax.random.normal(rngs(), (5, 3))
        tick()
        return final(h)

    return Held(f, (x, rngs), describe(rngs=rngs, x=x), ("rngs.default.count",), (infinite(x), rngs))


def python_and_numpy_states():
    # https://github.com/facebookresearch/mixup-cifar10/blob/main/train.py, in JAX
    seeded()
    x, y = positive(5, 3), positive(5, 3) + 0.1

    def mixup(x, y):
        tick()
        lam = np.random.beta(1.0, 1.0)
        index = np.random.permutation(5)
        tick()
        h = lam * x + (1 - lam) * x[index]
        h = h * random.uniform(0.9, 1.1)
        tick()
        return final(h - y)

    return Held(mixup, (x, y), describe(x=x, y=y), ("random.*",), (infinite(x), y), select="h*")


class Noise:
    def __init__(self):
        self.numpy, self.python = np.random.default_rng(7), random.Random(8)


def generators_of_the_program():
    seeded()
    noise, x = Noise(), positive(5, 3)
    kept = [np.random.Generator(np.random.Philox(9))]

    def f(x, generator):
        tick()
        h = x * noise.numpy.uniform(0.9, 1.1) * noise.python.uniform(0.9, 1.1)
        tick()
        h = h + kept[0].normal() * 0.1 + generator.normal() * 0.1
        return final(h)

    given = np.random.default_rng(10)
    state = describe(a=noise.numpy, b=noise.python, kept=kept, given=given, x=x)
    return Held(f, (x, given), state, ("[ab]", "kept.0", "given"), (infinite(x), given), select="h*")


def custom_gradient_that_draws():
    # https://docs.jax.dev/en/latest/notebooks/Custom_derivative_rules_for_Python_code.html, rounded at random
    seeded()
    generator, x = np.random.default_rng(9), positive(5, 3)

    @jax.custom_vjp
    def rounded(x):
        return jnp.floor(x + generator.uniform(size=x.shape)) + 1.0

    def forward(x):
        tick()
        return rounded(x), None

    def backward(_, gradient):
        tick()
        return (gradient,)

    rounded.defvjp(forward, backward)

    def f(x):
        tick()
        h = rounded(x)
        tick()
        return final(h * x)

    return Held(f, (x,), describe(generator=generator, x=x), ("generator",), (infinite(x),))


# Optimizers


def optimizer_that_steps():
    # https://flax.readthedocs.io/en/latest/mnist_tutorial.html: train_step
    seeded()
    model, x, y = nnx.Linear(3, 1, rngs=nnx.Rngs(0)), positive(5, 3), positive(5, 1)
    optimizer = nnx.Optimizer(model, optax.adam(0.01), wrt=nnx.Param)
    metric = nnx.metrics.Average("loss")

    def step(model, optimizer, metric, x, y):
        tick()
        loss, gradients = nnx.value_and_grad(lambda model: jnp.mean((model(x) - y) ** 2))(model)
        tick()
        optimizer.update(model, gradients)
        tick()
        metric.update(loss=loss)
        h = model(x)
        return final(h - y)

    state = describe(model=model, optimizer=optimizer, metric=metric, x=x, y=y)
    written = ("model.kernel", "model.bias", "optimizer.*", "metric.*")
    bad = (model, optimizer, metric, infinite(x), y)
    return Held(step, (model, optimizer, metric, x, y), state, written, bad)


def optimizer_that_is_held():
    seeded()
    model, x = nnx.BatchNorm(3, rngs=nnx.Rngs(0)), positive(5, 3)
    optimizer = nnx.Optimizer(model, optax.sgd(0.1, momentum=0.9), wrt=nnx.Param)

    def f(model, x):
        tick()
        h = model(x)
        tick()
        return final(h + optimizer.step[...])

    state = describe(model=model, optimizer=optimizer, x=x)
    return Held(f, (model, x), state, ("model.mean", "model.var"), (model, infinite(x)))


# Equinox, and JAX's own references


class Norm(eqx.Module):
    # https://docs.kidger.site/equinox/examples/stateful/
    linear: eqx.nn.Linear
    norm: eqx.nn.BatchNorm

    def __init__(self, key):
        self.linear = eqx.nn.Linear(3, 4, key=key)
        self.norm = eqx.nn.BatchNorm(4, axis_name="batch", mode="batch")

    def __call__(self, x, state):
        return self.norm(self.linear(x), state)


def equinox_batchnorm():
    seeded()
    model, state = eqx.nn.make_with_state(Norm)(jax.random.key(0))
    x = positive(5, 3)

    def loss(model, state, x):
        tick()
        batch = jax.vmap(model, axis_name="batch", in_axes=(0, None), out_axes=(0, None))
        h, new = batch(x, state)
        tick()
        return final(h + 0.1)

    # vmap takes the State apart, so that the caller's is not used up
    return Held(loss, (model, state, x), describe(model=model, state=state, x=x), (), (model, state, infinite(x)))


class Counter(eqx.Module):
    # https://docs.kidger.site/equinox/api/nn/stateful/
    index: eqx.nn.StateIndex

    def __init__(self):
        self.index = eqx.nn.StateIndex(jnp.array(0.0))

    def __call__(self, x, state):
        value = state.get(self.index)
        tick()
        return x + value, state.set(self.index, value + 1.0)


def equinox_state_that_is_used_up():
    seeded()
    counter, state = eqx.nn.make_with_state(Counter)()
    x = positive(5, 3)

    def f(x):
        tick()
        h, new = counter(x, state)
        tick()
        return final(h)

    written = ("state used", "state.0")
    return Held(f, (x,), describe(counter=counter, state=state, x=x), written, (infinite(x),))


def reference_of_a_closure():
    # https://docs.jax.dev/en/latest/array_refs.html
    seeded()
    seen, x = jax.new_ref(jnp.zeros(2)), positive(5, 3)

    def f(x):
        tick()
        seen[0] += 1.0
        h = x * 2.0
        tick()
        seen[1] = 3.0
        return final(h)

    return Held(f, (x,), describe(seen=seen, x=x), ("seen",), (infinite(x),))


# Arguments


def containers_of_the_caller():
    seeded()
    batch = {"x": positive(5, 3), "y": [positive(5, 3) + 0.1], "norm": nnx.BatchNorm(3, rngs=nnx.Rngs(0))}

    def f(batch, scale):
        tick()
        h = batch["norm"](batch["x"]) * scale
        tick()
        return final(h - batch["y"][0])

    bad = batch | {"x": infinite(batch["x"])}
    scale = jnp.ones(3)
    written = ("batch.norm.mean", "batch.norm.var")
    return Held(f, (batch, scale), describe(batch=batch, scale=scale), written, (bad, scale))


PROGRAMS = [
    batchnorm_and_dropout_of_a_model,
    batchnorm_of_a_closure,
    reference_of_a_global,
    batchnorm_of_an_argument,
    reference_in_a_slot,
    variables_in_containers_of_a_model,
    generator_made_at_the_first_call,
    counter_of_a_model,
    spectral_norm_of_a_critic,
    intermediates_that_are_sown,
    target_network,
    counter_in_a_compiled_function,
    modes_set_in_a_call,
    modes_that_are_mixed,
    streams_of_a_model,
    streams_of_an_argument,
    python_and_numpy_states,
    generators_of_the_program,
    custom_gradient_that_draws,
    optimizer_that_steps,
    optimizer_that_is_held,
    equinox_batchnorm,
    equinox_state_that_is_used_up,
    reference_of_a_closure,
    containers_of_the_caller,
]


def forward(held, args):
    return held.target(*args, **held.kwargs)


def train(held, args):
    """A step as a training takes it, without the update."""
    return differentiated(held.target, args)


def fail(held):
    """What runs until a guard raises, which it does before NNX writes a differentiated function's Variables back."""

    def raises(target, *args):
        target(*args)
        raise FloatingPointError

    if isinstance(held.target, nnx.Module):
        return nnx.value_and_grad(lambda model: raises(model, *held.bad))(held.target)
    return differentiated(partial(raises, held.target), held.bad)


def differentiated(target, args):
    if isinstance(target, nnx.Module):
        return nnx.value_and_grad(lambda model: model(*args))(target)
    if any(isinstance(each, nnx.Pytree) for each in jax.tree.leaves(args, is_leaf=lambda x: isinstance(x, nnx.Pytree))):
        return nnx.value_and_grad(target, argnums=0)(*args)
    if isinstance(args[0], eqx.Module):
        return eqx.filter_value_and_grad(target)(*args)
    return jax.value_and_grad(target)(*args)
