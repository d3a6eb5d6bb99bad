"""Trainings in JAX that let something outlive its step, each at the line with the mark ``# here``, and healthy ones."""

import functools
from collections import deque

import jax
import jax.numpy as jnp
import numpy

N = 5
PULLBACKS, OUTPUTS, BUFFER, ERRORS = [], {}, deque(maxlen=100), []


def setting():
    random = numpy.random.default_rng(0)
    weights = {"a": jnp.asarray(random.normal(size=(4, 8))), "b": jnp.asarray(random.normal(size=(8, 2)))}
    return weights, [jnp.asarray(random.normal(size=(3, 4))) for _ in range(N)]


def forward(weights, x):
    return jnp.tanh(x @ weights["a"]) @ weights["b"]


def loss_of(weights, x):
    return (forward(weights, x) ** 2).mean()


def moved(weights, gradients, rate=0.01):
    return jax.tree.map(lambda own, gradient: own - rate * gradient, weights, gradients)


def step(weights, x):
    return moved(weights, jax.grad(loss_of)(weights, x))


# what outlives its step


def pullbacks_in_a_list(watch):
    weights, batches = setting()
    pullbacks = []
    with watch(None):
        for x in batches:
            loss, pullback = jax.vjp(lambda own, x=x: loss_of(own, x), weights)
            pullbacks.append(pullback)  # here
            weights = moved(weights, pullback(jnp.ones_like(loss))[0])
            watch.step()


def pullbacks_of_a_module(watch):
    weights, batches = setting()
    PULLBACKS.clear()
    with watch(None):
        for x in batches:
            loss, pullback = jax.vjp(functools.partial(loss_of, x=x), weights)
            PULLBACKS.append((loss, pullback))  # here
            weights = moved(weights, pullback(jnp.ones_like(loss))[0])
            watch.step()


def pullbacks_by_step(watch):
    weights, batches = setting()
    kept = {}
    with watch(None):
        for at, x in enumerate(batches):
            loss, kept[at] = jax.vjp(functools.partial(loss_of, x=x), weights)  # here
            weights = moved(weights, kept[at](jnp.ones_like(loss))[0])
            watch.step()


def linearized_functions(watch):
    weights, batches = setting()
    tangents = []
    with watch(None):
        for x in batches:
            _, tangent = jax.linearize(functools.partial(loss_of, x=x), weights)
            tangents.append(tangent)  # here
            weights = step(weights, x)
            watch.step()


def outputs_in_a_list(watch):
    weights, batches = setting()
    outputs = []
    with watch(None):
        for x in batches:
            outputs.append(forward(weights, x))  # here
            weights = step(weights, x)
            watch.step()


def outputs_of_a_module(watch):
    weights, batches = setting()
    OUTPUTS.clear()
    with watch(None):
        for at, x in enumerate(batches):
            OUTPUTS[at] = forward(weights, x)  # here
            weights = step(weights, x)
            watch.step()


def all_weights(watch):
    weights, batches = setting()
    history = []
    with watch(None):
        for x in batches:
            weights = step(weights, x)
            history.append(weights)  # here
            watch.step()


def gradients_by_name(watch):
    weights, batches = setting()
    seen = {}
    with watch(None):
        for x in batches:
            gradients = jax.grad(loss_of)(weights, x)
            seen.setdefault("b", []).append(gradients["b"])  # here
            weights = moved(weights, gradients)
            watch.step()


def an_attribute(watch):
    class Trainer:
        def __init__(self, weights):
            self.weights, self.activations = weights, []

        def train(self, x):
            self.activations.append(jnp.tanh(x @ self.weights["a"]))  # here
            self.weights = step(self.weights, x)

    weights, batches = setting()
    trainer = Trainer(weights)
    with watch(None):
        for x in batches:
            trainer.train(x)
            watch.step()


def a_closure(watch):
    def recorder():
        kept = []

        def record(value):
            kept.append(value)  # here

        return record

    weights, batches = setting()
    record = recorder()
    with watch(None):
        for x in batches:
            record(forward(weights, x))
            weights = step(weights, x)
            watch.step()


def a_queue(watch):
    weights, batches = setting()
    BUFFER.clear()
    with watch(None):
        for x in batches:
            BUFFER.append((x, forward(weights, x)))  # here
            weights = step(weights, x)
            watch.step()


def a_cache(watch):
    weights, batches = setting()

    @functools.lru_cache(None)
    def predicted(at):
        return forward(weights, batches[at])

    with watch(None):
        for at in range(N):
            predicted(at)
            watch.step()


def a_traceback(watch):
    def failing(weights, x):
        out = forward(weights, x)
        raise ValueError(float(out.sum()))

    weights, batches = setting()
    ERRORS.clear()
    with watch(None):
        for x in batches:
            weights = step(weights, x)
            try:
                failing(weights, x)
            except ValueError as error:
                ERRORS.append(error)  # here
            watch.step()


LEAKS = {
    pullbacks_in_a_list: ("graphs", "pullbacks[…]"),
    pullbacks_of_a_module: ("graphs", "PULLBACKS[…][…]"),
    pullbacks_by_step: ("graphs", "kept[…]"),
    linearized_functions: ("graphs", "tangents[…]"),
    outputs_in_a_list: ("arrays", "outputs[…]"),
    outputs_of_a_module: ("arrays", "OUTPUTS[…]"),
    all_weights: ("arrays", "history[…]['a']"),
    gradients_by_name: ("arrays", "seen['b'][…]"),
    an_attribute: ("arrays", "trainer.activations[…]"),
    a_closure: ("arrays", "record's kept[…]"),
    a_queue: ("arrays", "BUFFER[…][…]"),
    a_cache: ("arrays", "predicted[…]"),
    a_traceback: ("arrays", "ERRORS[…].__traceback__ → weights of failing()['a']"),
}
"""By program: the kind of what is held, and the way to it."""


# healthy ones


def single_numbers(watch):
    weights, batches = setting()
    losses = []
    with watch(None):
        for x in batches:
            loss, gradients = jax.value_and_grad(loss_of)(weights, x)
            losses.append(loss)  # one number: a float of Python takes no less
            weights = moved(weights, gradients)
            watch.step()
    return losses


def floats(watch):
    weights, batches = setting()
    losses = []
    with watch(None):
        for x in batches:
            loss, gradients = jax.value_and_grad(loss_of)(weights, x)
            losses.append(float(loss))
            weights = moved(weights, gradients)
            watch.step()
    return losses


def compiled(watch):
    weights, batches = setting()
    make = jax.jit(step)
    with watch(None):
        for x in batches:
            weights = make(weights, x)
            watch.step()


def momentum(watch):
    weights, batches = setting()
    velocity = jax.tree.map(jnp.zeros_like, weights)
    with watch(None):
        for x in batches:
            gradients = jax.grad(loss_of)(weights, x)
            velocity = jax.tree.map(lambda own, gradient: 0.9 * own + gradient, velocity, gradients)
            weights = moved(weights, velocity)
            watch.step()


def moving_average(watch):
    weights, batches = setting()
    average = weights
    with watch(None):
        for x in batches:
            weights = step(weights, x)
            average = jax.tree.map(lambda own, new: 0.9 * own + 0.1 * new, average, weights)
            watch.step()
    return average


def best_weights(watch):
    weights, batches = setting()
    best, least = weights, float("inf")
    with watch(None):
        for x in batches:
            loss, gradients = jax.value_and_grad(loss_of)(weights, x)
            best, least = (weights, float(loss)) if float(loss) < least else (best, least)
            weights = moved(weights, gradients)
            watch.step()
    return best


def last_output(watch):
    weights, batches = setting()
    last = []
    with watch(None):
        for x in batches:
            last = [forward(weights, x)]
            weights = step(weights, x)
            watch.step()
    return last


def first_output(watch):
    weights, batches = setting()
    first = None
    with watch(None):
        for x in batches:
            out = forward(weights, x)
            first = out if first is None else first
            weights = step(weights, x)
            watch.step()
    return first


def copies_on_the_host(watch):
    weights, batches = setting()
    outputs = []
    with watch(None):
        for x in batches:
            outputs.append(numpy.array(forward(weights, x)))
            weights = step(weights, x)
            watch.step()
    return outputs


def a_pullback_that_goes(watch):
    weights, batches = setting()
    with watch(None):
        for x in batches:
            loss, pullback = jax.vjp(functools.partial(loss_of, x=x), weights)
            weights = moved(weights, pullback(jnp.ones_like(loss))[0])
            watch.step()


def accumulated_gradients(watch):
    weights, batches = setting()
    total = jax.tree.map(jnp.zeros_like, weights)
    with watch(None):
        for at, x in enumerate(batches):
            total = jax.tree.map(jnp.add, total, jax.grad(loss_of)(weights, x))
            if at % 2:
                weights, total = moved(weights, total), jax.tree.map(jnp.zeros_like, weights)
            watch.step()


def random_keys(watch):
    weights, batches = setting()
    key = jax.random.key(0)
    with watch(None):
        for x in batches:
            key, own = jax.random.split(key)
            noisy = x + jax.random.normal(own, x.shape)
            weights = step(weights, noisy)
            watch.step()


def the_last_few(watch):
    weights, batches = setting()
    recent = deque(maxlen=1)
    with watch(None):
        for x in batches:
            recent.append(forward(weights, x))
            weights = step(weights, x)
            watch.step()


def penalty_on_gradients(watch):
    weights, batches = setting()

    def penalized(weights, x):
        slope = jax.grad(lambda x: forward(weights, x).sum())(x)
        return (slope**2).mean()

    with watch(None):
        for x in batches:
            weights = moved(weights, jax.grad(penalized)(weights, x))
            watch.step()


def checkpointed(watch):
    weights, batches = setting()
    with watch(None):
        for x in batches:
            weights = moved(weights, jax.grad(jax.checkpoint(loss_of))(weights, x))
            watch.step()


def scanned(watch):
    weights, batches = setting()

    def run(weights, batches):
        return jax.lax.scan(lambda own, x: (step(own, x), loss_of(own, x)), weights, batches)

    with watch(None):
        for _ in range(N):
            weights, losses = jax.jit(run)(weights, jnp.stack(batches))
            watch.step()
    return losses


def caught_errors(watch):
    weights, batches = setting()
    texts = []
    with watch(None):
        for x in batches:
            weights = step(weights, x)
            try:
                raise ValueError(float(forward(weights, x).sum()))
            except ValueError as error:
                texts.append(str(error))
            watch.step()


HEALTHY = (
    single_numbers,
    floats,
    compiled,
    momentum,
    moving_average,
    best_weights,
    last_output,
    first_output,
    copies_on_the_host,
    a_pullback_that_goes,
    accumulated_gradients,
    random_keys,
    the_last_few,
    penalty_on_gradients,
    checkpointed,
    scanned,
    caught_errors,
)
