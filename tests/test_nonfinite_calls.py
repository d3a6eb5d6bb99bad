"""Births in calls that NumPy does not know, which the framework evaluates again, and in parts that read alike."""

import pytest
import torch
import torch.nn.functional as F
from torch import tensor

from backprobe.backends.discover import load_arrays
from birth_forms import in_block, in_both, in_function
from goldens import golden
from remedied import INSTEAD

X = tensor([0.0, 1.0])


def in_an_argument(x):
    return F.kl_div(x.log(), x, reduction="sum")


def beside_a_known_one(x):
    return torch.lerp(x, torch.log(x), 0.5).sum()


def with_other_arguments(x):
    return torch.linalg.vector_norm(1 / x, ord=3)


def of_labels(x):
    return F.cross_entropy((x / x)[None], torch.tensor([0]), reduction="none").sum()


def over_indices(x):
    return torch.einsum("i,j->", 1 / x, x)


@pytest.mark.parametrize(
    ("program", "part", "why"),
    [
        (in_an_argument, "x.log()", "at"),
        (beside_a_known_one, "torch.log(x)", "at"),
        (with_other_arguments, "1 / x", "by_zero"),
        (of_labels, "x / x", "zero_zero"),
        (over_indices, "1 / x", "by_zero"),
    ],
)
def test_a_part_of_a_call_is_named_in_a_block(program, part, why):
    birth = in_block(program, X).of_kind("born")[0]
    assert birth.fields["why"] == why
    assert any(fact.startswith(f"`{part}` gives") for fact in birth.facts)


@in_both
@pytest.mark.parametrize(
    ("program", "said"),
    [
        (lambda x: torch.logit(x).sum(), "logit(0)"),
        (lambda x: torch.special.entr(x - 1).sum(), "entr of a number below 0"),
        (lambda x: torch.erfinv(x).sum(), "erfinv(±1)"),
        (lambda x: torch.lgamma(x).sum(), "lgamma(0)"),
        (lambda x: torch.einsum("i,j->", x * 1e30, x * 1e30), "overflow: float32"),
        (lambda x: (x * 1e5).to(torch.float16).sum(), "overflow: float16"),
    ],
)
def test_the_reason_of_a_function(program, said, explained):
    assert said in explained(program, X).of_kind("born")[0].headline


def test_a_pole_at_minus_one_is_no_overflow():
    birth = in_function(lambda x: torch.special.xlog1py(x + 2, x - 1).sum(), X).of_kind("born")[0]
    assert "overflow" not in birth.headline


SINGULAR = tensor([[1.0, 2.0], [2.0, 4.0]])
MIRROR = tensor([[0.0, 1.0], [1.0, 0.0]])


@in_both
@pytest.mark.parametrize(
    ("program", "given", "kind", "said"),
    [
        (lambda x: (x / x if x.numel() > 1 else x).sum(), X, "born", "0/0"),
        (lambda x: (x if x.ndim > 1 else 1 / x).sum(), X, "born", "division by zero"),
        (lambda x: torch.min((x * 200).exp() * (x - 1), x).sum(), X, "born", "overflow: float32 ends at 3.40e38"),
        (lambda x: torch.max(x / x, x).sum(), X, "born", "0/0"),
        (lambda x: x.prod() ** (1 / x.numel()), X, "born_backward", "the derivative of pow is infinite at 0"),
        (lambda x: x.sum() ** (1 / (2 * x.dim())), X - X, "born_backward", "the derivative of pow is infinite at 0"),
        (lambda x: (1 / (x + 1e-39)).sum(), X, "born", "overflow: float32 ends at 3.40e38"),
        (lambda x: ((x * 1e-30) / (x + 1e-39)).sum(), X, "born_backward", "overflow: float32 ends at 3.40e38"),
        (lambda x: torch.logdet(x), SINGULAR, "born", "log(0): the determinant is 0"),
        (lambda x: x.logdet() * 2, MIRROR, "born", "log of a number below 0: the determinant is negative"),
    ],
)
def test_the_reason_is_read_off_the_numbers(program, given, kind, said, explained):
    assert explained(program, given).of_kind(kind)[0].headline.endswith(f": {said}")


def of_sigmoid(x):
    p = torch.sigmoid(x)
    return torch.sqrt(1 - p).sum()


def of_tanh(x):
    p = torch.tanh(x)
    return torch.sqrt(1 - p).sum()


@in_both
@pytest.mark.parametrize("program", [of_sigmoid, of_tanh])
def test_an_infinite_gradient_that_meets_a_derivative_of_zero(program, explained):
    report = explained(program, tensor([60.0, 1.0]))
    first, second = report.of_kind("born_backward")
    golden("nonfinite", first)
    assert second.headline.endswith(": 0 · Inf: a gradient of Inf")


def beside_another(x):
    z = 1 / x
    y = torch.log1p(z * z) + torch.log(x)
    return y.sum()


def squared(x):
    once = x * x
    twice = once * once
    return twice.sum()


@in_both
def test_a_birth_of_finite_numbers_is_not_said_to_be_of_an_inf_that_the_line_reads(explained):
    first, second, *_ = explained(beside_another, X).of_kind("born")
    assert first.headline.startswith("Inf is born at ") and first.headline.endswith("z': division by zero")
    assert second.headline.startswith("Inf is born at ") and second.headline.endswith(": log(0)")


def test_an_overflow_beside_an_inf_that_came_is_named():
    first, second = in_function(squared, tensor([1e10, 1e30])).of_kind("born")
    assert first.name == "once"
    golden("nonfinite", first)
    assert second.name == "twice"
    golden("nonfinite", second)


def normalised(h):
    squares = h.pow(2)
    y = h / torch.sqrt(squares.mean())
    return y.float().sum()


@in_both
def test_an_overflow_that_a_division_heals_is_not_called_harmless(explained):
    report = explained(normalised, tensor([300.0, 200.0], dtype=torch.float16))
    assert report.ok
    (note,) = [one for one in report.notes if "squares" in one]
    golden("nonfinite", note)


def test_only_known_functions_are_evaluated():
    assert load_arrays("torch").evaluate("logit", [X.numpy()], {}).tolist() == [-float("inf"), float("inf")]
    for name in ("load", "save", "rand_like", "compile", "__class__", "set_default_dtype", "eval"):
        assert load_arrays("torch").evaluate(name, [X.numpy()], {}) is None
    assert load_arrays("numpy").evaluate("logit", [X.numpy()], {}) is None


def test_evaluating_leaves_the_random_state():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    in_block(in_an_argument, X)
    assert torch.equal(torch.get_rng_state(), before)


# branches and numbers that are written out


def filled(x):
    y = torch.log(x).masked_fill(x == 0, 0.0)
    return y.sum()


@in_both
def test_the_branch_of_a_masked_fill(explained):
    (birth,) = explained(filled, X).of_kind("born_backward")
    golden("nonfinite", birth)


@in_both
def test_zero_times_a_written_inf(explained):
    birth = explained(lambda x: (x * float("inf")).sum(), X).of_kind("born")[0]
    assert birth.headline.startswith("NaN is born") and birth.fields["why"] == "zero_inf"


@in_both
def test_a_remedy_for_a_write_into_a_temporary_is_an_expression(explained):
    (birth,) = explained(lambda x: (x * 2).div_(x).sum(), X).of_kind("born")
    said = INSTEAD.match(birth.remedy)
    golden("nonfinite", birth)
    assert torch.isfinite(eval(said["instead"], {"torch": torch, "x": X})).all()


def test_parts_that_read_alike_are_one_birth():
    report = in_function(lambda x: torch.hypot(x - x, x - x).sum(), X)
    assert len(report.of_kind("born_backward")) <= 1
