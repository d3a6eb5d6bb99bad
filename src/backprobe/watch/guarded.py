"""Stops a watched training at the first NaN or Inf."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from backprobe.backends.protocol import Backend
from backprobe.backends.refusals import refuse
from backprobe.backends.watches import StepListener
from backprobe.guard.allowed import Allowed
from backprobe.guard.capture import FailureCapture, captures_of
from backprobe.guard.model_guard import ModelGuard


def guarding(
    model: Any, backend: Backend, steps: StepListener, asked: str, folder: str | os.PathLike[str] | None = None
) -> AbstractContextManager[object]:
    """A guard around a watched model. The guard repeats a call to explain it; this is not counted as a step."""
    guards = backend.guards or refuse(backend, "guards", asked)
    capture = None if folder is None else FailureCapture(folder, model, captures_of(backend, asked))
    listener = ModelGuard(model, backend, Allowed(()), capture).listener()

    def unheard(explain: Callable[..., None]) -> Callable[..., None]:
        def explained(*args: Any) -> None:
            was_measured, steps.is_measured = steps.is_measured, False
            try:
                explain(*args)
            finally:
                steps.is_measured = was_measured

        return explained

    quiet = replace(listener, called=unheard(listener.called), differentiated=unheard(listener.differentiated))
    return guards.listening(model, quiet)
