"""Reporting versions of modules' forwards, which open a scope of the module's path each time they are called."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from backprobe.source.reporting import reporting
from backprobe.source.sites import Site
from backprobe.tracing.scope import Scope
from backprobe.tracing.trace import Trace


def reporting_forward(trace: Trace, path: str, forward: Any) -> Any:
    """The reporting version of a module's forward. It works until the trace is released. Raises NoSource."""
    function = forward.__func__ if type(forward) is MethodType else forward
    copy = trace.plan.copies.lend(function, trace.operations) if type(function) is FunctionType else None
    if copy is None:

        def open_with(name: str, file: str, sites: tuple[Site, ...]) -> Callable[[], Scope]:
            return partial(trace.enter_module, path, file, sites)

        return reporting(forward, open_with, operations=trace.operations)
    trace.lent.append(copy)
    kind = copy.kinds.get(path)
    if kind is None:
        kind = copy.kinds[path] = trace.plan.kind(path, "", copy.file, copy.sites)
    copy.cell.cell_contents = partial(Trace.enter_kind, trace, kind)
    if function is forward:
        return copy.function
    if trace.versions.counted is not None and copy.function is copy.inner:  # a decorator may write unobserved
        trace.versions.counted.reports(forward.__self__)
    return MethodType(copy.function, forward.__self__)
