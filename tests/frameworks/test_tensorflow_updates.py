"""Variables that a step of training has spoiled: by a bad gradient, or by what was done with a finite one."""

import keras
import pytest
import tensorflow as tf

import backprobe as bp


def model():
    keras.utils.set_random_seed(0)
    made = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="a"), keras.layers.Dense(1, name="b")])
    return made


PARAMETERS = "'net.a.kernel', 'net.a.bias', 'net.b.kernel', 'net.b.bias'"


def trained(optimizer, root_of_zero, *, norm=None):
    """Three steps; in the second the derivative of a root may be infinite."""
    net, x = model(), tf.random.stateless_normal((4, 3), (0, 1))
    with bp.probe(nonfinite=True) as rec:
        for step in range(3):
            with tf.GradientTape() as tape:
                y = net(x)
                squares = y - y if root_of_zero and step == 1 else y**2 + 1
                loss = tf.reduce_mean(tf.sqrt(squares))
            gradients = tape.gradient(loss, net.trainable_variables)
            if norm is not None:
                gradients, _ = tf.clip_by_global_norm(gradients, norm)
            optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))
    return rec


OPTIMIZERS = [
    (keras.optimizers.SGD, {}),
    (keras.optimizers.SGD, {"momentum": 0.9}),
    (keras.optimizers.Adam, {}),
    (keras.optimizers.AdamW, {}),
    (keras.optimizers.Adam, {"clipnorm": 1.0}),
]


@pytest.mark.parametrize(("kind", "options"), OPTIMIZERS)
def test_a_bad_gradient_is_the_birth_and_the_spoiled_variables_are_none(kind, options):
    report = bp.explain(trained(kind(0.1, **options), root_of_zero=True))
    births = [one for one in report.findings if one.kind != "propagated"]
    assert [(one.kind, one.source.text) for one in births] == [
        ("born", "gradients = tape.gradient(loss, net.trainable_variables)")
    ]
    spread, update = report.of_kind("propagated")
    assert "a/kernel:0`#2" in str(spread)
    assert update.headline.startswith(f"NaN is written into {PARAMETERS} at `optimizer.apply_gradients(")
    assert update.headline.endswith(", from gradients that hold NaN")


def test_gradients_that_were_clipped_lead_to_all_that_they_were_clipped_with():
    report = bp.explain(trained(keras.optimizers.SGD(0.1), root_of_zero=True, norm=1.0))
    assert [one.name for one in report.findings if one.kind != "propagated"] == ["gradients#2.0"]


def test_an_update_of_finite_gradients_is_the_birth():
    report = bp.explain(trained(keras.optimizers.SGD(float("inf")), root_of_zero=False))
    first = report.findings[0]
    assert first.kind == "born"
    assert first.headline.startswith(f"Inf is written into {PARAMETERS} at ")
    assert first.headline.endswith(", from finite gradients")
    assert first.facts == ("the optimizer: SGD, lr inf",)
    assert not report.of_kind("came_in")


@pytest.mark.parametrize("kind", [keras.optimizers.SGD, keras.optimizers.Adam])
def test_a_healthy_training_says_nothing_and_is_not_moved(kind):
    rec = trained(kind(0.1), root_of_zero=False)
    assert bp.explain(rec).ok
    assert not rec.record.updates
    net, optimizer, x = model(), kind(0.1), tf.random.stateless_normal((4, 3), (0, 1))
    for _ in range(3):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.sqrt(net(x) ** 2 + 1))
        optimizer.apply_gradients(
            zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables, strict=True)
        )
    assert rec["loss#2"].value.numpy() == loss.numpy()


def test_each_variable_comes_from_its_own_gradient():
    w, b = tf.Variable([1.0, 2.0], name="w"), tf.Variable([1.0, 1.0], name="b")
    optimizer = keras.optimizers.SGD(0.1)
    with bp.probe(nonfinite=True) as rec:
        for _ in range(2):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(b * tf.sqrt(w * 0.0))
            of_w, of_b = tape.gradient(loss, [w, b])
            optimizer.apply_gradients(zip([of_w, of_b], [w, b], strict=True))
    assert {way.name for way in rec["b#1"].indirect} == {"b#0", "of_b#0"}
    assert {way.name for way in rec["w#1"].indirect} == {"w#0", "of_w#0"}
    assert not bp.explain(rec).of_kind("healed")


class Held(tf.Module):
    def __init__(self):
        self.a, self.b = tf.Variable([1.0, 0.0]), tf.Variable([1.0, 1.0])


def test_a_variable_that_is_written_by_hand_has_the_line_and_what_went_in():
    net = Held()
    with bp.probe(nonfinite=True) as rec:
        for step in range(2):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(net.b * tf.square(net.a))
            gradients = tape.gradient(loss, [net.a, net.b])
            net.a.assign_sub(0.1 * gradients[0] / (gradients[0] * 0.0 + step))
            net.b.assign(net.b - 0.1 * gradients[1])
    (birth,) = (one for one in bp.explain(rec).findings if one.kind != "propagated")
    assert birth.kind == "unknown"
    assert birth.headline.endswith("what is recorded of what went in is finite")
    assert birth.source.text.startswith("net.a.assign_sub(")
    written = rec[birth.name]
    assert [way.name for way in written.indirect] == ["`Variable:0`#0", "gradients#0.0"]


def test_fit_that_runs_eagerly():
    def root_of_zero(y, p):
        return tf.reduce_mean(tf.sqrt(p - p))

    net, x, y = model(), tf.ones((4, 3)), tf.zeros((4, 1))
    net.compile(keras.optimizers.Adam(0.1), loss=root_of_zero, run_eagerly=True)
    with bp.probe(nonfinite=True) as rec:
        net.fit(x, y, epochs=2, verbose=0)
    report = bp.explain(rec)
    assert [one.kind for one in report.findings] == ["born_backward", "propagated", "propagated"]
    assert report.findings[-1].headline.endswith("from gradients that hold NaN")


def test_the_first_bad_update_is_the_birth_and_later_ones_are_not():
    keras.utils.set_random_seed(0)
    low = keras.initializers.Constant(-10.0)
    net = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(2, activation="relu", bias_initializer=low, name="a"),
            keras.layers.Dense(1, name="b"),
        ]
    )
    optimizer = keras.optimizers.Adam(0.1, epsilon=0.0)
    with bp.probe(nonfinite=True) as rec:
        for _ in range(2):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((net(tf.ones((2, 3))) - 1.0) ** 2)
            gradients = tape.gradient(loss, net.trainable_variables)
            optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))
    report = bp.explain(rec)
    births = [one for one in report.findings if one.kind != "propagated"]
    assert [one.headline.partition(" at `")[0] for one in births] == [
        "NaN is written into 'net.a.kernel', 'net.a.bias', 'net.b.kernel'"
    ]
    assert births[0].headline.endswith("from finite gradients")
    assert report.findings[-1].headline.startswith("NaN is written into 'net.b.bias'")


def test_a_bad_gradient_that_is_not_recorded_comes_with_the_update():
    table, optimizer = tf.Variable(tf.ones((4, 2)), name="table"), keras.optimizers.SGD(0.1)
    with bp.probe(nonfinite=True) as rec:
        for _ in range(2):
            with tf.GradientTape() as tape:
                rows = tf.nn.embedding_lookup(table, [1, 2])
                loss = tf.reduce_sum(tf.sqrt(rows - 1.0))
            optimizer.apply_gradients([(tape.gradient(loss, table), table)])
    first, second = (one for one in bp.explain(rec).findings if one.kind != "propagated")
    assert (first.kind, first.name) == ("came_in", "table")
    assert first.headline.endswith("from gradients that hold Inf")
    assert second.name == "loss#1" and "rounding" not in second.remedy


@pytest.mark.parametrize("scaled", [lambda g: g / tf.norm(g), lambda g: tf.clip_by_norm(g, 0.5), lambda g: g * 0.5])
@pytest.mark.parametrize("is_by_hand", [True, False])
def test_a_gradient_that_is_scaled_before_it_is_used_is_not_cut_off(scaled, is_by_hand):
    w, optimizer = tf.Variable([1.0, 2.0], name="w"), keras.optimizers.SGD(0.1)
    with bp.probe() as rec:
        for _ in range(3):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(w**2)
            g = tape.gradient(loss, w)
            g = scaled(g)
            if is_by_hand:
                w.assign_sub(0.1 * g)
            else:
                optimizer.apply_gradients([(g, w)])
    assert bp.explain(rec).findings == ()
    assert [one.name for one in rec.outputs] == ["loss#2"]


def descend(variables, gradients):
    for variable, gradient in zip(variables, gradients, strict=True):
        variable.assign_sub(0.1 * gradient)


def of_a_model():
    net = model()
    return lambda: net(tf.ones((2, 3))), net.trainable_variables


def of_a_variable():
    w = tf.Variable([1.0, 2.0], name="w")
    return lambda: w * 2.0, [w]


@pytest.mark.parametrize("made", [of_a_model, of_a_variable])
@pytest.mark.parametrize("clip", [False, True])
def test_a_function_that_is_given_gradients_may_write_them(made, clip):
    compute, variables = made()
    with bp.probe() as rec:
        for _ in range(3):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(compute() ** 2)
            gradients = tape.gradient(loss, variables)
            descend(variables, tf.clip_by_global_norm(gradients, 1.0)[0] if clip else gradients)
    report = bp.explain(rec)
    assert report.findings == ()
    assert any("no gradient flows to earlier steps through assignments" in note for note in report.notes)


@pytest.mark.parametrize("kind", ["Variables", "NumPy"])
@pytest.mark.parametrize("factor", [1.0, float("nan")])
def test_gradients_that_are_no_tensors(kind, factor):
    """They are summed in Variables, over several batches, or come out of NumPy."""
    net, optimizer = model(), keras.optimizers.SGD(0.1)
    sums = [tf.Variable(tf.zeros_like(one), trainable=False) for one in net.trainable_variables]
    with bp.probe(nonfinite=True) as rec:
        for _ in range(2):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(net(tf.ones((2, 3))) ** 2)
            gradients = tape.gradient(loss, net.trainable_variables)
            for one, gradient in zip(sums, gradients, strict=True):
                one.assign_add(gradient * factor)
            given = sums if kind == "Variables" else [one.numpy() for one in sums]
            optimizer.apply_gradients(zip(given, net.trainable_variables, strict=True))
    report = bp.explain(rec)
    if factor == 1.0:
        assert report.ok
    else:
        assert not [one for one in report.of_kind("came_in") if "kernel" in one.name or "bias" in one.name], str(report)
