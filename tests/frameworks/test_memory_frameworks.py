"""``bp.memory`` in JAX and TensorFlow: planted leaks with their line, healthy trainings, and bytes by the truth."""

import inspect
import linecache
import weakref

import jax
import jax.numpy as jnp
import memory_jax
import memory_tensorflow
import pytest
import tensorflow as tf

import backprobe as bp
from commands import forked

PROGRAMS = {"jax": memory_jax, "tensorflow": memory_tensorflow}
LEAKS = [(name, program) for name, programs in PROGRAMS.items() for program in programs.LEAKS]
HEALTHY = [(name, program) for name, programs in PROGRAMS.items() for program in programs.HEALTHY]


class Watch:
    """Opens a block around the steps of a program, and keeps its report."""

    def __init__(self, backend):
        self.backend = backend

    def __call__(self, model):
        self.block = bp.memory(model, backend=self.backend)
        return self

    def __enter__(self):
        self.report = self.block.__enter__()

    def __exit__(self, *error):
        self.block.__exit__(*error)

    def step(self):
        self.report.step()


def reported(backend, program):
    watch = Watch(backend)
    program(watch)
    return watch.report


def line_of(program):
    lines, first = inspect.getsourcelines(program)
    (line,) = [first + at for at, text in enumerate(lines) if "# here" in text] or [None]
    return line


def named(pairs):
    return [f"{backend}-{program.__name__}" for backend, program in pairs]


@pytest.mark.parametrize(("backend", "program"), LEAKS, ids=named(LEAKS))
def test_what_outlives_its_step_is_named_with_its_line(backend, program):
    report = reported(backend, program)
    (held,) = report.held
    assert (held.kind, held.path) == PROGRAMS[backend].LEAKS[program]
    assert held.graphs == memory_jax.N - 1 and held.nbytes > 0
    assert not report.ok and held.text in str(report) and held.next in str(report)
    line = line_of(program)
    if line is not None:
        assert held.source.line == line, held.text
        assert linecache.getline(held.source.file, line).strip() == held.source.text


@pytest.mark.parametrize(("backend", "program"), HEALTHY, ids=named(HEALTHY))
def test_a_healthy_training_is_silent(backend, program):
    report = reported(backend, program)
    assert report.held == () and report.ok
    assert report.steps == memory_jax.N


# bytes


def jax_pullback(shape, layers):
    """The truth: the distinct buffers that a pullback holds, but for those that are differentiated."""
    weights = [jnp.ones((shape[-1], shape[-1])) / 10 for _ in range(layers)]
    x = jnp.ones(shape)

    def run(weights):
        h = x
        for weight in weights:
            h = jax.nn.gelu(h @ weight) + jnp.sin(h)
        return h.mean()

    with bp.memory(backend="jax") as report:
        _, pullback = jax.vjp(run, weights)
    own = {weight.unsafe_buffer_pointer() for weight in weights}
    held = {leaf.unsafe_buffer_pointer(): leaf.nbytes for leaf in jax.tree.leaves(pullback)}
    return report, sum(size for place, size in held.items() if place not in own)


@pytest.mark.parametrize("layers", [1, 3])
def test_bytes_are_those_that_the_pullback_holds(layers):
    report, truth = jax_pullback((6, 4), layers)
    assert report.nbytes == report.peak == pytest.approx(truth, rel=0.05)
    lines = {one.source.text for one in report.saved}
    assert "h = jax.nn.gelu(h @ weight) + jnp.sin(h)" in lines
    assert {"argument", "tanh"} <= {one.operation for one in report.saved}
    for what in ("line", "module", "operation"):
        assert sum(report.by(what).values()) == report.nbytes


def test_lines_of_what_is_traced():
    def run(weight, x):
        h = jnp.tanh(x @ weight)
        return (h * jnp.sin(h)).sum()

    with bp.memory(backend="jax") as report:
        jax.jit(jax.value_and_grad(run))(jnp.ones((4, 4)), jnp.ones((3, 4)))
    assert {one.source.text for one in report.saved} >= {
        "h = jnp.tanh(x @ weight)",
        "return (h * jnp.sin(h)).sum()",
    }, report
    with bp.memory(backend="jax") as plain:
        jax.value_and_grad(run)(jnp.ones((4, 4)), jnp.ones((3, 4)))
    assert plain.nbytes == pytest.approx(report.nbytes, rel=0.05)


def test_a_checkpoint_of_jax_keeps_its_input_alone():
    def run(weight, x):
        return jnp.tanh(jnp.tanh(jnp.tanh(x @ weight) @ weight) @ weight).sum()

    weight, x = jnp.ones((4, 4)), jnp.ones((64, 4))
    with bp.memory(backend="jax") as plain:
        jax.grad(run)(weight, x)
    with bp.memory(backend="jax") as saving:
        jax.grad(jax.checkpoint(run))(weight, x)
    assert saving.nbytes < plain.nbytes / 2


def tape_of(width):
    """What a persistent tape holds: of the values that a program makes, those that outlive its variables."""
    held = []

    def seen(value):
        held.append((weakref.ref(value), int(value.dtype.size * value.shape.num_elements())))
        return value

    weight = tf.Variable(tf.ones((width, width)) / 10)
    x = tf.ones((5, width))

    def run():
        h = seen(x @ weight)
        h = seen(tf.tanh(h))
        g = seen(tf.exp(h))
        h = seen(h * g)
        h = seen(h + 1.0)
        return tf.reduce_sum(seen(tf.square(h)))

    with bp.memory(backend="tensorflow") as report:
        with tf.GradientTape(persistent=True) as tape:
            loss = run()
        alive = [(reference, size) for reference, size in held if reference() is not None]
        tape.gradient(loss, weight)
    return report, sum(size for _, size in alive) + int(x.dtype.size * x.shape.num_elements())


@pytest.mark.parametrize("width", [4, 9])
def test_bytes_are_those_that_the_tape_holds(width):
    report, truth = tape_of(width)
    small = sum(one.nbytes for one in report.saved if one.nbytes <= 8)  # constants, and axes of sums
    assert report.nbytes - small == pytest.approx(truth, rel=0.05), report
    assert {one.source.text for one in report.saved} >= {"g = seen(tf.exp(h))", "h = seen(tf.tanh(h))"}
    assert {"Tanh", "Exp", "MatMul"} <= {one.operation for one in report.saved}


def test_a_tape_that_was_asked_has_let_go():
    weight, x = tf.Variable(tf.ones((4, 4))), tf.ones((8, 4))
    with bp.memory(backend="tensorflow") as report:
        for _ in range(4):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.tanh(x @ weight))
            tape.gradient(loss, weight)
            report.step()
    assert report.peak < 1.2 * report.nbytes and report.steps == 4


def test_a_compiled_function_under_a_tape_is_counted():
    weight, x = tf.Variable(tf.ones((4, 4))), tf.ones((8, 4))
    run = tf.function(lambda x: tf.tanh(tf.tanh(x @ weight) @ weight))
    with bp.memory(backend="tensorflow") as report, tf.GradientTape() as tape:
        loss = tf.reduce_sum(run(x))
    assert 2 * 8 * 4 * 4 <= report.nbytes < 4 * 8 * 4 * 4 and tape.gradient(loss, weight) is not None


RESIDENT = """
import os, pathlib, resource
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy, backprobe as bp
{imports}
def resident():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
{made}
with bp.memory(backend="{backend}") as report:
    before = resident()
{run}
    grown = resident() - before
print(report.peak, grown)
"""
OF_JAX = {
    "backend": "jax",
    "imports": "import jax, jax.numpy as jnp",
    "made": "x = jnp.ones(20_000_000)\ndef f(x):\n    return jnp.exp(jnp.sin(x))\nsmall = jax.vjp(f, jnp.ones(3))",
    "run": "    out, pullback = jax.vjp(f, x)\n    jax.block_until_ready(jax.tree.leaves(pullback))",
}
OF_TENSORFLOW = {
    "backend": "tensorflow",
    "imports": "import tensorflow as tf",
    "made": (
        "x = tf.ones(20_000_000)\ndef run(x):\n    with tf.GradientTape(persistent=True) as tape:\n"
        "        tape.watch(x)\n        return tf.exp(tf.tanh(x)), tape\n"
        "first = run(x)  # TensorFlow's own threads take memory with it"
    ),
    "run": "    held = run(x)",
}


@pytest.mark.parametrize("program", [OF_JAX, OF_TENSORFLOW], ids=["jax", "tensorflow"])
def test_the_peak_is_what_the_process_holds_more(program):
    status, out, err = forked("-c", RESIDENT.format(**program))
    assert status == 0, err
    told, grown = map(int, out.split())
    assert told == 2 * 80_000_000
    assert told == pytest.approx(grown, rel=0.05)


# what it does to the program, and what is refused


def test_results_are_bitwise_the_same():
    def train():
        weights, batches = memory_jax.setting()
        for x in batches:
            weights = memory_jax.step(weights, x)
        return jax.tree.leaves(weights)

    with bp.memory(backend="jax"):
        under = train()
    assert all(bool((a == b).all()) for a, b in zip(under, train(), strict=True))

    def train_with_a_tape():
        weights, batches = memory_tensorflow.setting()
        for x in batches:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(memory_tensorflow.forward(weights, x) ** 2)
            memory_tensorflow.move(weights, tape.gradient(loss, weights))
        return weights

    with bp.memory(backend="tensorflow"):
        under = train_with_a_tape()
    assert all(bool(tf.reduce_all(a == b)) for a, b in zip(under, train_with_a_tape(), strict=True))


def test_nothing_is_left_behind_after_an_error():
    before = jax.vjp, tf.GradientTape.gradient, tf.GradientTape._push_tape
    for backend in PROGRAMS:
        with pytest.raises(ValueError, match="mine"), bp.memory(backend=backend):
            raise ValueError("mine")
    assert (jax.vjp, tf.GradientTape.gradient, tf.GradientTape._push_tape) == before


def test_few_steps_say_nothing_of_earlier_ones():
    weights, batches = memory_jax.setting()
    outputs = []
    with bp.memory(backend="jax") as report:
        for x in batches[:2]:
            outputs.append(memory_jax.forward(weights, x))
            report.step()
    assert report.held == () and report.steps == 2


def test_what_is_said_of_arrays_and_tapes():
    (arrays,) = reported("jax", memory_jax.outputs_in_a_list).held
    assert "keeps arrays of 4 earlier steps" in arrays.text and "float(x.mean())" in arrays.next
    (pullbacks,) = reported("jax", memory_jax.pullbacks_in_a_list).held
    assert "keeps the pullbacks of 4 earlier steps" in pullbacks.text
    (tapes,) = reported("tensorflow", memory_tensorflow.one_tape_that_goes_on).held
    assert "keeps what tapes recorded in 4 earlier steps" in tapes.text and "tape.reset()" in tapes.next
