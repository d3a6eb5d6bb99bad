"""Helpers for the hard cases of blocks: two runs compared, and a look for anything left behind."""

import gc
import sys
from contextlib import contextmanager

import pytest
import torch

from asked import same
from backprobe.backends.torch.block import Passing, TorchBlockTape
from backprobe.backends.torch.capture import Capture
from backprobe.probe.block import BlockRun as BlockRun
from backprobe.source.tracer import Tracer
from backprobe.tracing.frame_observer import FrameObserver, ObservedFrame
from backprobe.tracing.reader import Reader
from backprobe.tracing.recompute import Repeats
from backprobe.tracing.scope import Scope
from backprobe.tracing.trace import Trace
from backprobe.tracing.values import ScopeId, ScopeNames, Value
from backprobe.tracing.versions import Versions

OURS = (
    BlockRun,
    Capture,
    FrameObserver,
    TorchBlockTape,
    ScopeNames,
    ObservedFrame,
    Passing,
    Reader,
    Repeats,
    Scope,
    ScopeId,
    Trace,
    Tracer,
    Value,
    Versions,
)
HOOKS = [
    held
    for name, held in vars(torch.nn.modules.module).items()
    if name.startswith("_global_") and isinstance(held, dict)
]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([2.0, 3.0, 4.0]))

    def forward(self, x):
        hidden = x * self.weight
        return hidden.tanh()


def doubled(value):
    twice = value * 2
    return twice


def scalar(number):
    return torch.tensor(number, requires_grad=True)


def assert_same(found, expected, but=()):
    """The same names in the same order, with the same aliases, statuses, values and gradients."""
    assert list(found) == list(expected)
    for name, entry in expected.items():
        if name not in but:
            other = found[name]
            assert (other.status, other.reason) == (entry.status, entry.reason), name
            assert other.aliases == entry.aliases, name
            assert same(other.held, entry.held), name
            assert same(other.grad_or_none, entry.grad_or_none), name


def grads(model):
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def assert_grads(model, expected):
    """What the program itself leaves in ``.grad`` is bitwise what it leaves without a probe."""
    for name, gradient in grads(model).items():
        assert same(gradient, expected[name]), name


def global_state():
    return (
        sys.gettrace(),
        [len(held) for held in HOOKS],
        torch.is_grad_enabled(),
        torch._C._len_torch_function_stack(),
        torch._C._len_torch_dispatch_stack(),
        torch._C._is_torch_function_enabled(),
    )


@contextmanager
def nothing_left():
    """Whatever runs within, no object of a probe lives on after it, and nothing is installed any more."""
    before, caller = global_state(), sys._getframe(2)
    gc.collect()
    gc.freeze()  # what is there before is not looked through
    yield
    assert global_state() == before
    gc.collect()
    left = [found for found in gc.get_objects() if isinstance(found, OURS)]
    assert not left, [type(found).__name__ for found in left]
    while caller is not None:
        assert "backprobe" not in getattr(type(caller.f_trace), "__module__", "")
        caller = caller.f_back


def case(claim, section, answer="works"):
    """A test that is a row of the page on blocks; see ``block_page.py``."""
    return pytest.mark.block(claim, section, answer=answer)
