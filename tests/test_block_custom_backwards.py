"""What a backward of the program's own calls is not recorded, and a note names it."""

import pytest
import torch
from torch.autograd import Function

import backprobe as bp
from block_cases import case

MIXER = torch.nn.Linear(3, 3)


def damped(gradient):
    return gradient * 0.5


class Named(Function):
    """Its backward names a function and a module."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return MIXER(damped(gradient))


class Held(Function):
    """Its backward runs again what the forward was given, as a checkpoint does."""

    @staticmethod
    def forward(ctx, x, function, module):
        ctx.function, ctx.module = function, module
        ctx.save_for_backward(x)
        return function(x)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            y = ctx.function(ctx.module(x))
        return torch.autograd.grad(y, x, gradient)[0], None, None


def enclosed(factor):
    def scaled(gradient):
        return gradient * factor

    class Enclosed(Function):
        """Its backward closes over a function, and calls it in a function of its own."""

        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return list(map(lambda one: scaled(one), [gradient]))[0]

    return Enclosed


ENCLOSED = enclosed(3)
PROGRAMS = {
    "named": (lambda x: Named.apply(x).sum(), "Named.backward()", "damped"),
    "held": (lambda x: Held.apply(x, damped, MIXER).sum(), "Held.backward()", "ctx.function, ctx.module"),
    "enclosed": (lambda x: ENCLOSED.apply(x).sum(), "Enclosed.backward()", "scaled"),
}


def noted(rec):
    return [str(note) for note in rec.notes if "during the backward pass" in str(note)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_function_says_what_its_backward_calls(name):
    program, function, names = PROGRAMS[name]
    rec = bp.probe(program)(torch.ones(2, 3))
    (note,) = noted(rec)
    assert f"{function} runs during the backward pass, where nothing is recorded of what it calls: " in note
    assert names in note and "def backward(ctx, gradient):" in note
    assert note in str(bp.explain(rec))


@case(
    "functions and modules that a custom `backward` calls",
    "Inside a block",
    "not recorded: it runs during the backward pass; a note names them",
)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_block_says_it_too(name):
    program, function, names = PROGRAMS[name]
    x = torch.ones(2, 3, requires_grad=True)
    with bp.probe() as rec:
        loss = program(x)
        loss.backward()
    (note,) = noted(rec)
    assert function in note and names in note
    assert note in str(bp.explain(rec))


def test_a_model_says_it_too():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(3, 3)

        def forward(self, x):
            return Named.apply(self.first(x)).sum()

    (note,) = noted(bp.probe(Model())(torch.ones(2, 3)))
    assert "MIXER" in note and "damped" in note


def test_nothing_is_said_of_a_backward_that_calls_pytorch_alone():
    class Plain(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.exp()

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            return gradient * torch.exp(x)

    assert noted(bp.probe(lambda x: Plain.apply(x).sum())(torch.ones(3))) == []
    inner = torch.utils.checkpoint.checkpoint
    assert noted(bp.probe(lambda x: inner(damped, x, use_reentrant=False).sum())(torch.ones(3))) == []
