"""Statistics of tensors of every kind, beside NumPy's in double precision, on a CPU and by masks."""

import math

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backprobe.backends.torch.statistics import fetched, masked, row_of
from backprobe.record.statistics import CHUNK, NOTHING

SETTINGS = settings(derandomize=True, database=None, deadline=None, max_examples=150)
SPECIAL = st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1e-30, 60000.0])
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def truth(tensor):
    wide = torch.view_as_real(tensor.to(torch.complex128)) if tensor.is_complex() else tensor.double()
    numbers = wide.detach().reshape(-1).numpy()
    kept = numbers[numpy.isfinite(numbers)]
    tests = (numpy.isnan(numbers), numbers == math.inf, numbers == -math.inf, numbers == 0)
    low, high = (kept.min(), kept.max()) if kept.size else NOTHING[8:]
    return (numbers.size, kept.size, *(int(one.sum()) for one in tests), kept.sum(), (kept**2).sum(), low, high)


def assert_true(row, tensor):
    right = truth(tensor)
    assert row[:6] + row[8:] == pytest.approx(right[:6] + right[8:], rel=0, abs=0)
    scale = max(abs(right[8]), abs(right[9]), 1e-300) if right[1] else 1.0
    assert row[6] == pytest.approx(right[6], rel=1e-6, abs=2e-6 * scale * max(right[1], 1) ** 0.5)
    assert row[7] == pytest.approx(right[7], rel=1e-5)  # summed in float32


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@SETTINGS
@given(st.lists(SPECIAL | st.floats(-4, 4, width=16), min_size=1, max_size=30))
def test_numbers_of_any_dtype_and_both_ways_to_measure_them(dtype, numbers):
    tensor = torch.tensor(numbers, dtype=torch.float64).to(dtype)
    assert_true(row_of(tensor), tensor)
    assert_true(tuple(masked(tensor).tolist()), tensor)


def random(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)


SHAPES = {
    "a scalar": lambda: random(),
    "several chunks": lambda: random(CHUNK + 17),
    "several chunks in half precision": lambda: random(CHUNK + 17, dtype=torch.bfloat16),
    "transposed": lambda: random(6, 7, 8).permute(2, 0, 1),
    "a large slice": lambda: random(700, 900)[:, ::2],
    "expanded": lambda: random(3, 1, 5).expand(3, 4, 5),
    "a sum's gradient": lambda: torch.ones(()).expand(7, 9),
    "requires a gradient": lambda: random(4).requires_grad_(),
    "complex": lambda: torch.complex(random(5), random(5) * 2),
    "conjugated": lambda: torch.complex(random(5), random(5)).conj(),
    "negated lazily": lambda: torch.complex(random(5), random(5)).conj().imag,
    "float8": lambda: random(9).to(torch.float8_e4m3fn),
    "a parameter": lambda: torch.nn.Parameter(random(4)),
}


@pytest.mark.parametrize("made", SHAPES.values(), ids=SHAPES.keys())
def test_tensors_of_any_layout(made):
    tensor = made()
    assert_true(row_of(tensor), tensor)


@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr"])
@pytest.mark.filterwarnings("ignore:Sparse CSR:UserWarning")
def test_a_sparse_tensor_has_its_zeros(layout):
    tensor = torch.tensor([[0.0, 2.0, 0.0], [-3.0, 0.0, 0.0]])
    assert_true(row_of(getattr(tensor, layout)()), tensor)
    twice = torch.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (3,), check_invariants=True)  # a place that is given twice
    assert_true(row_of(twice), twice.to_dense())


def test_zeros_that_are_left_out_are_in_the_masked_form():
    tensor = torch.tensor([2.0, 3.0])
    assert_true(tuple(masked(tensor, left_out=4).tolist()), torch.tensor([2.0, 3.0, 0, 0, 0, 0]))


@pytest.mark.parametrize(
    "tensor", [torch.ones(2, dtype=torch.long), torch.ones(2, device="meta")], ids=["whole", "meta"]
)
def test_what_has_no_floating_numbers_has_no_row(tensor):
    assert row_of(tensor) is None


def test_memory_that_was_freed_is_not_read():
    tensor = torch.ones(1000)
    tensor.untyped_storage().resize_(0)
    assert row_of(tensor) is None


def test_no_numbers_at_all():
    assert row_of(torch.ones(0, 3)) == NOTHING


def test_rows_on_a_device_are_fetched_together_and_merged():
    wait = fetched({3: [masked(torch.ones(2)), masked(torch.zeros(1))], 5: [masked(torch.tensor([math.nan]))]})
    found = wait()
    assert found[3] == pytest.approx((3, 3, 0, 0, 0, 1, 2, 2, 0, 1))
    assert found[5] == (1, 0, 1, 0, 0, 0, 0, 0, math.inf, -math.inf)
