"""Targets of a watch: a model, or in JAX the function that computes the loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from backprobe.backends.discover import find_backend, imported_backends, is_model
from backprobe.backends.protocol import Backend
from backprobe.backends.refusals import refuse
from backprobe.backends.watches import Fetching, StepListener, Watching, WatchOptions
from backprobe.errors import BadOption, NoBackend
from backprobe.record.brief import kind
from backprobe.watch.functions import probing


@dataclass(frozen=True)
class Watched:
    """How a backend watches a target."""

    backend: Backend
    fetching: Fetching
    watching: Callable[[Any, WatchOptions, StepListener, str], Any]
    untrained: Callable[[Any, WatchOptions], Mapping[str, list[str]]]
    is_function: bool = False


def _backend(target: Any) -> Backend:
    # That of the target; of a function that mentions no framework, the only one that watches functions.
    try:
        return find_backend(None, [target], spelled="bp.watch({}, folder)")
    except NoBackend:
        able = [one for one in imported_backends() if one.function_watches is not None]
        if callable(target) and len(able) == 1:
            return able[0]
        raise


def watched(target: Any, asked: str) -> Watched:
    """How this is watched. Raises BadOption, NoBackend and Unsupported."""
    is_plain = isinstance(target, str | int | float)
    backend = None if is_plain else _backend(target)
    if backend is not None and is_model(backend, target):
        watches = backend.watches or refuse(backend, "watches", asked)
        return Watched(backend, watches, watches.watching, watches.untrained)
    functions = None if backend is None else backend.function_watches
    if backend is None or functions is None or not callable(target):
        raise BadOption(
            "bp.watch takes a model, or in JAX a loss function", asked=asked, found=kind(target),
            next="bp.watch(model, folder)",
        )  # fmt: skip

    def watching(function: Any, options: WatchOptions, listener: StepListener, asked: str) -> Watching:
        probe = probing(function, backend, options.select, options.has_aux)
        return functions.watching(function, options, listener, probe, asked)

    return Watched(backend, functions, watching, lambda function, options: {}, is_function=True)
