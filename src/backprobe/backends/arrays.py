"""NumPy arrays as the tensors of a recording that was loaded without a framework."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy

from backprobe.backends.base import Description, Summary
from backprobe.errors import BadRecording


class NumpyArrays:
    """The part of a backend that reading, showing and saving a recording needs."""

    name = "numpy"

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, numpy.ndarray)

    def describe(self, tensor: Any) -> Description:
        return Description(tuple(tensor.shape), str(tensor.dtype), "cpu")

    def summarize(self, tensor: Any) -> Summary | None:
        values = numpy.abs(tensor) if tensor.dtype.kind == "c" else tensor.astype(numpy.float64)
        kept = values[numpy.isfinite(values)]
        if not kept.size:
            return Summary(values.size, values.size, float("nan"), float("nan"))
        largest = float(numpy.abs(kept).max())
        scale = largest or 1.0
        return Summary(
            values.size, values.size - kept.size, scale * float(numpy.sqrt(numpy.square(kept / scale).mean())), largest
        )

    def to_text(self, tensor: Any) -> str:
        return nested_text(tensor.tolist())

    def encode(self, tensor: Any, blobs: dict[str, Any], seen: dict[Any, str]) -> dict[str, Any]:
        whole = numpy.ascontiguousarray(tensor)
        key = f"storage{len(blobs)}"
        blobs[key] = (whole.reshape(-1).view(numpy.uint8), whole)
        strides = [step // whole.itemsize for step in whole.strides]
        return {"layout": "strided", "dtype": str(whole.dtype), "shape": list(tensor.shape),
                "stride": strides[: tensor.ndim], "offset": 0, "storage": key}  # fmt: skip

    def decode(self, layout: Mapping[str, Any], blobs: Mapping[str, Any]) -> Any:
        """The array of a saved layout: bfloat16 becomes float32, which holds it exactly, and sparse becomes dense."""
        if layout["layout"] == "coo":
            indices, values = (self.decode(layout["parts"][part], blobs) for part in ("indices", "values"))
            dense = numpy.zeros((*layout["shape"],), values.dtype)
            numpy.add.at(dense, tuple(indices), values)
            return dense
        stored = "uint16" if layout["dtype"] == "bfloat16" else layout["dtype"]
        if layout["layout"] != "strided" or not hasattr(numpy, stored):
            raise BadRecording(
                f"NumPy has nothing like {layout['dtype']} in the layout {layout['layout']}", asked='to="numpy"',
                next='bp.load(path, to="torch")',
            )  # fmt: skip
        flat = blobs[layout["storage"]]
        kind = numpy.dtype(stored)
        flat = flat[: flat.size - flat.size % kind.itemsize].view(kind)[layout["offset"] :]
        strides = [step * kind.itemsize for step in layout["stride"]]
        _check_bounds(layout, flat.size)
        array = numpy.lib.stride_tricks.as_strided(flat, layout["shape"], strides)
        if layout["dtype"] == "bfloat16":
            return (array.astype(numpy.uint32) << 16).view(numpy.float32)
        return array


def _check_bounds(layout: Mapping[str, Any], size: int) -> None:
    """A layout never reaches outside its storage; as_strided itself would not look."""
    pairs = list(zip(layout["shape"], layout["stride"], strict=True))
    if any(length < 0 or step < 0 for length, step in pairs) or layout["offset"] < 0:
        raise ValueError("a negative length, stride or offset")
    if all(length for length, _ in pairs) and sum((length - 1) * step for length, step in pairs) >= size:
        raise ValueError("a layout that reaches beyond its storage")


def nested_text(value: Any) -> str:
    """Nested lists of numbers to six significant digits.

    >>> nested_text([1.0, 2.5e-9])
    '[1, 2.5e-09]'
    """
    if isinstance(value, list):
        return "[" + ", ".join(nested_text(item) for item in value) + "]"
    if isinstance(value, complex):
        return f"{value.real:.6g}{value.imag:+.6g}j"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


BACKEND = NumpyArrays()
