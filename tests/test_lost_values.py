"""Values that a program computes, and that never reach its loss, in ways that no name of an operation tells.

Each is at the line where it is lost: where it is handed to something that does not pass it on, where a function with a
backward of its own is applied to what autograd does not see, or where other tensors take the place of parameters.
"""

import copy
import ctypes
import inspect
import queue

import pytest
import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap

import backprobe as bp

store, staging = queue.SimpleQueue(), torch.zeros(3)


def handed_to_a_queue(x, w):
    u = torch.sin(x) * 2
    store.put(u)  # <- here
    return (w * 2).sum()


def handed_on_within_a_context(x, w):
    u = torch.sin(x)
    with torch.enable_grad():
        store.put(u)  # <- here
    return (w * 2).sum()


def handed_on_after_its_shape_was_read(x, w):
    u = torch.sin(x)
    assert u.shape == w.shape
    store.put(u)  # <- here
    return (w * 2).sum()


def copied_by_its_address(x, w):
    u = x.exp()
    ctypes.memmove(staging.data_ptr(), u.data_ptr(), u.nbytes)  # <- here
    return (staging * w).sum()


def only_a_number_is_shown(x, w):
    u = torch.sin(x)  # <- here
    print(u.detach().mean().item())
    return (w * 2).sum()


def handed_on_perhaps(x, w):
    u = torch.sin(x)  # <- here
    if w.shape[0] > 100:
        store.put(u)
    return (w * 2).sum()


def handed_on_where_none_was_raised(x, w):
    u = torch.sin(x)  # <- here
    if w.shape[0] > 100:
        raise ValueError(w)
    store.put(u)
    return (w * 2).sum()


def the_name_is_another_value_s_then(x, w):
    u = torch.sin(x)  # <- here
    u = w * 2
    store.put(u)
    return u.sum()


def here(function):
    lines, first = inspect.getsourcelines(function)
    return next(first + at for at, line in enumerate(lines) if "# <- here" in line)


@pytest.mark.parametrize(
    "program",
    [
        handed_to_a_queue,
        handed_on_within_a_context,
        handed_on_after_its_shape_was_read,
        copied_by_its_address,
        only_a_number_is_shown,
        handed_on_perhaps,
        handed_on_where_none_was_raised,
        the_name_is_another_value_s_then,
    ],
)
def test_what_nothing_leads_on_from_is_at_the_line_that_was_given_it(program):
    leaves = [torch.ones(3, requires_grad=True) for _ in range(2)]
    for report in (bp.explain(rec := bp.probe(program)(*leaves)), bp.explain(rec, "x")):
        assert [(one.kind, one.source.line) for one in report.findings if one.kind != "made_again"] == [
            ("unused", here(program))
        ], str(report)


class OfMany(torch.autograd.Function):
    @staticmethod
    def forward(ctx, parts, scale=1.0):
        return torch.stack(list(parts.values() if isinstance(parts, dict) else parts)).sum(0) * scale

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class OfModule(torch.autograd.Function):
    @staticmethod
    def forward(x, module):
        return module(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


def of_a_dictionary(x, net):
    h = net(x)
    y = OfMany.apply({"a": h, "b": h * 2}, 0.5)  # <- here
    return y.sum()


def of_a_tuple(x, net):
    h = net(x)
    y = OfMany.apply((h, h))  # <- here
    return y.sum()


def of_a_module(x, net):
    y = OfModule.apply(x, net)  # <- here
    return y.sum()


@pytest.mark.parametrize("program", [of_a_dictionary, of_a_tuple, of_a_module])
def test_a_function_that_is_given_no_tensor_with_a_history_is_named(program):
    net, head = nn.Linear(3, 3), nn.Linear(3, 1)
    optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
    with bp.probe() as rec:
        lost = program(torch.ones(2, 3), net)
        loss = head(torch.ones(2, 3)).sum() + lost
        loss.backward()
        optimizer.step()
    found = [one for one in bp.explain(rec).findings if one.kind == "nothing_given"]
    assert [one.source.line for one in found] == [here(program)], str(bp.explain(rec))
    assert not any("no_grad" in str(one) for one in found)


def test_a_function_that_is_given_one_tensor_that_requires_a_gradient_has_a_history():
    def f(x, w):
        y = Doubled.apply(x, [w])
        return y.sum()

    assert bp.explain(bp.probe(f)(torch.ones(2, requires_grad=True), torch.ones(2))).ok


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, others):
        return x * 2 + others[0].detach()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2, None


def with_a_state(net, x):
    state = dict(net.state_dict())  # <- here
    return functional_call(net, state, (x,))


def with_copies(net, x):
    copies = {name: one.detach().clone() for name, one in net.named_parameters()}  # <- here
    return functional_call(net, copies, (x,))


def with_anothers(net, x):
    other = copy.deepcopy(net)
    held = dict(other.named_parameters())  # <- here
    return functional_call(net, held, (x,))


def with_its_own(net, x):
    held = {name: one * 1.0 for name, one in net.named_parameters()}
    return functional_call(net, held, (x,))


@pytest.mark.parametrize("call", [with_a_state, with_copies, with_anothers, with_its_own])
def test_what_takes_the_place_of_parameters_is_named_where_it_was_made(call):
    net, head = nn.Linear(3, 3), nn.Linear(3, 1)
    optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
    with bp.probe() as rec:
        hidden = call(net, torch.ones(2, 3))
        loss = head(hidden).sum()
        loss.backward()
        optimizer.step()
    report = bp.explain(rec)
    if call is with_its_own:
        assert report.ok, str(report)
        return
    (found,) = [one for one in report.findings if one.kind == "replaced"]
    assert (found.source.line, {*found.lost}) == (here(call), {"net.weight", "net.bias"}), str(report)
    assert any("functional_call(net," in fact for fact in found.facts)


def test_the_members_of_an_ensemble_are_lost_where_they_are_stacked():
    members = nn.ModuleList(nn.Linear(3, 1) for _ in range(3))
    optimizer = torch.optim.SGD(members.parameters(), lr=0.1)

    def one_of_them(parameters, buffers, x):
        return functional_call(members[0], (parameters, buffers), (x,))

    def together():
        stacked, buffers = stack_module_state(list(members))  # <- here
        return vmap(one_of_them, in_dims=(0, 0, None))(stacked, buffers, torch.ones(2, 3))

    with bp.probe() as rec:
        loss = together().sum()
        loss.backward()
        optimizer.step()
    (found,) = bp.explain(rec).findings
    assert (found.kind, found.source.line, len(found.lost)) == ("replaced", here(together), 6)


@torch.library.custom_op("lostvalues::mixed", mutates_args=())
def mixed(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return x * weights


def keep(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


mixed.register_autograd(lambda ctx, gradient: (gradient * ctx.saved_tensors[1], None), setup_context=keep)


def test_a_registered_operator_is_at_the_line_that_calls_it():
    def f(x, w):
        y = mixed(x, w)  # <- here
        return y.sum()

    leaves = [torch.ones(2, requires_grad=True) for _ in range(2)]
    (found,) = bp.explain(bp.probe(f)(*leaves), "w").findings
    assert (found.kind, found.source.line) == ("silent", here(f))
