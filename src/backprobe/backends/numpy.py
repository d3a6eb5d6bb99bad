"""Shows and saves tensors as NumPy arrays. Also the ``Arrays`` of NumPy itself, for recordings loaded without a
framework.
"""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from backprobe.backends.facts import Description, Summary
from backprobe.backends.rows import BFLOAT16, Rows
from backprobe.backends.summaries import CHUNK, RunningSummary, stride
from backprobe.backends.tensors import Arrays
from backprobe.errors import BadRecording
from backprobe.record.nonfinite import Nonfinite


class HostArrays(Arrays):
    """Shows and saves tensors through NumPy. A backend provides the conversions to and from NumPy. If its tensors are
    not NumPy arrays, it also says what a tensor is and describes it.
    """

    @abstractmethod
    def to_host(self, tensor: Any) -> Any:
        """Return the tensor as a NumPy array."""

    @abstractmethod
    def from_host(self, array: Any, dtype: str) -> Any:
        """Return a tensor of this dtype with the numbers of an array."""

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, numpy.ndarray)

    def describe(self, tensor: Any) -> Description:
        return Description(tuple(tensor.shape), str(tensor.dtype), "cpu")

    def summarize(self, tensor: Any) -> Summary | None:
        running = RunningSummary()
        flags: Any = ["external_loop", "buffered", "zerosize_ok"]
        for chunk in numpy.nditer(self.to_host(tensor), flags, order="K", buffersize=CHUNK):
            _add(running, chunk)
        return running.summary()

    def nonfinite(self, tensors: Sequence[Any]) -> list[Nonfinite | None]:
        return [_judged(self.numbers(tensor)) for tensor in tensors]

    def numbers(self, tensor: Any) -> Any:
        return wide(self.to_host(tensor))

    def rows(self, tensor: Any) -> Rows | None:
        array = self.to_host(tensor)
        is_other = array.dtype.kind == "V" and str(array.dtype) != BFLOAT16  # dtypes that other packages add to NumPy
        return Rows.of(array.astype(numpy.float32) if is_other else array)

    def sample(self, tensor: Any, most: int) -> Any:
        array = self.to_host(tensor)
        at = numpy.arange(0, array.size, stride(array.size, most))
        return wide(array[numpy.unravel_index(at, array.shape)].reshape(-1))

    def to_text(self, tensor: Any) -> str:
        array = self.to_host(tensor)  # dtypes of other packages, such as bfloat16, are shown as float32
        return nested_text((array.astype(numpy.float32) if array.dtype.kind == "V" else array).tolist())

    def weighted(self, terms: Sequence[tuple[float | None, Any]]) -> Any:
        summed = super().weighted([(weight, self.to_host(tensor)) for weight, tensor in terms])
        return self.from_host(numpy.asarray(summed), str(summed.dtype))  # the sum may be a NumPy scalar

    def inner(self, cotangent: Any, tensor: Any) -> Any:
        one, other = self.to_host(cotangent), self.to_host(tensor)
        return self._of_dtype(numpy.sum(one.conj() * other).real, one)

    def one(self, like: Any) -> Any:
        return self._of_dtype(numpy.ones(()), self.to_host(like))

    def _of_dtype(self, number: Any, like: Any) -> Any:
        dtype = like.real.dtype
        return self.from_host(numpy.asarray(number, dtype), str(dtype))

    def encode(self, tensor: Any, blobs: dict[str, Any], seen: dict[Any, str]) -> dict[str, Any]:
        array = self.to_host(tensor)
        whole = _memory(array)
        if whole is None:
            array = whole = numpy.ascontiguousarray(array).reshape(array.shape)
        if id(whole) not in seen:
            seen[id(whole)] = f"storage{len(blobs)}"
            blobs[seen[id(whole)]] = ArrayMemory(whole)
        return {
            "layout": "strided",
            "dtype": str(array.dtype),
            "shape": list(array.shape),
            "stride": [step // array.itemsize for step in array.strides],
            "offset": (_address(array) - _address(whole)) // array.itemsize,
            "storage": seen[id(whole)],
        }

    def decode(self, layout: Mapping[str, Any], blobs: Mapping[str, Any]) -> Any:
        return self.from_host(_decoded(layout, blobs), layout["dtype"])


class NumpyArrays(HostArrays):
    """Shows and saves NumPy arrays, and ``Rows`` of such arrays."""

    name = "numpy"

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, numpy.ndarray | Rows)

    def to_host(self, tensor: Any) -> Any:
        return tensor.array() if isinstance(tensor, Rows) else tensor

    def from_host(self, array: Any, dtype: str) -> Any:
        return array

    def rows(self, tensor: Any) -> Rows | None:
        return tensor if isinstance(tensor, Rows) else super().rows(tensor)


class MappedArrays(NumpyArrays):
    """NumPy arrays in a file that is mapped into memory. The numbers of dense arrays are read when they are needed."""

    def decode(self, layout: Mapping[str, Any], blobs: Mapping[str, Any]) -> Any:
        if layout["dtype"] == BFLOAT16 and layout["layout"] == "strided":
            return Rows(_decoded(dict(layout, dtype="uint16"), blobs), BFLOAT16)
        return super().decode(layout, blobs)


def _add(running: RunningSummary, chunk: Any) -> None:
    if chunk.dtype not in (numpy.float32, numpy.float64):
        chunk = wide(chunk)
    parts = chunk.view(numpy.float64) if chunk.dtype.kind == "c" else chunk
    scale = max(-float(parts.min()), float(parts.max()))
    nonfinite = 0
    if not math.isfinite(scale):
        kept = chunk[numpy.isfinite(chunk)]
        nonfinite, chunk = chunk.size - kept.size, kept
        scale = float(numpy.abs(kept.view(numpy.float64) if kept.dtype.kind == "c" else kept).max(initial=0.0))
    scaled = numpy.abs(chunk / scale).astype(numpy.float64) if scale else chunk.real.astype(numpy.float64)
    largest = scale * float(scaled.max(initial=0.0))
    running.add(chunk.size, nonfinite, largest, scale, float(numpy.square(scaled, out=scaled).sum()))


def wide(array: Any) -> Any:
    """Return the numbers of an array in double precision."""
    return array.astype(numpy.complex128 if array.dtype.kind == "c" else numpy.float64)


def _decoded(layout: Mapping[str, Any], blobs: Mapping[str, Any]) -> Any:
    # Return the array for a saved layout. bfloat16 becomes float32, which is exact, and sparse tensors become dense.
    # Raises BadRecording for a dtype that NumPy does not have.
    if layout["dtype"] not in DTYPES:
        raise BadRecording(
            f"NumPy has nothing like {layout['dtype']}",
            asked='bp.load(path, to="numpy")',
            found=f"a tensor of dtype {layout['dtype']}",
            next='bp.load(path, to="torch")',
        )
    if layout["layout"] != "strided":
        parts = {key: _decoded(part, blobs) for key, part in layout["parts"].items()}
        return _coo(layout["shape"], parts) if layout["layout"] == "coo" else _compressed(layout, parts)
    flat = blobs[layout["storage"]]
    kind = numpy.dtype("uint16" if layout["dtype"] == "bfloat16" else layout["dtype"])
    flat = flat[: flat.size - flat.size % kind.itemsize].view(kind)
    check_bounds(layout, flat.size)
    strides = [step * kind.itemsize for step in layout["stride"]]
    array = numpy.lib.stride_tricks.as_strided(flat[layout["offset"] :], layout["shape"], strides)
    if layout["dtype"] == "bfloat16":
        # without ``asarray``, shifting a single number would return a scalar
        bits = numpy.asarray(array.astype(numpy.uint32) << 16, numpy.uint32)
        return bits.view(numpy.float32)
    return array


DTYPES = frozenset(
    {
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "complex64",
        "complex128",
    }
)


@dataclass(frozen=True, eq=False)
class ArrayMemory:
    """The memory that one or more arrays share, as bytes."""

    whole: Any

    def bytes(self) -> Any:
        return self.whole.reshape(-1).view(numpy.uint8)


def _memory(tensor: Any) -> Any:
    # Return the array that owns the memory of a loaded view; None if a layout cannot describe the position of the view.
    whole = tensor
    while getattr(whole, "base", None) is not None and isinstance(_base(whole), numpy.ndarray):
        whole = _base(whole)
    steps = (_address(tensor) - _address(whole), *tensor.strides)
    regular = all(step >= 0 and step % tensor.itemsize == 0 for step in steps)
    return whole if regular and whole.flags.c_contiguous else None


def _base(array: Any) -> Any:
    # Return the array of which this array is a view. ``as_strided`` puts an object of its own between the two.
    base = array.base
    return base if base is None or isinstance(base, numpy.ndarray) else getattr(base, "base", None)


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def _coo(shape: Sequence[int], parts: Mapping[str, Any]) -> Any:
    indices, values = parts["indices"], parts["values"]
    if (indices < 0).any():
        raise ValueError("a negative index")
    dense = numpy.zeros(tuple(shape), values.dtype)
    numpy.add.at(dense, tuple(indices), values)
    return dense


def _compressed(layout: Mapping[str, Any], parts: Mapping[str, Any]) -> Any:
    # Return a dense array for compressed rows or columns, which may consist of single values or blocks, batch by batch.
    if layout["layout"] not in ("sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"):
        raise ValueError(f"a layout {layout['layout']!r}")
    by_row, in_blocks = layout["layout"] in ("sparse_csr", "sparse_bsr"), layout["layout"][-3] == "b"
    compressed, plain, values = parts["compressed"], parts["plain"], parts["values"]
    if not in_blocks:
        values = values.reshape((*plain.shape, 1, 1, *values.shape[plain.ndim :]))
    batch, (height, width) = plain.shape[:-1], values.shape[plain.ndim : plain.ndim + 2]
    rows, columns, *rest = layout["shape"][len(batch) :]
    if (plain < 0).any():
        raise ValueError("a negative index")
    dense = numpy.zeros((*batch, rows // height, height, columns // width, width, *rest), values.dtype)
    for at in numpy.ndindex(batch):
        major = numpy.repeat(numpy.arange(compressed.shape[-1] - 1), numpy.diff(compressed[at]))
        row, column = (major, plain[at]) if by_row else (plain[at], major)
        dense[at][row, :, column, :] = values[at]
    return dense.reshape(tuple(layout["shape"]))


def _judged(numbers: Any) -> Nonfinite:
    nan, finite = int(numpy.isnan(numbers).sum()), int(numpy.isfinite(numbers).sum())
    return Nonfinite(nan, numbers.size - nan - finite, numbers.size)


def fingerprint(array: Any) -> dict[str, Any]:
    """Return the facts by which two arrays are compared: the bits of the numbers, with all NaN treated as equal, the
    shape and dtype, and the counts of NaN and Inf.
    """
    counts = _judged(wide(array))
    if array.dtype.kind in "fcV":  # dtypes of other packages, such as bfloat16, have the kind V
        array = numpy.where(array != array, numpy.asarray(numpy.nan, array.dtype), array)
    digest = hashlib.sha256(numpy.ascontiguousarray(array).tobytes()).hexdigest()
    return {"digest": digest, "shape": [*array.shape], "dtype": str(array.dtype), "nan": counts.nan, "inf": counts.inf}


def check_bounds(layout: Mapping[str, Any], size: int) -> None:
    """Raise ValueError for a layout that reaches outside its storage or has a negative number. ``as_strided`` itself
    does not check this.
    """
    pairs = list(zip(layout["shape"], layout["stride"], strict=True))
    if any(length < 0 or step < 0 for length, step in pairs) or layout["offset"] < 0:
        raise ValueError("a negative length, stride or offset")
    last = layout["offset"] + sum((length - 1) * step for length, step in pairs)
    if all(length for length, _ in pairs) and last >= size:
        raise ValueError("a layout that reaches beyond its storage")


def nested_text(value: Any) -> str:
    """Return nested lists of numbers as text, with six significant digits.

    >>> nested_text([1.0, 2.5e-9])
    '[1, 2.5e-09]'
    """
    if isinstance(value, list):
        return "[" + ", ".join(nested_text(item) for item in value) + "]"
    if isinstance(value, complex):
        return f"{value.real or 0.0:.6g}{value.imag or 0.0:+.6g}j"
    return f"{value or 0.0:.6g}" if isinstance(value, float) else str(value)  # ``or 0.0`` turns -0 into 0


ARRAYS: Arrays = NumpyArrays()
