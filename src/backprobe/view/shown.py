"""Plain data of the items that a viewer can show with runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable


@dataclass(frozen=True)
class Shown:
    """One item that is shown with runs: its ``title``, and the data and arrays from which the page draws it.

    ``names`` are the names that occur in the item. The page links them to the same names in runs.
    """

    kind: Literal["circuit", "diff", "attribution", "sweep"]
    title: str
    data: Mapping[str, Any]
    names: tuple[str, ...] = ()
    arrays: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Viewable(Protocol):
    """An object that a viewer can show: a recording, a drawing, a report of ``bp.diff``, an attribution, a sweep."""

    def _viewed(self) -> Shown: ...
