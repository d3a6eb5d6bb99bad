"""Numbers in a form that JSON can hold: NaN and Inf become strings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def plain(data: Any) -> Any:
    """The data, with NaN and Inf as strings that JavaScript converts to numbers."""
    if isinstance(data, Mapping):
        return {key: plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [plain(value) for value in data]
    if isinstance(data, float) and not math.isfinite(data):
        return "NaN" if math.isnan(data) else "Infinity" if data > 0 else "-Infinity"
    return data
