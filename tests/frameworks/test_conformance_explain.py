"""Why a gradient is missing, in every framework: the cause, its line, the chain, and what to write instead."""

import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf
import torch
from backends import FRAMEWORKS
from torch import nn

import backprobe as bp
from backprobe.backends.dialects import DIALECTS
from backprobe.backends.discover import load_backend
from backprobe.explain.causes import CAUSES
from backprobe.explain.text import FLAT, finding, instead_of_flat
from random_programs.compare import load

SECTION = "Why a gradient is missing"
supports = pytest.mark.supports


def given(framework):
    return framework.tensor([1.0, 2.0]), framework.tensor([3.0, 4.0])


def line(function, text):
    """The number of the line of a function that holds a text."""
    source, first = inspect.getsourcelines(function)
    (found,) = [first + at for at, each in enumerate(source) if text in each]
    return found


def found(report):
    return [(finding.kind, finding.source.line, finding.chain) for finding in report.findings]


@supports("`bp.explain(rec, name)`: the line that cuts the graph, and the way to it", SECTION)
def test_what_cuts_the_graph(framework):
    ops = framework.ops

    def f(x, w):
        u = x * w
        cut = ops.stop_gradient(u)
        return ops.sum(cut * w)

    recording = bp.probe(f)(*given(framework))
    at = line(f, "cut = ops")
    (kind, where, chain), *others = found(bp.explain(recording, "x"))
    assert (kind in ("detach", "stop_gradient"), where, chain, others) == (True, at, ("x", "u", "cut"), [])
    assert recording["x"].cause.line == at
    with pytest.raises(bp.NoGradient, match=f"{at}: cut = ops.stop_gradient"):
        recording["x"].grad
    assert found(bp.explain(recording, "cut"))[0][:2] == (kind, at)


@supports("several cuts, in called functions too, and values that have no derivative", SECTION)
def test_several_cuts(framework):
    ops = framework.ops

    def helper(value):
        half = value / 2.0
        return ops.stop_gradient(half)

    def f(x, w):
        u = x * w
        mask = u > 4.0
        scaled = helper(u)
        return ops.sum(scaled * w + ops.cast(mask, ops.single) * w)

    recording = bp.probe(f)(*given(framework))
    at = {where: kind for kind, where, _ in found(bp.explain(recording, "u"))}
    assert at.keys() == {line(f, "mask ="), line(helper, "return ops")}
    assert at[line(f, "mask =")] == "comparison"
    assert {finding.kind for finding in bp.explain(recording).findings} == set(at.values())


@supports("a cut in a statement over several lines, at the line that cuts", SECTION)
def test_a_statement_over_several_lines(framework):
    ops = framework.ops

    def f(x, w):
        u = x * w
        result = ops.sum(
            w
            * ops.stop_gradient(
                u,
            ),
        )
        return result

    recording = bp.probe(f)(*given(framework))
    at = line(f, "* ops.stop_gradient(")
    assert found(bp.explain(recording, "x"))[0][1] == at
    with pytest.raises(bp.NoGradient, match=f":{at}: \\* ops.stop_gradient"):
        recording["u"].grad


@supports("positions, and a value that is computed again instead of used", SECTION)
def test_positions_and_values_computed_again(framework):
    ops = framework.ops

    def f(x, w):
        u = x * w
        position = ops.argmax(u, 0)
        seen = ops.tanh(w)
        return ops.sum(ops.tanh(w) * ops.cast(position, ops.single))

    recording = bp.probe(f)(*given(framework))
    assert found(bp.explain(recording, "x"))[0][:2] == ("index", line(f, "position ="))
    assert found(bp.explain(recording, "seen"))[0][:2] == ("made_again", line(f, "return"))


@supports("a value that the output does not depend on: where what is computed from it ends", SECTION)
def test_a_value_that_is_not_used(framework):
    def f(x, w):
        u = x * w
        beside = u * 2.0
        end = beside + 1.0
        return framework.ops.sum(u)

    assert found(bp.explain(bp.probe(f)(*given(framework)), "beside")) == [
        ("unused", line(f, "end ="), ("beside", "end"))
    ]


@supports("a gradient that is zero everywhere: the line whose derivative is 0", SECTION)
def test_a_gradient_that_is_zero(framework):
    ops = framework.ops

    def f(x, w):
        u = -x * w
        a = ops.relu(u)
        return ops.sum(a * w)

    recording = bp.probe(f)(*given(framework))
    assert found(bp.explain(recording, "x")) == [("zero_derivative", line(f, "a ="), ("x", "u", "a"))]
    assert bp.explain(recording, "w").ok is False  # w reaches the output through a alone, which is 0
    assert bp.explain(recording, "a").ok


@supports("the same of a recording that was saved and loaded", SECTION)
def test_a_recording_that_was_saved(framework, tmp_path):
    ops = framework.ops

    def f(x, w):
        u = x * w
        return ops.sum(ops.stop_gradient(u) * w)

    recording = bp.probe(f)(*given(framework))
    recording.save(tmp_path / "saved")
    for loaded in (bp.load(tmp_path / "saved"), bp.load(tmp_path / "saved", to="numpy")):
        assert str(bp.explain(loaded, "x")) == str(bp.explain(recording, "x", experiments=False))
        assert str(bp.explain(loaded)) == str(bp.explain(recording, experiments=False))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=supports(
                "`bp.explain(loss, tensor)`, without a recording",
                SECTION,
                on=name,
                answer="yes" if name == "torch" else "`Unsupported`: no tensor has a graph",
            ),
        )
        for name in FRAMEWORKS
    ],
)
def test_a_tensor_without_a_recording(name):
    framework = FRAMEWORKS[name]
    x, w = given(framework)
    if name == "torch":
        x.requires_grad_()
        u = x * w
        assert [finding.kind for finding in bp.explain(u.sum(), u).findings] == ["not_retained"]
        return
    with pytest.raises(bp.Unsupported, match=r"next:  rec = bp.probe\(f\)\(x\)"):
        bp.explain(framework.ops.sum(x * w), x)


STRAIGHT_THROUGH = {
    "torch": "u + (round(u) - u).detach()",
    "tensorflow": "u + tf.stop_gradient(round(u) - u)",
    "jax": "u + jax.lax.stop_gradient(round(u) - u)",
}
KIND_OF_FLAT = {"tensorflow": "no_derivative"}
"""TensorFlow has no derivative of a flat operation and gives None; the others have one, which is 0."""


@supports("a flat operation has its remedy in the framework's terms", SECTION)
def test_an_operation_that_is_flat_has_the_remedy_of_such(framework, tmp_path):
    ops = framework.ops

    def f(x, w):
        u = x * w
        r = ops.round(u)
        return ops.sum(r * w)

    recording = bp.probe(f)(*given(framework))
    (finding,) = bp.explain(recording, "u").findings
    assert (finding.kind, finding.source.text) == (
        KIND_OF_FLAT.get(framework.name, "zero_derivative"),
        "r = ops.round(u)",
    )
    assert finding.remedy.startswith("round is flat between its steps")
    assert STRAIGHT_THROUGH[framework.name] in finding.remedy
    recording.save(tmp_path / "saved")
    assert str(bp.explain(bp.load(tmp_path / "saved", to="numpy"), "u")) == str(
        bp.explain(recording, "u", experiments=False)
    )


@supports("a flat operation in the middle of an expression", SECTION)
def test_an_operation_that_is_flat_in_the_middle_of_an_expression(framework):
    ops = framework.ops

    def f(x, w):
        u = x * w
        return ops.sum(ops.round(u * 0.5) * w)

    (finding,) = bp.explain(bp.probe(f)(*given(framework)), "u").findings
    assert (finding.kind, finding.source.line) == (
        KIND_OF_FLAT.get(framework.name, "zero_derivative"),
        line(f, "return"),
    )
    assert finding.headline == (
        "`ops.round(u * 0.5)` has no derivative in TensorFlow, so no gradient comes back to 'u'"
        if framework.name == "tensorflow"
        else "the derivative of 'return' with respect to 'u' that backward uses is 0"
    )


ONLY_IN_PYTORCH = (
    *("no_grad", "no_grad.update", "unknown.hook", "checkpoint", "overwritten", "made_leaf", "data"),
    *("update_unused", "stale_copy.cast"),
)
FIELDS = dict.fromkeys(
    (
        "left",
        "scale",
        "value",
        "plain",
        "target",
        "text",
        "call",
        "dtype",
        "mode",
        "function",
        "reason",
        "instead",
        "when",
        "again",
        "others",
        "outputs",
        "giver",
        "module",
        "operations",
        "names",
        "converted",
        "functions",
        "gradients",
        "targets",
        "first",
        "operation",
        "factors",
        "shapes",
        "result",
        "applied",
        "optimizer",
        "steps",
        "rate",
        "share",
        "last",
        "look",
    ),
    "u",
)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_remedies_speak_of_the_framework_in_use(name):
    codes = [code for code in CAUSES if f"{code}_next" in CAUSES]  # those that have a remedy
    remedies = {code: finding(code, "u", None, name, **FIELDS).remedy for code in codes}
    remedies |= {operation: instead_of_flat(operation, name) for operation in FLAT}
    in_pytorch = re.compile(r"torch\b|requires_grad|detach|create_graph")
    spoken = {kind for kind, remedy in remedies.items() if in_pytorch.search(remedy)}
    if name == "torch":
        assert {"copied", "comparison", "round", "frozen"} <= spoken
    else:
        assert spoken <= {"detach", *ONLY_IN_PYTORCH}
    assert len({frozenset(one.remedies) for one in DIALECTS.values()}) == 1


@supports("positions, comparisons and whole numbers: the remedies name functions of the framework", SECTION)
def test_remedies_name_functions_of_the_framework(framework):
    ops = framework.ops
    int32 = ops.integer

    def f(x, w):
        u = x * w
        position = ops.argmax(u, 0)
        mask = u > 4.0
        whole = ops.cast(u, int32)
        return ops.sum(w * ops.cast(position, ops.single) * ops.cast(mask, ops.single) * ops.cast(whole, ops.single))

    remedies = {finding.kind: finding.remedy for finding in bp.explain(bp.probe(f)(*given(framework)), "x").findings}
    wanted = {
        "torch": ("ops.max(u, 0).values", "torch.where", "float()"),
        "tensorflow": ("tf.reduce_max(u, 0)", "tf.where", "tf.cast"),
        "jax": ("ops.max(u, 0)", "jnp.where", "astype"),
    }[framework.name]
    for kind, words in zip(("index", "comparison", "integer"), wanted, strict=True):
        assert words in remedies[kind]


@supports("a value that is not differentiated: how to change that in the framework", SECTION)
def test_what_is_not_differentiated(framework):
    def f(x, w):
        return framework.ops.sum(x * w)

    (finding,) = bp.explain(bp.probe(f, wrt="x")(*given(framework)), "w").findings
    assert finding.kind == "frozen_leaf"
    assert "wrt='w'" in finding.remedy
    assert ("requires_grad" in finding.remedy) is (framework.name == "torch")


def test_a_gradient_that_a_loop_cuts_off_is_zero_for_the_line_in_the_loop():
    import jax
    import jax.numpy as jnp

    def f(x, w):
        def turn(h, _):
            s = jax.lax.stop_gradient(h)
            k = s * w
            return k, k

        last, _ = jax.lax.scan(turn, x, None, length=3)
        return last.sum()

    recording = bp.probe(f)(jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0]))
    (finding,) = bp.explain(recording, "x").findings
    assert (finding.kind, finding.source.text) == ("stop_gradient", "s = jax.lax.stop_gradient(h)")
    assert bp.explain(recording, "w").ok


def test_a_variable_that_is_made_of_a_value_is_a_new_leaf():
    import tensorflow as tf

    def f(x, w):
        v = tf.Variable(x * w)
        return tf.reduce_sum(v * w)

    (finding,) = bp.explain(bp.probe(f)(tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0])), "x").findings
    assert (finding.kind, finding.source.text) == ("parameter", "v = tf.Variable(x * w)")


ASSIGNMENTS = {
    "assign": lambda v, u: v.assign(u),
    "assign_add": lambda v, u: v.assign_add(u),
    "assign_of_a_part": lambda v, u: v[0].assign(u[0]),
    "scatter_nd_update": lambda v, u: v.scatter_nd_update([[0]], u[:1]),
}


@pytest.mark.parametrize("write", ASSIGNMENTS.values(), ids=ASSIGNMENTS)
def test_what_is_assigned_to_a_variable_is_cut_off(write):
    import tensorflow as tf

    def f(x, w):
        v = tf.Variable([0.0, 0.0])
        u = x * w
        write(v, u)
        return tf.reduce_sum(v * w)

    rec = bp.probe(f)(tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0]))
    assert {finding.kind for finding in bp.explain(rec, "x").findings} == {"assigned"}
    assert {finding.kind for finding in bp.explain(rec).findings} >= {"assigned"}


def test_a_step_of_training_by_assignment_is_no_fault():
    import tensorflow as tf

    w, average = tf.Variable([1.0, 2.0]), tf.Variable([0.0, 0.0])
    with bp.probe() as rec:
        for _ in range(3):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum((w * 2.0 - 1.0) ** 2)
            gradient = tape.gradient(loss, w)
            w.assign_sub(0.1 * gradient)
            average.assign(0.9 * average + 0.1 * w)
    report = bp.explain(rec)
    assert not report.of_kind("assigned"), str(report)
    assert any("w.assign_sub(0.1 * gradient)" in note for note in report.notes), str(report)
    assert [finding.kind for finding in bp.explain(rec, "gradient#0").findings][0] == "assigned"


@pytest.mark.parametrize(
    "text", ["np.tanh(u)", "np.linalg.norm(u)", "np.asarray(u)", "np.add.reduce(u)", "u.numpy()"], ids=str
)
def test_numpys_functions_take_a_tensor_out_of_tensorflow(text, tmp_path):
    import tensorflow as tf

    lines = [
        "import numpy as np",
        "import tensorflow as tf",
        "def f(x, w):",
        "    u = x * w",
        f"    a = {text}",
        "    return tf.reduce_sum(a * w)",
    ]
    rec = bp.probe(load("\n".join(lines), tmp_path / "program.py"))(tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0]))
    assert found(bp.explain(rec, "x")) == [("numpy", 5, ("x", "u", "return"))]


def test_what_is_only_called_np_is_not_numpy():
    import jax.numpy as np

    def f(x, w):
        u = x * w
        s = np.sign(u)
        return (s * w).sum()

    (finding,) = bp.explain(bp.probe(f)(np.array([1.0, 2.0]), np.array([3.0, 4.0])), "u").findings
    assert (finding.kind, finding.remedy[:12]) == ("inside", "sign is flat")


def gradients_of_own_tapes():
    """Blocks in which a tape of the program's own gives None: the kind and the text of the line, by the name."""
    import tensorflow as tf

    w, c = tf.Variable([1.0, 2.0]), tf.constant([3.0, 4.0])
    with bp.probe() as outside:
        y = w * 2.0
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(y * c)
        tape.gradient(loss, [w, c])
    yield outside, {"w": ("outside_tape", "y = w * 2.0"), "c": ("not_watched", "tape.gradient(loss, [w, c])")}

    with bp.probe() as stopped:
        with tf.GradientTape() as tape:
            with tape.stop_recording():
                y = w * 3.0
            loss = tf.reduce_sum(y * c)
        tape.gradient(loss, w)
    yield stopped, {"w": ("outside_tape", "y = w * 3.0")}

    with bp.probe() as reset:
        with tf.GradientTape() as tape:
            y = w * 4.0
            tape.reset()
            loss = tf.reduce_sum(y * c)
        tape.gradient(loss, sources=w)
    yield reset, {"w": ("outside_tape", "y = w * 4.0")}

    with bp.probe() as unwatched:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            loss = tf.reduce_sum(w * c)
        tape.gradient(loss, {"a": w})
    yield unwatched, {"w": ("not_watched", 'tape.gradient(loss, {"a": w})')}

    with bp.probe(of="loss") as other:
        with tf.GradientTape() as tape:
            beside = tf.reduce_sum(c * c)
            loss = tf.reduce_sum(w * c)
        tape.gradient(beside, w)
    yield other, {"w": ("none_given", "tape.gradient(beside, w)")}


def test_a_remedy_spells_what_a_tape_does_not_watch_as_code():
    import tensorflow as tf

    def step(pair):
        u = pair[1] * 2.0
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(pair[0] * u)
        return tape.gradient(loss, [pair[0], u])

    with bp.probe(backend="tensorflow") as rec:
        step([tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0])])
    (finding,) = bp.explain(rec).of_kind("not_watched")
    assert finding.remedy.startswith("call tape.watch(pair[0]) in the tape")


def test_why_a_tape_of_the_programs_own_gave_none(tmp_path):
    for at, (rec, expected) in enumerate(gradients_of_own_tapes()):
        findings = bp.explain(rec).of_kind("outside_tape", "not_watched", "none_given")
        whole = {finding.name: (finding.kind, finding.source.text) for finding in findings}
        assert whole == expected
        for name, found_there in expected.items():
            report = bp.explain(rec, name)
            assert [(finding.kind, finding.source.text) for finding in report.findings] == [found_there]
            assert "gave None" in report.heading
        rec.save(tmp_path / str(at))
        assert str(bp.explain(bp.load(tmp_path / str(at)))) == str(bp.explain(rec))


def test_a_tape_that_gives_gradients_is_not_spoken_of():
    import tensorflow as tf

    w, c = tf.Variable([1.0, 2.0]), tf.constant([3.0, 4.0])
    with bp.probe() as rec:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(c)
            u = w * c
            loss = tf.reduce_sum(u)
        tape.gradient(loss, [w, c, u])
        tape.jacobian(u, w)
    assert not rec.record.none_given
    assert bp.explain(rec, "u").ok


def test_a_model_that_is_called_before_the_tape():
    import keras
    import tensorflow as tf

    model = keras.Sequential([keras.layers.Dense(2, name="a"), keras.layers.Dense(1, name="b")], name="net")
    x = tf.ones((2, 3))
    model(x)

    def step():
        out = model(x)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(out)
        return loss, tape.gradient(loss, model.trainable_variables)

    with bp.probe(model) as rec:
        loss, _ = step()
    (finding,) = bp.explain(rec).findings
    assert (finding.kind, finding.name) == ("outside_tape", "a.kernel")
    assert "the same of a.bias, b.kernel, b.bias" in finding.facts

    with bp.probe(of="loss") as plain:
        loss, _ = step()
    (finding,) = bp.explain(plain).of_kind("outside_tape")
    assert (finding.name, finding.source.text) == ("model.a.kernel", "out = model(x)")
    assert loss is not None


def test_several_steps_of_training_a_keras_model_are_no_fault():
    import keras
    import tensorflow as tf

    model = keras.Sequential([keras.layers.Dense(2, name="a"), keras.layers.Dense(1, name="b")])
    optimizer, x = keras.optimizers.SGD(0.1), tf.ones((2, 3))
    model(x)
    with bp.probe(model) as rec:
        for _ in range(2):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(model(x) ** 2)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    assert bp.explain(rec).ok, str(bp.explain(rec))
    (finding,) = bp.explain(rec, "a.kernel").findings
    assert finding.kind == "written_since"
    assert "it was modified later" in rec["a.kernel"].reason


def test_steps_of_training_in_jax_are_no_fault():
    import jax
    import jax.numpy as jnp

    def train(w, x):
        def loss_of(p):
            h = p * x
            return (h**2).sum(), h

        for _ in range(3):
            (loss, h), g = jax.value_and_grad(loss_of, has_aux=True)(w)
            w = w - 0.1 * g
        return loss

    report = bp.explain(bp.probe(train)(jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0])))
    assert report.ok, str(report)


def models_that_cut():
    """The model and its arguments, and the path of a parameter before the cut, in each library of JAX and in Keras."""
    import equinox
    import flax.linen as nn
    import jax
    import jax.numpy as jnp
    import keras
    import tensorflow as tf
    from flax import nnx

    class Keras(keras.Model):
        def __init__(self):
            super().__init__()
            self.a, self.b = keras.layers.Dense(4), keras.layers.Dense(1)

        def call(self, x):
            return tf.reduce_sum(self.b(tf.stop_gradient(self.a(x))))

    class Nnx(nnx.Module):
        def __init__(self, rngs):
            self.a, self.b = nnx.Linear(3, 4, rngs=rngs), nnx.Linear(4, 1, rngs=rngs)

        def __call__(self, x):
            return self.b(jax.lax.stop_gradient(nnx.relu(self.a(x)))).sum()

    class Equinox(equinox.Module):
        a: equinox.nn.Linear
        b: equinox.nn.Linear

        def __init__(self, key):
            self.a, self.b = equinox.nn.Linear(3, 4, key=key), equinox.nn.Linear(4, 1, key=key)

        def __call__(self, x):
            return self.b(jax.lax.stop_gradient(self.a(x))).sum()

    class Linen(nn.Module):
        @nn.compact
        def __call__(self, x):
            h = jax.lax.stop_gradient(nn.relu(nn.Dense(4, name="a")(x)))
            return nn.Dense(1, name="b")(h).sum()

    x = jnp.ones((2, 3))
    built = Keras()
    built(tf.ones((2, 3)))
    yield built, (tf.ones((2, 3)),), "a.kernel"
    yield Nnx(nnx.Rngs(0)), (x,), "a.kernel"
    yield Equinox(jax.random.key(0)), (x[0],), "a.weight"
    yield Linen(), (Linen().init(jax.random.key(0), x), x), "a.kernel"


def test_a_cut_of_what_a_module_returns_has_its_line():
    for model, given_to, name in models_that_cut():
        rec = bp.probe(model, ["**", "**:*"])(*given_to)
        for report in (bp.explain(rec, name), bp.explain(rec)):
            kinds = [(finding.kind, "stop_gradient(" in finding.source.text) for finding in report.findings]
            assert kinds == [("stop_gradient", True)], f"{type(model).__name__}: {report}"


def test_bridges_in_torch_a_value_keeps_its_numbers_and_has_the_history_of_another():
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    value = torch.tensor([3.0, torch.inf, torch.nan])
    made = load_backend("torch").bridged(value, w * 2)
    assert torch.equal(made.nan_to_num(), value.nan_to_num())
    made[0].backward()
    assert bool(w.grad.all())


def test_bridges_in_torch_a_gradient_arrives_behind_what_takes_the_mean_away():
    """Gradients of a softmax sum to 0."""
    w = torch.ones(4, requires_grad=True)
    load_backend("torch").bridged(torch.zeros(4), (w * 1).softmax(0)).softmax(0)[0].backward()
    assert bool(w.grad.abs().max() > 1e-3)


def test_bridges_in_torch_tensors_in_containers_and_sources_in_containers():
    w = torch.ones(2, requires_grad=True)
    made = load_backend("torch").bridged({"a": torch.zeros(1), "b": (3, [torch.zeros(2)])}, [w, None])
    assert made["a"].requires_grad and made["b"][1][0].requires_grad and made["b"][0] == 3


@pytest.mark.parametrize("value", [3.0, torch.tensor([1, 2]), "x", nn.Parameter(torch.zeros(1))])
def test_bridges_in_torch_what_can_have_no_history(value):
    assert load_backend("torch").bridged(value, torch.ones(1, requires_grad=True)) is None


def test_bridges_in_torch_a_source_without_a_history():
    assert load_backend("torch").bridged(torch.zeros(1), torch.ones(1)) is None


def test_bridges_in_torch_gradients_are_switched_off():
    w = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        noted = load_backend("torch").bridged(w * 2, w)
    with torch.inference_mode():
        inferred = load_backend("torch").bridged(w * 2, w)
    (noted.sum() + inferred.sum()).backward()
    assert bool(w.grad.all())


def test_bridges_in_torch_a_subclass_stays_one():
    class Tagged(torch.Tensor):
        pass

    value = torch.zeros(2).as_subclass(Tagged)
    value.tag = "boxes"
    made = load_backend("torch").bridged(value, torch.ones(1, requires_grad=True))
    assert type(made) is Tagged and made.tag == "boxes" and made.requires_grad


def test_bridges_in_torch_within_vmap():
    w = torch.ones(3, requires_grad=True)
    torch.func.vmap(lambda row: load_backend("torch").bridged(row.detach(), row))(w * torch.ones(2, 3)).sum().backward()
    assert bool(w.grad.all())


def test_bridges_in_torch_complex_numbers():
    w = torch.ones(3, dtype=torch.complex64, requires_grad=True)
    load_backend("torch").bridged(torch.zeros(2), w).sum().backward()
    assert bool(w.grad.abs().all())


def test_bridges_in_tensorflow_a_value_keeps_its_numbers_and_has_the_history_of_another():
    w = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        made = load_backend("tensorflow").bridged(tf.constant([3.0, np.inf, np.nan]), w * 2.0)
        loss = made[0]
    np.testing.assert_array_equal(made.numpy(), [3.0, np.inf, np.nan])
    assert np.all(tape.gradient(loss, w).numpy())


def test_bridges_in_tensorflow_tensors_in_containers_and_a_variable_for_a_source():
    w = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        loss = tf.nn.softmax(load_backend("tensorflow").bridged({"a": [tf.zeros(3), 2]}, w)["a"][0])[0]
    assert np.all(tape.gradient(loss, w).numpy())


@pytest.mark.parametrize("value", [3.0, np.zeros(2), tf.constant([1, 2]), tf.Variable(1.0)])
def test_bridges_in_tensorflow_what_can_have_no_history(value):
    assert load_backend("tensorflow").bridged(value, tf.Variable(1.0)) is None


def test_bridges_in_jax_a_value_keeps_its_numbers_and_has_the_history_of_another():
    def loss(w):
        made = load_backend("jax").bridged(jnp.array([3.0, jnp.inf, jnp.nan]), w * 2)
        return made[0]

    value, gradient = jax.jit(jax.value_and_grad(loss))(jnp.ones(2))
    assert value == 3.0 and np.all(gradient)


def test_bridges_in_jax_tensors_in_containers():
    def loss(w):
        return jax.nn.softmax(load_backend("jax").bridged({"a": (jnp.zeros(3), 2)}, [w])["a"][0])[0]

    assert np.all(jax.grad(loss)(jnp.ones(2)))
    assert np.all(jax.jacfwd(loss)(jnp.ones(2)))


def test_bridges_in_jax_what_can_have_no_history():
    assert load_backend("jax").bridged(3.0, jnp.ones(1)) is None
    assert load_backend("jax").bridged(jnp.array([1, 2]), jnp.ones(1)) is None
