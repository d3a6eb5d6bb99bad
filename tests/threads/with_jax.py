"""Threads about JAX. In JAX gradients are those of functions, and so are these programs."""

import jax
import jax.numpy as jnp

from threads import thread

THREADS = []
missing, nonfinite = thread("missing", THREADS), thread("nonfinite", THREADS)


@nonfinite(
    "https://github.com/jax-ml/jax/issues/21723",
    "the square of a norm, at 0",
    "the gradient of the norm is not defined there: sum the squares",
    "born_backward",
    says=("the derivative of norm is 0/0 at 0",),
    args=(jnp.zeros(2),),
)
def squared_norm(x):
    size = jnp.linalg.norm(x)  # <- here
    return size**2


@nonfinite(
    "https://github.com/jax-ml/jax/issues/15798",
    "the arc cosine of the overlap of two distributions that have become equal",
    "the derivative of `arccos` at 1 is infinite",
    "born_backward",
    "born_backward",
    says=("the derivative of acos is infinite at 1",),
    args=(jnp.array([1.0, 0.0]),),
)
def overlap(p):
    q = jnp.array([1.0, 0.0])
    cosine = jnp.vdot(p, q)  # <- here
    return jnp.arccos(cosine)  # <- here


@nonfinite(
    "https://github.com/jax-ml/jax/issues/6811",
    "`logsumexp` of numbers that are all -inf, as in a CTC loss",
    "a real wish; replace -inf, or give the function a derivative of its own",
    "born",
    "born_backward",
    says=("it is written there", "jax.nn.logsumexp(jnp.maximum(masked, -1e+09))"),
    args=(jnp.array([1.0, 2.0]),),
)
def log_of_zeros(x):
    masked = x - jnp.inf  # <- here
    return jax.nn.logsumexp(masked)  # <- here


@nonfinite(
    "https://github.com/jax-ml/jax/issues/5798",
    "`np.where(x < 1, x, np.sqrt(x))` at 0",
    "the double `where`: give the root a number at which its derivative is finite",
    "born_backward",
    says=("the derivative of sqrt is infinite at 0", "jnp.sqrt(jnp.where(x < 1.0, 1.0, x))"),
    args=(jnp.array([0.0, 4.0]),),
)
def root_not_taken(x):
    y = jnp.where(x < 1.0, x, jnp.sqrt(x))  # <- here
    return y.sum()


@nonfinite(
    "https://github.com/jax-ml/jax/issues/11716",
    "the standard deviation of equal numbers",
    "it has a square root of 0: use the variance",
    "born_backward",
    says=("the derivative of std is 0/0 where its result is 0",),
    args=(jnp.array([1.0, 1.0]),),
)
def deviation(x):
    spread = jnp.std(x)  # <- here
    return spread * 2.0


@nonfinite(
    "https://github.com/jax-ml/jax/issues/3407",
    "pairwise distances, whose diagonal is masked after the square root",
    "guard before the root, not after it",
    "born_backward",
    says=("the derivative of sqrt is infinite at 0", "jnp.sqrt(jnp.where(jnp.eye(2) == 0, squares, 1.0))"),
    args=(jnp.array([[1.0, 2.0], [0.5, 4.0]]),),
)
def pairwise(x):
    squares = ((x[None] - x[:, None]) ** 2).sum(-1)
    distances = jnp.sqrt(squares)  # <- here
    others = jnp.where(jnp.eye(2) == 0, distances, 0.0)
    return others.sum()


@missing(
    "https://github.com/google-deepmind/dm-haiku/issues/442",
    "gradients are zero after an `argmax` in the loss",
    "closed, answer not seen",
    "index",
    asked="w",
    says=("positions",),
    args=(jnp.array([1.0, 2.0]), jnp.array([0.5, 0.1])),
)
def wrong_classes(w, b):
    logits = w * 2.0 + b
    chosen = jnp.argmax(logits)  # <- here
    return (chosen - 1.0) ** 2 + 0.0 * b.sum()


@missing(
    "https://github.com/jax-ml/jax/issues/17555",
    "the gradient is zero when an index is drawn with `jax.random.categorical`",
    "closed, answer not seen",
    "sample",
    asked="p",
    says=("draws whole numbers", "log_prob()"),
    args=(jnp.array([0.2, 0.8]), jnp.array([1.0, 3.0])),
)
def drawn_index(p, rewards):
    key = jax.random.PRNGKey(0)
    index = jax.random.categorical(key, jnp.log(p))  # <- here
    return rewards[index]


@missing(
    "https://github.com/jax-ml/jax/issues/5245",
    "which position of an array to set is to be learned, through a cast to an integer",
    "the asker suspects the cast, in which the position loses its history",
    "integer",
    asked="index",
    says=("integers",),
    args=(jnp.array(1.3), jnp.array([1.0, 2.0, 3.0])),
)
def learned_index(index, target):
    position = index.astype(jnp.int32)  # <- here
    guess = jnp.zeros(3).at[position].set(1.0)
    return ((guess - target) ** 2).sum()


@missing(
    "https://github.com/patrick-kidger/equinox/issues/31",
    "how to keep a field of a module from being trained",
    "`jax.lax.stop_gradient` where it is used, not where it is set",
    "stop_gradient",
    asked="scale",
    says=("stop_gradient",),
    args=(jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0])),
)
def buffer(weight, scale):
    y = weight * jax.lax.stop_gradient(scale)  # <- here
    return (y**2).sum()
