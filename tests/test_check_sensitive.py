"""The smallest errors that a check sees: in one element, in double precision and in single."""

import pytest
import torch
from torch.autograd import Function

import backprobe as bp
from right_derivatives import ONE, a

SMOOTH = (
    "exp",
    "sin",
    "tanh",
    "softmax",
    "logsumexp",
    "relu",
    "layer_norm",
    "cumsum",
    "einsum",
    "max",
    "index",
    "sort",
)


def off(function, element, *, only_single):
    """The function with a derivative that is off in one element, by a little of the largest."""

    class Off(Function):
        @staticmethod
        def forward(ctx, x):
            if only_single and x.dtype != torch.float32:
                raise TypeError("a kernel for float32")
            with torch.enable_grad():
                ctx.x = x.detach().requires_grad_()
                ctx.y = function(ctx.x)
            return ctx.y.detach()

        @staticmethod
        def backward(ctx, g):
            (gradient,) = torch.autograd.grad(ctx.y, ctx.x, g)
            gradient = gradient.clone()
            gradient[divmod(element, 4)] += (0.1 if only_single else 1e-5) * gradient.abs().max()
            return gradient

    return Off


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("only_single", [False, True])
def test_one_element_that_is_off_a_little_is_seen(name, only_single):
    wrong = off(ONE[name], len(name) % 12, only_single=only_single)
    report = bp.check(lambda x: wrong.apply(x))(a)
    (finding,) = report.findings
    assert f"1 of 12 elements is wrong: [{len(name) % 12 // 4}, {len(name) % 4}]" in finding.facts[-1]
