"""``bp.check`` of modules of a library that put other buffers in the places of theirs, as spiking neurons do."""

import importlib.util
import sys
from textwrap import dedent

import pytest
import torch
from torch import nn

import backprobe as bp
from goldens import golden

LIBRARY = """
    import torch
    from torch import nn


    class Cell(nn.Module):
        def __init__(self, form, size=0):
            super().__init__()
            self.form = form
            self.register_buffer("state", None if form == "filled" else torch.zeros(size), persistent=False)
            self.weight = nn.Parameter(torch.tensor([0.5]))

        def forward(self, x):
            held = self.state if self.state is not None and self.state.shape == x.shape else torch.zeros_like(x)
            new = (held + x * self.weight).tanh()
            getattr(self, self.form)(new)
            return new * 2

        def assigned(self, new):
            self.state = new

        def detached(self, new):
            self.state = new.detach()

        def filled(self, new):
            self.state = new.detach().clone()

        def added(self, new):
            self.register_buffer("more", new.detach())

        def removed(self, new):
            del self.state
            self.state = None

        def resized(self, new):
            self.state.resize_(new.shape).copy_(new.detach())

        def cast(self, new):
            self.state = self.state.to(torch.float16)

        def returned(self, new):
            self.state = new
            return self.state


    class Around(nn.Module):
        def __init__(self, form):
            super().__init__()
            self.cell = Cell(form)

        def forward(self, x):
            return self.cell(self.cell(x))
"""
FORMS = ["assigned", "detached", "filled", "added", "removed", "resized", "returned"]


@pytest.fixture
def library(tmp_path):
    path = tmp_path / "site-packages/spikes.py"
    path.parent.mkdir()
    path.write_text(dedent(LIBRARY))
    spec = importlib.util.spec_from_file_location("spikes", path)
    module = sys.modules["spikes"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["spikes"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["Cell", "Around"])
def test_a_function_that_makes_one(library, kind, form):
    def f(x):
        cell = getattr(library, kind)(form)
        y = cell(x)
        return y.sum()

    report = bp.check(f)(torch.tensor([0.3, -0.2]))

    assert report.ok and report.complete, str(report)
    assert report.judged


@pytest.mark.parametrize("form", FORMS)
def test_a_model_that_has_one(library, form):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.cell = nn.Linear(3, 4), library.Cell(form)

        def forward(self, x):
            return self.cell(self.first(x)).sum()

    torch.manual_seed(0)
    net = Net()
    before = {name: None if one is None else one.clone() for name, one in net.cell._buffers.items()}

    report = bp.check(net)(torch.ones(2, 3))

    assert report.ok and report.complete, str(report)
    assert "self.cell(self.first(x))" not in "\n".join(report.unjudged)
    assert before.keys() == {"state"}


def test_what_cannot_be_judged_of_one_is_a_note(library):
    def f(x):
        cell = library.Cell("cast")  # to half precision
        y = cell(x)
        return y.sum()

    report = bp.check(f)(torch.tensor([0.3, -0.2]))

    assert report.ok and not report.complete
    golden("check", report)


def test_one_that_is_wrong_is_found(library):
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 3

    library.Wrong = Wrong

    class Cell(library.Cell):
        pass

    def forward(self, x):
        self.state = library.Wrong.apply(x)
        return self.state + 1

    Cell.forward = forward
    forward.__code__ = forward.__code__.replace(co_filename=library.__file__)
    forward.__globals__["library"] = library

    def f(x):
        cell = Cell("assigned")
        y = cell(x)
        return y.sum()

    report = bp.check(f)(torch.tensor([0.3, -0.2]))

    assert not report.ok
    del forward.__globals__["library"]
