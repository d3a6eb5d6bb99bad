"""Finds the target of a watch: a model, or in JAX the function that computes the loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from backprobe.backends.discover import find_backend, imported_backends, is_model
from backprobe.backends.protocol import Backend
from backprobe.backends.refusals import refuse
from backprobe.backends.watches import Fetching, StepListener, Watching, WatchOptions
from backprobe.errors import BadOption, NoBackend
from backprobe.probe.request import asked_as
from backprobe.record.brief import kind
from backprobe.watch.functions import probing


@dataclass(frozen=True)
class Watched:
    """The parts of a backend that watch one kind of target."""

    backend: Backend
    fetching: Fetching
    watching: Callable[[Any, WatchOptions, StepListener, str], Any]
    untrained: Callable[[Any, WatchOptions], Mapping[str, list[str]]]


def _backend(target: Any, verb: str) -> Backend | None:
    # The backend of the target. For a function that mentions no framework, the only backend that watches functions.
    # None for a text or a number. Raises NoBackend.
    if isinstance(target, str | int | float):
        return None
    try:
        return find_backend(None, [target], spelled=f"bp.{verb}({{}}, folder)")
    except NoBackend:
        able = [one for one in imported_backends() if one.function_watches is not None]
        if callable(target) and len(able) == 1:
            return able[0]
        raise


def watched_model(target: Any, asked: str) -> Watched:
    """The backend that watches a model. Raises BadOption, NoBackend and Unsupported."""
    backend = _backend(target, "watch")
    if backend is None or not is_model(backend, target):
        is_loss = backend is not None and backend.function_watches is not None and callable(target)
        raise BadOption(
            "bp.watch takes a model",
            asked=asked,
            found=kind(target),
            next=f"bp.watch_function({asked_as(target)}, folder), for a function that computes the loss"
            if is_loss
            else "bp.watch(model, folder)",
        )
    watches = backend.watches or refuse(backend, "watches", asked)
    return Watched(backend, watches, watches.watching, watches.untrained)


def watched_function(target: Any, asked: str) -> Watched:
    """The backend that watches a loss function. Raises BadOption, NoBackend and Unsupported."""
    backend = _backend(target, "watch_function")
    if backend is not None and is_model(backend, target) and backend.watches is None:
        refuse(backend, "watches", asked)
    functions = None if backend is None else backend.function_watches
    if backend is None or functions is None or not callable(target):
        raise BadOption(
            "bp.watch_function takes a loss function of JAX",
            asked=asked,
            found=f"{kind(target)}{f' of {backend.title}' if backend is not None else ''}",
            next="bp.watch(model, folder, optimizer=optimizer)"
            if backend is not None
            else "bp.watch_function(loss_fn, folder)",
        )

    def watching(function: Any, options: WatchOptions, listener: StepListener, asked: str) -> Watching:
        probe = probing(function, backend, options.select, options.has_aux)
        return functions.watching(function, options, listener, probe, asked)

    return Watched(backend, functions, watching, lambda function, options: {})
