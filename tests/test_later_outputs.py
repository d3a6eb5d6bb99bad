"""Values that are one of several outputs of an operation, as those of ``unbind`` and ``split``: what comes to each."""

import pytest
import torch

import backprobe as bp

WEIGHTS = torch.arange(1.0, 9.0)


def parts_of(x, count=8):
    return (x * 2).reshape(count, -1).unbind()


@pytest.mark.parametrize("at", [0, 1, 7])
def test_each_output_gets_its_own_gradient(at):
    x = torch.ones(8, requires_grad=True)
    with bp.probe() as rec:
        part = parts_of(x)[at]
        (part * WEIGHTS[at]).sum().backward()
    assert rec["part"].grad.tolist() == [WEIGHTS[at]]


def test_a_hook_that_is_put_on_later_changes_the_gradient():
    x = torch.ones(8, requires_grad=True)
    with bp.probe() as rec:
        first, second, *_ = parts_of(x)
        second.register_hook(lambda gradient: gradient * 10)
        (first + 3 * second).sum().backward()
    assert (rec["first"].grad.item(), rec["second"].grad.item()) == (1, 30)
    assert x.grad[:2].tolist() == [2, 60]


def test_two_passes_add_up_where_a_hook_comes_between_them():
    x = torch.ones(8, requires_grad=True)
    with bp.probe() as rec:
        _, second, *_ = parts_of(x)
        loss = (3 * second).sum()
        loss.backward(retain_graph=True)
        second.register_hook(lambda gradient: gradient * 10)
        loss.backward()
    assert rec["second"].grad.item() == 3 + 30


def test_grad_of_an_output_is_recorded():
    x = torch.ones(8, requires_grad=True)
    with bp.probe() as rec:
        _, second, third, *_ = parts_of(x)
        given = torch.autograd.grad((3 * second + second * third).sum(), [second, third])
    assert [one.item() for one in given] == [5, 2]
    assert (rec["second"].grad.item(), rec["third"].grad.item()) == (5, 2)


def test_no_hook_of_an_output_is_left():
    x = torch.ones(8, requires_grad=True)
    second = parts_of(x)[1]
    with bp.probe() as rec:
        same = second
        (same * 3).sum().backward(retain_graph=True)
    (second * 100).sum().backward()
    assert rec["same"].grad.item() == 3
    assert x.grad[1] == 2 * 103
    assert not second._backward_hooks


@pytest.mark.parametrize("count, mode", [(41, torch.no_grad), (43, torch.inference_mode)])
def test_an_output_may_get_its_name_first_where_gradients_are_off(count, mode):
    x = torch.ones(count, requires_grad=True)
    parts = parts_of(x, count)
    with bp.probe(select=":late") as rec:
        with mode():
            late = parts[count - 1]
        (late * 3).sum().backward()
    assert rec["late"].grad.item() == 3


def test_an_output_may_get_its_name_first_inside_a_transform():
    x = torch.ones(47, requires_grad=True)
    parts = parts_of(x, 47)

    def inner(y):
        late = parts[46]
        return (late.detach() * y).sum()

    with bp.probe(select="**:late") as rec:
        torch.func.grad(inner)(torch.ones(1))
        late = parts[46]
        (late * 3).sum().backward()
    assert rec[":late"].grad.item() == 3


def test_many_outputs_of_one_operation():
    x = torch.ones(100, requires_grad=True)
    with bp.probe() as rec:
        parts = parts_of(x, 100)
        sum(part.sum() * at for at, part in enumerate(parts)).backward()
    assert [rec[f"parts.{at}"].grad.item() for at in (1, 63, 64, 99)] == [1, 63, 64, 99]
    assert torch.equal(x.grad, 2 * torch.arange(100.0))
