"""Tensors of a library's own class, which holds integers in the place of numbers and knows few operations."""

import pytest
import torch
from torch import nn

import backprobe as bp


class Packed(torch.Tensor):
    """Numbers in 8 bits with one scale, as torchao has them: it detaches, and multiplies from the right."""

    @staticmethod
    def __new__(cls, whole, scale):
        return torch.Tensor._make_wrapper_subclass(cls, whole.shape, dtype=torch.float32)

    def __init__(self, whole, scale):
        self.whole, self.scale = whole, scale

    def unpacked(self):
        return self.whole.float() * self.scale

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if function in (torch.ops.aten.detach.default, torch.ops.aten.alias.default):
            return cls(args[0].whole, args[0].scale)
        if function is torch.ops.aten.t.default:
            return cls(args[0].whole.t(), args[0].scale)
        if function is torch.ops.aten.mm.default:
            return torch.mm(*[one.unpacked() if isinstance(one, Packed) else one for one in args])
        raise NotImplementedError(f"{function} of packed numbers")


class Unpacks(Packed):
    """Its numbers can be asked for."""

    def dequantize(self):
        return self.unpacked()


class Adapted(nn.Module):
    def __init__(self, kind, scale=0.5):
        super().__init__()
        self.weight = nn.Parameter(kind(torch.tensor([[2, -4], [6, 8]], dtype=torch.int8), scale), requires_grad=False)
        self.low = nn.Linear(2, 2)

    def forward(self, x):
        plain = x @ self.weight.t()
        extra = self.low(x)
        return plain + extra


def step(model):
    with bp.probe(model, ["**", ":*"]) as rec:
        loss = model(torch.ones(3, 2)).square().sum()
        loss.backward()
    return rec


@pytest.mark.parametrize("kind", [Packed, Unpacks])
def test_a_block_beside_packed_weights_is_explained(kind):
    rec = step(Adapted(kind))
    assert rec["weight"].status == "frozen"
    assert bp.explain(rec).ok, bp.explain(rec)
    assert bp.health(rec).ok


def test_numbers_that_can_be_unpacked_are_judged():
    """A scale of NaN makes each number of the weight NaN, and what is computed with it."""
    rec = step(Adapted(Unpacks, float("nan")))
    first = bp.explain(rec).findings[0]
    assert (first.name, first.kind) == ("weight", "came_in")
    assert "4 NaN of 4" in str(first)
