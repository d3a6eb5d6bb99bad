"""The cost of a probe in JAX, as ratios to the bare step measured side by side in one run.

The bare step is ``jax.jit(jax.value_and_grad(loss))``. A probe inside ``jax.jit`` is traced with it: taps become
nothing, values and gradients become further outputs. The floor is therefore what XLA must keep instead of fusing away:
one write of each selected value and one of its gradient. Tracing and compiling happen once, and are printed. Outside
of ``jax.jit`` a probe runs operation by operation and traces each time, as JAX itself does there: the bare step beside
it is ``jax.value_and_grad(loss)`` without ``jit``.
"""

import jax
import jax.numpy as jnp
import numpy
from side_by_side import compare, once

import backprobe as bp

SIZES = {"small": (2, 64, 2, 16), "mid": (4, 256, 8, 64)}  # layers, width, batch, tokens


def attention(p, h):
    q, k, v = h @ p["q"], h @ p["k"], h @ p["v"]
    scores = jax.nn.softmax(q @ k.mT / jnp.sqrt(q.shape[-1]))
    mixed = scores @ v
    return mixed @ p["o"]


def block(p, h):
    h = h + attention(p, h)
    inner = jax.nn.gelu(h @ p["up"])
    return h + inner @ p["down"]


def loss(layers, h):
    for p in layers:
        h = block(p, h)
    return (h**2).mean()


def made(layers, width, batch, tokens):
    """Parameters and an input."""
    generator = numpy.random.default_rng(0)

    def matrix(rows, columns):
        return jnp.asarray(generator.normal(size=(rows, columns)) / rows**0.5, jnp.float32)

    shapes = {
        "q": (width, width),
        "k": (width, width),
        "v": (width, width),
        "o": (width, width),
        "up": (width, 4 * width),
        "down": (4 * width, width),
    }
    parameters = [{name: matrix(*shape) for name, shape in shapes.items()} for _ in range(layers)]
    return parameters, jnp.asarray(generator.normal(size=(batch, tokens, width)), jnp.float32)


def probed(*patterns):
    """The loss, the gradients of all parameters, and those of what is selected."""

    def step(layers, h):
        rec = bp.probe(loss, [*patterns, "layers"], wrt="layers")(layers, h)
        return rec.result, dict(rec.grads())

    return step


VARIANTS = {
    "bare, again": jax.value_and_grad(loss),
    "each block's output": probed("/block"),
    "and scores and mixed in each attention": probed("/block", "/block/attention:scores", "/block/attention:mixed"),
    "every value": probed("**"),
}


def main():
    for size, (layers, width, batch, tokens) in SIZES.items():
        parameters, h = made(layers, width, batch, tokens)

        def ready(function, given=(parameters, h)):
            return lambda: jax.block_until_ready(function(*given))

        compiled, started = {}, {}
        for name, step in {"bare": jax.value_and_grad(loss), **VARIANTS}.items():
            compiled[name] = ready(jax.jit(step))
            started[name] = once(compiled[name])
        bare = compiled.pop("bare")
        median, ratios = compare(compiled, bare)
        print(
            f"{size}: {layers} layers of width {width}, batch {batch} × {tokens}; bare step {median * 1e3:.2f} ms, "
            f"traced and compiled in {started['bare']:.2f} s"
        )
        for name, ratio in ratios.items():
            print(f"  {name:42} ×{ratio:.3f}   traced and compiled in ×{started[name] / started['bare']:.2f}")
        eager = {name: ready(step) for name, step in VARIANTS.items()}
        median, ratios = compare(eager, ready(jax.value_and_grad(loss)))
        print(f"{size}, outside of jit: bare step {median * 1e3:.1f} ms")
        for name, ratio in ratios.items():
            print(f"  {name:42} ×{ratio:.3f}")


if __name__ == "__main__":
    main()
