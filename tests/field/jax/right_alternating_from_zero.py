# from: own
# exit: 0
# says: ^all 4 parameters got a gradient
# never: useless|exactly 0
# The last layer of the discriminator starts at 0, so the generator's first gradients are 0: later ones are not.
import jax
import jax.numpy as jnp

keys = jax.random.split(jax.random.key(0), 4)
generator = {"w": jax.random.normal(keys[0], (4, 4)), "b": jnp.zeros(4)}
discriminator = {"w": jax.random.normal(keys[1], (4, 8)), "b": jnp.zeros(8), "out": jnp.zeros((8, 1)), "c": jnp.zeros(1)}


def made(g, z):
    return z @ g["w"] + g["b"]


def score(d, x):
    return jax.nn.relu(x @ d["w"] + d["b"]) @ d["out"] + d["c"]


def of_discriminator(d, g, x, z):
    return (jax.nn.softplus(-score(d, x)) + jax.nn.softplus(score(d, made(g, z)))).mean()


def of_generator(g, d, z):
    return jax.nn.softplus(-score(d, made(g, z))).mean()


for i in range(3):
    x, z = jax.random.normal(jax.random.key(i), (2, 16, 4))
    g = jax.jit(jax.grad(of_discriminator))(discriminator, generator, x + 1, z)
    discriminator = jax.tree.map(lambda p, g: p - 0.1 * g, discriminator, g)
    g = jax.jit(jax.grad(of_generator))(generator, discriminator, z)
    generator = jax.tree.map(lambda p, g: p - 0.1 * g, generator, g)
