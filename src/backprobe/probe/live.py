"""Runs a program forward inside a transformation of the framework. The result is the output, without a recording."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backprobe.backends.discover import is_model
from backprobe.backends.protocol import Backend
from backprobe.probe.function import FunctionRun
from backprobe.probe.model import ModelRun
from backprobe.probe.request import Request


def live_output(request: Request, backend: Backend, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Run the program, in which values are replaced as the request says. Returns the requested output with its
    history.
    """
    run = (ModelRun if is_model(backend, request.target) else FunctionRun)(request, backend)
    try:
        return run.output(run.result(run.inputs(args, kwargs)), request.asked[0]).tensor
    finally:
        run.release()
