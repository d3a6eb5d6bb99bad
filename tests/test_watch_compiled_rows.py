"""The statistics that compiled code merges into a row, beside those of NumPy in float64."""

import numpy
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from backprobe.backends.torch.compiled_rows import MANY, TOGETHER, CompiledRows, merge
from backprobe.backends.torch.statistics import row_of
from backprobe.record.statistics import NOTHING, merged

SIZES = [(1,), (), (3, 5), (TOGETHER + 1,), (2, TOGETHER), (101, 83), (8, 64, 100)]


def kinds(shape):
    """Numbers of all kinds: plain, with zeros, NaN and infinities, and too large or small to be squared in float32."""
    torch.manual_seed(0)
    plain = torch.randn(shape)
    with_zeros = torch.relu(plain)
    mixed = plain.clone()
    for number, at in zip((torch.nan, torch.inf, -torch.inf, torch.inf), range(plain.numel()), strict=False):
        mixed.view(-1)[at] = number
    return [plain, with_zeros, mixed, plain * 1e25, plain * 1e-25, torch.zeros(shape), plain.bfloat16(), plain.double()]


def expected(tensor):
    numbers = tensor.double().numpy()
    own = numbers[numpy.isfinite(numbers)]
    counts = [
        numbers.size,
        own.size,
        numpy.isnan(numbers).sum(),
        (numbers == numpy.inf).sum(),
        (numbers == -numpy.inf).sum(),
        (own == 0).sum(),
    ]
    extremes = [own.min(initial=numpy.inf), own.max(initial=-numpy.inf)]
    return counts, own.sum(), (own**2).sum(), numpy.abs(own).sum(), extremes


def check(tensor):
    row = torch.tensor(NOTHING, dtype=torch.float64)
    merge(row, tensor)
    counts, total, squares, scale, extremes = expected(tensor)
    assert row[:6].tolist() == counts
    assert row[8:].tolist() == extremes
    assert row[6].item() == pytest.approx(total, abs=1e-6 * scale)
    assert row[7].item() == pytest.approx(squares, rel=1e-5)
    once = tuple(row.tolist())
    merge(row, tensor)
    assert tuple(row.tolist()) == pytest.approx(merged(once, once), rel=1e-12)


@pytest.mark.parametrize("shape", SIZES, ids=str)
def test_counts_and_extremes_are_exact_and_sums_to_five_digits(shape):
    for tensor in kinds(shape):
        check(tensor)


def test_numbers_that_do_not_lie_in_a_row_of_memory():
    for tensor in kinds((96, 100)):
        check(tensor.T)
        check(tensor[:, ::3])


def test_on_a_cpu_five_numbers_are_computed_of_a_tensor_and_nothing_is_masked():
    """What is compiled is what costs: the counts of NaN and infinities are not in the graph."""
    graph = torch.fx.experimental.proxy_tensor.make_fx(merge)(torch.zeros(10, dtype=torch.float64), torch.ones(8, 2048))
    called = [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]
    assert called.count("backprobe.merge_.default") == 1
    assert not [one for one in called if "isnan" in one or "isfinite" in one or "isinf" in one]


@pytest.mark.parametrize("quick", [True, False], ids=["quick", "in full"])
def test_the_operator_does_what_its_schema_says(quick):
    """It writes to the row alone, and can be traced without numbers and with sizes that vary."""
    row, numbers = torch.tensor(NOTHING, dtype=torch.float64), torch.arange(1.0, 7.0).view(2, 3)
    given = torch.tensor([0.0, 21.0, 91.0, 1.0, 6.0], dtype=torch.float64) if quick else None
    torch.library.opcheck(torch.ops.backprobe.merge_.default, (row, given, numbers))
    torch.ops.backprobe.merge_(row, given, numbers)
    assert row.tolist() == [6.0, 6.0, 0.0, 0.0, 0.0, 0.0, 21.0, 91.0, 1.0, 6.0]


def test_what_is_merged_into_a_row_that_is_kept_outside_of_the_graph_is_the_same():
    """And nothing happens where the watch is over."""
    rows, numbers, row = CompiledRows(), torch.randn(3, 4), torch.tensor(NOTHING, dtype=torch.float64)
    rows.make(2, "cpu")
    merge((rows.name, 2), numbers)
    merge(row, numbers)
    assert rows.take() == {2: tuple(row.tolist())}
    torch.library.opcheck(torch.ops.backprobe.merge_kept.default, (rows.name, 2, None, numbers))
    name = rows.name
    del rows
    merge((name, 2), numbers)


class Called(TorchDispatchMode):
    """Counts the operations that run."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += 1
        return function(*args, **(kwargs or {}))


def test_rows_on_a_cpu_are_taken_and_cleared_without_an_operation():
    rows, numbers = CompiledRows(), torch.randn(3, 4)
    for place in range(2 * MANY):
        rows.make(place, "cpu")
    for place in (0, MANY - 1, MANY):
        merge(getattr(rows, f"row{place}"), numbers * (place + 1))
    with Called() as called:
        taken = rows.take()
        assert rows.take() == {}
    assert called.count == 0
    assert taken.keys() == {0, MANY - 1, MANY}
    for place, row in taken.items():
        assert row[6:] == pytest.approx(row_of(numbers * (place + 1))[6:], rel=1e-6)
    merge(rows.row5, numbers)
    assert rows.take().keys() == {5}
