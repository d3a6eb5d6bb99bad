"""Programs whose gradient is NaN because of a branch that is not taken, and what `explain` proposes for which part.

Each is its framework, the thread that it is after, written anew, the lines of a function of ``x``, the numbers of that,
the part, and what to write in its place.
"""

PYTORCH = "https://github.com/pytorch/pytorch/issues/"
TENSORFLOW = "https://github.com/tensorflow/tensorflow/issues/"
JAX = "https://github.com/jax-ml/jax/issues/"

CASES = [
    ("torch", PYTORCH + "187297", "y = torch.where(x > 0, torch.sqrt(x), x)", [-1.0, 4.0],
     "torch.sqrt(x)", "torch.sqrt(torch.where(x > 0, x, 1.0))"),
    ("torch", PYTORCH + "68425", "y = torch.where(x <= 0, torch.exp(x), 1 + x)", [100.0, -1.0],
     "torch.exp(x)", "torch.exp(torch.where(x <= 0, x, 1.0))"),
    ("torch", PYTORCH + "108618", "y = torch.where(x > 2, torch.log2(x), 2 * x)", [0.0, 2.0, 3.0],
     "torch.log2(x)", "torch.log2(torch.where(x > 2, x, 1.0))"),
    ("torch", PYTORCH + "156212", "least = torch.tensor(10.0); y = torch.where(x <= least, torch.exp(x), 1.0)",
     [1.0, 1e10], "torch.exp(x)", "torch.exp(torch.where(x <= least, x, 1.0))"),
    ("torch", PYTORCH + "152088", "y = torch.log1p(x)[x > -1]", [-1.0, 0.5, 1.0],
     "torch.log1p(x)", "torch.log1p(torch.where(x > -1, x, 1.0))"),
    ("torch", "", "y = torch.where(x == 0, 0.0, x * x.sqrt())", [0.0, 2.0],
     "x.sqrt()", "torch.where(x == 0, 1.0, x).sqrt()"),
    ("torch", "", "positive = x > 0; y = x.log().where(positive, torch.zeros_like(x))", [0.0, 2.0],
     "x.log()", "torch.where(positive, x, 1.0).log()"),
    ("torch", "", "r = torch.sqrt(x); positive = x > 0; y = torch.where(positive, r, 0.0)", [0.0, 2.0],
     "torch.sqrt(x)", "torch.sqrt(torch.where(x > 0, x, 1.0))"),
    ("torch", "", "y = torch.log(x).masked_fill(x == 0, 0.0)", [0.0, 2.0],
     "torch.log(x)", "torch.log(torch.where(x == 0, 1.0, x))"),
    ("torch", "", "y = torch.where(x > 1, torch.sqrt(x - 1), 0.0)", [1.0, 2.0],
     "torch.sqrt(x - 1)", "torch.sqrt(torch.where(x > 1, x - 1, 1.0))"),
    ("torch", "", "squares = (x * x).sum(-1); y = torch.where(squares > 0, (x * x).sum(-1).sqrt(), 0.0)",
     [[0.0, 0.0], [1.0, 2.0]], "(x * x).sum(-1).sqrt()",
     "torch.where(squares > 0, (x * x).sum(-1), 1.0).sqrt()"),
    ("torch", "", "y = torch.where((x != 0).any(-1), 2 / x.norm(dim=-1), 0.0)", [[0.0, 0.0], [1.0, 2.0]],
     "2 / x.norm(dim=-1)", "2 / torch.sqrt(torch.sum(x ** 2, dim=-1) + 1e-12)"),  # which needs no condition
    ("torch", "", "s = x.sqrt().sum(-1); y = torch.where((x != 0).all(-1), s, 0.0)", [[0.0, 0.0, 3.0], [1.0, 2.0, 3.0]],
     "x.sqrt()", "torch.where((x != 0).all(-1).unsqueeze(-1), x, 1.0).sqrt()"),
    ("torch", "", "y = torch.where(x != 0, torch.sin(x) / x, 1.0)", [0.0, 2.0],
     "torch.sin(x) / x", "torch.sin(x) / torch.where(x != 0, x, 1.0)"),
    ("torch", "", "inside = x.abs() < 1; y = torch.where(inside, torch.acos(x), 0.0)", [1.0, 0.2],
     "torch.acos(x)", "torch.acos(torch.where(inside, x, 0.5))"),
    ("torch", "", "y = torch.where(x > 0, x ** 0.5, 0.0)", [0.0, 2.0],
     "x ** 0.5", "torch.where(x > 0, x, 1.0) ** 0.5"),
    ("torch", "", "n = (x > 0).sum(-1); y = torch.where(n > 0, x.sum(-1) / n, 0.0)", [[0.0, 0.0], [1.0, 2.0]],
     "x.sum(-1) / n", "x.sum(-1) / torch.where(n > 0, n, 1)"),
    ("torch", "", "h = 1 / (x * (4 - x)); y = torch.where(x < 4, torch.where(x > 0, h, 0.0), 0.0)", [0.0, 2.0, 4.0],
     "1 / (x * (4 - x))", "1 / torch.where((x > 0) & (x < 4), x * (4 - x), 1.0)"),
    ("torch", "", "keep = (x > 0).float(); y = torch.sqrt(x) * keep", [0.0, 2.0],
     "torch.sqrt(x)", "torch.sqrt(torch.where(keep != 0, x, 1.0))"),
    ("torch", "", "y = (x > 0).float() * torch.sqrt(x)", [0.0, 2.0],
     "torch.sqrt(x)", "torch.sqrt(torch.where(x > 0, x, 1.0))"),
    ("torch", "", "y = torch.where(x > 4, x, torch.where(x > 0, torch.sqrt(x), 0.0))", [0.0, 2.0, 5.0],
     "torch.sqrt(x)", "torch.sqrt(torch.where(x > 0, x, 1.0))"),
    ("torch", "", "y = torch.sqrt(x) * (x > 0)", [0.0, 2.0],
     "torch.sqrt(x)", "torch.sqrt(torch.where(x > 0, x, 1.0))"),
    ("tensorflow", TENSORFLOW + "38349", "y = tf.where(x < 15.0, x, tf.math.pow(10.0, tf.math.exp(x)))", [10.0, 11.0],
     "tf.math.pow(10.0, tf.math.exp(x))", "tf.math.pow(10.0, tf.where(x < 15.0, 1.0, tf.math.exp(x)))"),
    ("tensorflow", TENSORFLOW + "27684", "y = tf.where(x >= 0.0, tf.reduce_sum(x) * tf.math.log(x), tf.zeros_like(x))",
     [-1.0, 2.0], "tf.math.log(x)", "tf.math.log(tf.where(x >= 0.0, x, 1.0))"),
    ("tensorflow", TENSORFLOW + "20355", "y = tf.where(x < 0, 1.0 / (1.0 - x), tf.math.log(x + 1.0))", [0.5, -1.0],
     "tf.math.log(x + 1.0)", "tf.math.log(tf.where(x < 0, 1.0, x + 1.0))"),
    ("tensorflow", "https://github.com/tensorflow/tensorflow/pull/38467", "y = tf.where(x < 1, tf.acos(x), x)",
     [1.0, 0.0, 4.0], "tf.acos(x)", "tf.acos(tf.where(x < 1, x, 0.5))"),
    ("tensorflow", TENSORFLOW + "2540", "y = tf.where(x > 0, 0.0, tf.exp(x))", [1e10, -1.0],
     "tf.exp(x)", "tf.exp(tf.where(x > 0, 1.0, x))"),
    ("tensorflow", "", "n = tf.reduce_sum(x, axis=-1); y = tf.where(n > 0, 2.0 / n, 0.0)",
     [[0.0, 0.0], [1.0, 2.0]], "2.0 / n", "2.0 / tf.where(n > 0, n, 1.0)"),
    ("tensorflow", "", "h = tf.math.log(tf.abs(x)); "
     "y = tf.where(tf.reduce_any(x != 0, axis=-1), tf.reduce_max(h, axis=-1), 0.0)",
     [[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]], "tf.math.log(tf.abs(x))",
     "tf.math.log(tf.where(tf.expand_dims(tf.reduce_any(x != 0, axis=-1), -1), tf.abs(x), 1.0))"),
    ("tensorflow", "", "y = tf.boolean_mask(tf.math.log(x), x > 0)", [0.0, 2.0], "tf.math.log(x)",
     "tf.math.log(tf.where(x > 0, x, 1.0))"),
    ("jax", JAX + "5798", "y = jnp.where(x < 1.0, x, jnp.sqrt(x))", [0.0, 4.0],
     "jnp.sqrt(x)", "jnp.sqrt(jnp.where(x < 1.0, 1.0, x))"),
    ("jax", JAX + "347", "r = jnp.sqrt(jnp.sum(x ** 2, axis=1)); y = jnp.where(r > 0.5, r, jnp.ones_like(r))",
     [[1.0, 2.0], [0.0, 0.0]], "jnp.sqrt(jnp.sum(x ** 2, axis=1))",
     "jnp.sqrt(jnp.where(jnp.sqrt(jnp.sum(x ** 2, axis=1)) > 0.5, jnp.sum(x ** 2, axis=1), 1.0))"),
    ("jax", JAX + "1052", "y = jnp.where(x > 0, jnp.arctan2(x, x), 0.0)", [0.0, 2.0],
     "jnp.arctan2(x, x)", "jnp.arctan2(jnp.where(x > 0, x, 1.0), x)"),
    ("jax", JAX + "654", "d = jnp.sqrt(jnp.sum((x[None] - x[:, None]) ** 2, axis=-1)); keep = 1 - jnp.eye(2); "
     "y = jnp.where(keep, d, 0.0)", [[1.0, 2.0], [0.5, 4.0]],
     "jnp.sqrt(jnp.sum((x[None] - x[:, None]) ** 2, axis=-1))",
     "jnp.sqrt(jnp.where(1 - jnp.eye(2), jnp.sum((x[None] - x[:, None]) ** 2, axis=-1), 1.0))"),
    ("jax", "https://github.com/jax-ml/jax/pull/1538", "y = jnp.where(x > 0, x, jnp.expm1(x))", [100.0, -1.0],
     "jnp.expm1(x)", "jnp.expm1(jnp.where(x > 0, 1.0, x))"),
    ("jax", "", "inside = jnp.abs(x) < 1; y = jnp.where(inside, jnp.arccos(x), 0.0)", [1.0, 0.2],
     "jnp.arccos(x)", "jnp.arccos(jnp.where(inside, x, 0.5))"),
    ("jax", "", "y = jnp.where(jnp.any(x != 0, axis=-1), jnp.linalg.norm(x, axis=-1), 0.0)", [[0.0, 0.0], [1.0, 2.0]],
     "jnp.linalg.norm(x, axis=-1)",
     "jnp.linalg.norm(jnp.where(jnp.expand_dims(jnp.any(x != 0, axis=-1), -1), x, 1.0), axis=-1)"),
]  # fmt: skip

HEADS = {"torch": "import torch", "tensorflow": "import tensorflow as tf", "jax": "import jax\nimport jax.numpy as jnp"}
SUMMED = {"torch": "y.sum()", "tensorflow": "tf.reduce_sum(y)", "jax": "jnp.sum(y)"}


def text_of(framework, body):
    """The program of a case."""
    lines = [*body.split("; "), f"return {SUMMED[framework]}"]
    return "def f(x):\n" + "".join(f"    {line}\n" for line in lines)


def of(*frameworks):
    """The cases of some frameworks."""
    return [case for case in CASES if case[0] in frameworks]


def proposed(report):
    """The findings with a part that is not taken, each as that part and what to write in its place."""
    every = [(one.fields.get("formula", ""), one.fields.get("instead", ""), one) for one in report.findings]
    return {(formula, instead): one for formula, instead, one in every if formula}
