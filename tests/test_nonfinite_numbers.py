"""The numbers at the first place that is not finite, forward and backward, and the condition of a matrix."""

import pytest
import torch
from torch import tensor

import backprobe as bp
from birth_forms import BIRTHS, in_block, in_both, in_function


def divided(x):
    n = x - x
    y = n / x
    return y.sum()


def special(x):
    y = torch.special.xlog1py(x + 2, x - 1)
    return y.sum()


def summed(x):
    h = (x + 60000).half()
    s = h.sum()
    return s.float()


def within(x):
    y = 2 * torch.log(x * 3)
    return y.sum()


def by_rows(x):
    p = torch.softmax(torch.stack([x, x * 0 - torch.inf]), 1)
    return p.sum()


def of_one(x):
    spread = x[1:].std()
    return spread * 2


FORWARD = [
    (divided, "`n / x` at [0]: 0.0 / 0.0"),
    (special, "`torch.special.xlog1py(x + 2, x - 1)` at [0]: `x + 2` is 2.0, `x - 1` is -1.0"),
    (within, "`torch.log(x * 3)` at [0]: `x * 3` is 0.0"),
    (of_one, "`x[1:].std()`: `x[1:]`: 1 number, 2.0"),
]


def first(explained, program, *args):
    return explained(program, *args).of_kind(*BIRTHS)[0]


@in_both
@pytest.mark.filterwarnings("ignore:std")
@pytest.mark.parametrize(("program", "said"), FORWARD)
def test_the_first_element_is_shown_with_its_operands(program, said, explained):
    assert first(explained, program, tensor([0.0, 2.0])).facts[0] == said


@in_both
def test_a_row_of_one_number_is_said_to_be_one(explained):
    fact = explained(by_rows, tensor([0.0, 2.0])).of_kind("born")[-1].facts[0]
    assert "at [1, 0]" in fact and "all 2 numbers are −Inf" in fact


@in_both
def test_a_reduction_shows_how_many_and_the_extremes(explained):
    fact = first(explained, summed, tensor([0.0, 2000.0])).facts[0]
    assert fact == "`h.sum()`: `h`: 2 numbers, from 60000.0 to 62016.0"


def rooted(x):
    y = x.sqrt()
    return y.sum()


def left_out(x):
    root = x.sqrt()
    return (root * 0).sum()


@in_both
@pytest.mark.parametrize(("program", "came", "made"), [(rooted, "1.0", "Inf"), (left_out, "0.0", "NaN")])
def test_a_gradient_shows_the_value_and_what_came_in(program, came, made, explained):
    fact = first(explained, program, tensor([4.0, 0.0])).facts[0]
    assert " at [1] is " + made + ": " in fact
    assert " is 0.0 there, " in fact and fact.endswith(f"the incoming gradient is {came}")


def solved(a):
    x, _ = torch.linalg.inv_ex(a)
    return x.sum()


def volume(a):
    v = torch.logdet(a)
    return v * 2


def axes(a):
    values, vectors = torch.linalg.eigh(a)
    return (values * vectors[0]).sum()


MATRICES = [
    (solved, [[1.0, 2.0], [2.0, 4.0]], "a pivot of a is 0: its rank is 1 of 2"),
    (volume, [[1.0, 2.0], [2.0, 1.0]], "the determinant of a is -3"),
    (axes, [[2.0, 0.0], [0.0, 2.0]], "two eigenvalues of a are equal: 2 and 2"),
]


@pytest.mark.parametrize(("program", "numbers", "said"), MATRICES)
def test_the_condition_of_a_matrix_is_shown(program, numbers, said):
    assert said in first(in_function, program, tensor(numbers)).facts


def distances(a):
    d = torch.sqrt(a)
    return d.mean()


def kept_logarithms(a):
    d = torch.log(a)
    return torch.where(a > 0, d, 0).sum()


@in_both
@pytest.mark.parametrize("program", [distances, kept_logarithms])
@pytest.mark.parametrize("numbers", [torch.eye(3), torch.zeros(2, 2), tensor([[1.0, 1.0], [0.0, 0.0]])])
def test_eigenvalues_are_not_spoken_of_where_no_matrix_was_decomposed(program, numbers, explained):
    facts = [fact for one in explained(program, numbers) for fact in one.facts]
    assert any("the gradient of" in fact for fact in facts)
    assert not any("eigenvalues" in fact or "singular" in fact for fact in facts)


@in_both
def test_equal_singular_values_are_found_in_a_batch(explained):
    stack = torch.stack([torch.diag(tensor([1.0, 2.0])), tensor([[0.0, 3.0], [-3.0, 0.0]])])

    def program(a):
        left, values, right = torch.linalg.svd(a)
        return (left[:, 0] * values).sum()

    facts = [fact for one in explained(program, stack) for fact in one.facts]
    assert any(fact.startswith("two singular values of") and fact.endswith("are equal: 3 and 3") for fact in facts)


def test_a_product_says_nothing_of_the_rank_of_a_matrix():
    def product(a):
        y = (a @ a).half()
        return y.float().sum()

    facts = first(in_block, product, torch.full((2, 2), 300.0)).facts
    assert not any("rank" in one or "determinant" in one or "eigenvalue" in one for one in facts)


# remedies that are tried


def digamma(x):
    y = torch.digamma(x)
    return y.sum()


def logarithm(x):
    p = torch.softmax(x, 0)
    y = torch.log(p)
    return y[0]


def test_a_remedy_of_the_table_is_tried_in_the_program():
    found = first(in_function, logarithm, tensor([0.0, 200.0]))
    assert found.tried == ("all 2 outputs and gradients are finite then, and equal where they were finite before",)
    assert [edit.after for edit in found.edits] == ["y = torch.log_softmax(x, dim=0)"]


def test_where_no_row_fits_the_operand_is_kept_from_its_pole():
    found = first(in_function, digamma, tensor([0.0, 1.0]))
    assert found.remedy.startswith("`torch.digamma(torch.where(x > 1.19e-07, x, 1.19e-07))` instead of")
    assert found.tried and found.edits


def test_what_cures_nothing_is_not_proposed():
    def program(x):
        y = torch.full_like(x, torch.nan) * torch.digamma(x)
        return y.sum()

    for found in bp.explain(bp.probe(program, nonfinite=True)(tensor([0.0, 1.0]))).of_kind("born"):
        assert not found.tried
