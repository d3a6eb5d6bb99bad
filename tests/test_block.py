"""A block in short: the gradients of the program's own backward, and nothing left behind."""

import torch

import backprobe as bp


def step(x, w):
    hidden = torch.tanh(x * w)
    loss = (hidden**2).sum()
    loss.backward()
    return loss


def test_a_block_has_the_gradients_of_the_programs_own_backward():
    x, w = torch.tensor([1.0, 2.0]), torch.tensor([0.5, -1.0], requires_grad=True)
    with bp.probe() as rec:
        hidden = torch.tanh(x * w)
        loss = (hidden**2).sum()
        loss.backward()
    assert torch.equal(rec["hidden"].grad, 2 * hidden)
    assert torch.equal(rec["w"].grad, w.grad)
    assert [entry.name for entry in rec.outputs] == ["loss"]


def test_a_program_has_the_same_numbers_in_a_block():
    x, bare, probed = (torch.tensor([0.5, -1.0], requires_grad=flag) for flag in (False, True, True))
    wanted = step(x, bare)
    with bp.probe() as rec:
        found = step(x, probed)
    assert torch.equal(found, wanted)
    assert torch.equal(probed.grad, bare.grad)
    assert torch.equal(rec["/step:hidden"].grad, 2 * rec["/step:hidden"].value)
    assert not probed._backward_hooks
