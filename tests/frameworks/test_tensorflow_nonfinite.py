"""NaN and Inf in TensorFlow, where backward tells of values alone and not of operations."""

import keras
import pytest
import tensorflow as tf

import backprobe as bp


@pytest.fixture
def dense():
    layer = keras.layers.Dense(1, kernel_initializer="zeros")
    layer(tf.ones((2, 3)))
    return layer


def whole(layer):
    """A model of one layer."""
    return keras.Sequential([keras.Input((3,)), layer])


def test_a_variable_without_a_name(dense):
    def f(x):
        y = dense(x)
        return tf.reduce_mean(y**2) + 0.01 * tf.norm(dense.kernel)

    rec = bp.probe(f, nonfinite=True)(tf.ones((2, 3)))
    (found,) = bp.explain(rec).of_kind("born_backward")
    kernel = f"`{dense.kernel.value.name}`"
    assert found.headline == "NaN is born in the backward of 'norm()': the derivative of norm is 0/0 at 0"
    assert found.chain == ("norm()", kernel)
    assert [name for name, entry in rec.items() if entry.finiteness.grad.nan] == [kernel]


def test_a_variable_without_a_name_in_a_block(dense):
    with bp.probe(nonfinite=True) as rec:
        y = dense(tf.ones((2, 3)))
        loss = tf.reduce_mean(y**2) + 0.01 * tf.norm(dense.kernel)
    (found,) = bp.explain(rec).of_kind("born_backward")
    assert found.headline == "NaN is born in the backward of 'loss': the derivative of norm is 0/0 at 0"
    assert rec.outputs[0].value == loss


def test_the_versions_of_a_variable_without_a_name(dense):
    x = tf.ones((2, 3))
    with bp.probe(nonfinite=True) as rec:
        total = tf.reduce_sum(dense(x))
        dense.kernel.assign_add(4 * tf.ones((3, 1)))
        loss = total + tf.reduce_sum(dense(x))
    kernel = f"`{dense.kernel.value.name}`"
    first, second = rec[f"{kernel}#0"], rec[f"{kernel}#1"]
    assert (first.value.numpy()[0], first.grad.numpy()[0], second.value.numpy()[0]) == (0.0, 2.0, 4.0)
    assert list(rec).index("total") < list(rec).index(second.name) < list(rec).index("loss")
    assert rec.outputs[0].value == loss


def test_weights_that_an_optimizer_has_spoiled():
    model = whole(keras.layers.Dense(1, name="a"))
    optimizer = keras.optimizers.SGD(0.1)
    with bp.probe(model, nonfinite=True) as rec:
        for nth in range(3):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(model(tf.ones((2, 3)))) * (1.0 if nth else float("inf"))
            optimizer.apply_gradients(
                zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
            )
    report = bp.explain(rec)
    assert [finding.kind for finding in report.findings] == ["came_in", "propagated"]
    assert report.findings[0].headline == (
        "Inf is written into 'model.a.kernel', 'model.a.bias' at `optimizer.apply_gradients(`, from gradients that "
        "hold Inf"
    )


def test_without_nonfinite_what_has_no_name_has_no_entry(dense):
    assert list(bp.probe(lambda x: dense(x))(tf.ones((1, 3)))) == ["x", "return"]


def test_a_value_that_flows_into_two_lines_of_a_block():
    v = tf.constant([0.0, 1.0])
    with bp.probe(nonfinite=True) as rec:
        h = tf.sin(v)
        m = tf.where(v > 0, tf.math.log(v), 0.0)
        loss = tf.reduce_sum(h) + tf.reduce_sum(m)
    (found,) = bp.explain(rec).of_kind("unknown", "born_backward")
    assert found.headline == (
        "NaN is born in the backward of 'm': 0 · Inf: a zero gradient, and the derivative of log is infinite at 0"
    )
    assert any("the branch tf.math.log(v) of where" in fact for fact in found.facts)
    assert rec.outputs[0].value == loss


@tf.custom_gradient
def spoiling(x):
    return x * 1, lambda grad: grad * float("nan")


def test_a_value_that_flows_into_two_lines_of_which_nothing_tells_which_it_was():
    v = tf.constant([0.0, 1.0])
    with bp.probe(nonfinite=True) as rec:
        h = tf.sin(v)
        m = spoiling(v)
        loss = tf.reduce_sum(h) + tf.reduce_sum(m)
    (found,) = bp.explain(rec).of_kind("unknown", "born_backward")
    assert (found.kind, found.headline) == ("unknown", "NaN is born in the backward of 'h' or 'm', on the way to 'v'")
    assert [fact.partition("): ")[2] for fact in found.facts[:2]] == ["h = tf.sin(v)", "m = spoiling(v)"]
    assert found.remedy.startswith("bp.probe(f, nonfinite=True, partials=True)(x), with these lines in a function f")
    assert rec.outputs[0].value == loss


def flowing_into_two(v):
    h = tf.sin(v)
    m = tf.where(v > 0, tf.math.log(v), 0.0)
    return tf.reduce_sum(h) + tf.reduce_sum(m)


def test_partials_tell_which_of_two_lines_it_was():
    rec = bp.probe(flowing_into_two, ["**:*"], nonfinite=True, partials=True)(tf.constant([0.0, 1.0]))
    (found,) = bp.explain(rec).of_kind("unknown", "born_backward")
    assert (found.kind, found.name) == ("born_backward", "m")
    assert not any("partials" in fact for fact in found.facts)


def test_a_loss_outside_of_the_model(dense):
    model = whole(dense)
    with bp.probe(model, nonfinite=True) as rec, tf.GradientTape():
        y = model(tf.ones((2, 3)))
        loss = tf.reduce_mean(y**2) + 0.01 * tf.norm(dense.kernel)
    (found,) = bp.explain(rec).of_kind("unknown", "born_backward")
    assert found.kind == "unknown"
    assert f"in the backward of '{dense.name}' or 'loss'" in found.headline
    assert rec.outputs[0].value == loss


def test_a_line_of_several_operations_of_which_none_has_an_entry():
    w, x = tf.Variable([0.0, 1.0]), tf.constant([[1.0, 2.0]])
    with bp.probe(nonfinite=True) as rec:
        h = x * tf.sqrt(w)
        loss = tf.reduce_sum(h)
    (found,) = bp.explain(rec).of_kind("born_backward")
    assert found.headline == "Inf is born in the backward of 'h': the derivative of sqrt is infinite at 0"
    assert "its backward was given a finite gradient and made Inf" in found.facts
    assert rec.outputs[0].value == loss


def sequential():
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, activation="relu"), keras.layers.Dense(1)])


def functional():
    given = keras.Input((3,))
    return keras.Model(given, keras.layers.Dense(2)(keras.layers.LayerNormalization()(given)))


class Scaled(keras.Model):
    def __init__(self):
        super().__init__()
        self.last = keras.layers.Dense(1)

    def call(self, inputs):
        return self.last(keras.ops.multiply(inputs, 0.5))


@pytest.mark.parametrize("make", [sequential, functional, Scaled])
@pytest.mark.parametrize("bad, word", [(float("inf"), "Inf"), (float("nan"), "NaN")])
def test_what_comes_in_with_the_input_is_not_born_inside_where_the_helpers_of_keras_are_recorded(make, bad, word):
    """They hand the input on, so that it goes by their names as well: after what they returned."""
    model, x = make(), tf.constant([[1.0, bad, 2.0], [1.0, 1.0, 2.0]])
    model(x)
    report = bp.explain(bp.probe(model, ["**", "**:*"], nonfinite=True, of=tf.reduce_sum)(x))
    assert report.findings[0].headline.startswith(f"{word} comes in with ")
    assert "Inf is born inside" not in str(report) and "NaN is born inside" not in str(report)


def is_wanted(x):
    return x is None


def handed_on(x):
    if is_wanted(x):
        return tf.zeros(2)
    return x


def test_what_a_function_hands_on_is_not_made_by_the_condition_that_it_read():
    def f(u):
        v = handed_on(u)
        return tf.reduce_sum(v * 2.0)

    report = bp.explain(bp.probe(f, ["**", "**:*"], nonfinite=True)(tf.constant([1.0, float("inf")])))
    assert report.findings[0].headline == "Inf comes in with 'u'"


def in_a_list(u):
    total = tf.reduce_sum(u)
    for v in [tf.constant([1.0, float("inf")])] if len(u.shape) else []:
        total = total + tf.reduce_sum(v * u)
    return total


def of_a_variable(u):
    total = tf.reduce_sum(u)
    for v in [tf.Variable([1.0, float("inf")])]:
        total = total + tf.reduce_sum(v * u)
    return total


def of_a_comprehension(u):
    total = tf.reduce_sum(u)
    for v in [tf.constant(row) for row in ([1.0, float("nan")],)]:
        total = total + tf.reduce_sum(v * u)
    return total


@pytest.mark.parametrize("f", [in_a_list, of_a_variable, of_a_comprehension])
def test_only_what_overflows_by_the_scale_of_a_loss_is_said_to_need_a_smaller_scale(f):
    report = bp.explain(bp.probe(f, ["**:*"], nonfinite=True)(tf.constant([1.0, 2.0])))
    assert report.findings[0].headline.endswith("is born at 'v': it is written there")
    assert "GradScaler" not in str(report)
