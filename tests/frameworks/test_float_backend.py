"""A backend that can only do the function form: a dozen methods, and the suite's programs over scalars pass."""

import inspect
import re

import float_backend
import floats
import numpy as np
import pytest
from backends import Framework
from test_conformance import check

import backprobe as bp
from asked import round_trip
from backprobe.backends.discover import BACKENDS
from backprobe.backends.numpy import HostArrays
from backprobe.backends.protocol import Backend, Tape
from programs import PROGRAMS

FLOATS = Framework(
    name="floats",
    tensor=lambda numbers, dtype="float64": floats.Scalar(numbers),
    numpy=lambda scalar: np.asarray(scalar.number),
    ops=floats.OPS,
)
IMPLEMENTED = {
    Backend: {"tape"},
    HostArrays: {"to_host", "from_host"},
    Tape: {"is_tensor", "is_floating", "is_differentiated", "describe", "cotangent", "capture", "run", "release"},
}


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """A backend is found by the module of its framework."""
    monkeypatch.setitem(BACKENDS, "floats", "float_backend")


def needs_tensors(program):
    """Is a program about more than scalars: an argument of several numbers, or an operator on such?"""
    used = set(re.findall(r"ops\.(\w+)", inspect.getsource(program.make)))
    return not used <= set(floats.NAMES) or any(isinstance(value, list | np.ndarray) for value in program.given)


SCALAR = [program for program in PROGRAMS if not needs_tensors(program)]


def test_most_programs_need_no_tensors():
    assert len(SCALAR) > 60


@pytest.mark.parametrize("program", SCALAR, ids=str)
def test_what_a_recording_says(program):
    check(program, FLOATS, program.record(FLOATS))


@pytest.mark.parametrize("part", IMPLEMENTED, ids=lambda part: part.__name__)
def test_what_a_backend_must_implement_is_a_dozen_methods(part):
    """Whoever adds a required method makes every backend implement it: this test says so first."""
    assert part.__abstractmethods__ == IMPLEMENTED[part]
    assert sum(map(len, IMPLEMENTED.values())) <= 12


def test_nothing_else_is_implemented():
    required = set().union(*IMPLEMENTED.values())
    for kind in (float_backend.FloatBackend, float_backend.FloatArrays, float_backend.FloatTape):
        methods = {name for name, value in vars(kind).items() if inspect.isfunction(value) and name[0] != "_"}
        assert methods <= required | {"describe", "is_tensor"}  # HostArrays has those of NumPy's arrays


def cube(x):
    u = x * x
    return u * x


X = floats.Scalar(3.0)
REFUSED = {
    "a strategy": (
        lambda: bp.probe(cube, strategy="hooks")(X),
        bp.StrategyRefused,
        "the strategy 'hooks' is PyTorch's",
    ),
    "partials": (lambda: bp.probe(cube, partials=True)(X), bp.Unsupported, "floats has no local partials in backprobe"),
    "second derivatives": (
        lambda: bp.probe(cube, create_graph=True)(X),
        bp.Unsupported,
        "gradients of floats cannot be differentiated again",
    ),
    "a block": (lambda: bp.probe(backend="floats").__enter__(), bp.Unsupported, "a block cannot be probed in floats"),
    "a check": (lambda: bp.check(cube)(X), bp.Unsupported, "derivatives cannot be checked in floats"),
    "a tensor alone": (lambda: bp.explain(X * 2, X), bp.Unsupported, "a tensor of floats alone cannot be explained"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_it_lacks_is_refused_in_shared_words(case):
    call, kind, headline = REFUSED[case]
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.headline == headline
    assert caught.value.asked
    assert caught.value.next


def test_nothing_is_asked_of_the_capabilities_that_it_lacks():
    """A recording is shown, explained and saved without any of them."""
    rec = bp.probe(cube, nonfinite=True)(X)
    assert "u" in str(rec)
    assert rec["u"].grad.number == 3
    assert bp.explain(rec).ok


def test_a_recording_is_saved_and_loaded(tmp_path):
    rec = bp.probe(cube)(X)
    assert round_trip(rec, tmp_path)["u"].value.number == 9
