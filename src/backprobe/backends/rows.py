"""Arrays that are read in chunks: what they are stored as is turned into numbers chunk by chunk, never as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

CHUNK = 1 << 15
"""Elements: a chunk of each of two arrays, and their difference, lie in a cache together."""

BFLOAT16 = "bfloat16"
WIDE = {"float16": numpy.float32, "float32": numpy.float32, BFLOAT16: numpy.float32, "complex64": numpy.complex64,
        "complex128": numpy.complex128}  # fmt: skip
"""By dtype: the one in which NumPy computes with its numbers. All others become float64."""


@dataclass(frozen=True)
class Rows:
    """An array of any strides, and the dtype of its numbers: ``stored`` has those of bfloat16 as their 16 bits.

    >>> bits = Rows(numpy.array([0x3F80, 0xC000], numpy.uint16), "bfloat16")
    >>> bits.array(), bits.shape
    (array([ 1., -2.], dtype=float32), (2,))
    """

    stored: Any
    dtype: str

    @classmethod
    def of(cls, array: Any) -> Rows:
        """Those of an array of NumPy; one of bfloat16 as the ml_dtypes package has it is stored as its bits."""
        dtype = str(array.dtype)
        return cls(array.view(numpy.uint16) if dtype == BFLOAT16 else array, dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.stored.shape)

    @property
    def size(self) -> int:
        return int(self.stored.size)

    @property
    def ndim(self) -> int:
        return int(self.stored.ndim)

    @property
    def is_complex(self) -> bool:
        return bool(self.stored.dtype.kind == "c")

    @property
    def holds_numbers(self) -> bool:
        return self.stored.dtype.kind in "biufc"

    @property
    def place(self) -> tuple[int, Any]:
        """Where it lies in memory, and how."""
        return self.stored.__array_interface__["data"][0], self.stored.strides

    def transpose(self, axes: Sequence[int] | None = None) -> Rows:
        return Rows(self.stored.transpose(axes), self.dtype)

    def array(self) -> Any:
        """All of its numbers, in its own dtype where NumPy can compute in it, else in float32."""
        if self.dtype in ("float16", BFLOAT16):
            return self.numbers(self.stored)
        return self.stored

    def at(self, index: tuple[int, ...]) -> Any:
        """One number, as Python has it."""
        return self.numbers(self.stored[index].reshape(1))[0].item() if self.dtype == BFLOAT16 else (
            self.stored[index].item()
        )  # fmt: skip

    def numbers(self, chunk: Any) -> Any:
        """What NumPy computes with, for a part of what is stored."""
        if self.dtype == BFLOAT16:
            return (chunk.astype(numpy.uint32) << 16).view(numpy.float32)
        return chunk.astype(WIDE.get(self.dtype, numpy.float64), copy=False)

    def chunks(self) -> Iterator[Any]:
        """What is stored, in the order of its indices, in rows."""
        return (chunk for chunk, _ in together(self, self))


def together(a: Rows, b: Rows) -> Iterator[tuple[Any, Any]]:
    """What is stored of two arrays of one shape, in the order of their indices, in rows of the same length."""
    x, y = a.stored, b.stored
    if x.flags.c_contiguous and y.flags.c_contiguous:
        x, y = x.reshape(-1), y.reshape(-1)
        for at in range(0, x.size, CHUNK):
            yield x[at : at + CHUNK], y[at : at + CHUNK]
    elif x.size:
        flags: Any = ["external_loop", "buffered"]
        for one, other in numpy.nditer([x, y], flags, [["readonly"]] * 2, order="C", buffersize=CHUNK):
            yield numpy.ascontiguousarray(one), numpy.ascontiguousarray(other)
