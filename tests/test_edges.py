"""Tensors to which PyTorch's own ``get_gradient_edge`` finds no way, or to which there is none."""

import pytest
import torch

import backprobe as bp

pytestmark = pytest.mark.filterwarnings("ignore:Sparse:UserWarning", "ignore:The PyTorch API of nested tensors")


def test_a_view_made_under_no_grad_has_no_gradient():
    """PyTorch says that it requires one, as its base does, and leads nothing to it."""

    def f(x):
        u = x * 2
        with torch.no_grad():
            first = x[:2]
            second = u[1:]
        after = first * 3
        return (u * 5).sum() + after.sum()

    for x in (torch.ones(3), torch.ones(3, requires_grad=True)):
        rec = bp.probe(f)(x)
        assert rec["first"].status == rec["second"].status == "no_grad"
        assert rec["first"].reason == "it was computed under torch.no_grad() from differentiated values"
        assert rec["first"].value.tolist() == [1, 1]
        assert rec["x"].grad.tolist() == [10, 10, 10]


def test_a_view_made_before_its_base_required_a_gradient_has_none():
    def f(x, view):
        return (x * view.sum()).sum()

    x = torch.tensor([1.0, 2.0, 3.0])
    view = x[:2]
    x.requires_grad_()
    assert view.requires_grad
    rec = bp.probe(f)(x, view)
    assert rec["x"].grad.tolist() == [3, 3, 3]
    assert rec["view"].status == "detached"
    assert rec["view"].reason == "it was computed from differentiated values, but has no gradient history"
    rec = bp.probe(lambda view, x: (x * view.sum()).sum())(view, x)
    assert rec["view"].reason == "it is a view that was made under no_grad, or before its base required a gradient"


def test_nothing_is_differentiated_at_a_view_without_history():
    def f(x):
        with torch.no_grad():
            return x[0]

    with pytest.raises(bp.NothingToDifferentiate, match="the output does not depend on any differentiated value"):
        bp.probe(f)(torch.ones(3, requires_grad=True))


LAYOUTS = {
    "coo": lambda: torch.eye(2).to_sparse(),
    "csr": lambda: torch.eye(2).to_sparse_csr(),
    "bsr": lambda: torch.eye(2).to_sparse_bsr((1, 1)),
    "mkldnn": lambda: torch.eye(2).to_mkldnn(),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("is_leaf", [False, True])
def test_an_argument_that_is_not_strided_has_its_gradient(layout, is_leaf):
    def f(s):
        dense = s.to_dense()
        return (dense * 3).sum()

    s = LAYOUTS[layout]().requires_grad_(is_leaf)
    rec = bp.probe(f)(s)
    assert rec["dense"].grad.tolist() == [[3, 3], [3, 3]]
    (wanted,) = torch.autograd.grad(f(s.requires_grad_()), s)
    assert torch.equal(rec["s"].grad.to_dense(), wanted.to_dense())


@pytest.mark.parametrize("layout", [torch.jagged, torch.strided])
def test_a_nested_argument_has_its_gradient(layout):
    def f(n):
        first, second = n.unbind()
        return (first * 3).sum() + (second * 2).sum()

    n = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout, requires_grad=True)
    rec = bp.probe(f)(n)
    assert [part.tolist() for part in rec["n"].grad.unbind()] == [[3, 3], [2, 2, 2]]
    assert rec["first"].grad.tolist() == [3, 3]


def test_a_leaf_of_a_compressed_layout_gets_its_gradient_in_a_block():
    """PyTorch copies a gradient that somebody else holds, and has no copy of this layout."""
    x = torch.eye(3, dtype=torch.float64).to_sparse_csr().requires_grad_()
    with bp.probe() as rec:
        y = torch.neg(x)
        y.to_dense().sum().backward()
    assert torch.equal(rec["x"].grad.to_dense(), x.grad.to_dense())
    assert rec["x"].grad.layout is torch.sparse_csr
