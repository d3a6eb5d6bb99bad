"""What each run of a program costs where it runs again, as ratios to the bare step measured beside it in one run.

    python bench/replay.py                   PyTorch, TensorFlow and JAX
    python bench/replay.py torch             one of them

The bare step is the forward, the loss and its gradients. ``noise_floor``, ``sweep`` and ``provoke`` run it many times:
theirs is the cost of one run. ``check`` runs it once and repeats each of its calls, so that is the cost of the whole,
of the smaller model.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

from side_by_side import compare, least, show
from tables import main

import backprobe as bp

RUNS, PAIRS = 8, 4  # PAIRS is even: half of the time the bare step goes first


def measure(
    title: str, bare: Callable[[], Any], runs: dict[str, tuple[Callable[[], Any], int]], check: Any = None
) -> None:
    """The ratio of each run to the bare step, and of a whole check, which takes long enough to be made only twice."""
    repeated = {name: act for name, (act, _) in runs.items()}
    median, ratios = compare(repeated, bare, PAIRS, clock=process_time)
    print(f"{title}: a bare step takes {median * 1e3:.1f} ms")
    show({f"{name}, a run": ratio / runs[name][1] for name, ratio in ratios.items()}, width=44)
    if check is not None:
        show({"check": least(check, 2) / median}, width=44)


def torch() -> None:
    import torch
    from models import SIZES, gpt2

    torch.set_num_threads(1)
    for size in SIZES:
        program = gpt2(SIZES[size])
        values = [f"transformer.h.{layer}" for layer in range(SIZES[size].layers)]

        def again(act: Any, program: Any = program) -> Callable[[], Any]:
            return lambda: act(**program.inputs)

        noise = bp.noise_floor(program.model, values, of="loss", runs=RUNS)
        sweep = bp.sweep(program.model, values, of="loss", replace=lambda value: value * 0)
        measure(
            f"PyTorch, GPT-2 {size} ({SIZES[size]})",
            program.bare(),
            {"noise_floor": (again(noise), RUNS + 1), "sweep": (again(sweep), len(values) + 1)},
            again(bp.check(program.model)) if size == "small" else None,
        )


def tensorflow() -> None:
    import keras
    import tensorflow as tf

    for width in (64, 256):
        layers = [keras.layers.Dense(width, "gelu") for _ in range(8)]
        model = keras.Sequential([keras.Input((width,)), *layers, keras.layers.Dense(1)])
        x = tf.random.normal((512, width))

        def bare(model: Any = model, x: Any = x) -> None:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(model(x) ** 2)
            tape.gradient(loss, model.trainable_variables)

        _measure_layers(f"TensorFlow, 8 layers of width {width}, eager", bare, model, "*", tf.reduce_mean, x)


def jax() -> None:
    import jax
    import jax.numpy as jnp
    from flax import nnx

    for width in (64, 256):
        rngs = nnx.Rngs(0)
        layers = [part for _ in range(8) for part in (nnx.Linear(width, width, rngs=rngs), nnx.gelu)]
        model = nnx.Sequential(*layers, nnx.Linear(width, 1, rngs=rngs))
        x = jax.random.normal(jax.random.key(1), (512, width))

        def loss(model: Any, x: Any) -> Any:
            return (model(x) ** 2).mean()

        gradient = nnx.value_and_grad(loss)

        def bare(model: Any = model, x: Any = x, gradient: Any = gradient) -> None:
            jax.block_until_ready(gradient(model, x))

        _measure_layers(f"JAX, 8 layers of width {width}, outside of jit", bare, model, "layers.*", jnp.mean, x)


def _measure_layers(title: str, bare: Callable[[], Any], model: Any, inner: str, mean: Any, x: Any) -> None:
    def of(out: Any) -> Any:
        return mean(out**2)

    values = [name for name in bp.probe(model, inner, of=of)(x) if ":" not in name][:4]
    noise = bp.noise_floor(model, values, of=of, runs=RUNS)
    sweep = bp.sweep(model, values, of=of, replace=lambda value: value * 0)
    measure(
        title,
        bare,
        {"noise_floor": (lambda: noise(x), RUNS + 1), "sweep": (lambda: sweep(x), len(values) + 1)},
        (lambda: bp.check(model)(x)) if x.shape[-1] == 64 else None,
    )


if __name__ == "__main__":
    main(__file__, {"torch": torch, "tensorflow": tensorflow, "jax": jax})
