"""Gives modules of Equinox and Flax NNX, for one call, a class that stores their path.

Transformations rebuild such modules. The identity of a module is then lost, but its class is kept. The class made for a
path is reused, because JAX keeps each registered class of modules forever.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from types import MethodType
from typing import Any

from backprobe.backends.capabilities import ModuleObserver
from backprobe.record.containers import children

DEEPEST = 32
_LISTENING = threading.local()


def modules(model: Any) -> dict[str, Any]:
    """Return every callable module in a model once, by attribute path. The model itself comes first."""
    nnx = sys.modules.get("flax.nnx")
    if nnx is not None and isinstance(model, nnx.Module):
        found = {".".join(map(str, path)): module for path, module in nnx.iter_modules(model)}
    else:
        found = dict(_inside(model, sys.modules["equinox"].Module, "", set(), 0))
    return {path: found[path] for path in sorted(found, key=len) if callable(found[path])}


def _inside(value: Any, kind: type, path: str, seen: set[int], depth: int) -> Iterator[tuple[str, Any]]:
    if isinstance(value, kind):
        if id(value) in seen:
            return
        seen.add(id(value))
        yield path, value
    if depth < DEEPEST:
        for key, inner in children(value) or ():
            yield from _inside(inner, kind, f"{path}.{key}" if path else key, seen, depth + 1)


def give_path(module: Any, path: str) -> None:
    """Make a module report its calls under this path to the observer of this thread, if there is one."""
    kind: Any = type(module)
    object.__setattr__(module, "__class__", _reporting_class(kind, path))


@contextmanager
def heard_by(observer: ModuleObserver) -> Iterator[None]:
    """Inside this context, modules with a path report to the observer."""
    outer = getattr(_LISTENING, "observer", None)
    _LISTENING.observer = observer
    try:
        yield
    finally:
        _LISTENING.observer = outer


def run_reported(
    observer: ModuleObserver, path: str, run: Any, method: Any, args: Any, kwargs: Mapping[str, Any]
) -> Any:
    """Run a module by ``run``, or by its ``method`` rewritten so that it reports its locals, if these are selected.
    Report the result if it is selected, except that of the model itself, whose path is "".
    """
    if observer.wants_locals(path):
        run = observer.rewritten(path, method) or run
    result = run(*args, **kwargs)
    if not path or not observer.wants_output(path):
        return result
    observer.executed.add(path)
    return observer.returned(path, result)


@lru_cache(4096)
def _reporting_class(original: Any, path: str) -> Any:
    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        observer = getattr(_LISTENING, "observer", None)
        forward = MethodType(original.__call__, self)
        if observer is None:
            return forward(*args, **kwargs)
        return run_reported(observer, path, forward, forward, args, kwargs)

    body = {"__call__": call, "__module__": original.__module__, "__qualname__": original.__qualname__}
    return type(original)(original.__name__, (original,), body)
