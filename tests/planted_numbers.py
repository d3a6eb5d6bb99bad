"""Random programs with NaN, Inf, zeros and poles planted in them, in PyTorch, TensorFlow and JAX.

Each is a function of a vector and a matrix, of a dozen lines at most. The text is the same program in each framework.
"""

import importlib.util
import os
import random

import backprobe as bp

COUNT = int(os.environ.get("PLANTED_NUMBERS", "0"))
PLANTED = (0.0, -0.0, 1.0, -1.0, 2.5, -3.0, 1e-40, 1e30, -1e30, 88.8, float("inf"), float("-inf"), float("nan"))
IMPORTS = {
    "torch": "import torch",
    "tensorflow": "import tensorflow as tf",
    "jax": "import jax\nimport jax.numpy as jnp",
}
UNARY = {
    "torch": ("torch.log({})", "{}.sqrt()", "torch.exp({})", "{}.abs()", "torch.acos({})", "torch.digamma({})",
              "torch.softmax({}, -1)", "torch.log_softmax({}, -1)", "torch.special.i0({})", "1 / {}", "{} ** -0.5",
              "torch.clamp({}, min=0.0)", "torch.where({0} > 0, torch.log({0}), 0.0)", "{}.cumsum(0)", "{} - {}.mean()",
              "torch.nan_to_num({})", "torch.special.erfinv({})", "{0} / {0}.norm()", "{0} / {0}.std()"),
    "tensorflow": ("tf.math.log({})", "tf.sqrt({})", "tf.exp({})", "tf.abs({})", "tf.acos({})", "tf.math.digamma({})",
                   "tf.nn.softmax({})", "tf.nn.log_softmax({})", "tf.math.special.bessel_i0({})", "1 / {}",
                   "{} ** -0.5", "tf.maximum({}, 0.0)", "tf.where({0} > 0, tf.math.log({0}), 0.0)", "tf.cumsum({})",
                   "{0} - tf.reduce_mean({0})", "tf.math.erfinv({})", "{0} / tf.norm({0})"),
    "jax": ("jnp.log({})", "jnp.sqrt({})", "jnp.exp({})", "jnp.abs({})", "jnp.arccos({})",
            "jax.scipy.special.digamma({})", "jax.nn.softmax({})", "jax.nn.log_softmax({})",
            "jax.scipy.special.i0({})", "1 / {}", "{} ** -0.5", "jnp.maximum({}, 0.0)",
            "jnp.where({0} > 0, jnp.log({0}), 0.0)", "jnp.cumsum({})", "{0} - {0}.mean()", "jnp.nan_to_num({})",
            "jax.scipy.special.erfinv({})", "{0} / jnp.linalg.norm({0})", "jax.vmap(lambda v: jnp.log(v) / v)({})"),
}  # fmt: skip
MATRICES = {
    "torch": ("m @ {}", "torch.linalg.inv_ex(m)[0] @ {}", "torch.logdet(m) * {}", "torch.linalg.svdvals(m)[0] * {}"),
    "tensorflow": (
        "tf.linalg.matvec(m, {})",
        "tf.linalg.logdet(tf.matmul(m, m, transpose_b=True)) * {}",
        "tf.linalg.det(m) * {}",
    ),
    "jax": ("m @ {}", "jnp.linalg.inv(m) @ {}", "jnp.linalg.slogdet(m)[1] * {}", "jnp.linalg.cholesky(m @ m.T) @ {}"),
}
BINARY = ("{} + {}", "{} - {}", "{} * {}", "{} / {}", "{} ** {}")
SUM = {"torch": "{}.sum()", "tensorflow": "tf.reduce_sum({})", "jax": "{}.sum()"}


def written(framework, seed):
    """The text of a program, and the numbers that it is given."""
    draw = random.Random(seed)
    size = draw.choice((1, 2, 3))
    names, lines = ["x"], []
    for at in range(draw.randint(1, 7)):
        kind = draw.random()
        if kind < 0.55:
            expression = draw.choice(UNARY[framework])
        elif kind < 0.7:
            expression = draw.choice(MATRICES[framework])
        else:
            expression = draw.choice(BINARY)
        given = [draw.choice(names) if draw.random() < 0.9 else repr_of(draw.choice(PLANTED)) for _ in range(2)]
        given[0] = draw.choice(names)
        expression = expression.format(*(given if expression in BINARY else [given[0]] * 2))
        if draw.random() < 0.15:
            lines.append(f"    for _ in range({draw.randint(1, 3)}):\n        {draw.choice(names)} = {expression}")
            continue
        lines.append(f"    y{at} = {expression}")
        names.append(f"y{at}")
    used = names[-1] if draw.random() < 0.6 else f"({names[-1]} * {draw.choice(names)})"
    text = (
        f"{IMPORTS[framework]}\n\n\ndef f(x, m):\n" + "\n".join(lines) + f"\n    return {SUM[framework].format(used)}\n"
    )
    vector = [draw.choice(PLANTED) for _ in range(size)]
    matrix = [[draw.choice(PLANTED[:6]) for _ in range(size)] for _ in range(size)]
    return text, vector, matrix


def repr_of(number):
    """A number as a program spells it."""
    return f"float('{number}')" if number != number or number in (float("inf"), float("-inf")) else repr(number)


def loaded(text, folder, name):
    """The function of a program, from a file."""
    file = folder / f"{name}.py"
    file.write_text(text)
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.f


def failed(framework, seed, folder, array, differentiate):
    """What went wrong inside of explain for one program; empty if nothing did, None where the program itself raises.

    ``differentiate`` does so by the framework alone: TensorFlow inverts a matrix for the gradient of its determinant,
    and a singular one raises an error.
    """
    text, vector, matrix = written(framework, seed)
    f = loaded(text, folder, f"planted_{framework}_{seed}")
    try:
        differentiate(f, array(vector), array(matrix))
    except Exception:  # noqa: BLE001  a program may raise anything
        return None
    try:
        rec = bp.probe(f, nonfinite=True)(array(vector), array(matrix))
    except bp.BackprobeError:
        return None  # nothing is differentiated
    report = bp.explain(rec, experiments=seed % 5 == 0)
    str(report), report.to_dict()
    return next((f"{text}\n{vector} {matrix}\n{note}" for note in report.notes if "again failed" in note), "")


def check(framework, folder, array, differentiate, count):
    """Explain so many programs; the assertion names each that went wrong."""
    said = [failed(framework, seed, folder, array, differentiate) for seed in range(count)]
    assert said.count(None) < count / 3
    assert not [one for one in said if one]
