"""Answers as bytes: a JSON header, followed by 32-bit arrays that a page reads without copying."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from backprobe.view.plain import plain

DIGITS = numpy.uint32(0xFFFFF800)
HALF = numpy.uint32(0x400)
"""Masks for rounding a float32: the bits that are kept, which are 12 bits of its fraction or 4 digits, and half of the
last kept bit.
"""


Packed = Sequence[bytes | memoryview]
"""An answer in parts. With many names it takes some MB, so the parts are sent without being joined."""


def packed(head: Mapping[str, Any], arrays: Mapping[str, Any] | None = None, *, is_rounded: bool = False) -> Packed:
    """Pack a header, and arrays of integers or floating-point numbers by name.

    >>> b"".join(packed({"a": float("nan")}, {"b": numpy.array([1])}))[4:-4].rstrip()
    b'{"a":"NaN","arrays":[["b","u4",1]]}'
    """
    made = {name: _narrow(numpy.asarray(one), is_rounded) for name, one in (arrays or {}).items()}
    listed = [[name, one.dtype.str[1:], one.size] for name, one in made.items()]
    text = json.dumps(plain({**head, "arrays": listed}), separators=(",", ":"), allow_nan=False).encode()
    text += b" " * (-len(text) % 4)
    return [struct.pack("<I", len(text)), text, *map(_bytes, made.values())]


def unpacked(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header of an answer, and its arrays by name.

    >>> unpacked(b"".join(packed({"a": 1}, {"b": numpy.array([2.5])})))
    ({'a': 1}, {'b': array([2.5], dtype=float32)})
    """
    (size,) = struct.unpack_from("<I", data)
    head, at, arrays = json.loads(data[4 : 4 + size]), 4 + size, {}
    for name, kind, count in head.pop("arrays"):
        arrays[name] = numpy.frombuffer(data, f"<{kind}", count, at)
        at += arrays[name].nbytes
    return head, arrays


def _bytes(numbers: Any) -> Any:
    # The bytes of an array, without a copy.
    return numpy.ascontiguousarray(numbers).reshape(-1).view(numpy.uint8).data


def _narrow(numbers: Any, is_rounded: bool) -> Any:
    if numbers.dtype.kind != "f":
        return numbers.astype("<u4")
    with numpy.errstate(over="ignore"):
        found = numpy.ascontiguousarray(numbers, "<f4")
    if is_rounded:
        found = numpy.where(numpy.isfinite(found), ((found.view("<u4") + HALF) & DIGITS).view("<f4"), found)
    return found
