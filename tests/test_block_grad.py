"""Blocks around programs that write, share or keep gradients: ``.grad`` is what it is without a block, and what was
recorded stays what had arrived."""

import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import backprobe as bp
from asked import same
from backprobe.backends.torch import backward_passes
from custom import custom

pytestmark = pytest.mark.usefixtures("leaves_nothing")

C = torch.tensor([1.0, 10.0, 100.0])
Triple = custom("Triple", lambda a: a * 3, lambda gradient, a: gradient.mul_(3))  # into what it was given


def several_calls(w):
    for _ in range(3):
        (w * C).sum().backward()
    return 3 * C


def cleared_in_place(w):
    (w * C).sum().backward()
    w.grad.zero_()
    (w * C).sum().backward()
    return 2 * C


def cleared_by_an_optimizer(w):
    optimizer = torch.optim.SGD([w], lr=0.1)
    for set_to_none in (False, True, False):
        optimizer.zero_grad(set_to_none=set_to_none)
        (w * C).sum().backward()
    return 3 * C


def used_twice(w):
    (w * C + w).sum().backward()
    return C + 1


def differentiable(w):
    (w**2 * C).sum().backward(create_graph=True)
    found = 2 * w.detach() * C
    w.grad = w.grad.detach()
    (w**2 * C).sum().backward(create_graph=True)
    return 2 * found


def clipped(w):
    (w * C).sum().backward()
    nn.utils.clip_grad_norm_([w], 0.1)
    return C


def scaled_by_a_hook_on_grad(w):
    def scale(leaf):
        leaf.grad.mul_(7)

    handle = w.register_post_accumulate_grad_hook(scale)
    (w * C).sum().backward()
    (w * C).sum().backward()
    handle.remove()
    return 2 * C


def replaced_by_a_hook(w):
    handle = w.register_hook(lambda gradient: gradient * 2)
    loss = (w * C).sum()
    loss.backward()
    handle.remove()
    return 2 * C


def replaced_by_a_buffer_that_is_used_again(w):
    buffer = torch.empty(3)
    handle = w.register_hook(buffer.copy_)
    (w * C).sum().backward()
    (w * C).sum().backward()
    handle.remove()
    buffer.zero_()
    return 2 * C


def kept_by_a_hook_and_written(w):
    kept = []
    handle = w.register_hook(kept.append)
    (w * C).sum().backward()
    handle.remove()
    kept[0].zero_()
    return C


def shared_with_what_a_backward_writes_into(w):
    v = torch.ones(3, requires_grad=True)
    ((w + Triple.apply(v * 1)) * C).sum().backward()
    return C


def a_cotangent_that_is_used_again(w):
    cotangent = C.clone()
    (w + 1).backward(cotangent)
    cotangent.zero_()
    return C


def a_cotangent_of_the_leaf_itself(w):
    cotangent = C.clone()
    w.backward(cotangent)
    cotangent.zero_()
    return C


def a_cotangent_that_requires_a_gradient(w):
    cotangent = C.clone().requires_grad_()
    (w + 1).backward(cotangent)
    with torch.no_grad():
        cotangent.zero_()
    return C


def a_gradient_penalty(w):
    (slope,) = torch.autograd.grad((w**2 * C).sum(), w, create_graph=True)
    (slope.sum() + (w * C).sum()).backward()
    return 3 * C


PROGRAMS = (
    several_calls,
    cleared_in_place,
    cleared_by_an_optimizer,
    used_twice,
    clipped,
    scaled_by_a_hook_on_grad,
    replaced_by_a_hook,
    replaced_by_a_buffer_that_is_used_again,
    kept_by_a_hook_and_written,
    shared_with_what_a_backward_writes_into,
    a_cotangent_that_is_used_again,
    a_cotangent_of_the_leaf_itself,
    a_cotangent_that_requires_a_gradient,
    a_gradient_penalty,
)


def leaf():
    return torch.tensor([2.0, 3.0, 4.0], requires_grad=True)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_leaf(program):
    bare, w = leaf(), leaf()
    program(bare)
    with bp.probe() as rec:
        k = w  # noqa: F841
        expected = program(w)
    assert same(w.grad, bare.grad)
    assert same(rec["w"].grad, expected)
    w.grad.fill_(-1)
    assert same(rec["w"].grad, expected)


@pytest.mark.filterwarnings("ignore:Using backward\\(\\) with create_graph")
@pytest.mark.parametrize("options", [{}, {"create_graph": True}])
def test_a_leaf_whose_gradients_are_differentiated(options):
    bare, w = leaf(), leaf()
    differentiable(bare)
    with bp.probe(**options) as rec:
        k = w  # noqa: F841
        expected = differentiable(w)
    assert same(w.grad, bare.grad)
    assert torch.equal(rec["w"].grad, expected)
    assert rec["w"].grad.requires_grad == bool(options)
    w.grad = bare.grad = None


def looked_up(w):
    nn.functional.embedding(torch.tensor([0, 1, 1]), w, sparse=True).sum().backward()


def multiplied(w):
    (w * 2).sum().backward()


@pytest.mark.parametrize(
    "steps", [(looked_up,), (looked_up, looked_up), (looked_up, multiplied), (multiplied, looked_up)]
)
def test_sparse_gradients(steps):
    def program(w):
        for step in steps:
            step(w)
        return w.grad

    bare, w = torch.ones(3, 2, requires_grad=True), torch.ones(3, 2, requires_grad=True)
    program(bare)
    with bp.probe() as rec:
        grad = program(w)
    assert grad.layout is bare.grad.layout
    assert torch.equal(grad.to_dense(), bare.grad.to_dense())
    assert torch.equal(rec["w"].grad.to_dense(), bare.grad.to_dense())


@pytest.mark.parametrize("number", [1, 3])
def test_a_leaf_with_the_very_gradient_of_values(number):
    """An addition passes on the very object that came to it, and a leaf's ``.grad`` may become that."""

    def program(w):
        u = w + 1
        v = u + 1
        for _ in range(number):
            (v * C).sum().backward(retain_graph=True)
        w.grad.add_(1000)

    bare, w = leaf(), leaf()
    program(bare)
    with bp.probe() as rec:
        program(w)
    assert same(w.grad, bare.grad)
    for name in ("w", "/program:u", "/program:v"):
        assert same(rec[name].grad, number * C), name


BUFFER = torch.zeros(8)


def into_the_buffer(gradient, a):
    part = BUFFER[2:5]
    part.copy_(gradient)
    return part


Buffered = custom("Buffered", lambda a: a * 1, into_the_buffer)


@pytest.mark.parametrize("through", [lambda w: w, lambda w: w + 0])
def test_a_grad_that_is_a_view_of_a_buffer_changes_with_it(through):
    """As where several gradients lie side by side, to be averaged by one call."""

    def program(w):
        u = through(w)
        v = Buffered.apply(u)
        (v * C).sum().backward()
        BUFFER.mul_(2)
        return u

    bare, w = leaf(), leaf()
    program(bare)
    assert same(bare.grad, 2 * C)
    with bp.probe() as rec:
        program(w)
    assert same(w.grad, 2 * C)
    assert same(rec["w"].grad, C)


@pytest.mark.parametrize(
    "make",
    [
        lambda w: torch.optim.SGD([w], 0.5, foreach=True),
        lambda w: torch.optim.SGD([w], 0.5, fused=True),
        lambda w: torch.optim.AdamW([w], 0.5, foreach=True),
        lambda w: torch.optim.AdamW([w], 0.5, fused=True),
        lambda w: torch.optim.SGD([w], 0.5, momentum=0.9, weight_decay=0.1),
    ],
)
def test_an_optimizer_steps_between_two_passes(make):
    def program(w):
        optimizer = make(w)
        for _ in range(2):
            (w**2).sum().backward()
            optimizer.step()

    bare, w = leaf(), leaf()
    program(bare)
    with bp.probe() as rec:
        k = w  # noqa: F841
        program(w)
    assert same(w, bare)
    assert same(w.grad, bare.grad)
    if any(group.get("fused") for group in make(leaf()).param_groups):
        assert (
            rec["w"].status == "opaque"
        )  # PyTorch does not count these writes: no name for the gradient of each value
        return
    found = [entry.grad for name, entry in rec.items() if name in ("w", "w#0", "w#1")]
    assert torch.equal(sum(found), bare.grad)
    if len(found) > 1:
        assert same(found[0], 2 * leaf().detach())


def calls_in_backward(values, leaves):
    """How many functions of ``backward_passes`` run in the second of two passes."""
    weights = [leaf() for _ in range(leaves)]
    calls = []
    with bp.probe() as rec:
        u = torch.ones(3, requires_grad=True)
        for w in weights:
            u = u * w
        for _ in range(values):
            u = u * 1
        loss = u.sum()
        done = SimpleNamespace(backward=lambda: loss.backward())
        sys.setprofile(lambda frame, event, _: calls.append((frame.f_code, event)))
        done.backward()
        sys.setprofile(None)
    assert rec["loss"].grad == 1
    here = backward_passes.__file__
    return sum(event == "call" and code.co_filename == here for code, event in calls)


def test_one_call_notes_the_gradient_of_a_value_and_two_that_of_a_leaf():
    few = calls_in_backward(5, 2)
    assert calls_in_backward(25, 2) == few + 20
    assert calls_in_backward(5, 12) == few + 10 + 20  # the products with them are values too
