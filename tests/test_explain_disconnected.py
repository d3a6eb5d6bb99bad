"""Notes on errors where a line has disconnected what is differentiated, or a state goes on by another name."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import backprobe as bp
from goldens import golden

pytestmark = pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
DATA = torch.ones(4, 3)


def noted(program):
    with pytest.raises(RuntimeError) as caught, bp.probe():
        program()
    return caught.value.__notes__[-1]


# the parameters of an inner loop


def test_an_unused_input_that_was_loaded_into_a_module():
    inner, outer = nn.Linear(3, 1), nn.Linear(3, 1)

    def program():
        loss = outer(DATA).pow(2).mean()
        grads = torch.autograd.grad(loss, list(outer.parameters()), create_graph=True)
        fast = {name: p - 0.1 * g for (name, p), g in zip(outer.named_parameters(), grads, strict=True)}
        inner.load_state_dict(fast)
        final = inner(DATA).mean()
        torch.autograd.grad(final, list(outer.parameters()))

    said = noted(program)
    golden("explain", said)
    assert "use it in what is computed" not in said


def test_an_unused_parameter_that_a_new_parameter_was_made_of():
    inner, outer = nn.Linear(3, 1), nn.Linear(3, 1)

    def program():
        grads = torch.autograd.grad(outer(DATA).pow(2).mean(), list(outer.parameters()), create_graph=True)
        inner.weight = nn.Parameter(outer.weight - 0.1 * grads[0])
        final = inner(DATA).mean()
        torch.autograd.grad(final, list(outer.parameters()))

    said = noted(program)
    golden("explain", said)


def test_an_unused_input_that_was_detached():
    w = torch.ones(3, requires_grad=True)

    def program():
        u = w * 2
        v = u.detach() * w
        torch.autograd.grad(v.sum(), [u])

    golden("explain", noted(program))


def test_parameters_that_nothing_mentions_are_not_said_to_be_cut():
    used, unused = nn.Linear(3, 1), nn.Linear(3, 1)

    def program():
        h = used(DATA)
        target = h.detach()
        loss = ((h - target) ** 2).sum() + h.sum()
        torch.autograd.grad(loss, [*used.parameters(), *unused.parameters()])

    said = noted(program)
    assert "unused.weight, unused.bias" in said
    assert "cut:" not in said
    assert "use it in what is computed" in said


# checkpoints


def test_a_reentrant_checkpoint_under_inputs_that_require_no_gradient():
    layer = nn.Linear(3, 3)
    said = noted(lambda: checkpoint(layer, DATA, use_reentrant=True).sum().backward())
    assert "frozen" not in said

    def program():
        h = checkpoint(layer, DATA, use_reentrant=True)
        h.sum().backward()

    said = noted(program)
    golden("explain", said)
    assert "use_reentrant=False" in said


def test_a_reentrant_checkpoint_behind_a_detach_is_a_second_cause():
    first, second = nn.Linear(3, 3), nn.Linear(3, 3)

    def program():
        a = first(DATA).detach()
        h = checkpoint(second, a, use_reentrant=True)
        loss = h.sum()
        loss.backward()

    said = noted(program)
    golden("explain", said)


# states


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.h = nn.Linear(3, 3), torch.zeros(4, 3)

    def forward(self, x):
        self.h = torch.tanh(self.layer(x) + self.h)
        return self.h


def test_a_state_in_an_attribute_is_detached_there():
    model = Recurrent()

    def program():
        for _ in range(2):
            y = model(DATA)
            y.sum().backward()

    said = noted(program)
    golden("explain", said)
    assert "y = y.detach()" not in said


# numbers


def test_numbers_of_several_elements_have_no_remedy_of_one():
    w = torch.ones(5, requires_grad=True)

    def program():
        doubled = w * 2
        total = sum(v.item() for v in doubled)
        loss = torch.tensor(total)
        loss.backward()

    assert "a tensor of one element" not in noted(program)
