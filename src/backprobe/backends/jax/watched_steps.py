"""The statistics of a watched step in JAX, as one pytree that can be returned from jitted functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy

from backprobe.backends.jax.statistics import Numbers, columns_from, exponents_from, magnitudes_of, real, rows_of
from backprobe.record.exponents import NONE, Exponents, merged_exponents
from backprobe.record.statistics import Row
from backprobe.record.statistics import measured as row_of_numbers


@dataclass(frozen=True)
class About:
    """A description of the rows of statistics: the watch that they belong to, and the name, kind and size of each."""

    watch: int
    function: str
    # not hashed: there may be many rows, and each step hashes this object
    rows: tuple[tuple[str, str, int], ...] = field(hash=False)

    @cached_property
    def sizes(self) -> Numbers:
        """The size of each row's array."""
        return numpy.array([size for _, _, size in self.rows])


@jax.tree_util.register_pytree_node_class
@dataclass(eq=False)
class Statistics:
    """The statistics of one run of a watched loss function, as small arrays that are passed to ``run.record``.

    The statistics of several runs may be stacked, as by ``jax.lax.scan``.
    """

    about: About
    arrays: tuple[Any, ...]
    is_recorded: bool = field(default=False, repr=False)

    def tree_flatten(self) -> tuple[tuple[Any, ...], About]:
        return self.arrays, self.about

    @classmethod
    def tree_unflatten(cls, about: About, arrays: Sequence[Any]) -> Statistics:
        return cls(about, tuple(arrays))

    def __repr__(self) -> str:
        return f"<Statistics of {self.about.function}: {len(self.about.rows)} rows>"

    def begin_transfer(self) -> None:
        """Start copying the arrays to the host's memory as soon as they are computed."""
        for array in self.arrays:
            if hasattr(array, "copy_to_host_async") and not _is_here(array):
                array.copy_to_host_async()

    def columns(self, wanted: Sequence[int] | None) -> Numbers:
        """Return the columns of some rows, or of all rows, merged over several runs. Waits for the device."""
        counts, numbers = map(numpy.asarray, self.arrays[:2])
        height = len(self.about.rows)
        found = columns_from(
            self.about.sizes[:, None],
            counts.reshape(-1, height, counts.shape[-1]),
            numbers.reshape(-1, height, numbers.shape[-1]),
        )
        if found.shape[2] == 1:  # usually there is only one run
            together = found[:, :, 0]
        else:
            together = numpy.concatenate([found[:8].sum(2), found[8:9].min(2), found[9:].max(2)])
        return together if wanted is None else together[:, wanted]

    def exponents(self, at: int) -> Exponents:
        """Return the histogram of magnitudes of a row. Waits for the device."""
        counts, smallest = map(numpy.asarray, self.arrays[2:])
        found, height = NONE, len(self.about.rows)
        one_by_one = zip(counts.reshape(-1, height, counts.shape[-1]), smallest.reshape(-1, height), strict=True)
        for run, least in one_by_one:
            found = merged_exponents(found, exponents_from(run[at], float(least[at])))
        return found


def _is_here(array: Any) -> bool:
    # Is the array in the host's memory, and not donated to a step that may overwrite it?
    return not array.is_deleted() and all(device.platform == "cpu" for device in array.devices())


def measured(watch: int, function: str, named: Sequence[tuple[str, str, Any]], magnitudes: bool) -> Statistics:
    """Return the statistics of arrays, each given with its name and kind."""
    arrays = [real(array) for _, _, array in named]
    order, counts, numbers = rows_of(arrays)
    about = About(watch, function, tuple([(*named[at][:2], arrays[at].size) for at in order]))
    found: tuple[Any, ...] = (counts, numbers)
    if magnitudes:
        bins = [magnitudes_of(arrays[at].astype(numbers.dtype)) for at in order]
        found += (jnp.stack([counts for counts, _ in bins]), jnp.stack([smallest for _, smallest in bins]))
    return Statistics(about, found)


def row_of(number: Any) -> Row:
    """Return the row of a single number that a device may still be computing. Waits for the device."""
    return row_of_numbers(numpy.asarray(number).astype(numpy.float64))
