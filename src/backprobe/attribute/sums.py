"""Change × gradient, summed for each value, for indices along some of its axes, and for each edge that leaves it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from backprobe.backends.tensors import Arrays
from backprobe.probe.axes import from_the_first
from backprobe.record.entries import Record

SINGLE = 4  # bytes of a number: of fewer, differences would be rounded


class Sums:
    """The sums of several runs; ``axes`` are those whose indices are kept apart, as they were ``asked`` for."""

    def __init__(self, arrays: Arrays, asked: Any, axes: Sequence[int]) -> None:
        self.arrays, self.asked, self.axes = arrays, asked, axes
        self.nodes: dict[str, Any] = {}
        """Of each value one number, or an array of the axes that are kept apart."""

        self.edges: dict[tuple[str, str], float] = {}

    def numbers(self, tensor: Any) -> Any:
        """The numbers of a tensor as an array, at least in single precision."""
        found = self.arrays.array(tensor)
        return found if found.dtype.itemsize >= SINGLE else found.astype(numpy.float32)

    def add(self, name: str, change: Any, gradient: Any, weight: float) -> None:
        """Add what one run says of a value."""
        part = self._product(change, gradient, self._kept(name, change.shape))
        self.nodes[name] = self.nodes.get(name, 0.0) + weight * part

    def add_sums(self, nodes: Mapping[str, Any], edges: Mapping[tuple[str, str], float]) -> None:
        """Add the sums of another run."""
        for name, part in nodes.items():
            self.nodes[name] = self.nodes.get(name, 0.0) + part
        for way, number in edges.items():
            self.edges[way] = self.edges.get(way, 0.0) + number

    def flow(self, changes: Mapping[str, Any]) -> Callable[[str, Any], float | None]:
        """A function that turns the gradient along an edge into its value's attribution; None for other values."""

        def flow(name: str, flowed: Any) -> float | None:
            return float(self._product(changes[name], flowed)) if name in changes else None

        return flow

    def add_edges(self, record: Record, weight: float) -> None:
        """Add what ``flow`` has made of the edges of one run."""
        for entry in record.entries:
            for edge in entry.inputs:
                if edge.contribution is not None:
                    way = edge.name, entry.name
                    self.edges[way] = self.edges.get(way, 0.0) + weight * edge.contribution

    def _product(self, change: Any, gradient: Any, kept: Sequence[int] = ()) -> Any:
        # Summed in double precision over all axes but these, and 0 where nothing changes: there, Inf or NaN in the
        # gradient would give NaN.
        gradient, axes = numpy.conj(self.numbers(gradient)), range(change.ndim)
        kind = numpy.complex128 if numpy.iscomplexobj(change) else numpy.float64
        with numpy.errstate(all="ignore"):  # NaN and Inf are shown, not warned of
            found = numpy.einsum(change, [*axes], gradient, [*axes], [*kept], dtype=kind, casting="same_kind").real
            if not numpy.isfinite(found).all():
                gradient = numpy.where(change == 0, 0, gradient)
                found = numpy.einsum(change, [*axes], gradient, [*axes], [*kept], dtype=kind, casting="same_kind").real
        return found

    def _kept(self, name: str, shape: tuple[int, ...]) -> list[int]:
        # The axes of a value whose indices are kept apart, counted from the first. Raises BadOption.
        return from_the_first(
            self.axes, shape, name, self.asked, "each index along an axis has an attribution of its own"
        )
