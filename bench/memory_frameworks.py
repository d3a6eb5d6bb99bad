"""The cost of ``bp.memory`` around a training loop in JAX and TensorFlow, as ratios of processor time to the bare loop.

python bench/memory_frameworks.py
python bench/memory_frameworks.py jax
"""

from __future__ import annotations

import os
import sys
from time import process_time

from side_by_side import compare, show

import backprobe as bp

STEPS, PAIRS = 20, 4


def jax():
    import jax
    import jax.numpy as jnp

    def loss_of(weights, x):
        return (jnp.tanh(jnp.tanh(x @ weights[0]) @ weights[1]) ** 2).mean()

    weights, x = [jnp.ones((256, 512)) / 100, jnp.ones((512, 128)) / 100], jnp.ones((128, 256))
    gradient, compiled = jax.grad(loss_of), jax.jit(jax.grad(loss_of))

    def loop(gradient):
        def run(report=None):
            moving = weights
            for _ in range(STEPS):
                moving = jax.tree.map(lambda own, slope: own - 0.01 * slope, moving, gradient(moving, x))
                if report is not None:
                    report.step()
            jax.block_until_ready(moving)

        return run

    return {"JAX": loop(gradient), "JAX, under jit": loop(compiled)}


def tensorflow():
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    weights = [tf.Variable(tf.ones((256, 512)) / 100), tf.Variable(tf.ones((512, 128)) / 100)]
    x = tf.ones((128, 256))

    def run(report=None):
        for _ in range(STEPS):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.tanh(tf.tanh(x @ weights[0]) @ weights[1]) ** 2)
            for own, slope in zip(weights, tape.gradient(loss, weights), strict=True):
                own.assign_sub(0.01 * slope)
            if report is not None:
                report.step()

    return {"TensorFlow": run}


def main(names: list[str]) -> None:
    for backend in names:
        for name, bare in {"jax": jax, "tensorflow": tensorflow}[backend]().items():

            def measured(bare=bare, backend=backend) -> None:
                with bp.memory(backend=backend) as report:
                    bare(report)

            median, ratios = compare({f"{name}, bp.memory()": measured}, bare, PAIRS, clock=process_time)
            print(f"{STEPS} bare steps {median * 1e3:.1f} ms")
            show(ratios)


if __name__ == "__main__":
    main(sys.argv[1:] or ["jax", "tensorflow"])
