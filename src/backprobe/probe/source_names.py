"""Names that the source of a program binds, known before it runs; and those that a run did not bind to a tensor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MethodType
from typing import Any

from backprobe.backends.capabilities import ModelCall, Models
from backprobe.errors import NoSource
from backprobe.record.entries import GradStatus
from backprobe.record.names import quote_path, split
from backprobe.record.patterns import Pattern
from backprobe.record.reasons import Reason
from backprobe.source.reporting import sites_of
from backprobe.source.user_code import innermost, package
from backprobe.tracing.log import ABSENT, EACH, NAMED
from backprobe.tracing.trace import Trace

NOT_RUN = (GradStatus.NOT_EXECUTED, Reason("line_not_run"))
NO_TENSOR = (GradStatus.NOT_TENSOR, Reason("no_tensor_bound"))


def bound_in(function: Any, scope: str = "", *, operations: bool = False) -> list[str]:
    """Return the names that a function's source binds, without counts; empty if the source is not available. The first
    parameter of a bound method is left out.

    >>> import torch
    >>> bound_in(torch.nn.functional.silu)
    [':input', ':inplace', ':return']
    """
    plain = innermost(function)
    if plain is None:
        return []
    try:
        sites = sites_of(plain, operations=operations)
    except NoSource:
        return []
    own = plain.__code__.co_varnames[:1] if isinstance(function, MethodType) else ()
    return [f"{scope}:{local}" for local in dict.fromkeys(site.local for site in sites) if local and local not in own]


def bound_in_model(models: Models, call: ModelCall, *, operations: bool = False) -> list[str]:
    """Return the names that the forwards of a model's modules bind, except forwards of the framework and of other
    libraries.
    """
    forwards = call.forwards()
    return [
        name
        for path, forward in forwards.items()
        if is_read(forward, forwards, models)
        for name in bound_in(forward, quote_path(path), operations=operations)
        if not path or name[-7:] != ":return"
    ]


def is_read(forward: Any, forwards: Mapping[str, Any], models: Models) -> bool:
    """Does a module's forward belong to the program itself, or to the package that the model comes from? The framework
    and its libraries do not count as such a package.
    """
    own, home = (innermost(one) for one in (forward, forwards.get("")))
    where = None if own is None else package(own.__code__.co_filename)
    is_home = home is not None and where == package(home.__code__.co_filename)
    return own is not None and (where is None or (is_home and where not in models.libraries))


def name_unbound(trace: Trace, missed: Sequence[Pattern], names: Iterable[str]) -> None:
    """Create entries for selected names that the source binds, but that this run did not bind to a tensor."""
    wanted = [name for name in names if any(pattern.matches(name) for pattern in missed)]
    ran = _ran(trace) if wanted else set()
    for name in wanted:
        scope, local = split(name)
        trace.events += (0, ABSENT, (scope, *(NO_TENSOR if name in ran else NOT_RUN), local))


def _ran(trace: Trace) -> set[str]:
    # Return the names, without counts, that are bound in lines which the program has executed.
    reader, events = trace.read(), trace.events
    found = set()
    for scope, word, said in zip(events[::3], events[1::3], events[2::3], strict=True):
        if word >= 0 or word == EACH:
            site = reader.sites[scope][said[0] if word == EACH else word & (NAMED - 1)]
            found.add(f"{reader.scopes[scope].id.stripped}:{site.local}")
    return found
