"""Does this release of PyTorch take the hooks off a leaf? Up to 2.9 it does, as its own programs show."""

from functools import cache

import torch
from torch.autograd.graph import saved_tensors_hooks


class Square(torch.autograd.Function):
    """Its backward reads the leaf that it is given."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * ctx.saved_tensors[0] * grad


def square(w):
    """It is saved as `torch.autograd.graph.save_on_cpu` has it."""
    with saved_tensors_hooks(lambda one: one.detach().clone(), lambda one: one):
        return Square.apply(w)


@cache
def are_lost():
    """Tried without a probe."""
    heard, w = [], torch.ones(2, requires_grad=True)
    w.register_hook(heard.append)
    square(w).sum().backward()
    return not heard


def unheard(rec, *names):
    """Those of some leaves of which nothing can be heard, as they are said to be."""
    if not are_lost():
        return ()
    for name in names:
        assert rec[name].status == "opaque"
        assert rec[name].reason.startswith("PyTorch took the hooks off it")
    return names
