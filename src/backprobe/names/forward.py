"""Runs the forward of a target once, without a backward pass, and finds the names in it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from backprobe.backends.discover import imported_backends, is_model
from backprobe.names import text
from backprobe.probe.probe_class import Probe
from backprobe.probe.several_outputs import AskedOutput
from backprobe.probe.source_names import is_read
from backprobe.record.entries import Entry, GradStatus, Record
from backprobe.record.names import partition, quote_path, split, strip
from backprobe.source.user_code import package


@dataclass(frozen=True)
class ForwardProbe(Probe[..., Any]):
    """A probe that selects no output, so the program may return any value."""

    @property
    def asked(self) -> tuple[AskedOutput, ...]:  # type: ignore[override]  # of a request it is kept once it is known
        return ()


def shown_by(record: Record, target: Any, *, in_function: bool) -> dict[str, str]:
    """The names of a recording without counts, as users write them, each with its remark.

    For a model, locals of the framework's own modules are left out, and names such as ``self.weight`` for parameters.
    """
    own = _Own(target)
    found = {}
    for full, at in record.names.items():
        (scope, local), entry = split(strip(full)), record.entries[at]
        is_attribute = local is not None and record.names.get(f"{scope}.{local[5:]}".lstrip("."), -1) == at
        is_module = local is None or (len(partition(scope, "/")) == 1 and local.partition(".")[0] == "return")
        if is_module or (own.has(scope, entry) and not is_attribute):
            name = scope if scope and local == "return" else strip(full)
            mark = text.NOT_RUN if entry.status is GradStatus.NOT_EXECUTED else ""
            found[name.removeprefix(":") if in_function else name] = mark
    return found


class _Own:
    # Decides which scopes belong to the program, and which to the framework's own modules.
    def __init__(self, target: Any) -> None:
        backend = next((one for one in imported_backends() if is_model(one, target)), None)
        self.known: dict[str, bool] | None = None
        self.libraries: Collection[str] = ()
        if backend is not None and backend.models is not None:
            self.libraries = backend.models.libraries
            forwards = backend.models.call(target, (), {}).forwards()
            self.known = {
                quote_path(path): is_read(forward, forwards, backend.models) for path, forward in forwards.items()
            }

    def has(self, scope: str, entry: Entry) -> bool:
        if self.known is None:
            return True
        module = partition(scope, "/")[0]
        if module in self.known:
            return self.known[module]
        file = None if entry.source is None or not entry.name.startswith(scope) else entry.source.file
        return file is not None and (package(file) or "") not in self.libraries
