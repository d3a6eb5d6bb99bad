"""Statistics that can be merged: exact under any split of the numbers, whatever the dtype, finite or not."""

import math
from functools import reduce

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backprobe.record.exponents import exponents, merged_exponents
from backprobe.record.statistics import COLUMNS, NOTHING, STATISTICS, measured, merged, repeated, scaled, statistic

SETTINGS = settings(derandomize=True, database=None, deadline=None, max_examples=200)
SPECIAL = st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1e-30, -3e-23, 3e38, -3e38, 1e-45])
ARRAYS = st.lists(SPECIAL | st.floats(width=32) | st.floats(-4, 4, width=32), max_size=40).map(
    lambda numbers: numpy.array(numbers, numpy.float32)
)


def truth(numbers):
    """The columns by NumPy in float64, and the sum of magnitudes, to which a sum's rounding is relative."""
    wide = numbers.astype(numpy.float64)
    kept = wide[numpy.isfinite(wide)]
    counts = (
        wide.size,
        kept.size,
        *(int(found.sum()) for found in (numpy.isnan(wide), wide == math.inf, wide == -math.inf, wide == 0)),
    )
    low, high = (kept.min(), kept.max()) if kept.size else (math.inf, -math.inf)
    return dict(zip(COLUMNS, (*counts, kept.sum(), (kept * kept).sum(), low, high), strict=True)), abs(kept).sum()


def assert_true(row, numbers):
    right, magnitudes = truth(numbers)
    found = dict(zip(COLUMNS, row, strict=True))
    for column in (*COLUMNS[:6], "min", "max"):
        assert found[column] == right[column], column
    assert abs(found["sum"] - right["sum"]) <= 1e-6 * magnitudes
    assert abs(found["squares"] - right["squares"]) <= 1e-5 * right["squares"]


def split(numbers, cuts):
    edges = [0, *sorted(min(cut, numbers.size) for cut in cuts), numbers.size]
    return [numbers[a:b] for a, b in zip(edges, edges[1:], strict=False)]


@SETTINGS
@given(ARRAYS, st.lists(st.integers(0, 40), max_size=6))
def test_any_split_gives_the_statistics_of_all(numbers, cuts):
    parts = [measured(part) for part in split(numbers, cuts)]
    assert_true(reduce(merged, parts), numbers)
    assert_true(measured(numbers), numbers)


@SETTINGS
@given(ARRAYS, ARRAYS, ARRAYS)
def test_merging_commutes_and_associates(a, b, c):
    one, two, three = measured(a), measured(b), measured(c)
    assert merged(one, two) == merged(two, one)
    assert merged(one, NOTHING) == one
    left, right = merged(merged(one, two), three), merged(one, merged(two, three))
    assert left[:6] + left[8:] == right[:6] + right[8:]
    assert left[6:8] == pytest.approx(right[6:8], rel=1e-12, abs=1e-12 * max(map(abs, (one[6], two[6], three[6]))))


def columns_of(numbers):
    return {column: numpy.array([number]) for column, number in zip(COLUMNS, measured(numbers), strict=True)}


@pytest.mark.parametrize("scale", [1.0, 1e-25, 1e25, 1e-42])
def test_derived_statistics_are_those_of_float64(scale):
    numbers = (numpy.random.default_rng(0).normal(size=1000) * scale).astype(numpy.float32)
    wide, columns = numbers.astype(numpy.float64), columns_of(numbers)
    assert statistic("rms", columns)[0] == pytest.approx(numpy.sqrt((wide**2).mean()), rel=1e-6)
    assert statistic("std", columns)[0] == pytest.approx(wide.std(), rel=1e-6)
    assert statistic("mean", columns)[0] == pytest.approx(wide.mean(), abs=1e-6 * abs(wide).mean())
    assert statistic("absmax", columns)[0] == abs(wide).max()


def test_a_small_deviation_beside_a_large_mean_is_not_rounding():
    numbers = (1000 + numpy.random.default_rng(0).normal(size=100_000)).astype(numpy.float32)
    assert statistic("std", columns_of(numbers))[0] == pytest.approx(numbers.astype(numpy.float64).std(), rel=1e-6)


@pytest.mark.parametrize("name", STATISTICS)
def test_no_numbers_have_no_statistics(name):
    columns = {column: numpy.array([number]) for column, number in zip(COLUMNS, NOTHING, strict=True)}
    assert math.isnan(statistic(name, columns)[0])


def test_numbers_that_are_all_nan_have_counts_and_nothing_else():
    columns = columns_of(numpy.full(3, math.nan))
    assert {name: statistic(name, columns)[0] for name in ("count", "finite", "nan", "zeros")} == {
        "count": 3,
        "finite": 0,
        "nan": 3,
        "zeros": 0,
    }
    assert all(math.isnan(statistic(name, columns)[0]) for name in ("mean", "rms", "std", "min", "max", "absmax"))


@SETTINGS
@given(ARRAYS, st.integers(1, 5))
def test_a_repeated_row_is_that_of_the_repeated_numbers(numbers, times):
    assert_true(repeated(measured(numbers), times), numpy.tile(numbers, times))


def test_a_scaled_row_is_that_of_the_scaled_numbers():
    numbers = numpy.array([1.0, -2.0, 0.0, math.inf, math.nan], numpy.float32)
    assert scaled(measured(numbers), 0.25) == measured(numbers * numpy.float32(0.25))


def test_squares_that_vanish_in_float64_are_not_zeros():
    columns = columns_of(numpy.array([1e-200, 0.0]))
    assert (columns["zeros"][0], columns["max"][0]) == (1, 1e-200)


@SETTINGS
@given(ARRAYS, st.lists(st.integers(0, 40), max_size=4))
def test_magnitudes_are_counted_the_same_under_any_split(numbers, cuts):
    found = reduce(merged_exponents, map(exponents, split(numbers, cuts)))
    kept = [abs(float(one)) for one in numbers if math.isfinite(one) and one]
    expected = {}
    for one in kept:
        expected[math.frexp(one)[1] - 1] = expected.get(math.frexp(one)[1] - 1, 0) + 1
    counts = {found.low + at: count for at, count in enumerate(found.counts.tolist()) if count}
    assert counts == expected
    assert found.smallest == min(kept, default=math.inf)
