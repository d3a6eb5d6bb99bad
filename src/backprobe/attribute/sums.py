"""Sums of change × gradient: for each value, for indices along chosen axes, and for each outgoing edge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from backprobe.backends.tensors import Arrays
from backprobe.probe.axes import from_the_first
from backprobe.record.entries import Record

SINGLE = 4  # bytes of single precision: narrower numbers are widened, otherwise their differences would be rounded


class Sums:
    """Sums over several runs. Indices along ``axes`` are kept apart; ``asked`` is the user's value of the option
    ``axis``.
    """

    def __init__(self, arrays: Arrays, asked: Any, axes: Sequence[int]) -> None:
        self.arrays, self.asked, self.axes = arrays, asked, axes
        self.nodes: dict[str, Any] = {}
        """For each value one number, or an array over the axes that are kept apart."""

        self.edges: dict[tuple[str, str], float] = {}

    def numbers(self, tensor: Any) -> Any:
        """Return a tensor as an array of at least single precision."""
        found = self.arrays.array(tensor)
        return found if found.dtype.itemsize >= SINGLE else found.astype(numpy.float32)

    def add(self, name: str, change: Any, gradient: Any, weight: float) -> None:
        """Add the contribution of one run to a value's sum."""
        part = self._product(change, gradient, self._kept(name, change.shape))
        self.nodes[name] = self.nodes.get(name, 0.0) + weight * part

    def add_sums(self, nodes: Mapping[str, Any], edges: Mapping[tuple[str, str], float]) -> None:
        """Add the sums of another ``Sums``."""
        for name, part in nodes.items():
            self.nodes[name] = self.nodes.get(name, 0.0) + part
        for way, number in edges.items():
            self.edges[way] = self.edges.get(way, 0.0) + number

    def flow(self, changes: Mapping[str, Any]) -> Callable[[str, Any], float | None]:
        """Return a function of a value's name and of a gradient that flows along an edge from this value.

        The function returns the attribution of the edge, or None if ``changes`` does not contain the value.
        """

        def flow(name: str, flowed: Any) -> float | None:
            return float(self._product(changes[name], flowed)) if name in changes else None

        return flow

    def add_edges(self, record: Record, weight: float) -> None:
        """Add the edges of one run, whose contributions the function from ``flow`` has computed."""
        for entry in record.entries:
            for edge in entry.inputs:
                if edge.contribution is not None:
                    way = edge.name, entry.name
                    self.edges[way] = self.edges.get(way, 0.0) + weight * edge.contribution

    def _product(self, change: Any, gradient: Any, kept: Sequence[int] = ()) -> Any:
        # Sum change × gradient in double precision over all axes except ``kept``. An element that does not change
        # contributes 0, even if its gradient is Inf or NaN: the product would be NaN.
        gradient, axes = numpy.conj(self.numbers(gradient)), range(change.ndim)
        kind = numpy.complex128 if numpy.iscomplexobj(change) else numpy.float64

        def summed(gradient: Any) -> Any:
            return numpy.einsum(change, [*axes], gradient, [*axes], [*kept], dtype=kind, casting="same_kind").real

        with numpy.errstate(all="ignore"):  # NaN and Inf are part of the result, so NumPy must not warn
            found = summed(gradient)
            return found if numpy.isfinite(found).all() else summed(numpy.where(change == 0, 0, gradient))

    def _kept(self, name: str, shape: tuple[int, ...]) -> list[int]:
        # The axes of one value that are kept apart, as non-negative numbers. Raises BadOption.
        return from_the_first(
            self.axes, shape, name, self.asked, "each index along an axis has an attribution of its own"
        )
