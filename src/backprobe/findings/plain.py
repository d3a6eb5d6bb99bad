"""Objects as plain data that JSON can hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from backprobe.record.source import Source


def plain(value: Any) -> Any:
    """The same as dicts and lists, and in words what JSON has no number for.

    >>> plain({"steps": (1, 2), "error": math.inf})
    {'steps': [1, 2], 'error': 'infinite'}
    """
    if isinstance(value, Source):
        return {"file": value.file, "line": value.line, "text": value.text}
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, complex):
        return {"real": plain(value.real), "imag": plain(value.imag)}
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "infinite" if value > 0 else "-infinite"
    return value
