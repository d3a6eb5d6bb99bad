"""The cost of watching a training in JAX, as ratios to the bare step measured side by side in one run.

    python bench/watch_jax.py              both sizes
    python bench/watch_jax.py mid          one of them

The bare step is ``jax.jit(jax.value_and_grad(loss))``, the other ``jax.jit(run.value_and_grad)`` with ``run.record`` of
what it returns. Tracing and compiling happen once, and are printed in seconds of processor time.
"""

import sys
import tempfile
import time

import jax
from probe_jax import SIZES, loss, made
from side_by_side import compare

import backprobe as bp

SELECTED = {
    "what blocks return": ["/block:return"],
    "what blocks and attentions return": ["/block:return", "/block/attention:return"],
    "parameters": ["layers.**"],
    "every value and parameter": None,
}


def main(sizes):
    for size in sizes or SIZES:
        layers, h = made(*SIZES[size])
        bare = jax.jit(jax.value_and_grad(loss))
        print(f"\n{size}: {SIZES[size]} layers, width, batch, tokens; compiled in {compiled(bare, layers, h):.1f} s")
        for name, select in SELECTED.items():
            with tempfile.TemporaryDirectory() as folder, bp.watch_function(loss, folder, select=select) as run:
                step = jax.jit(run.value_and_grad)
                seconds = compiled(step, layers, h)
                rows = len(jax.eval_shape(step, layers, h)[0][1].about.rows)

                def watched(run=run, step=step, given=(layers, h)):
                    (_, stats), grads = step(*given)
                    run.record(stats)
                    jax.block_until_ready(grads)

                _, ratios = compare(
                    {name: watched}, lambda given=(bare, layers, h): jax.block_until_ready(given[0](*given[1:]))
                )
            print(f"  {name:36} {rows:4} rows, compiled in {seconds:4.1f} s  × {ratios[name]:.3f}")


def compiled(step, *given):
    """The seconds that it takes to trace and compile."""
    before = time.process_time()
    step.lower(*given).compile()
    return time.process_time() - before


if __name__ == "__main__":
    main(sys.argv[1:])
