"""Statistics of arrays as a few small arrays, computed on the program's device, also inside ``jax.jit``.

A row is a vector of counts and a vector of six numbers. The ten columns of ``record.statistics`` are computed from
them. Sums are taken over ``number / 2**exponent - base``, so that float32 is enough. In most cases ``base`` and
``exponent`` are 0. If that would lose digits, overflow or meet NaN, the sums are computed again by a careful algorithm.
On a CPU, a branch decides which one runs. Subnormal numbers count as zeros if the processor treats them as zeros, as
XLA does on CPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy
from jax import lax

from backprobe.record.exponents import NONE, Exponents
from backprobe.record.statistics import CANCELLATION, NOTHING, UNDERFLOW

WIDTHS = (1 << 6, 1 << 9, 1 << 10, 1 << 11, 1 << 12, 1 << 13)  # a small array is padded to one of these sizes
FEW = 1 << 9  # up to this many numbers always take the careful algorithm, without a branch
EXACT = 1 << 24  # float32 holds all integers up to this one
Numbers = numpy.ndarray[Any, Any]
Sizes = Numbers
"""For each row of a table, the number of valid numbers; the others are padding."""


def real(array: Any) -> Any:
    """Return the real numbers in an array, as float32, or as float64 if the array is float64."""
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        array = jnp.stack([array.real, array.imag])
    return array if array.dtype == jnp.float64 else array.astype(jnp.float32)


def rows_of(arrays: Sequence[Any]) -> tuple[list[int], Any, Any]:
    """Compute the rows of statistics of real arrays: the index of each row's array, the counts (uint32[n, 5]), and six
    numbers.

    The six numbers are base, rest, squares, exponent, min and max. The order of rows differs from that of the arrays,
    so the index of each row's array is returned first. Small arrays are combined into one table, so that the amount of
    compiled code does not grow with their number.
    """
    together: dict[tuple[int, Any], list[int]] = {}
    for at, array in enumerate(arrays):
        width = next((width for width in WIDTHS if array.size <= width), 0)
        together.setdefault((width, array.dtype), []).append(at)
    tables = []
    for (width, _), places in together.items():
        if not width:
            rows = [_row_of(arrays[at]) for at in places]
            tables.append((jnp.stack([counts for counts, _ in rows]), jnp.stack([numbers for _, numbers in rows])))
            continue
        sizes = numpy.array([arrays[at].size for at in places])
        flat = jnp.stack([jnp.pad(arrays[at].reshape(-1), (0, width - arrays[at].size)) for at in places])
        tables.append((_small if width <= FEW else _table_of)(flat, sizes))
    wide = jnp.result_type(jnp.float32, *{array.dtype for array in arrays})
    numbers = jnp.concatenate([numbers.astype(wide) for _, numbers in tables])
    return [at for places in together.values() for at in places], jnp.concatenate([one for one, _ in tables]), numbers


def _small(rows: Any, sizes: Sizes) -> tuple[Any, Any]:
    # The careful algorithm for the rows of a table, in which only the first numbers of each row are valid.
    is_there = _there(rows, sizes)
    is_finite = jnp.isfinite(rows) & is_there
    flags = [is_finite, jnp.isnan(rows), rows == jnp.inf, rows == -jnp.inf, (rows == 0) & is_there]
    counts = jnp.stack(flags).sum(-1, dtype=jnp.uint32).T
    low, high = jnp.where(is_finite, rows, jnp.inf).min(-1), jnp.where(is_finite, rows, -jnp.inf).max(-1)
    exponent = _exponent(jnp.where(low <= high, jnp.maximum(-low, high), 0))
    scaled = jnp.where(is_finite, rows, 0) * _scale(exponent, rows.dtype)[:, None]
    base = scaled.sum(-1) / jnp.maximum(counts[:, 0], 1).astype(rows.dtype)
    rest = jnp.where(is_finite, scaled - base[:, None], 0)
    numbers = [base, rest.sum(-1), (rest * rest).sum(-1), exponent.astype(rows.dtype), low, high]
    return counts, jnp.stack(numbers, -1)


def _row_of(array: Any) -> tuple[Any, Any]:
    found: tuple[Any, Any] = lax.platform_dependent(array, cpu=_row_branching, default=_with_care)
    return found


def _row_branching(array: Any) -> tuple[Any, Any]:
    is_fit, counts, numbers = _plain(array.reshape(1, -1), numpy.array([array.size]))
    plain = counts[0], numbers[0]
    found: tuple[Any, Any] = lax.cond(is_fit[0], lambda _: plain, _with_care, array)
    return found


def _table_of(rows: Any, sizes: Sizes) -> tuple[Any, Any]:
    # Compute statistics for the rows of a table. If one row needs the careful algorithm, it is used for all rows.
    def branching(rows: Any) -> tuple[Any, Any]:
        is_fit, *plain = _plain(rows, sizes)
        found: tuple[Any, Any] = lax.cond(is_fit.all(), lambda _: tuple(plain), careful, rows)
        return found

    def careful(rows: Any) -> tuple[Any, Any]:
        return _small(rows, sizes)

    found: tuple[Any, Any] = lax.platform_dependent(rows, cpu=branching, default=careful)
    return found


def _there(rows: Any, sizes: Sizes) -> Any:
    return numpy.arange(rows.shape[1]) < sizes[:, None]


def _plain(rows: Any, sizes: Sizes) -> tuple[Any, Any, Any]:
    # Return which rows do not need the careful algorithm, and the results of plain reductions for all rows. Invalid
    # numbers must be 0.
    left_out, count = rows.shape[1] - sizes, sizes.astype(rows.dtype)
    low = high = rows
    if left_out.any():
        low, high = (jnp.where(_there(rows, sizes), rows, end) for end in (jnp.inf, -jnp.inf))
    zeros = _counted(rows == 0) - left_out.astype(numpy.uint32)
    total, squares = rows.sum(-1), (rows * rows).sum(-1)
    mean, square = total / count, squares / count
    is_exact = (square >= UNDERFLOW) & (square - mean * mean >= CANCELLATION * square) | (zeros == sizes)
    is_fit = jnp.isfinite(total) & jnp.isfinite(squares) & is_exact
    none, base = jnp.zeros_like(zeros), jnp.zeros_like(total)
    counts = jnp.stack([jnp.asarray(sizes, jnp.uint32), none, none, none, zeros], -1)
    return is_fit, counts, jnp.stack([base, total, squares, base, low.min(-1), high.max(-1)], -1)


def _counted(flags: Any) -> Any:
    # Return the number of true flags in each row, as uint32. Summing in float32 is faster, and exact up to EXACT.
    if flags.shape[-1] < EXACT:
        return flags.astype(jnp.float32).sum(-1).astype(jnp.uint32)
    return flags.sum(-1, dtype=jnp.uint32)


def _with_care(array: Any) -> tuple[Any, Any]:
    # The careful algorithm, for numbers that may be infinite or NaN, have squares too large for float32, or have a
    # small variance.
    is_finite = jnp.isfinite(array)
    flags = [is_finite, jnp.isnan(array), array == jnp.inf, array == -jnp.inf, array == 0]
    ends = [jnp.where(is_finite, array, jnp.inf), jnp.where(is_finite, array, -jnp.inf)]
    *counts, low, high = _reduced([*(flag.astype(jnp.uint32) for flag in flags), *ends])
    exponent = _exponent(jnp.where(low <= high, jnp.maximum(-low, high), 0))
    scaled = jnp.where(is_finite, array, 0) * _scale(exponent, array.dtype)
    base = scaled.sum() / jnp.maximum(counts[0], 1).astype(array.dtype)
    rest = jnp.where(is_finite, scaled - base, 0)
    numbers = [base, rest.sum(), (rest * rest).sum(), exponent.astype(array.dtype), low, high]
    return jnp.stack(counts), jnp.stack(numbers)


def _reduced(operands: Sequence[Any]) -> Sequence[Any]:
    # Return the sums of all operands except the last two, the minimum of the second to last, and the maximum of the
    # last operand. They are one reduction, which XLA compiles quickly.
    def join(first: Sequence[Any], second: Sequence[Any]) -> tuple[Any, ...]:
        sums = [lax.add(one, other) for one, other in zip(first[:-2], second[:-2], strict=True)]
        return (*sums, lax.min(first[-2], second[-2]), lax.max(first[-1], second[-1]))

    start = [*(jnp.zeros((), one.dtype) for one in operands[:-2]), jnp.full((), jnp.inf, operands[-1].dtype)]
    start.append(-start[-1])
    reduced: Sequence[Any] = lax.reduce(tuple(operands), tuple(start), join, tuple(range(operands[0].ndim)))
    return reduced


# Functions for the bits of floating-point numbers.


def _layout(dtype: Any) -> tuple[Any, int, int]:
    # Return the unsigned integer type of this size, the number of mantissa bits, and the bias of the exponent.
    return (jnp.uint64, 52, 1023) if dtype == jnp.float64 else (jnp.uint32, 23, 127)


def _magnitude_bits(array: Any) -> Any:
    unsigned, mantissa, bias = _layout(array.dtype)
    sign = unsigned(1 << (mantissa + bias.bit_length() + 1))
    return lax.bitcast_convert_type(array, unsigned) & (sign - unsigned(1))


def _exponent(magnitude: Any) -> Any:
    # Return, as int32, the exponent of the largest power of two that is not above the magnitude. Subnormal numbers get
    # the exponent of the smallest normal number.
    unsigned, mantissa, bias = _layout(magnitude.dtype)
    return jnp.maximum((_magnitude_bits(magnitude) >> unsigned(mantissa)).astype(jnp.int32), 1) - bias


def _scale(exponent: Any, dtype: Any) -> Any:
    # Return ``2**-exponent`` as a product of two factors, because it may exceed the largest number of the dtype.
    half = exponent // 2
    return _power_of_two(-half, dtype) * _power_of_two(half - exponent, dtype)


def _power_of_two(exponent: Any, dtype: Any) -> Any:
    unsigned, mantissa, bias = _layout(dtype)
    return lax.bitcast_convert_type((exponent + bias).astype(unsigned) << unsigned(mantissa), dtype)


# Functions for histograms of magnitudes.


def magnitudes_of(array: Any) -> tuple[Any, Any]:
    """Return the count of each exponent as uint32, starting at the dtype's lowest exponent, and the smallest nonzero
    magnitude. Zeros and numbers that are not finite are not counted; if there are no others, the magnitude is infinity.
    """
    unsigned, mantissa, bias = _layout(array.dtype)
    bits = _magnitude_bits(array).reshape(-1)
    above = (bits >> unsigned(mantissa)).astype(jnp.int32)
    leading = jnp.asarray(8 * unsigned.dtype.itemsize - 1, jnp.int32) - lax.clz(bits).astype(jnp.int32)
    place = jnp.where(above > 0, above + mantissa - 1, leading)
    is_counted = (bits > 0) & (above <= 2 * bias)
    counts = (
        jnp.zeros(2 * bias + mantissa, jnp.uint32)
        .at[jnp.where(is_counted, place, 0)]
        .add(is_counted.astype(jnp.uint32))
    )
    largest = unsigned((2 * bias + 1) << mantissa)  # the bits of infinity
    smallest = jnp.where(is_counted, bits, largest).min(initial=largest)
    return counts, lax.bitcast_convert_type(smallest, array.dtype)


# NumPy functions that run on the host, after the program's computation


def columns_from(sizes: Any, counts: Numbers, numbers: Numbers) -> Numbers:
    """Return the ten columns of statistics for these rows, as float64[10, ...]."""
    base, rest, squares, exponent, low, high = numbers.T.astype(numpy.float64)
    found = numpy.empty((10, *base.shape))
    found[0], found[1:6], found[6:] = sizes, counts.T, (rest, squares, low, high)
    finite = found[1]
    if base.any() or exponent.any():
        factor = numpy.ldexp(1.0, exponent.astype(int))
        with numpy.errstate(all="ignore"):
            found[6] = (base * finite + rest) * factor
            found[7] = (squares + 2 * base * rest + finite * base * base) * factor * factor
    if not finite.all():
        found[6:, finite == 0] = numpy.array(NOTHING[6:])[:, None]
    return found


def exponents_from(counts: Numbers, smallest: float) -> Exponents:
    """Return the histogram of magnitudes."""
    (found,) = numpy.nonzero(counts)
    if not found.size:
        return NONE
    least = -149 if counts.size < EXACT_BINS else -1074
    first, last = int(found[0]), int(found[-1])
    return Exponents(least + first, counts[first : last + 1].astype(numpy.int64), smallest)


EXACT_BINS = 1000  # a limit between the numbers of exponents of float32 (fewer) and float64 (more)
