"""The rest of a recording besides names and numbers, in every framework; and the promises of a probe."""

import copy
import gc
import weakref

import numpy as np
import pytest
from backends import FRAMEWORKS

import backprobe as bp
from asked import at_once, round_trip
from torch_framework import close

supports = pytest.mark.supports
SECTION = "Recordings"


def composed(ops):
    sin = ops.sin

    def helper(t):
        q = t * 2
        return q

    def f(x, w):
        u = x * w
        u += 1
        v = helper(u) + sin(x)
        unused = v * 5
        return v * u

    return f


def recorded(framework, **options):
    return bp.probe(composed(framework.ops), **options)(framework.tensor(0.0), framework.tensor(2.0))


@supports("`entry.source`: file, line, text and the expression", SECTION)
def test_where_a_value_got_its_name(framework):
    rec, first = recorded(framework), composed.__code__.co_firstlineno
    assert {
        name: (entry.source.line - first, entry.source.text, entry.source.expression) for name, entry in rec.items()
    } == {
        "x": (7, "def f(x, w):", ""),
        "w": (7, "def f(x, w):", ""),
        "u#0": (8, "u = x * w", "x * w"),
        "u#1": (9, "u += 1", "u + 1"),
        "/helper:q": (4, "q = t * 2", "t * 2"),
        "v": (10, "v = helper(u) + sin(x)", "helper(u) + sin(x)"),
        "unused": (11, "unused = v * 5", "v * 5"),
        "return": (12, "return v * u", "v * u"),
    }
    assert {entry.source.file for entry in rec.values()} == {__file__}


@supports("`entry.reads`: what its expression mentions, and which entry each is", SECTION)
def test_what_an_expression_mentions(framework):
    rec = recorded(framework)
    assert {name: [(read.spelled, read.name) for read in entry.reads] for name, entry in rec.items()} == {
        "x": [],
        "w": [],
        "u#0": [("x", "x"), ("w", "w")],
        "u#1": [("u", "u#0")],
        "/helper:q": [("t", "u#1")],
        "v": [("u", "u#1"), ("x", "x"), ("helper()", "/helper:q")],
        "unused": [("v", "v")],
        "return": [("v", "v"), ("u", "u#1")],
    }


@supports("`entry.inputs`: the recorded values that flow directly into it", SECTION)
def test_what_flows_into_a_value(framework):
    rec = recorded(framework)
    assert {name: sorted(edge.name for edge in entry.inputs) for name, entry in rec.items()} == {
        "x": [],
        "w": [],
        "u#0": ["w", "x"],
        "u#1": ["u#0"],
        "/helper:q": ["u#1"],
        "v": ["/helper:q", "x"],
        "unused": ["v"],
        "return": ["u#1", "v"],
    }


@supports("`rec.grads()`, `rec.missing()`, `rec.select(pattern)`", SECTION)
def test_parts_of_a_recording(framework):
    rec = recorded(framework)
    assert list(rec.grads()) == ["x", "w", "u#0", "u#1", "/helper:q", "v", "return"]
    assert {name: str(entry.status) for name, entry in rec.missing().items()} == {"unused": "not_connected"}
    assert list(rec.select("u")) == ["u#0", "u#1"]
    assert list(rec.select(["**", "!u", "!unused"])) == ["x", "w", "u#1", "/helper:q", "v", "return"]
    assert [entry.name for entry in rec.outputs] == ["return"]
    assert rec["unused"].grad_or_none is None
    assert rec.stamp.packages[framework.name]


def tabulated(ops):
    def f(x, w):
        u = x * w
        n = 3
        cut = ops.stop_gradient(u)
        return u[0] * n + cut[1]

    return f


@supports("the printed table", SECTION)
def test_the_printed_table(framework):
    rec = bp.probe(tabulated(framework.ops))(framework.tensor([1.0, 2.0]), framework.tensor(2.0))
    line = tabulated.__code__.co_firstlineno
    told = "detached: it was computed from differentiated values, but has no gradient history"
    rows = [("name", "value", "gradient", "source")]
    rows += [
        (name, value, gradient, f"test_conformance_recording.py:{line + offset}  {text}")
        for name, value, gradient, offset, text in (
            ("x", "[1, 2]", "[6, 0]", 1, "def f(x, w):"),
            ("w", "2", "3", 1, "def f(x, w):"),
            ("u", "[2, 4]", "[3, 0]", 2, "u = x * w"),
            ("cut", "[2, 4]", told, 4, "cut = ops.stop_gradient(u)"),
            ("return", "10", "1", 5, "return u[0] * n + cut[1]"),
        )
    ]
    lines = [f"{name:<8}{value:<8}{gradient:<{len(told) + 2}}{source}" for name, value, gradient, source in rows]
    assert str(rec) == "\n".join([*lines, "not tensors: n = 3", "gradients are of return"])


def test_the_printed_tables_are_the_same():
    tables = {name: str(recorded(framework)) for name, framework in FRAMEWORKS.items()}
    assert tables["tensorflow"] == tables["torch"]
    assert tables["jax"] == tables["torch"]
    pages = {name: recorded(framework)._repr_html_() for name, framework in FRAMEWORKS.items()}
    assert pages["tensorflow"] == pages["torch"]
    assert pages["jax"] == pages["torch"]


DTYPES = ("float16", "bfloat16", "float32", "complex64")


@supports("`rec.save` and `bp.load`, into the framework that made it", SECTION)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_recording_that_was_saved_and_loaded(framework, dtype, tmp_path):
    rec = bp.probe(product, cotangent=[1.0])(framework.tensor([3.0], dtype), framework.tensor([2.0], dtype), 7, None)
    loaded = round_trip(rec, tmp_path)
    same_entries(framework, rec, loaded)
    for entry in loaded.values():
        if entry.status == "ok":
            assert type(entry.value) is type(entry.grad) is type(framework.tensor(0.0))
            assert entry.value.dtype == entry.grad.dtype == framework.tensor(0.0, dtype).dtype
    assert close(framework.numpy(loaded.result), framework.numpy(rec.result), 0)
    assert str(loaded) == str(rec)


@supports('`bp.load(path, to="numpy")`, without importing the framework', SECTION)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_recording_loaded_as_arrays(framework, dtype, tmp_path):
    rec = bp.probe(product, cotangent=[1.0])(framework.tensor([3.0], dtype), framework.tensor([2.0], dtype), 7, None)
    loaded = round_trip(rec, tmp_path, to="numpy")
    assert isinstance(loaded["u"].grad, np.ndarray)
    for name, gradient in rec.grads().items():
        assert close(loaded[name].grad, framework.numpy(gradient), 0)


def product(x, w, n, nothing):
    u = x * w
    return u * u


def same_entries(framework, rec, loaded):
    assert list(loaded) == list(rec)
    for name, entry in rec.items():
        other = loaded[name]
        for part in ("aliases", "status", "reason", "shape", "dtype", "device", "source", "op", "reads"):
            assert getattr(other, part) == getattr(entry, part), (name, part)
        assert [edge.name for edge in other.inputs] == [edge.name for edge in entry.inputs]
        if entry.status == "ok":
            assert close(framework.numpy(other.value), framework.numpy(entry.value), 0)
            assert close(framework.numpy(other.grad), framework.numpy(entry.grad), 0)


@supports("recordings of one framework opened by another: `bp.load(path, to=…)`", SECTION)
def test_a_recording_of_another_framework(framework, tmp_path):
    for name, other in FRAMEWORKS.items():
        rec = recorded(other)
        rec.save(tmp_path / name)
        loaded = bp.load(tmp_path / name, to=framework.name)
        assert type(loaded["u#0"].grad) is type(framework.tensor(0.0))
        assert close(framework.numpy(loaded["u#0"].grad), other.numpy(rec["u#0"].grad), 0)


SECTION_ARGUMENTS = "Outputs and arguments"


@supports("Python numbers, with `backend=` where several frameworks are imported", SECTION_ARGUMENTS)
@pytest.mark.parametrize("numbers", [(3, 2), (3.0, 2.0)])
def test_python_numbers_become_leaves(framework, numbers):
    rec = bp.probe(lambda x, w: x * w, backend=framework.name)(*numbers)
    assert {name: framework.numpy(gradient).item() for name, gradient in rec.grads().items()} == {
        "x": 2,
        "w": 3,
        "return": 1,
    }
    assert {entry.dtype for entry in rec.values()} == {"float32"}


def test_equal_numbers_are_two_arguments(framework):
    rec = bp.probe(lambda x, w: x * w, backend=framework.name)(3.0, 3.0)
    assert framework.numpy(rec["x"].grad).item() == framework.numpy(rec["w"].grad).item() == 3


@supports("NumPy arrays as arguments", SECTION_ARGUMENTS)
def test_numpy_arrays_become_leaves(framework):
    ops = framework.ops

    def f(x, n):
        u = x * x
        return ops.sum(u)

    rec = bp.probe(f, backend=framework.name)(np.array([1.0, 2.0], "float32"), np.array([1, 2], "int32"))
    assert framework.numpy(rec["x"].grad).tolist() == [2, 4]
    assert (rec["x"].dtype, rec["n"].dtype, str(rec["n"].status)) == ("float32", "int32", "not_float")


@supports("keyword arguments", SECTION_ARGUMENTS)
def test_keyword_arguments(framework):
    rec = bp.probe(lambda x, w: x * w)(w=framework.tensor(2.0), x=framework.tensor(3.0))
    assert framework.numpy(rec["x"].grad).item() == 2


PROMISES = "Promises"


@supports("the result is bitwise the same as without the probe, and arguments are unchanged", PROMISES)
def test_no_observer_effect(framework):
    ops = framework.ops

    def f(parameters, x):
        h = ops.tanh(ops.matmul(parameters["a"], x))
        parameters["made"] = h
        return {"loss": ops.sum(h * h), "h": h}

    def given():
        return {"a": framework.tensor([[0.3, 0.7], [-0.2, 0.9]])}, framework.tensor([[0.1], [0.6]])

    plain_parameters, x = given()
    plain = f(plain_parameters, x)
    parameters, x = given()
    held = copy.copy(parameters)
    rec = bp.probe(f, of="loss")(parameters, x)
    assert np.array_equal(framework.numpy(rec.result["loss"]), framework.numpy(plain["loss"]))
    assert np.array_equal(framework.numpy(rec.result["h"]), framework.numpy(plain["h"]))
    assert list(parameters) == ["a", "made"]
    assert parameters["a"] is held["a"]
    assert np.array_equal(framework.numpy(parameters["made"]), framework.numpy(plain["h"]))


class Custom(Exception):
    pass


@supports("your own exception keeps its type and identity, and gets a note; the next probe works", PROMISES)
def test_an_exception_inside(framework):
    raised = []

    def f(x):
        u = x * 2
        raised.append(Custom("mine", 3))
        if raised:
            raise raised[-1]
        return u

    for _ in range(2):
        with pytest.raises(Custom) as caught:
            bp.probe(f, backend=framework.name)(framework.tensor(3.0))
        assert caught.value is raised[-1]
        assert caught.value.args == ("mine", 3)
        (note,) = [note for note in caught.value.__notes__ if note.startswith("backprobe")]
        assert note.startswith("backprobe: raised while running f under a probe; the last name bound was 'u' (")
        assert note.endswith(": u = x * 2)")
    raised.clear()
    assert framework.numpy(bp.probe(lambda x: x * 2)(framework.tensor(3.0))["x"].grad).item() == 2


@supports("an exception that the program itself catches is left alone", PROMISES)
def test_an_exception_that_is_caught(framework):
    def f(x):
        try:
            u = x * 2
            raise Custom
        except Custom:
            v = u * 3
        finally:
            w = v + 1
        return w

    rec = bp.probe(f)(framework.tensor(3.0))
    assert {name: framework.numpy(gradient).item() for name, gradient in rec.grads().items()} == {
        "x": 6,
        "u": 3,
        "v": 1,
        "w": 1,
    }


@supports("values that nobody selected are not kept alive", PROMISES)
def test_nothing_is_kept_alive_but_what_the_recording_holds(framework):
    dropped, exp = [], framework.ops.exp

    def f(x):
        u = x * 2
        v = exp(u)
        dropped.extend((weakref.ref(u), weakref.ref(v)))
        return v + 1

    rec = bp.probe(f, "v")(framework.tensor(3.0))
    gc.collect()
    assert dropped[0]() is None
    entry = weakref.ref(rec["v"])
    del rec
    gc.collect()
    assert entry() is None
    assert dropped[1]() is None


@supports("a probe inside a probed function", PROMISES)
def test_a_probe_inside_a_probed_function(framework):
    stop = framework.ops.stop_gradient

    def inner(t):
        q = t * t
        return q

    def f(x):
        u = x * 2
        rec = bp.probe(inner)(stop(u))
        return u * rec["t"].grad

    rec = bp.probe(f)(framework.tensor(1.0))
    assert framework.numpy(rec["x"].grad).item() == 2 * 4


@supports("probes in several threads at once", PROMISES)
def test_probes_in_several_threads(framework):
    found = {}

    def probe(factor):
        def f(x):
            u = x * factor
            return u * u

        for _ in range(5):
            rec = bp.probe(f)(framework.tensor(3.0))
            found.setdefault(factor, set()).add(framework.numpy(rec["x"].grad).item())

    at_once(probe, (1.0,), (2.0,), (3.0,))
    assert found == {1.0: {6.0}, 2.0: {24.0}, 3.0: {54.0}}


@supports('`values="copy"`', SECTION)
def test_values_that_are_copied(framework):
    def f(x):
        u = x * 2
        u += 1
        return u * u

    rec = bp.probe(f, values="copy")(framework.tensor(3.0))
    assert [framework.numpy(rec[f"u#{count}"].value).item() for count in (0, 1)] == [6, 7]
