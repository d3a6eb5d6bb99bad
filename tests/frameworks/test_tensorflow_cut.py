"""No gradient at all in TensorFlow: the error of the optimizer and the recording name the line and what it does."""

from os.path import relpath

import keras
import numpy as np
import pytest
import tensorflow as tf

import backprobe as bp

X, Y = np.array([[1.0, 2.0], [3.0, 4.0]], "float32"), np.array([[1.0], [0.0]], "float32")


class Net(tf.Module):
    def __init__(self):
        super().__init__()
        self.w = tf.Variable([[1.0], [2.0]])
        self.state = tf.Variable([[0.0], [0.0]])
        self.whole = tf.Variable([[1], [2]])
        self.frozen = tf.Variable([[1.0], [2.0]], trainable=False)

    def __call__(self, x):
        return x @ self.w


def step(net, loss_of, variables):
    with tf.GradientTape() as tape:
        loss = loss_of(net)
    gradients = tape.gradient(loss, variables)
    keras.optimizers.SGD(0.1).apply_gradients(zip(gradients, variables, strict=True))


def equal(net):
    out = net(X)
    hit = tf.equal(out, Y)  # here
    return tf.reduce_mean(tf.cast(hit, tf.float32))


def less(net):
    out = net(X)
    return tf.reduce_sum(tf.where(out < Y, 1.0, 0.0))  # here


def rounded(net):
    out = net(X)
    return tf.reduce_mean((tf.round(out) - Y) ** 2)  # here


def floored(net):
    out = net(X)
    whole = out // 1.0
    down = tf.floor(out)  # here
    return tf.reduce_sum(down - Y) + tf.stop_gradient(tf.reduce_sum(whole))


def counted(net):
    out = net(X)
    wrong = tf.math.count_nonzero(out - Y)  # here
    return tf.cast(wrong, tf.float32)


def positions(net):
    out = net(X)
    best = tf.argmax(tf.concat([out, -out], 1), axis=1)  # here
    return tf.reduce_sum(tf.cast(best, tf.float32) - 1.0)


def whole_numbers(net):
    out = net(X)
    whole = tf.cast(out, tf.int32)  # here
    return tf.reduce_sum(tf.cast(whole, tf.float32) - Y)


def stopped(net):
    out = net(X)
    return tf.reduce_sum(tf.stop_gradient(out) - Y)  # here


def assigned(net):
    out = net(X)
    net.state.assign(out)  # here
    return tf.reduce_sum(net.state)


def assigned_and_returned(net):
    out = net(X)
    kept = net.state.assign_add(out * 2.0)  # here
    return tf.reduce_sum(kept * 3.0)


def mean_of_numpy(net):
    out = net(X)
    return tf.constant(np.mean(out))  # here


def to_numpy(net):
    out = net(X)
    plain = out.numpy()  # here
    return tf.reduce_sum(tf.constant(plain) - Y)


CUTS = {
    equal: ("comparison", "the operation Equal is true or false", "tf.where"),
    less: ("comparison", "the operation Less is true or false", "tf.where"),
    rounded: ("no_derivative", "the operation Round has no derivative in TensorFlow", "tf.stop_gradient(round(u) - u)"),
    floored: ("no_derivative", "the operation Floor has no derivative in TensorFlow", "tf.stop_gradient(floor(u) - u)"),
    counted: ("comparison", "the operation NotEqual is true or false", "tf.where"),
    positions: ("index", "the operation ArgMax gives positions", "softmax"),
    whole_numbers: ("operation_dtype", "the operation Cast makes int32 values of '", "tf.cast to a floating dtype"),
    stopped: ("stop_gradient", "the operation StopGradient cuts the result off from", "leave out stop_gradient"),
    assigned: ("assigned", "`net.state.assign(out)` writes the values of '", "compute with"),
    assigned_and_returned: ("assigned", "`net.state.assign_add(out * 2.0)` writes the values of '", "compute with"),
    mean_of_numpy: ("numpy", "`np.mean(out)` takes '", "the framework's own operation"),
    to_numpy: ("numpy", "`out.numpy()` takes '", "the framework's own operation"),
}


def here(function):
    """The number of the line that is marked in a function."""
    with open(__file__) as file:
        lines = list(enumerate(file.read().split("\n"), 1))
    return next(n for n, line in lines if n > function.__code__.co_firstlineno and line.endswith("# here"))


def of_other_frameworks(text):
    text = text.replace(relpath(__file__), "")
    return [word for word in ("requires_grad", "torch", "detach()", "no_grad", "jnp", "jax") if word in text]


@pytest.mark.parametrize("loss_of", CUTS)
def test_the_error_of_the_optimizer_names_the_line(loss_of):
    kind, said, remedy = CUTS[loss_of]
    net = Net()
    with pytest.raises(ValueError, match="No gradients provided for any variable") as caught, bp.probe() as rec:
        step(net, loss_of, [net.w])
    note = caught.value.__notes__[1]
    assert note.startswith("backprobe: the tape gave None for every Variable that it was asked for\n")
    assert said in note
    assert f"{relpath(__file__)}:{here(loss_of)}: " in note
    assert remedy in note
    assert not of_other_frameworks(note)
    report = bp.explain(rec)
    (raised, finding) = report.findings
    assert raised.kind == "raised"
    assert (finding.kind, finding.source.line) == (kind, here(loss_of))
    assert not report.ok


@pytest.mark.parametrize("loss_of", CUTS)
def test_a_program_that_goes_on_without_gradients_is_explained(loss_of):
    net = Net()
    with bp.probe() as rec:
        with tf.GradientTape() as tape:
            loss = loss_of(net)
        gradient = tape.gradient(loss, net.w)
    assert gradient is None
    lines = [finding.source.line for finding in bp.explain(rec).findings if finding.source is not None]
    assert here(loss_of) in lines


FUNCTIONS = {
    equal: "`tf.equal(out, Y)` is true or false",
    less: "`out < Y` is true or false",
    positions: "`tf.argmax(tf.concat([out, -out], 1), axis=1)` gives positions",
    whole_numbers: "`tf.cast(out, tf.int32)` converts 'out' to integers",
    stopped: "`tf.stop_gradient(out)` cuts 'return' off from 'out'",
    mean_of_numpy: "`np.mean(out)` takes 'out' out of the framework",
    counted: "`tf.math.count_nonzero(out - Y)` counts",
}


@pytest.mark.parametrize("loss_of", FUNCTIONS)
def test_a_function_that_is_cut_off_names_the_line(loss_of):
    with pytest.raises(bp.NothingToDifferentiate) as caught:
        bp.probe(loss_of)(Net())
    assert caught.value.headline == "the output does not depend on any differentiated value"
    assert not of_other_frameworks(str(caught.value))
    note = caught.value.__notes__[0]
    assert FUNCTIONS[loss_of] in note
    assert f"{relpath(__file__)}:{here(loss_of)}: " in note


def test_an_assignment_through_an_attribute_in_a_function():
    net = Net()
    rec = bp.probe(assigned)(net)
    assert str(rec["out"].status) == "not_connected"
    assert rec["out"].reason == "it was written into a Variable, and no gradient flows through an assignment"
    for report in (bp.explain(rec), bp.explain(rec, "out")):
        (finding,) = report.findings
        assert (finding.kind, finding.source.line) == ("assigned", here(assigned))


@pytest.mark.parametrize(("name", "said"), [("whole", "its dtype is int32"), ("frozen", "trainable=False")])
def test_variables_that_no_tape_follows(name, said):
    net = Net()

    def loss_of(net):
        return tf.reduce_sum(X @ tf.cast(getattr(net, name), tf.float32))

    variable = getattr(net, name)
    with pytest.raises(ValueError, match="No gradients provided") as caught, bp.probe() as rec:
        step(net, loss_of, [variable])
    assert {"whole": "its dtype is int32", "frozen": "it has trainable=False"}[name] in caught.value.__notes__[1]
    assert {"whole": "tf.Variable([1.0, 2.0])", "frozen": "trainable=True"}[name] in caught.value.__notes__[1]
    assert not bp.explain(rec).ok
    with pytest.raises(bp.NothingToDifferentiate) as caught:
        bp.probe(loss_of)(net)
    assert said in caught.value.__notes__[0]
    assert "tf.cast(getattr(net, name), tf.float32)" in caught.value.__notes__[0]


def test_one_variable_that_is_cut_off_beside_others():
    net = Net()
    bias = tf.Variable(0.5)
    with bp.probe() as rec:
        with tf.GradientTape() as tape:
            out = net(X)
            loss = tf.reduce_sum(tf.stop_gradient(out) * bias)
        gradients = tape.gradient(loss, [net.w, bias])
    assert gradients[0] is None
    assert gradients[1] is not None
    (finding,) = bp.explain(rec).of_kind("stop_gradient")
    assert finding.source.text == "loss = tf.reduce_sum(tf.stop_gradient(out) * bias)"


def test_a_way_beside_the_cut_is_no_cut():
    w = tf.Variable([1.0, -2.0])
    with bp.probe() as rec:
        with tf.GradientTape() as tape:
            out = w * 2.0
            straight = out + tf.stop_gradient(tf.round(out) - out)
            mask = tf.cast(out > 0, tf.float32)
            loss = tf.reduce_sum(straight * mask * tf.cast(tf.shape(out)[0], tf.float32))
        gradient = tape.gradient(loss, w)
        w.assign_sub(0.1 * gradient)
    assert not rec.record.none_given
    assert bp.explain(rec).ok


def true_or_false(y, predicted):
    close = tf.equal(y, tf.round(predicted))
    return tf.reduce_mean(tf.cast(close, tf.float32))


@pytest.mark.parametrize("run_eagerly", [True, False])
def test_a_loss_of_fit_that_is_not_differentiable(run_eagerly):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, name="head")])
    model.compile("sgd", true_or_false, run_eagerly=run_eagerly)
    with pytest.raises(ValueError, match="No gradients provided") as caught, bp.probe(model) as rec:
        model.fit(X, Y, verbose=0)
    note = caught.value.__notes__[1]
    if run_eagerly:
        assert "the operation Equal is true or false, which has no derivative" in note
        assert f"{relpath(__file__)}:{true_or_false.__code__.co_firstlineno + 1}: close = tf.equal" in note
        (_, finding) = bp.explain(rec).findings
        assert finding.facts[:2] == (
            "it jumps or stays the same as 'head' changes",
            "a tape gave None for head.kernel, head.bias",
        )
    else:
        assert note == (
            "backprobe: Keras compiles this step, and nothing in it was followed; "
            "model.compile(..., run_eagerly=True) shows the line that cuts the loss off"
        )
    assert not bp.explain(rec).ok


def test_what_a_tape_did_not_give_is_saved(tmp_path):
    net = Net()
    with bp.probe() as rec:
        with tf.GradientTape() as tape:
            loss = equal(net)
        tape.gradient(loss, net.w)
    rec.save(tmp_path / "rec")
    assert str(bp.explain(bp.load(tmp_path / "rec"))) == str(bp.explain(rec))


def rounded(u):
    return tf.reduce_sum(tf.round(u * 0.5))


def named(u):
    low = tf.floor(u)
    return tf.reduce_sum(low * 2.0)


def two_in_one(u):
    return tf.reduce_sum(tf.math.rint(u) * tf.math.ceil(u))


@pytest.mark.parametrize(
    "function, texts",
    [(rounded, ["tf.round(u * 0.5)"]), (named, ["tf.floor(u)"]), (two_in_one, ["tf.math.rint(u)", "tf.math.ceil(u)"])],
)
def test_a_flat_operation_in_a_function_is_said_to_have_no_derivative(function, texts):
    with tf.GradientTape() as tape:
        tape.watch(x := tf.constant([1.3, -2.6]))
        loss = function(x)
    assert tape.gradient(loss, x) is None
    findings = bp.explain(bp.probe(function)(x), "u").findings
    assert {finding.kind for finding in findings} == {"no_derivative"}
    assert all(
        one.headline
        in [f"`{text}` has no derivative in TensorFlow, so no gradient comes back to 'u'" for text in texts]
        for one in findings
    )


def test_sign_has_a_derivative_in_tensorflow_and_it_is_zero():
    rec = bp.probe(lambda u: tf.reduce_sum(tf.sign(u) * 2.0))(tf.constant([1.3, -2.6]))
    assert rec["u"].grad.numpy().tolist() == [0.0, 0.0]
    assert not bp.explain(rec, "u").of_kind("no_derivative")


def divided(u):
    whole = u // 0.7
    return tf.reduce_sum(whole * 2.0)


def divided_by_name(u):
    return tf.reduce_sum(tf.math.floordiv(u, 0.7))


@pytest.mark.parametrize("function, text", [(divided, "u // 0.7"), (divided_by_name, "tf.math.floordiv(u, 0.7)")])
def test_a_floor_division_is_said_to_have_no_derivative(function, text):
    (finding,) = bp.explain(bp.probe(function)(tf.constant([1.3, -2.6])), "u").findings
    assert finding.headline == f"`{text}` has no derivative in TensorFlow, so no gradient comes back to 'u'"
    assert finding.remedy.startswith("u // v is flat between its steps: use u / v")


def drawn(net):
    actions = tf.random.categorical(net(X), 2)  # here
    return tf.reduce_sum(tf.cast(actions, tf.float32))


def drawn_with_a_seed(net):
    actions = tf.random.stateless_categorical(net(X), 2, seed=[1, 2])  # here
    return tf.reduce_sum(tf.cast(actions, tf.float32))


def bins(net):
    counts = tf.histogram_fixed_width(net(X), [-9.0, 9.0], 4)  # here
    return tf.reduce_sum(tf.cast(counts, tf.float32))


def divided_in_a_tape(net):
    whole = net(X) // 2.0  # here
    return tf.reduce_sum(whole)


@pytest.mark.parametrize(
    ("loss_of", "kind", "remedy"),
    [
        (drawn, "sample", "Gumbel-softmax"),
        (drawn_with_a_seed, "sample", "Gumbel-softmax"),
        (bins, "operation_dtype", "a cast does not mend that"),
        (divided_in_a_tape, "no_derivative", "use u / v"),
    ],
)
def test_no_cast_to_another_dtype_is_advised_where_the_operation_has_no_derivative(loss_of, kind, remedy):
    net = Net()
    with bp.probe() as rec, tf.GradientTape() as tape:
        loss = loss_of(net)
        assert tape.gradient(loss, net.w) is None
    (finding,) = [one for one in bp.explain(rec).findings if one.source and one.source.line == here(loss_of)]
    assert finding.kind == kind
    assert remedy in finding.remedy
    assert "keep a floating-point dtype" not in finding.remedy


def scattered(net):
    net.state.scatter_nd_update([[0, 0]], (X @ net.w)[0])  # here
    return tf.reduce_sum(net.state)


def written_to_a_part(net):
    net.state[0].assign((X @ net.w)[0] * 2.0)  # here
    return tf.reduce_sum(net.state)


def written_twice(net):
    other = tf.Variable([[0.0], [0.0]])
    net.state.assign(X @ net.w)  # here
    other.assign(net.state * 2.0)
    return tf.reduce_sum(other)


@pytest.mark.parametrize(
    ("loss_of", "call"),
    [
        (scattered, "net.state.scatter_nd_update([[0, 0]], (X @ net.w)[0])"),
        (written_to_a_part, "net.state[0].assign((X @ net.w)[0] * 2.0)"),
        (written_twice, "net.state.assign(X @ net.w)"),
    ],
)
def test_a_write_into_a_part_of_a_variable_or_on_into_another_is_named(loss_of, call):
    net = Net()
    with bp.probe() as rec:
        with tf.GradientTape() as tape:
            loss = loss_of(net)
        assert tape.gradient(loss, net.w) is None
    (finding,) = [one for one in bp.explain(rec).findings if one.source and one.source.line == here(loss_of)]
    assert finding.kind == "assigned"
    assert finding.headline.startswith(f"`{call}` writes the values of ")


def position_of_a_call(net):
    best = tf.argmax(net(X), axis=0)  # here
    return tf.reduce_sum(tf.cast(best, tf.float32))


def test_a_remedy_does_not_take_a_parameter_for_what_a_call_returned():
    net = Net()
    with bp.probe() as rec, tf.GradientTape() as tape:
        loss = position_of_a_call(net)
        assert tape.gradient(loss, net.w) is None
    assert "whose gradient flows: tf.reduce_max(net(X), axis=0)" in str(bp.explain(rec))
