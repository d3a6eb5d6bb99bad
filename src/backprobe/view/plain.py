"""Numbers as JSON can hold them: those that it has no spelling for are texts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def plain(data: Any) -> Any:
    """Data without the numbers that JSON has none for: as texts that JavaScript reads as numbers."""
    if isinstance(data, Mapping):
        return {key: plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [plain(value) for value in data]
    if isinstance(data, float) and not math.isfinite(data):
        return "NaN" if math.isnan(data) else "Infinity" if data > 0 else "-Infinity"
    return data
