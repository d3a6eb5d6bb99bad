"""Reads the names of a target before it runs: its modules and parameters, and the variables that its source binds."""

from __future__ import annotations

from typing import Any

from backprobe.backends.discover import find_backend, imported_backends, is_model
from backprobe.backends.protocol import Backend
from backprobe.errors import NoBackend
from backprobe.names import text
from backprobe.probe.function import FunctionRun
from backprobe.probe.model import names_in
from backprobe.probe.probe_class import Probe
from backprobe.probe.request import asked_as
from backprobe.probe.source_names import bound_in, bound_in_model
from backprobe.record.names import quote_path

Found = tuple[dict[str, str], dict[str, str], tuple[str, ...]]


def read(target: Any, backend: str | None, *, operations: bool) -> Found:
    """Return the names, each with a remark on its origin; the further paths of modules that have several, each with the
    path that is printed; and notes on names that may be missing. Raises the errors of a probe.
    """
    try:
        found = find_backend(backend, [target])
    except NoBackend:
        if backend is not None:
            raise
        starts = [_started(target, one) for one in imported_backends()]
        start = next((one for one, is_within in starts if is_within), starts[0][0] if starts else target)
        return _bound(bound_in(start, operations=operations)), {}, ()
    found.refuse(target, f"bp.names({asked_as(target)})")
    if not is_model(found, target):
        return _bound(bound_in(_started(target, found)[0], operations=operations)), {}, ()
    models = found.models
    assert models is not None
    call = models.call(target, (), {})
    names = dict.fromkeys([*names_in(call), ":return"], "")
    names |= {
        name: text.FROM_SOURCE for name in bound_in_model(models, call, operations=operations) if name not in names
    }
    others = {quote_path(path): quote_path(printed) for path, printed in call.other_paths().items()}
    return names, others, () if call.is_known else (text.MADE_LATER,)


def _bound(names: list[str]) -> dict[str, str]:
    # Return the names of a function. Its return value always exists; the other names are read from the source.
    return {name.removeprefix(":"): "" if name == ":return" else text.FROM_SOURCE for name in names}


def _started(target: Any, backend: Backend) -> tuple[Any, bool]:
    # Return the function that a call of the target runs, and whether the framework wraps this function, as a transform
    # does.
    run = FunctionRun(Probe(target), backend)
    try:
        return run.starts_at(), run.around is not None
    finally:
        run.release()
