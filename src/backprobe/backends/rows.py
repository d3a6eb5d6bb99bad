"""Arrays that are read in chunks. Stored bits are converted to numbers chunk by chunk, never for the whole array."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

CHUNK = 1 << 15
"""The number of elements of a chunk: chunks of two arrays, and their difference, fit into a CPU cache together."""

RELEASED = 1 << 6
"""The number of chunks of a file after which the memory of the chunks is released."""

BFLOAT16 = "bfloat16"
WIDE = {
    "float16": numpy.float32,
    "float32": numpy.float32,
    BFLOAT16: numpy.float32,
    "complex64": numpy.complex64,
    "complex128": numpy.complex128,
}
"""By dtype: the dtype in which NumPy computes with its numbers. Other dtypes are computed in float64."""


@dataclass(frozen=True)
class Rows:
    """An array with any strides, and the dtype of its numbers. For bfloat16, ``stored`` is a uint16 array of the bits.

    >>> bits = Rows(numpy.array([0x3F80, 0xC000], numpy.uint16), "bfloat16")
    >>> bits.array(), bits.shape
    (array([ 1., -2.], dtype=float32), (2,))
    """

    stored: Any
    dtype: str

    @classmethod
    def of(cls, array: Any) -> Rows:
        """Return the ``Rows`` of a NumPy array. bfloat16 of the ml_dtypes package is stored as bits."""
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
        """The address in memory, and the strides."""
        return self.stored.__array_interface__["data"][0], self.stored.strides

    def transpose(self, axes: Sequence[int] | None = None) -> Rows:
        return Rows(self.stored.transpose(axes), self.dtype)

    def reshape(self, shape: Sequence[int]) -> Rows:
        return Rows(self.stored.reshape(shape), self.dtype)

    def array(self) -> Any:
        """Return all numbers as one array, in their own dtype if NumPy can compute in it, else in float32."""
        if self.dtype in ("float16", BFLOAT16):
            return self.numbers(self.stored)
        return self.stored

    def at(self, index: tuple[int, ...]) -> Any:
        """Return one number as a Python number."""
        return (
            self.numbers(self.stored[index].reshape(1))[0].item()
            if self.dtype == BFLOAT16
            else (self.stored[index].item())
        )

    def numbers(self, chunk: Any) -> Any:
        """Return the numbers of a part of ``stored`` in the dtype that ``WIDE`` names; in float64 if it names none."""
        if self.dtype == BFLOAT16:
            return (chunk.astype(numpy.uint32) << 16).view(numpy.float32)
        return chunk.astype(WIDE.get(self.dtype, numpy.float64), copy=False)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return numpy.asarray(self.array(), dtype)


def in_memory(a: Rows, b: Rows) -> tuple[Rows, Rows, Sequence[int]]:
    """Return two arrays of one shape with their axes sorted so that both are contiguous in memory, and the order of
    axes. If there is no such order, return them unchanged.

    >>> a = Rows.of(numpy.zeros((3, 2)).T)
    >>> in_memory(a, a)[2], in_memory(a, Rows.of(numpy.zeros((2, 3))))[2]
    ([1, 0], [0, 1])
    """
    plain = list(range(a.ndim))
    if a.stored.flags.c_contiguous and b.stored.flags.c_contiguous:
        return a, b, plain
    axes = sorted(plain, key=lambda axis: -a.stored.strides[axis])
    x, y = a.transpose(axes), b.transpose(axes)
    if x.stored.flags.c_contiguous and y.stored.flags.c_contiguous:
        return x, y, axes
    return a, b, plain


def index_of(flat: int, shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """Return the index of an element in an array of this shape, from its flat position in the order of these axes.

    >>> index_of(1, (2, 3), [1, 0])
    (1, 0)
    """
    found = numpy.unravel_index(flat, [shape[axis] for axis in axes])
    return tuple(int(found[axes.index(axis)]) for axis in range(len(axes)))


def together(a: Rows, b: Rows) -> Iterator[tuple[Any, Any]]:
    """Yield the stored parts of two arrays of one shape, in the order of their indices, in pairs of the same length.

    If the arrays are files mapped into memory, only a few chunks stay in memory, on systems that can release them.
    """
    files = [found for one in (a, b) if (found := _mapping(one.stored)) is not None]
    for number, pair in enumerate(_pairs(a.stored, b.stored), 1):
        yield pair
        if files and number % RELEASED == 0:
            _release(files)
    _release(files)


def _pairs(x: Any, y: Any) -> Iterator[tuple[Any, Any]]:
    if x.flags.c_contiguous and y.flags.c_contiguous:
        x, y = x.reshape(-1), y.reshape(-1)
        for at in range(0, x.size, CHUNK):
            yield x[at : at + CHUNK], y[at : at + CHUNK]
    elif x.size:
        flags: Any = ["external_loop", "buffered"]
        for one, other in numpy.nditer([x, y], flags, [["readonly"]] * 2, order="C", buffersize=CHUNK):
            yield numpy.ascontiguousarray(one), numpy.ascontiguousarray(other)


def _mapping(array: Any) -> mmap.mmap | None:
    # Return the memory-mapped file that holds an array; None if there is none.
    while array is not None and not isinstance(array, mmap.mmap):
        array = getattr(array, "base", None)
    return array


def _release(files: Sequence[mmap.mmap]) -> None:
    # Release the memory into which the files were read. It is read again when needed.
    for file in files:
        if hasattr(mmap, "MADV_DONTNEED"):
            file.madvise(mmap.MADV_DONTNEED)
