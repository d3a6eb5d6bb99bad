"""Change × gradient, summed: of each value, of the indices along some axes of it, and of each edge from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from backprobe.attribute.values import Value
from backprobe.backends.tensors import Arrays
from backprobe.errors import BadOption
from backprobe.record.brief import written
from backprobe.record.entries import Record
from backprobe.recording import Recording

SINGLE = 4  # bytes of a number: of fewer, differences would be rounded


class Sums:
    """The sums of several runs; ``axes`` are those whose indices are kept apart, as they were ``asked`` for."""

    def __init__(self, arrays: Arrays, asked: Any, axes: Sequence[int]) -> None:
        self.arrays, self.asked, self.axes = arrays, asked, axes
        self.nodes: dict[str, Any] = {}
        """Of each value one number, or an array of the axes that are kept apart."""

        self.edges: dict[tuple[str, str], float] = {}

    def changes(self, values: Sequence[Value], clean: Recording, corrupt: Recording) -> dict[str, Any]:
        """What each value is in the clean run less what it is in the corrupt run, by name."""
        with numpy.errstate(all="ignore"):  # NaN and Inf are shown, not warned of
            return {
                one.name: self._numbers(clean[one.key].value) - self._numbers(corrupt[one.key].value)
                for one in values
            }  # fmt: skip

    def add(self, name: str, change: Any, gradient: Any, weight: float) -> None:
        """Add what one run says of a value."""
        self.nodes[name] = self.nodes.get(name, 0.0) + weight * self._apart(name, self._product(change, gradient))

    def flow(self, changes: Mapping[str, Any]) -> Callable[[str, Any], float | None]:
        """What is kept of what flows back to a value along an edge: its attribution; None for another value."""

        def flow(name: str, flowed: Any) -> float | None:
            return float(self._product(changes[name], flowed).sum()) if name in changes else None

        return flow

    def add_edges(self, record: Record, weight: float) -> None:
        """Add what ``flow`` has made of the edges of one run."""
        for entry in record.entries:
            for edge in entry.inputs:
                if edge.contribution is not None:
                    way = edge.name, entry.name
                    self.edges[way] = self.edges.get(way, 0.0) + weight * edge.contribution

    def _numbers(self, tensor: Any) -> Any:
        # The numbers of a tensor, at least in single precision.
        found = self.arrays.array(tensor)
        return found if found.dtype.itemsize >= SINGLE else found.astype(numpy.float32)

    def _product(self, change: Any, gradient: Any) -> Any:
        # In double precision, and 0 where nothing changes: there, Inf or NaN would give NaN.
        kind = numpy.complex128 if numpy.iscomplexobj(change) else numpy.float64
        with numpy.errstate(all="ignore"):
            product = numpy.multiply(change, numpy.conj(self._numbers(gradient)), dtype=kind).real
        return numpy.where(change == 0, 0.0, product)

    def _apart(self, name: str, product: Any) -> Any:
        # The sum, or the sums by the indices along the axes, in the order in which these were asked for.
        axes = [axis + product.ndim * (axis < 0) for axis in self.axes]
        if not all(0 <= axis < product.ndim for axis in axes) or len({*axes}) < len(axes):
            raise BadOption(
                f"{name!r} does not have these axes", asked=f"axis={written(self.asked)}",
                found=f"shape {product.shape}", why="each index along an axis has an attribution of its own",
                next=f"an axis from 0 to {product.ndim - 1}" if product.ndim else "values that have axes",
            )  # fmt: skip
        kept = product.sum(tuple(at for at in range(product.ndim) if at not in axes))
        return kept.transpose([sorted(axes).index(axis) for axis in axes]) if axes else kept
