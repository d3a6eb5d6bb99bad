"""The cost of a guard around a training loop, as ratios to the bare loop measured side by side in one run.

    python bench/guard.py                    PyTorch, TensorFlow and JAX
    python bench/guard.py torch              one of them

A capture is armed, and nothing is written: what it costs to know the step as it was before the forward.

Beside it stand the frameworks' own searches for NaN: anomaly mode, ``tf.debugging.enable_check_numerics`` and
``jax_debug_nans``. A loop is five steps of forward, loss and gradients, run operation by operation.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from time import process_time
from typing import Any

from side_by_side import compare, show
from tables import main

import backprobe as bp

NOWHERE = "bad-step-of-the-benchmark"  # never written
STEPS, PAIRS = 5, 6  # PAIRS is even: half of the time the guarded loop goes first
Guard = Callable[[], AbstractContextManager[Any]]


def measure(title: str, step: Callable[[], None], guards: dict[str, Guard]) -> None:
    """The ratio of each guarded loop to the bare one."""

    def loop(guard: Guard) -> None:
        with guard():
            for _ in range(STEPS):
                step()

    steps = {"bare, again": partial(loop, nullcontext), **{name: partial(loop, one) for name, one in guards.items()}}
    median, ratios = compare(steps, partial(loop, nullcontext), PAIRS, clock=process_time)
    print(f"{title}: {STEPS} bare steps {median * 1e3:.1f} ms")
    show(ratios, width=44)


def torch() -> None:
    import torch
    from models import SIZES, gpt2

    torch.set_num_threads(1)
    for size in SIZES:
        program = gpt2(SIZES[size])

        def step(program: Any = program) -> None:
            loss = program.loss()
            loss.backward()
            program.model.zero_grad()

        measure(
            f"PyTorch, GPT-2 {size} ({SIZES[size]})",
            step,
            {
                "bp.guard(model)": partial(bp.guard, program.model),
                "bp.guard()": bp.guard,
                "bp.guard(model, capture=...)": partial(bp.guard, program.model, capture=NOWHERE),
                "anomaly mode": partial(torch.autograd.set_detect_anomaly, True),
            },
        )


def tensorflow() -> None:
    import keras
    import tensorflow as tf

    for width in (64, 256):
        layers = [keras.layers.Dense(width, "gelu") for _ in range(8)]
        model = keras.Sequential([keras.Input((width,)), *layers, keras.layers.Dense(1)])
        x = tf.random.normal((512, width))

        def step(model: Any = model, x: Any = x) -> None:
            with tf.GradientTape() as tape:
                out = model(x)
                loss = tf.reduce_mean(out**2)
            tape.gradient(loss, model.trainable_variables)

        measure(
            f"TensorFlow, 8 layers of width {width}, eager",
            step,
            {
                "bp.guard(model)": partial(bp.guard, model),
                "bp.guard()": bp.guard,
                "check_numerics": _check_numerics,
                "bp.guard(model, capture=...)": partial(bp.guard, model, capture=NOWHERE),
            },
        )


@contextmanager
def _check_numerics() -> Any:
    import tensorflow as tf

    tf.debugging.enable_check_numerics()
    try:
        yield
    finally:
        tf.debugging.disable_check_numerics()


def jax() -> None:
    import equinox as eqx
    import jax

    for width in (64, 256):
        model = eqx.nn.MLP(width, 1, width, 8, key=jax.random.key(0))
        x = jax.random.normal(jax.random.key(1), (512, width))

        def loss(model: Any, x: Any) -> Any:
            out = jax.vmap(model)(x)
            return (out**2).mean()

        gradient = eqx.filter_value_and_grad(loss)

        def step(model: Any = model, x: Any = x, gradient: Any = gradient) -> None:
            jax.block_until_ready(gradient(model, x))

        measure(
            f"JAX, 8 layers of width {width}, outside of jit",
            step,
            {
                "bp.guard(model)": partial(bp.guard, model),
                "bp.guard()": bp.guard,
                "bp.guard(model, capture=...)": partial(bp.guard, model, capture=NOWHERE),
                "jax_debug_nans": partial(jax.debug_nans, True),
            },
        )


if __name__ == "__main__":
    main(__file__, {"torch": torch, "tensorflow": tensorflow, "jax": jax})
