"""Finds the backend of a call: the named one, or the imported framework to which the passed values belong."""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.util import find_spec
from types import CodeType, FrameType, ModuleType
from typing import Any, Literal, get_args

from backprobe.backends.graphs import GraphExecution
from backprobe.backends.protocol import Backend
from backprobe.backends.tensors import Arrays
from backprobe.errors import NoBackend
from backprobe.record.options import Option
from backprobe.source.user_code import innermost

BackendName = Literal["torch", "tensorflow", "jax"]

BACKENDS = {name: f"backprobe.backends.{name}" for name in get_args(BackendName)}
"""The module of each backend, by the name of the framework's module. Each backend module defines ``BACKEND``."""

BACKEND = Option("backend", str, None, '"torch"', says="a name")
IMPORT = "IMPORT_NAME"
FILE = "__file__"  # read inline on every probe, because a function call costs more

ALONE = {"numpy": "backprobe.backends.numpy"}
"""Array libraries that are not frameworks. A recording can be loaded into them; each module defines ``ARRAYS``."""


def is_imported(name: str) -> bool:
    """Is this framework imported? A mere folder of the same name, for example one with scripts, does not count."""
    return getattr(sys.modules.get(name), FILE, None) is not None


def runs_on(library: str) -> str | None:
    """Return the framework that an imported library of several frameworks computes with, as Keras does; None if the
    library is not imported, or has only one.
    """
    backend = getattr(getattr(sys.modules.get(library), "config", None), "backend", None)
    return backend() if callable(backend) else None


def load_arrays(name: str) -> Arrays:
    """Return the ``Arrays`` of the framework with this name, or those of NumPy. Raises NoBackend if the framework is
    not installed.
    """
    if name in BACKENDS:
        return load_backend(name).arrays
    arrays: Arrays = import_module(ALONE[name]).ARRAYS
    return arrays


def arrays_of(value: Any) -> Arrays | None:
    """Return the ``Arrays`` of the framework to which a tensor belongs, or of NumPy; None if the value is not a
    tensor.
    """
    known = [load_backend(name).arrays for name in BACKENDS if getattr(sys.modules.get(name), FILE, None)]
    if "numpy" in sys.modules:
        known.append(load_arrays("numpy"))
    return next((arrays for arrays in known if arrays.is_tensor(value)), None)


def load_backend(name: str) -> Backend:
    """Return the backend with this name. Raises NoBackend if there is none, or if its framework is not installed."""
    if name not in BACKENDS:
        raise NoBackend(
            f"there is no backend {name!r}",
            asked=f"backend={name!r}",
            found=f"backends: {', '.join(BACKENDS)}",
            next=f"backend={next(iter(BACKENDS))!r}",
        )
    try:
        backend: Backend = import_module(BACKENDS[name]).BACKEND
        return backend
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != name:
            raise
        raise NoBackend(
            f"the framework {name} is not installed",
            asked=f"backend={name!r}",
            found=str(error),
            next=f"pip install {name}",
        ) from error


def imported_backends() -> list[Backend]:
    """Return the backends of the frameworks that are imported."""
    return [load_backend(known) for known in BACKENDS if getattr(sys.modules.get(known), FILE, None)]


def find_program(name: str | None, target: Any, session: Any) -> GraphExecution | None:
    """Return the execution of a target that is itself a graph of an imported framework; None for any other target."""
    for known in BACKENDS if name is None else (name,):
        graphs = load_backend(known).graphs if getattr(sys.modules.get(known), FILE, None) else None
        program = None if graphs is None else graphs(target, session)
        if program is not None:
            return program
    return None


def is_tensor(value: Any) -> bool:
    """Is the value a tensor of an imported framework?"""
    imported = (known for known in BACKENDS if getattr(sys.modules.get(known), FILE, None))
    return any(load_backend(known).arrays.is_tensor(value) for known in imported)


def is_model(backend: Backend, value: Any) -> bool:
    """Is the value a model of this backend's framework?"""
    return backend.models is not None and backend.models.is_model(value)


def find_backend(
    name: str | None, values: Iterable[Any], *, mixed: bool = True, spelled: str = "bp.probe(f, {})"
) -> Backend:
    """Return the named backend, or the one to which these values belong, or the only imported one. Raises NoBackend if
    it cannot be found, and BadOption if ``name`` is not a text.

    With ``mixed``, values of several frameworks are allowed: the first framework found is taken, and values of the
    others are treated as unknown values.

    TensorFlow imports JAX, so several frameworks may be imported although the program uses only one. Then these are
    tried in order: the owner of a value; the framework that made a callable among the values, such as a compiled
    function; the framework of a module among the values; a framework whose globals a function or frame among the values
    uses; a framework that a frame imports itself; and a framework that the module of a function or frame mentions.
    Except for owners, a step decides only if it finds exactly one framework.
    """
    if name is not None:
        BACKEND.check(name)
        return load_backend(name)
    imported = imported_backends()
    values = list(values)
    owners = [b for b in imported if any(b.arrays.is_tensor(value) or is_model(b, value) for value in values)]
    if owners and (mixed or len(owners) == 1):
        return owners[0]
    if owners:
        raise NoBackend(
            "there are values of several frameworks, and a recording is of one",
            found=f"values of {', '.join(owner.name for owner in owners)}",
            next=" or ".join(spelled.format(f'backend="{owner.name}"') for owner in owners),
        )
    for mentioned in (_made(values, imported), _modules(values), _mentioned(values, used_only=True)):
        known = [backend for backend in imported if backend.name in mentioned]
        if len(known) == 1:
            return known[0]
    about = _about_to_import(values)
    if len(about) == 1:
        return load_backend(about.pop())
    known = [backend for backend in imported if backend.name in _mentioned(values, used_only=False)]
    if len(known) == 1:
        return known[0]
    if len(imported) == 1:
        return imported[0]
    there = [name for name in BACKENDS if _is_installed(name)] if not imported else []
    if not imported and not there:
        raise NoBackend(
            f"none of {', '.join(BACKENDS)} is installed",
            why="gradients are computed by one of these frameworks",
            next=f"pip install {next(iter(BACKENDS))}, or another of these instead",
        )
    raise NoBackend(
        "cannot infer the framework from the arguments",
        found=f"imported: {', '.join(b.name for b in imported) or 'none of ' + ', '.join(BACKENDS)}",
        why="plain numbers belong to no framework",
        next=spelled.format(f'backend="{imported[0].name if imported else there[0]}"'),
    )


def _made(values: Sequence[Any], imported: Sequence[Backend]) -> set[str]:
    # Return the frameworks that made callables among the values.
    functions = [one for one in values if callable(one)]
    return {backend.name for backend in imported if backend.made is not None and any(map(backend.made, functions))}


def _modules(values: Sequence[Any]) -> set[str]:
    # Return the top-level packages of the modules among the values.
    return {one.__name__.partition(".")[0] for one in values if isinstance(one, ModuleType)}


def _mentioned(values: Sequence[Any], *, used_only: bool) -> set[str]:
    # Return the packages of the globals of functions and frames: of the globals that their code uses, or of all globals
    # of their modules.
    found = set()
    for code, namespace in filter(None, map(_code_and_globals, values)):
        names = code.co_names if used_only else namespace
        held = [namespace[name] for name in names if name in namespace]
        modules = [one.__name__ if isinstance(one, ModuleType) else getattr(one, "__module__", "") for one in held]
        found |= {module.partition(".")[0] for module in modules if isinstance(module, str)}
    return found


def _about_to_import(values: Sequence[Any]) -> set[str]:
    # Return the frameworks that the code of these frames imports itself, for example inside a block.
    codes = [value.f_code for value in values if isinstance(value, FrameType)]
    named = {
        one.argval.partition(".")[0] for code in codes for one in dis.get_instructions(code) if one.opname == IMPORT
    }
    return {name for name in named & BACKENDS.keys() if _is_installed(name)}


def _is_installed(name: str) -> bool:
    spec = find_spec(name)
    return spec is not None and spec.origin is not None  # a mere folder of that name has no origin


def _code_and_globals(value: Any) -> tuple[CodeType, dict[str, Any]] | None:
    if isinstance(value, FrameType):
        return value.f_code, value.f_globals
    function = innermost(value)
    return None if function is None else (function.__code__, function.__globals__)
