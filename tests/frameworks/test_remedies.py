"""Remedies in the words of TensorFlow and JAX: each is put into the program, and NaN and Inf are gone."""

import jax.numpy as jnp
import pytest
import tensorflow as tf

import backprobe as bp
from remedied import applied, explained, function, remedy_of

INF = float("inf")
IMPORTS = {"tensorflow": "import tensorflow as tf", "jax": "import jax\nimport jax.numpy as jnp"}
SUMMED = {"tensorflow": "tf.reduce_sum(y)", "jax": "jnp.sum(y)"}
OTHERS = {"tensorflow": ("torch.", "jnp.", "jax."), "jax": ("torch.", "tf.")}
TENSOR = {"tensorflow": tf.constant, "jax": jnp.array}

OTHERS_IN_TENSORFLOW = (
    "tf.reduce_logsumexp(tf.linalg.set_diag(tf.repeat(logits[..., None, :], tf.shape(logits)[-1], -2), "
    "tf.fill(tf.shape(logits), -float('inf'))), axis=-1) - tf.reduce_logsumexp(logits, axis=-1, keepdims=True)"
)
OTHERS_IN_JAX = (
    "jax.nn.logsumexp(jnp.where(jnp.eye(logits.shape[-1], dtype=bool), -jnp.inf, logits[..., None, :]), axis=-1) "
    "- jax.nn.logsumexp(logits, axis=-1, keepdims=True)"
)


def program(framework, body):
    *lines, last = body.split("; ")
    return "def f(x):\n" + "".join(f"    {line}\n" for line in [*lines, f"y = {last}", f"return {SUMMED[framework]}"])


TENSORFLOW = [
    ("p = tf.nn.softmax(x); tf.math.log(p)", [200.0, 0.0], "tf.nn.log_softmax(x)"),
    ("p = tf.sigmoid(x); tf.math.log(p)", [-200.0, 0.0], "tf.math.log_sigmoid(x)"),
    ("p = tf.nn.sigmoid(x); tf.math.log(1 - p)", [200.0, 0.0], "tf.math.log_sigmoid(-x)"),
    ("e = tf.exp(x); e / tf.reduce_sum(e, axis=1, keepdims=True)", [[200.0, 0.0]], "tf.nn.softmax(x, axis=1)"),
    ("tf.math.log(1 + tf.exp(x))", [200.0, 0.0], "tf.nn.softplus(x)"),
    ("tf.sqrt(tf.exp(x))", [-300.0, 0.0], "tf.exp(x / 2)"),
    ("tf.math.log(tf.reduce_sum(tf.exp(x)))", [200.0, 0.0], "tf.reduce_logsumexp(x)"),
    ("tf.math.log(tf.reduce_sum(tf.exp(x)))", [[200.0, 0.0], [1.0, 2.0]], "tf.reduce_logsumexp(x)"),
    ("tf.math.log1p(-tf.sigmoid(x))", [200.0, 0.0], "tf.math.log_sigmoid(-x)"),
    ("tf.math.log(1 - tf.nn.softmax(x))", [[200.0, 0.0, 1.0]], OTHERS_IN_TENSORFLOW.replace("logits", "x")),
    ("p = tf.nn.softmax(x * 2); tf.math.log1p(-p)", [200.0, 0.0], OTHERS_IN_TENSORFLOW),
    ("tf.math.log(1 - tf.exp(x))", [-1e-9, -1.0], "tf.math.log(-tf.math.expm1(x))"),
    ("tf.math.log1p(-tf.exp(x))", [0.0, -1.0], "tf.math.log(-tf.math.expm1(tf.minimum(x, -1e-12)))"),
    ("tf.math.log(1 - tf.tanh(x) ** 2)", [20.0, 0.5], "2 * (0.6931471805599453 - x - tf.nn.softplus(-2 * x))"),
    ("tf.math.log(1 - tf.square(tf.tanh(x)))", [20.0, 0.5], "2 * (0.6931471805599453 - x - tf.nn.softplus(-2 * x))"),
    ("tf.sqrt(tf.nn.softmax(x))", [200.0, 0.0], "tf.exp(tf.nn.log_softmax(x) / 2)"),
    ("p = tf.sigmoid(x); tf.math.log(p / (1 - p))", [200.0, 0.0], "x"),
    ("tf.math.log(tf.cumsum(tf.exp(x)))", [200.0, 0.0], "tf.math.cumulative_logsumexp(x)"),
    (
        "e = tf.exp(x); tf.math.log(tf.linalg.diag_part(e) / tf.reduce_sum(e, axis=1))",
        [[200.0, 0.0], [0.0, 1.0]],
        "tf.linalg.diag_part(tf.nn.log_softmax(x, axis=1))",
    ),
    (
        "tf.math.log(x / (1 - x))",
        [1.0, 0.5],
        "tf.math.log(tf.clip_by_value(x, 1e-06, 1 - 1e-06)) - tf.math.log1p(-tf.clip_by_value(x, 1e-06, 1 - 1e-06))",
    ),
    ("tf.math.lgamma(x)", [0.0, 0.5], "tf.math.lgamma(tf.maximum(x, 1e-12))"),
    ("tf.math.log(1e-10 + 1 - tf.sigmoid(x))", [200.0, 0.0], "tf.math.log_sigmoid(-x)"),
    ("tf.sqrt(x)", [0.0, 1.0], "tf.sqrt(x + 1e-12)"),
    ("tf.sqrt(x)", [-1e-8, 1.0], "tf.sqrt(tf.maximum(x, 1e-12))"),
    ("x ** 0.5", [-1e-8, 1.0], "tf.maximum(x, 1e-12) ** 0.5"),
    ("tf.math.log(x)", [-1e-8, 1.0], "tf.math.log(tf.maximum(x, 1e-12))"),
    ("tf.norm(x)", [0.0, 0.0], "tf.sqrt(tf.reduce_sum(x ** 2) + 1e-12)"),
    ("tf.math.reduce_std(x, axis=1)", [[1.0, 1.0], [1.0, 2.0]], "tf.sqrt(tf.math.reduce_variance(x, axis=1) + 1e-12)"),
    ("tf.acos(x)", [1.0, 0.5], "tf.acos(tf.clip_by_value(x, -1 + 1e-06, 1 - 1e-06))"),
    ("tf.asin(x)", [-1.0, 0.5], "tf.asin(tf.clip_by_value(x, -1 + 1e-06, 1 - 1e-06))"),
    ("tf.math.atan2(x, x)", [0.0, 0.5], "tf.math.atan2(x, tf.where((x == 0) & (x == 0), 1.0, x))"),
    ("tf.math.log(x)", [0.0, 1.0], "tf.math.log(tf.maximum(x, 1e-12))"),
    ("x * tf.math.log(x)", [0.0, 1.0], "tf.math.log(tf.maximum(x, 1e-12))"),
    (
        "x / tf.reduce_sum(x)",
        [0.0, 0.0],
        "tf.where(tf.reduce_sum(x) == 0, 0.0, x / tf.where(tf.reduce_sum(x) == 0, 1.0, tf.reduce_sum(x)))",
    ),
    (
        "x / tf.reduce_sum(tf.abs(x))",
        [0.0, 0.0],
        "tf.where(tf.reduce_sum(tf.abs(x)) == 0, 0.0, "
        "x / tf.where(tf.reduce_sum(tf.abs(x)) == 0, 1.0, tf.reduce_sum(tf.abs(x))))",
    ),
    ("1 / x", [0.0, -2.0], "tf.where(x == 0, 0.0, 1 / tf.where(x == 0, 1.0, x))"),
    ("x ** 0.5", [0.0, 1.0], "(x + 1e-12) ** 0.5"),
    (
        "x / tf.norm(x, axis=1, keepdims=True)",
        [[0.0, 0.0], [1.0, 2.0]],
        "x / tf.sqrt(tf.reduce_sum(x ** 2, axis=1, keepdims=True) + 1e-12)",
    ),
    (
        "(x - tf.reduce_mean(x)) / tf.math.reduce_std(x)",
        [2.0, 2.0],
        "(x - tf.reduce_mean(x)) / tf.sqrt(tf.math.reduce_variance(x) + 1e-12)",
    ),
    ("tf.exp(x)", [100.0, 1.0], "tf.exp(tf.minimum(x, 40))"),
    ("tf.cosh(x)", [100.0, 1.0], "tf.cosh(tf.clip_by_value(x, -80, 80))"),
    ("h = tf.where(x < 5, -1e+400, x); tf.nn.softmax(h)", [[1.0, 2.0]], "tf.nn.softmax(tf.maximum(h, -1e+09))"),
    (
        "h = tf.where(x < 5, -1e+400, x); tf.exp(tf.reduce_logsumexp(h, axis=1))",
        [[1.0, 2.0]],
        "tf.reduce_logsumexp(tf.maximum(h, -1e+09), axis=1)",
    ),
]

JAX = [
    ("p = jax.nn.softmax(x); jnp.log(p)", [200.0, 0.0], "jax.nn.log_softmax(x)"),
    ("p = jax.nn.sigmoid(x); jnp.log(p)", [-200.0, 0.0], "jax.nn.log_sigmoid(x)"),
    ("p = jax.nn.sigmoid(x); jnp.log(1 - p)", [200.0, 0.0], "jax.nn.log_sigmoid(-x)"),
    ("e = jnp.exp(x); e / jnp.sum(e, axis=1, keepdims=True)", [[200.0, 0.0]], "jax.nn.softmax(x, axis=1)"),
    ("e = jnp.exp(x); e / e.sum()", [200.0, 0.0], "jax.nn.softmax(x)"),
    ("jnp.log(jnp.cumsum(jnp.exp(x), axis=0))", [[200.0], [0.0]], "jax.lax.cumlogsumexp(x, axis=0)"),
    (
        "e = jnp.exp(x); jnp.log(jnp.diagonal(e) / e.sum(1))",
        [[200.0, 0.0], [0.0, 1.0]],
        "jnp.diagonal(jax.nn.log_softmax(x, axis=1))",
    ),
    ("jnp.log(x / (1 - x))", [1.0, 0.5], "jax.scipy.special.logit(jnp.clip(x, 1e-06, 1 - 1e-06))"),
    ("jax.scipy.special.logit(x)", [0.0, 0.5], "jax.scipy.special.logit(jnp.clip(x, 1e-06, 1 - 1e-06))"),
    ("jnp.log(1 + jnp.exp(x))", [200.0, 0.0], "jax.nn.softplus(x)"),
    ("jnp.sqrt(jnp.exp(x))", [-300.0, 0.0], "jnp.exp(x / 2)"),
    ("jnp.log(jnp.sum(jnp.exp(x)))", [200.0, 0.0], "jax.nn.logsumexp(x)"),
    ("jnp.log(jnp.sum(jnp.exp(x)))", [[200.0, 0.0], [1.0, 2.0]], "jax.nn.logsumexp(x)"),
    ("jnp.log1p(-jax.nn.sigmoid(x))", [200.0, 0.0], "jax.nn.log_sigmoid(-x)"),
    ("jnp.log(1 - jax.nn.softmax(x))", [[200.0, 0.0, 1.0]], OTHERS_IN_JAX.replace("logits", "x")),
    ("p = jax.nn.softmax(x * 2); jnp.log1p(-p)", [200.0, 0.0], OTHERS_IN_JAX),
    ("jnp.log(1 - jnp.exp(x))", [-1e-9, -1.0], "jnp.log(-jnp.expm1(x))"),
    ("jnp.log1p(-jnp.exp(x))", [0.0, -1.0], "jnp.log(-jnp.expm1(jnp.minimum(x, -1e-12)))"),
    ("jnp.log(1 - jnp.tanh(x) ** 2)", [20.0, 0.5], "2 * (0.6931471805599453 - x - jax.nn.softplus(-2 * x))"),
    ("jnp.log(1 - jnp.square(jnp.tanh(x)))", [20.0, 0.5], "2 * (0.6931471805599453 - x - jax.nn.softplus(-2 * x))"),
    ("jnp.sqrt(jax.nn.softmax(x))", [200.0, 0.0], "jnp.exp(jax.nn.log_softmax(x) / 2)"),
    ("p = jax.nn.sigmoid(x); jnp.log(p / (1 - p))", [200.0, 0.0], "x"),
    ("jnp.log(1e-10 + 1 - jax.nn.sigmoid(x))", [200.0, 0.0], "jax.nn.log_sigmoid(-x)"),
    ("jnp.sqrt(x)", [0.0, 1.0], "jnp.sqrt(x + 1e-12)"),
    ("x ** 0.25", [-1e-8, 1.0], "jnp.maximum(x, 1e-12) ** 0.25"),
    ("jnp.linalg.norm(x)", [0.0, 0.0], "jnp.sqrt(jnp.sum(x ** 2) + 1e-12)"),
    (
        "d = x[:, None] - x[None]; jnp.linalg.norm(d, axis=-1)",
        [[1.0, 2.0], [1.0, 2.0]],
        "jnp.sqrt(jnp.sum(d ** 2, axis=-1) + 1e-12)",
    ),
    ("jnp.std(x)", [1.0, 1.0], "jnp.sqrt(jnp.var(x) + 1e-12)"),
    ("x.std()", [1.0], "jnp.sqrt(jnp.var(x) + 1e-12)"),
    ("jnp.arccos(x)", [1.0, 0.5], "jnp.arccos(jnp.clip(x, -1 + 1e-06, 1 - 1e-06))"),
    ("jnp.arcsin(x)", [1.0, 0.5], "jnp.arcsin(jnp.clip(x, -1 + 1e-06, 1 - 1e-06))"),
    ("jnp.arctan2(x, x)", [0.0, 0.5], "jnp.arctan2(x, jnp.where((x == 0) & (x == 0), 1.0, x))"),
    ("jnp.log(x)", [0.0, 1.0], "jnp.log(jnp.maximum(x, 1e-12))"),
    ("x * jnp.log(x)", [0.0, 1.0], "jnp.log(jnp.maximum(x, 1e-12))"),
    ("x / jnp.sum(x)", [0.0, 0.0], "jnp.where(jnp.sum(x) == 0, 0.0, x / jnp.where(jnp.sum(x) == 0, 1.0, jnp.sum(x)))"),
    (
        "x / jnp.sum(jnp.abs(x))",
        [0.0, 0.0],
        "jnp.where(jnp.sum(jnp.abs(x)) == 0, 0.0, x / jnp.where(jnp.sum(jnp.abs(x)) == 0, 1.0, jnp.sum(jnp.abs(x))))",
    ),
    ("x ** 0.5", [0.0, 1.0], "(x + 1e-12) ** 0.5"),
    (
        "x / jnp.linalg.norm(x, axis=1, keepdims=True)",
        [[0.0, 0.0], [1.0, 2.0]],
        "x / jnp.sqrt(jnp.sum(x ** 2, axis=1, keepdims=True) + 1e-12)",
    ),
    ("(x - jnp.mean(x)) / jnp.std(x)", [2.0, 2.0], "(x - jnp.mean(x)) / jnp.sqrt(jnp.var(x) + 1e-12)"),
    ("jnp.exp(x)", [100.0, 1.0], "jnp.exp(jnp.minimum(x, 40))"),
    ("jnp.cosh(x)", [100.0, 1.0], "jnp.cosh(jnp.clip(x, -80, 80))"),
    ("h = jnp.where(x < 5, -jnp.inf, x); jax.nn.softmax(h)", [[1.0, 2.0]], "jax.nn.softmax(jnp.maximum(h, -1e+09))"),
    (
        "h = jnp.where(x < 5, -jnp.inf, x); jnp.exp(jax.nn.logsumexp(h, axis=1))",
        [[1.0, 2.0]],
        "jax.nn.logsumexp(jnp.maximum(h, -1e+09), axis=1)",
    ),
]

CASES = [*(("tensorflow", *case) for case in TENSORFLOW), *(("jax", *case) for case in JAX)]


SAMPLED = [
    pytest.param(*case, marks=[pytest.mark.sweep] * (case[0] == "jax" and at % 3 > 0)) for at, case in enumerate(CASES)
]


@pytest.mark.parametrize(("framework", "body", "numbers", "instead"), SAMPLED)
def test_the_remedy_cures(framework, body, numbers, instead, tmp_path):
    text, x = program(framework, body), TENSOR[framework](numbers)
    report = explained(function(text, tmp_path, IMPORTS[framework]), x)
    found = [remedy_of_one(one) for one in report.findings if "instead of" in one.remedy]
    assert instead in found, str(report)
    assert not any(word in one.remedy for one in report.findings for word in OTHERS[framework])
    cured = explained(function(applied(text, report), tmp_path, IMPORTS[framework]), x)
    assert not cured.of_kind("born_backward", "unknown"), str(cured)
    assert all(one.fields["why"] == "written_out" for one in cured.of_kind("born")), str(cured)


def remedy_of_one(finding):
    return finding.remedy.removeprefix("`").partition("`")[0]


@pytest.mark.parametrize(("framework", "body", "numbers", "instead"), [case for case in CASES if case[0] != "jax"])
def test_a_block_says_the_same(framework, body, numbers, instead, tmp_path):
    f = function(program(framework, body), tmp_path, IMPORTS[framework])
    x = tf.Variable(numbers)
    with bp.probe(nonfinite=True) as rec:
        loss = f(x)
    assert rec.outputs[0].value == loss or tf.math.is_nan(loss)
    assert instead in [remedy_of_one(one) for one in bp.explain(rec).findings]


def in_a_graph(build, numbers):
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, (len(numbers),), name="x")
        output = tf.reduce_sum(build(x), name="output")
    with tf.compat.v1.Session(graph=graph) as session:
        return bp.explain(bp.probe(output, session=session, nonfinite=True)({x: numbers}))


GRAPHS = [
    (lambda x: tf.math.log(tf.nn.softmax(x), name="y"), [200.0, 0.0], "`tf.nn.log_softmax(x)` instead of `y`: "),
    (lambda x: tf.math.log(1 - tf.sigmoid(x), name="y"), [200.0, 0.0], "`tf.math.log_sigmoid(-x)` instead of `y`: "),
    (lambda x: tf.sqrt(x, name="y"), [0.0, 1.0], "`tf.sqrt(x + 1e-12)` instead of `y`: "),
    (lambda x: tf.divide(1.0, x, name="y"), [0.0, 1.0], "`"),
]


@pytest.mark.parametrize(("build", "numbers", "remedy"), GRAPHS)
def test_in_a_graph(build, numbers, remedy):
    report = in_a_graph(build, numbers)
    birth = report.of_kind("born", "born_backward")[0]
    assert birth.fields["why"] in ("at", "pole", "by_zero")
    assert birth.remedy.startswith(remedy)
    assert not any("bind each operation" in one.remedy or "select" in one.remedy for one in report.findings)


NEGATIVE = [
    ("tensorflow", "x ** 0.5", "tf.nn.softplus"),
    ("tensorflow", "tf.sqrt(x)", "tf.nn.softplus"),
    ("tensorflow", "tf.math.log(x)", "tf.nn.softplus"),
    ("jax", "jnp.log2(x)", "jax.nn.softplus"),
]


@pytest.mark.parametrize(("framework", "body", "softplus"), NEGATIVE)
def test_a_number_that_is_negative_by_more_than_rounding(framework, body, softplus, tmp_path):
    f = function(program(framework, body), tmp_path, IMPORTS[framework])
    birth = explained(f, TENSOR[framework]([-1.0, 2.0])).of_kind("born")[0]
    assert birth.remedy == (
        "find out why `x` is negative (down to -1). If that is rounding, keep it above 0 there; if not, make it "
        f"positive where it is computed, as by {softplus}(...)"
    )


def angles(x):
    z = tf.complex(x, x * 0)
    y = tf.math.angle(z)
    return tf.reduce_sum(y)


def angles_instead(x):
    z = tf.complex(x, x * 0)
    y = tf.math.angle(tf.where(z == 0, 1.0, z))
    return tf.reduce_sum(y)


def test_the_angle_of_zero():
    report = explained(angles, tf.constant([0.0, 1.0]))
    assert "the derivative of angle is 0/0 at 0" in report.of_kind("born_backward")[0].headline
    assert remedy_of(report)[0]["instead"] == "tf.math.angle(tf.where(z == 0, 1.0, z))"
    assert explained(angles_instead, tf.constant([0.0, 1.0])).ok
