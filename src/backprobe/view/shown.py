"""Plain data of all that a viewer shows beside runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable


@dataclass(frozen=True)
class Shown:
    """One of them: its ``title``, and the data and arrays that the page's scripts draw it from.

    ``names`` are those of what is in it, by which there is a way to it from the same name of a run.
    """

    kind: Literal["circuit", "diff", "attribution", "sweep"]
    title: str
    data: Mapping[str, Any]
    names: tuple[str, ...] = ()
    arrays: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Viewable(Protocol):
    """An object that a viewer shows: a recording, a drawing, a report of ``bp.diff``, an attribution, a sweep."""

    def _viewed(self) -> Shown: ...
