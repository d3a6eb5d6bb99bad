"""Turns the arguments on a command line into a call of the function or model."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from backprobe.backends.discover import BACKENDS, is_imported, is_model, load_arrays, load_backend
from backprobe.backends.protocol import Backend
from backprobe.backends.tensors import Arrays
from backprobe.cli.arguments import arguments, floated
from backprobe.probe.request import bound, name_of


def called_with(target: Any, words: Sequence[str]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and keyword arguments for a call of the target. Raises BadOption.

    ``*xs`` receives the elements of a tuple called xs, or a single value. A model receives tensors. Its integers stay
    integers: only its parameters need to be differentiable.
    """
    named = arguments(words)
    positional, several = _by_position(target, named)
    held = named.pop(several) if several is not None else ()
    rest = held if isinstance(held, tuple) else (held,)
    backend = _backend_of_model(target)
    arrays = None if backend is None else backend.arrays
    if backend is not None and not several:
        _refuse_unknown(backend, target, named)
    values = [*rest, *named.values()]
    values = floated(values) if arrays is None else [_tensors(value, arrays) for value in values]
    named = dict(zip(named, values[len(rest) :], strict=True))
    args: list[Any] = []
    for one in positional:
        if one.name not in named and one.default is one.empty:
            return tuple(args), named  # missing arguments are reported by the call itself
        args.append(named.pop(one.name, one.default))
    return (*args, *values[: len(rest)]), named


def _by_position(target: Any, named: Mapping[str, Any]) -> tuple[list[inspect.Parameter], str | None]:
    # The parameters to pass by position, and the name of ``*xs`` if the user gave it. If so, these are all parameters
    # before ``*xs``; otherwise only those that cannot be passed by name.
    try:
        parameters = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):  # functions written in C may have no signature
        return [], None
    several = next((one.name for one in parameters if one.kind is one.VAR_POSITIONAL and one.name in named), None)
    kinds = [inspect.Parameter.POSITIONAL_ONLY, *([inspect.Parameter.POSITIONAL_OR_KEYWORD] if several else [])]
    return [one for one in parameters if one.kind in kinds], several


def _backend_of_model(target: Any) -> Backend | None:
    # The backend of a model's framework; None if the target is not a model.
    imported = (load_backend(name) for name in BACKENDS if is_imported(name))
    return next((backend for backend in imported if is_model(backend, target)), None)


def _refuse_unknown(backend: Backend, target: Any, named: Mapping[str, Any]) -> None:
    # Raise BadOption if the model's forward does not take one of these names: a library's own check of its arguments
    # does not say which it takes.
    assert backend.models is not None
    try:
        signature = inspect.signature(backend.models.call(target, (), {}).forward)
    except (TypeError, ValueError):
        return
    if named.keys() - signature.parameters.keys():
        bound(signature, name_of(target), "probe", (), named)


def _tensors(value: Any, arrays: Arrays) -> Any:
    # Replace NumPy arrays inside a value by tensors of a framework.
    if isinstance(value, tuple):
        return tuple(_tensors(one, arrays) for one in value)
    if isinstance(value, dict):
        return {name: _tensors(one, arrays) for name, one in value.items()}
    return _tensor(value, arrays) if hasattr(value, "dtype") else value


def _tensor(array: Any, arrays: Arrays) -> Any:
    array = array.copy()  # contiguous, and alone in its memory
    layout = load_arrays("numpy").encode(array, {}, {})
    return arrays.decode(layout, {layout["storage"]: array.ravel().view("uint8")})
