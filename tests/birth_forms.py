"""Births of NaN and Inf in the function form and in a block."""

import pytest
import torch

import backprobe as bp

BIRTHS = ("born", "born_backward", "came_in", "came_in_backward", "unknown")


def in_function(program, *args):
    return bp.explain(bp.probe(program, nonfinite=True)(*args))


def in_block(program, *args):
    args = [arg.clone().requires_grad_() for arg in args]
    with bp.probe(nonfinite=True) as rec:
        output = program(*args)
        output.backward(torch.ones_like(output))
    return bp.explain(rec)


in_both = pytest.mark.parametrize("explained", [in_function, in_block])
