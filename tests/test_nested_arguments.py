"""Functions of strided nested tensors: those that the bare program takes are differentiated, and written to."""

import pytest
import torch

import backprobe as bp

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


def ragged(requires_grad=False):
    rows = [torch.ones(2, 3), torch.full((4, 3), 2.0)]
    return torch.nested.nested_tensor(rows, layout=torch.strided, requires_grad=requires_grad)


def padded(x):
    h = x * x
    p = torch.nested.to_padded_tensor(h, 0.0)
    return p.sum()


def in_place(x):
    x.mul_(3)
    return torch.nested.to_padded_tensor(x, 0.0).sum()


def through_a_layer(x):
    layer = torch.nn.Linear(3, 1)
    with torch.no_grad():
        layer.weight.fill_(2.0), layer.bias.zero_()
    y = layer(x)
    return torch.nested.to_padded_tensor(y, 0.0).sum()


def in_a_dict(batch):
    return torch.nested.to_padded_tensor(batch["rows"] * 2, 0.0).sum()


def gradients(entry):
    return [row.tolist() for row in entry.grad.unbind()]


@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_nested_argument_has_its_gradient(requires_grad):
    rec = bp.probe(padded)(ragged(requires_grad))
    assert gradients(rec["x"]) == [[[2.0] * 3] * 2, [[4.0] * 3] * 4]
    assert rec["p"].grad.tolist() == [[[1.0] * 3] * 4] * 2
    assert float(rec["return"].value) == float(padded(ragged()))


def test_what_is_written_into_a_nested_argument_reaches_the_caller():
    x, bare = ragged(), ragged()
    rec = bp.probe(in_place)(x)
    in_place(bare)
    assert all(torch.equal(one, other) for one, other in zip(x.unbind(), bare.unbind(), strict=True))
    assert not x.requires_grad
    assert gradients(rec["x#0"]) == [[[3.0] * 3] * 2, [[3.0] * 3] * 4]


def test_a_nested_argument_of_a_layer_and_one_in_a_dict():
    assert gradients(bp.probe(through_a_layer)(ragged())["x"]) == [[[2.0] * 3] * 2, [[2.0] * 3] * 4]
    assert gradients(bp.probe(in_a_dict)({"rows": ragged()})["batch.rows"]) == [[[2.0] * 3] * 2, [[2.0] * 3] * 4]
