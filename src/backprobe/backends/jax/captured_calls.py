"""Implements ``Captures`` for JAX: stores and reruns gradients of functions, and calls of Equinox and NNX models."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy

from backprobe.backends.captures import (
    CapturedCall,
    CapturedStep,
    Captures,
    KeptTensor,
    LeftOut,
    MisfitParameter,
    RanCalls,
    Result,
    misfits_of,
)
from backprobe.backends.jax import models
from backprobe.backends.jax.guarded_gradients import AskedGradient, JaxGuardedGradient
from backprobe.backends.jax.guarded_values import at_element, unfit
from backprobe.backends.jax.guarding import JaxGuardedCall
from backprobe.backends.jax.state import JaxState
from backprobe.backends.jax.tensors import is_floating
from backprobe.backends.numpy import fingerprint
from backprobe.backends.random_states import OF_PYTHON, put_back
from backprobe.backends.replay import Replay
from backprobe.record.containers import leaves, refilled

RANDOM = ("python", "numpy")
SETTINGS = ("jax_enable_x64", "jax_default_matmul_precision", "jax_default_prng_impl")
MAPPED = "mapped"


def kept(array: Any) -> KeptTensor:
    """Return an array in the form in which a file stores it. A random key is stored as its numbers."""
    facts: dict[str, Any] = {"weak": bool(getattr(array, "weak_type", False))}
    if is_key(array):
        facts["key"] = str(jax.random.key_impl(array))
        array = jax.random.key_data(array)
    device = next(iter(array.devices())) if isinstance(array, jax.Array) else jax.devices()[0]
    return KeptTensor(array, int(array.nbytes), {"device": f"{device.platform}:{device.id}", **facts})


def array_of(one: Any) -> Any:
    """Return the array from which ``kept`` made this stored form. A form without its tensor, and any other value, is
    returned unchanged.
    """
    if not isinstance(one, KeptTensor) or one.tensor is None:
        return one
    if one.facts.get("key"):
        return jax.random.wrap_key_data(one.tensor, impl=one.facts["key"])
    if one.facts["weak"] and one.tensor.ndim == 0:
        weak = jnp.asarray(one.tensor.item())
        return weak if weak.dtype == one.tensor.dtype else one.tensor
    return one.tensor


def is_key(array: Any) -> bool:
    """Is the value an array of random keys?"""
    return isinstance(array, jax.Array) and bool(jnp.issubdtype(array.dtype, jax.dtypes.prng_key))


def result(array: Any) -> Result:
    """Return the facts by which two arrays are compared: the bits of the numbers, with all NaN treated as equal."""
    return fingerprint(numpy.asarray(array))


def _kept_leaf(leaf: Any) -> Any:
    if models.kind(leaf) == "nnx":
        return HeldArrays({name: kept(array) for name, array in _arrays(leaf)})
    return kept(leaf) if isinstance(leaf, jax.Array) else leaf


class HeldArrays(dict[str, KeptTensor]):
    """The arrays, by path, of an NNX model that was passed to a function."""


class JaxCaptures(Captures):
    """Implements ``Captures`` for JAX."""

    def captured(self, model: Any, calls: Sequence[Any], *, is_backward: bool) -> CapturedStep:
        (call,) = calls[:1]
        random = dict(zip(RANDOM, [state for _, state in call.random.states], strict=True))
        settings = {name: getattr(jax.config, name) for name in SETTINGS}
        args, kwargs = call.arguments()
        given = refilled((tuple(args), dict(kwargs)), _kept_leaf)
        devices = sorted({str(one.facts["device"]) for _, one in leaves(given) if isinstance(one, KeptTensor)})
        if isinstance(call, JaxGuardedGradient):
            wanted = {"positions": [*call.positions], "has_aux": call.has_aux, MAPPED: call.element is not None}
            left = {name: result(at_element(one, call.element)) for name, one in call.left.items()}
            returned, gradients = ({}, left) if is_backward else (left, {})
            one = CapturedCall("", given, random=random, returned=returned, wanted=wanted)
            name = getattr(call.function, "__name__", type(call.function).__name__)
            return CapturedStep("jax", name, [one], is_backward, {}, gradients, settings, devices, [], is_function=True)
        parameters = {name: kept(leaf) for name, leaf in _arrays(call.module)}
        returned = {path: result(one) for path, one in call.returned.items()}
        one = CapturedCall("", given, random=random, returned=returned, wanted={MAPPED: call.is_mapped})
        return CapturedStep("jax", type(model).__name__, [one], False, parameters, {}, settings, devices)

    def with_models(self, step: CapturedStep, models: Sequence[Any]) -> CapturedStep:
        given = iter(models)
        calls = [replace(call, given=refilled_models(call.given, given)) for call in step.calls]
        return replace(step, calls=calls)

    def misfits(self, model: Any, step: CapturedStep) -> Sequence[MisfitParameter]:
        if step.is_function:
            return []
        held = {name: tuple(leaf.shape) for name, leaf in _arrays(model)}
        captured = {
            name: tuple(one.facts["shape"] if one.tensor is None else array_of(one).shape)
            for name, one in step.parameters.items()
        }
        return misfits_of(captured, held, held)

    def calls(self, model: Any, step: CapturedStep) -> Sequence[Any]:
        (call,) = step.calls
        args, kwargs = refilled(call.given, array_of)
        states = dict(zip(RANDOM, OF_PYTHON, strict=True))
        if step.is_function:
            wanted = call.wanted
            asked = AskedGradient(model, tuple(args), kwargs, tuple(wanted["positions"]), wanted["has_aux"])
            made: Any = JaxGuardedGradient(asked)
        else:
            made = JaxGuardedCall(_with_parameters(model, step.parameters), tuple(args), kwargs)
        made.random.states = [(states[name][1], state) for name, state in call.random.items()]
        return [made]

    def run(self, model: Any, step: CapturedStep, calls: Sequence[Any]) -> RanCalls:
        (call,) = calls
        with Replay(_Jax, model, draws_anew=False).run(), put_back(OF_PYTHON), call.restored():
            if step.is_function:
                return _differentiated(call, step.is_backward)
            args, kwargs = call.arguments()
            outputs = {path: leaf for path, leaf in leaves(call.module(*args, **kwargs)) if is_floating(leaf)}
            bad = unfit(outputs)
            if bad:
                call.failed_with(outputs, bad)
            return RanCalls(
                [{path: result(one) for path, one in outputs.items()}], {}, {f":return{p}": bad[p] for p in bad}
            )

    def otherwise(self, step: CapturedStep) -> Sequence[str]:
        here = {f"{one.platform}:{one.id}" for one in jax.devices()} | {"cpu:0"}
        gone = [f"it ran on {one}, which is not here" for one in step.devices if one not in here]
        is_mapped = any(call.wanted.get(MAPPED) for call in step.calls)
        return [*gone, *["it ran under jax.vmap, and now for the element that is not finite"] * is_mapped]

    @contextmanager
    def settled(self, settings: Mapping[str, Any]) -> Iterator[None]:
        before = {name: getattr(jax.config, name) for name in SETTINGS}
        _configure(settings, before)
        try:
            yield
        finally:
            _configure(before, settings)

    def spelled(self, value: Any) -> str | None:
        if isinstance(value, jnp.dtype) or (isinstance(value, type) and issubclass(value, numpy.generic)):
            return f"dtype {jnp.dtype(value).name}"
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        if callable(value) and name and _named_in(module, name) is value:
            return f"function {module} {name}"
        return None

    def unspelled(self, text: str) -> Any:
        kind, _, rest = text.partition(" ")
        module, _, name = rest.partition(" ")
        found = jnp.dtype(rest) if kind == "dtype" else _named_in(module, name) if kind == "function" else None
        if found is None:
            raise ValueError(f"a value {text!r}")
        return found


def refilled_models(given: Any, templates: Iterator[Any]) -> Any:
    """Return the stored arguments of a function, in which a model made from the next template replaces each stored
    model. The templates are filled with the stored arrays. If there are too few templates, an NNX model is left out.
    """
    args, kwargs = given
    return tuple([_refilled(one, templates) for one in args]), {
        name: _refilled(one, templates) for name, one in kwargs.items()
    }


def _refilled(one: Any, templates: Iterator[Any]) -> Any:
    if not isinstance(one, HeldArrays) and models.kind(one) is None:
        return one
    template = next(templates, None)
    if template is None:
        return (
            LeftOut("a model of NNX, which is to be given beside the function") if isinstance(one, HeldArrays) else one
        )
    held = dict(one) if isinstance(one, HeldArrays) else dict(_captured_arrays(one))
    return _with_parameters(template, held)


def _captured_arrays(model: Any) -> list[tuple[str, KeptTensor]]:
    # Return the placeholders of arrays in an Equinox model that was read from a file, by path.
    found = jax.tree_util.tree_flatten_with_path(model, is_leaf=lambda leaf: isinstance(leaf, KeptTensor))[0]
    return [(models.dotted(path), leaf) for path, leaf in found if isinstance(leaf, KeptTensor)]


class _Jax:
    # The part of a backend that ``Replay`` needs.
    state = JaxState


def _configure(wanted: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for name, value in wanted.items():
        if name in SETTINGS and now.get(name) != value:
            jax.config.update(name, value)


def _named_in(module: Any, name: str) -> Any:
    # Return the object with this name in an imported module; None if the module is not imported or lacks the name.
    found: Any = sys.modules.get(module) if isinstance(module, str) else None
    for step in name.split("."):
        found = getattr(found, step, None)
    return found


def _arrays(model: Any) -> list[tuple[str, Any]]:
    # Return the arrays of a model, by path.
    held, _ = models.taken_apart(model)
    found = jax.tree_util.tree_flatten_with_path(held)[0]
    return [(models.dotted(path), leaf) for path, leaf in found if isinstance(leaf, jax.Array)]


def _with_parameters(model: Any, parameters: Mapping[str, KeptTensor]) -> Any:
    held, whole = models.taken_apart(model)
    known, structure = jax.tree_util.tree_flatten_with_path(held)
    given = {name: array_of(one) for name, one in parameters.items() if one.tensor is not None}
    return whole(
        jax.tree.unflatten(
            structure,
            [given.get(models.dotted(path), leaf) if isinstance(leaf, jax.Array) else leaf for path, leaf in known],
        )
    )


def _differentiated(call: JaxGuardedGradient, is_backward: bool) -> RanCalls:
    # Run the function again. If the step failed in backward, compute its gradient with respect to the arrays that were
    # differentiated.
    names, inputs, function = call.of_inputs()
    if not is_backward:
        found = function(inputs)
        value = found[0] if call.has_aux else found
        return RanCalls([{"": result(value)}], {}, unfit({"": value}))
    found = jax.grad(function, has_aux=call.has_aux)(inputs)
    by_name = dict(zip(names, found[0] if call.has_aux else found, strict=True))
    return RanCalls([{}], {name: result(one) for name, one in by_name.items()}, unfit(by_name))
