"""The result of ``run.report()``: text for a terminal, and the same as plain data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from backprobe.markup import Printed, element, shown


class RunReport(Printed):
    """A run, a name or a step of it, to be printed; ``data`` is the same and more as plain data, for ``json.dumps``."""

    def __init__(self, about: str, text: Callable[[], str], data: Callable[[], dict[str, Any]]) -> None:
        self._about, self._text, self._data = about, text, data

    @property
    def data(self) -> dict[str, Any]:
        """Texts, numbers, lists and dicts; a number that is not finite is None."""
        return self._data()

    def __str__(self) -> str:
        return self._text()

    def __repr__(self) -> str:
        return f"<backprobe.RunReport of {self._about}>"

    def _repr_html_(self) -> str:
        return shown(element("pre", str(self)))
