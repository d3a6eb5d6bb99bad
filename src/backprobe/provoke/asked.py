"""The request for a search: a function or model, and the options of ``bp.provoke``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backprobe.backends.protocol import Backend
from backprobe.probe.waiting import Waiting
from backprobe.provoke.report import Provocations
from backprobe.record.typed import P


@dataclass(frozen=True, repr=False)
class AskedProvoke(Waiting[P, Provocations]):
    """A function or model for which inputs are searched when it is called with an example."""

    tries: int
    bounds: Any
    seed: int
    executor: Any = None
    verb = "provoke"

    def _backend_of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Backend:
        # The backend of the target. Raises BadOption, NoBackend and Unsupported.
        return self._found(args, kwargs, "provoked", "the program runs again and again, as Python runs it")
