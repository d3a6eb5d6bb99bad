"""Models that call compiled functions: Dynamo, which traces the hooks of what it compiles, finds nothing of a block."""

import contextlib
import warnings

import pytest
import torch
import torch._dynamo
from torch import nn

import backprobe as bp


class Part(nn.Module):
    """A model with a part that is compiled as a function, and must be compiled whole."""

    def __init__(self):
        super().__init__()
        self.first, self.act, self.last = nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 1)
        self.inside = torch.compile(lambda x: self.act(self.first(x)) * 2, backend="eager", fullgraph=True)

    def forward(self, x):
        return self.last(self.inside(x))


class Whole(Part):
    """A model whose whole step is compiled."""

    def forward(self, x):
        return self.last(self.act(self.first(x)) * 2)


def inside(model, x):
    model(x).sum().backward()


def step(model, x):
    torch.compile(lambda x: model(x).sum(), backend="eager", fullgraph=True)(x).backward()


FORMS = {
    "a block around the model": bp.probe,
    "with its locals": lambda model: bp.probe(model, ["**", "**:*"]),
    "looking for NaN": lambda model: bp.probe(model, nonfinite=True),
    "a plain block": lambda model: bp.probe(),
    "a guard": bp.guard,
    "a plain guard": lambda model: bp.guard(),
}
each_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
each_program = pytest.mark.parametrize(("kind", "program"), [(Part, inside), (Whole, step)], ids=["a part", "the step"])


def gradients(kind, program, form, before=False):
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, x = kind(), torch.randn(3, 4)
    if before:
        program(model, x)
        model.zero_grad()
    with form(model) as rec:
        program(model, x)
    return [parameter.grad for parameter in model.parameters()], rec


@each_form
@each_program
@pytest.mark.parametrize("before", [False, True], ids=["in the block", "before it"])
def test_what_is_compiled_is_compiled_whole_and_computes_the_same(kind, program, form, before):
    bare, _ = gradients(kind, program, lambda model: contextlib.nullcontext(), before)
    found, _ = gradients(kind, program, form, before)
    assert all(map(torch.equal, found, bare))


def test_a_module_that_ran_unseen_is_not_said_to_have_stood_still():
    _, rec = gradients(Part, inside, bp.probe)
    assert str(rec["first"].status) == "opaque" and "compiled code called it" in rec["first"].reason
    assert rec["first.weight"].status == "ok"


class Cut(Part):
    def forward(self, x):
        return self.last(self.first.forward(x).detach())


def test_a_module_whose_forward_is_called_is_not_said_to_have_stood_still():
    _, rec = gradients(Cut, inside, bp.probe)
    (found,) = bp.explain(rec).findings
    assert found.headline == "'first.weight' is a parameter of 'first', and no call of that module was seen"
    assert "calls of forward() itself, and calls inside what torch.compile made, are not seen here" in found.facts


def test_a_guard_of_a_compiled_model_warns_of_nothing():
    model = torch.compile(nn.Sequential(nn.Linear(3, 3)), backend="eager", fullgraph=True)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with bp.guard(model):
            model(torch.rand(4, 3)).sum().backward()
    assert not [one for one in warned if "hook" in str(one.message)]
    torch.compiler.reset()
