# from: https://github.com/jax-ml/jax/tree/main/examples
# ask: explain PROGRAM --rate 0.05 --layers 4 4 --steps=3
# exit: 0
# never: got no gradient|exactly 0|useless|Usage|No such option
"""A script with arguments of its own, one of which (`--steps`) is called as an option of backprobe."""

import argparse

import jax
import jax.numpy as jnp

parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float, required=True)
parser.add_argument("--layers", type=int, nargs="+", default=[8])
parser.add_argument("--steps", type=int, default=2)
asked = parser.parse_args()


def main():
    sizes = [3, *asked.layers, 1]
    keys = jax.random.split(jax.random.key(0), len(sizes))
    params = [0.5 * jax.random.normal(k, (a, b)) for k, a, b in zip(keys, sizes, sizes[1:])]
    x = jax.random.normal(keys[-1], (16, 3))

    @jax.jit
    def loss_of(params):
        h = x
        for w in params[:-1]:
            h = jnp.tanh(h @ w)
        return jnp.mean((h @ params[-1] - x.sum(1, keepdims=True)) ** 2)

    for turn in range(asked.steps):
        params = [p - asked.rate * g for p, g in zip(params, jax.grad(loss_of)(params))]
    print(len(params), turn)


if __name__ == "__main__":
    main()
