"""Blocks that follow each other: what is remembered of one is not wrong in the next, whatever changes in between."""

import contextlib
import copy
import gc
import threading
import types
import weakref
from dataclasses import fields, replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import backprobe as bp
from backprobe.record.entries import Record
from same_records import differences
from sampled import every
from told_stories import assert_nothing_is_remembered_wrongly, tell

pytestmark = pytest.mark.usefixtures("leaves_nothing")

OUTPUTS, EVERYTHING = ("**", "!**.weight", "!**.bias"), ("**", "**:*")
ASKED = {
    "by default": {},
    "everything": {"select": EVERYTHING},
}
COPIED = {"select": EVERYTHING, "values": "copy", "nonfinite": True}
X = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
STORIES, OF_NUMBERS = [], []


def story(program):
    """A program of several steps, told with each of these selections: see ``told_stories``."""
    STORIES.append(program)
    return program


def story_of_numbers(program):
    """One that is told with copies of all values too, and with a search for what is not finite."""
    OF_NUMBERS.append(program)
    return story(program)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.act, self.last = nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)

    def forward(self, x):
        hidden = self.first(x)
        active = self.act(hidden)
        return self.last(active)


class Chain(nn.Sequential):
    """A model whose parts may be added, removed and exchanged."""

    def forward(self, x):
        for part in self:
            x = part(x)
        loss = x.sum()
        return loss


def made(kind, *args):
    torch.default_generator.manual_seed(0)
    return kind(*args)


def chain():
    torch.default_generator.manual_seed(0)
    return Chain(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5), nn.Linear(3, 3))


def step(probe, net, x=X):
    with probe(net) as probe.rec:
        net(x).sum().backward()


def twice(take, *what):
    """The second time, what is remembered of the first may be used."""
    take(step, *what)
    take(step, *what)


# the structure of the model


@story
def a_module_is_added_and_removed(take):
    net = chain()
    twice(take, net)
    net.append(made(nn.Linear, 3, 3))
    twice(take, net)
    del net[1]
    twice(take, net)


@story_of_numbers
def a_module_is_exchanged(take):
    net = chain()
    twice(take, net)
    net[2] = nn.ReLU()
    twice(take, net)
    net[2] = made(nn.PReLU)
    twice(take, net)
    net[2] = None
    net[2] = nn.Dropout(0.5)
    twice(take, net)


@story
def a_module_is_exchanged_for_one_of_its_own_type(take):
    net = chain()
    twice(take, net)
    net[0] = nn.Linear(3, 3)
    twice(take, net)
    net[3] = nn.Linear(3, 7, bias=False)
    twice(take, net)


@story
def a_module_is_at_two_paths(take):
    net = chain()
    twice(take, net)
    first, net[0] = net[0], net[3]
    twice(take, net)
    net[0] = first
    net[3].weight = net[0].weight
    twice(take, net)


@story
def the_modules_change_places(take):
    net = chain()
    twice(take, net)
    net[0], net[2] = net[2], net[0]
    twice(take, net)


@story
def a_module_is_registered_and_never_called(take):
    net = made(Net)
    twice(take, net)
    net.idle = nn.Linear(2, 2)
    twice(take, net)


@story
def a_parameter_is_replaced(take):
    net = made(Net)
    twice(take, net)
    net.first.weight = nn.Parameter(net.first.weight.detach() * 2)
    twice(take, net)
    net.first.bias = None
    twice(take, net)
    net.first.scale = nn.Parameter(torch.ones(2))
    twice(take, net)


@story_of_numbers
def the_data_of_a_parameter_is_replaced(take):
    net = made(Net)
    twice(take, net)
    net.first.weight.data = net.first.weight.data * 2
    twice(take, net)


@story
def a_parameter_is_frozen_and_thawed(take):
    net = made(Net)
    twice(take, net)
    net.first.weight.requires_grad_(False)
    twice(take, net)
    net.first.requires_grad_(False)
    twice(take, net)
    net.requires_grad_(False)
    net.last.bias.requires_grad_(True)
    twice(take, net)
    net.requires_grad_(True)
    twice(take, net)


@story
def a_module_is_set_to_eval(take):
    net = chain()
    twice(take, net)
    net.eval()
    twice(take, net)
    net.train()
    net[2].eval()
    twice(take, net)


@story
def the_dtype_of_the_model_changes(take):
    net = made(Net)
    twice(take, net)
    net.double()
    twice(take, net, X.double())
    net.float()
    twice(take, net)


@story
def two_models_of_one_structure_take_turns(take):
    one, other = made(Net), Net()
    for _ in range(2):
        take(step, one)
        take(step, other)


@story
def models_of_different_structures_take_turns(take):
    nets = made(Net), chain(), made(nn.Sequential, nn.Linear(3, 2), nn.Tanh())
    for _ in range(2):
        for net in nets:
            take(step, net)


@story
def a_part_of_the_model_is_probed(take):
    net = made(Net)
    outer = nn.Sequential(net, nn.Tanh())
    for _ in range(2):
        take(step, outer)
        take(step, net)


@story_of_numbers
def a_buffer_comes_goes_and_is_replaced(take):
    class Buffered(Net):
        def forward(self, x):
            shift = getattr(self, "shift", None)
            result = super().forward(x)
            return result if shift is None else result + shift

    net = made(Buffered)
    twice(take, net)
    net.register_buffer("shift", torch.ones(2))
    twice(take, net)
    net.shift = torch.full((2,), float("nan"))
    twice(take, net)
    del net.shift
    twice(take, net)


# the code that runs


def louder(self, x):
    loud = self.first(x) * 3
    return self.last(loud)


def other_body(self, x):
    body = self.first(x).sin()
    return self.last(body) * 2


@story
def the_forward_of_an_instance_is_exchanged(take):
    net = made(Net)
    twice(take, net)
    net.forward = types.MethodType(louder, net)
    twice(take, net)
    net.act.forward = lambda x: x * 2 + 1
    net.forward = types.MethodType(other_body, net)
    twice(take, net)
    del net.forward, net.act.forward
    twice(take, net)


@story
def the_forward_of_a_class_is_exchanged(take):
    net = made(Net)
    twice(take, net)
    take.patch(Net, "forward", louder)
    twice(take, net)
    take.patch(nn.Linear, "forward", lambda self, x: F.linear(x, self.weight) - 1)
    twice(take, net)


@story
def the_class_of_a_module_is_exchanged(take):
    class Other(Net):
        forward = other_body

    net = made(Net)
    twice(take, net)
    net.__class__ = Other
    twice(take, net)


@story
def the_code_of_a_forward_is_exchanged(take):
    class Mutable(nn.Linear):
        def forward(self, x):
            before = F.linear(x, self.weight)
            return before

    def other(self, x):
        after = F.linear(x, self.weight) * 2
        then = after + 1
        return then

    net = made(Mutable, 3, 2)
    twice(take, net)
    Mutable.forward.__code__ = other.__code__
    twice(take, net)


def scaled(value):
    by_two = value * 2
    return by_two


def shifted(value):
    by_one = value + 1
    again = by_one + 1
    return again


called_inside = scaled


class Calls(Net):
    def forward(self, x, function=None):
        hidden = self.first(x)
        seen = called_inside(hidden)
        if function is not None:
            seen = function(seen)
        return self.last(seen)


@story
def a_function_that_the_forward_calls_is_exchanged(take):
    net = made(Calls)
    twice(take, net)
    with exchanged("called_inside", shifted):
        twice(take, net)
    with exchanged("called_inside", torch.sigmoid):
        twice(take, net)
    twice(take, net)


@contextlib.contextmanager
def exchanged(name, value):
    before = globals()[name]
    globals()[name] = value
    try:
        yield
    finally:
        globals()[name] = before


@story
def a_function_that_the_forward_is_given_is_another_each_time(take):
    def steps(probe, net, function):
        with probe(net) as probe.rec:
            net(X, function).sum().backward()

    net = made(Calls)
    given = torch.tanh, torch.tanh, scaled, scaled, shifted, None, torch.sin, torch.nn.Tanh(), lambda h: h * 2
    for function in given:
        take(steps, net, function)


class Counted(Net):
    """A model whose names depend on its data and on what it is set to."""

    count, kind = 2, "sum"

    def forward(self, x):
        hidden = self.first(x)
        if hidden.sum() > 0:
            positive = hidden * 2
            hidden = positive
        else:
            negative = hidden.square()
            rest = negative + 1
            hidden = rest
        for _ in range(self.count):
            hidden = self.act(hidden)
            inner = hidden * 1.5
        return self.last(hidden)


@story_of_numbers
def another_branch_is_taken(take):
    net = made(Counted)
    for x in (X, X, -X, -X, 3 * X, X):
        take(step, net, x)


@story
def a_loop_runs_another_number_of_times(take):
    net = made(Counted)
    for net.count in (2, 2, 3, 3, 0, 1, 2):
        take(step, net)


@story
def what_returns_early(take):
    class Early(Net):
        depth = 2

        def forward(self, x):
            hidden = self.first(x)
            if self.depth == 0:
                return hidden
            active = self.act(hidden)
            if self.depth == 1:
                return active, hidden
            return {"out": self.last(active), "hidden": hidden}

    def steps(probe, net):
        with probe(net) as probe.rec:
            out = net(X)
            out = out[0] if isinstance(out, tuple) else out["out"] if isinstance(out, dict) else out
            out.sum().backward()

    net = made(Early)
    for net.depth in (2, 2, 1, 1, 0, 0, 2):
        take(steps, net)


@story
def containers_of_other_lengths_and_keys(take):
    class Packs(Net):
        keys = ("a", "b")

        def forward(self, x):
            hidden = self.first(x)
            packed = {key: hidden * at for at, key in enumerate(self.keys, 1)}
            listed = [value + 1 for value in packed.values()]
            pairs = [(value, 1.5, None) for value in listed[1:]]
            total = sum(listed) + sum(pair[0] for pair in pairs)
            return self.last(total)

    net = made(Packs)
    for net.keys in ("ab", "ab", "abc", "abc", "ba", "xy", "a", "ab"):
        take(step, net)


@story
def names_hold_values_of_other_kinds(take):
    class Kinds(Net):
        held = None

        def forward(self, x):
            held = self.held
            hidden = self.first(x)
            scale = held if isinstance(held, int | float | torch.Tensor) else 1
            result = hidden * scale
            return self.last(result)

    net = made(Kinds)
    helds = (
        None,
        None,
        2,
        2,
        3,
        2.5,
        "text",
        torch.tensor(2.0),
        torch.tensor(2.0),
        torch.tensor(2),
        [torch.ones(1)],
        torch.tensor(2.0, requires_grad=True),
        torch.tensor(3.0, dtype=torch.float64),
        None,
    )
    for net.held in helds:
        take(step, net)


@story
def the_shape_of_the_input_changes(take):
    net = made(Net)
    for x in (X, X, X[:1], torch.cat([X, X]), X[None], X[0], X[:0], X):
        take(step, net, x)


@story
def one_tensor_has_two_names_and_later_each_has_its_own(take):
    class Passes(Net):
        copies = False

        def forward(self, x):
            hidden = self.first(x)
            same = hidden.clone() if self.copies else hidden
            active = self.act(same)
            also = active + 0 if self.copies else active
            return self.last(also)

    net = made(Passes)
    for net.copies in (False, False, True, True, False):
        take(step, net)
    net.act = nn.Identity()
    twice(take, net)
    net.act = nn.Dropout(0.0)
    twice(take, net)


@story
def a_name_is_bound_to_another_of_two_values(take):
    class Chooses(Net):
        which = 0

        def forward(self, x):
            one = self.first(x)
            other = self.act(one)
            chosen = (one, other)[self.which]
            gathered = torch.stack([one, other])[self.which]
            return self.last(chosen + gathered)

    net = made(Chooses)
    for net.which in (0, 0, 1, 1, 0):
        take(step, net)


class Cuts(torch.autograd.Function):
    """Passes a gradient on, or none: nothing that the program binds is different."""

    passes = True

    @staticmethod
    def forward(context, value):
        return value * 2

    @staticmethod
    def backward(context, gradient):
        return gradient * 2 if Cuts.passes else None


class Custom(Net):
    through, weighs = staticmethod(Cuts.apply), 0.0

    def forward(self, x):
        hidden = self.first(x)
        cut = self.through(hidden)
        beside = hidden * 0.5
        return self.last(cut + beside * self.weighs)


@story
def the_same_names_and_another_graph(take):
    net = made(Custom)
    for passes in (True, True, False, False, True):
        take.patch(Cuts, "passes", passes)
        take(step, net)
    for net.through in (torch.detach, torch.detach, torch.sin, torch.Tensor.detach, torch.round, scaled):
        take(step, net)
    net.through = Cuts.apply
    for net.weighs in (0.0, 1.0, torch.tensor(1.0, requires_grad=True)):
        take(step, net)


@story_of_numbers
def a_generator_forward(take):
    class Generates(nn.Linear):
        count = 2

        def forward(self, x):
            for at in range(self.count):
                part = super().forward(x) * at
                yield part

    class Gathers(Net):
        def __init__(self):
            super().__init__()
            self.first = Generates(3, 4)

        def forward(self, x):
            parts = [self.act(part) for part in self.first(x)]
            total = sum(parts)
            return self.last(total)

    net = made(Gathers)
    twice(take, net)
    net.first.count = 3
    twice(take, net)

    def leaves_it_unfinished(probe, net):
        with probe(net) as probe.rec:
            began = net.first(X)
            next(began).sum().backward()

    take(leaves_it_unfinished, net)
    take(leaves_it_unfinished, net)
    twice(take, net)


@story
def the_model_is_called_another_number_of_times(take):
    def calls(probe, net, count):
        with probe(net) as probe.rec:
            total = sum(net(X * (at + 1)).sum() for at in range(count))
            if count:
                total.backward()

    net = made(Net)
    for count in (1, 1, 2, 2, 0, 3, 1):
        take(calls, net, count)


@story
def a_part_is_called_alone_or_twice_or_never(take):
    def part_alone(probe, net):
        with probe(net) as probe.rec:
            net.last(net.first(X)).sum().backward()

    def part_twice(probe, net):
        with probe(net) as probe.rec:
            net(X).sum().backward()
            net.first(X).sum().backward()

    net = made(Net)
    for one in (step, part_alone, part_alone, part_twice, part_twice, step):
        take(one, net)


@story_of_numbers
def a_checkpoint_in_some_steps(take):
    class Checkpointed(Net):
        how = None

        def forward(self, x):
            hidden = self.first(x)
            active = self.act(hidden) if self.how is None else checkpoint(self.act, hidden, use_reentrant=self.how)
            return self.last(active)

    net = made(Checkpointed)
    for net.how in (None, None, False, False, True, True, None):
        take(step, net)


# errors in the middle


class Breaks(Net):
    at = None

    def forward(self, x):
        hidden = self.first(x)
        if self.at == "forward":
            raise RuntimeError("in forward")
        active = Fails.apply(self.act(hidden), self.at == "backward")
        return self.last(active)


class Fails(torch.autograd.Function):
    @staticmethod
    def forward(context, value, fails):
        context.fails = fails
        return value * 1.0

    @staticmethod
    def backward(context, gradient):
        if context.fails:
            raise RuntimeError("in backward")
        return gradient, None


@story_of_numbers
def an_exception_in_forward(take):
    net = made(Breaks)
    for net.at in (None, None, "forward", "forward", None, "forward", None):
        take(step, net)


@story_of_numbers
def an_exception_in_backward(take):
    net = made(Breaks)
    for net.at in (None, None, "backward", "backward", None, "forward", "backward", None):
        take(step, net)


@story
def an_exception_first(take):
    net = made(Breaks)
    for net.at in ("forward", None, "backward", None, None):
        take(step, net)


@story
def an_exception_that_the_step_catches(take):
    def goes_on(probe, net):
        with probe(net) as probe.rec:
            with contextlib.suppress(RuntimeError):
                net(X).sum().backward()
            net.act(net.first(X)).sum().backward()

    net = made(Breaks)
    for net.at in (None, "forward", "forward", "backward", "backward", None):
        take(goes_on, net)


# selections and blocks


@story
def one_model_under_two_selections_in_turn(take):
    def selecting(probe, net, **options):
        with probe(net, **options) as probe.rec:
            net(X).sum().backward()

    net = made(Net)
    asked = [
        {"select": OUTPUTS},
        {"select": EVERYTHING},
        {"select": "first"},
        {"select": ":hidden"},
        {},
        {"select": EVERYTHING, "values": "copy"},
        {"select": EVERYTHING, "nonfinite": True},
        {"select": EVERYTHING, "create_graph": True},
    ]
    for options in (*asked, *asked):
        take(selecting, net, **options)


@story
def a_pattern_matches_in_some_steps_alone(take):
    def selecting(probe, net, x):
        with probe(net, select=["positive", ":positive", "first"]) as probe.rec:
            net(x).sum().backward()

    net = made(Counted)
    for x in (-3 * X, -3 * X, X, X, -X, X):
        take(selecting, net, x)


@story_of_numbers
def a_block_in_a_block(take):
    def nested(probe, net, inner):
        with probe(net) as probe.rec:
            net(X).sum().backward()
            with probe(net, **inner) as probe.rec:
                net(2 * X).sum().backward()
            net(3 * X).sum().backward()

    def crossed(probe, net):
        with probe(net) as probe.rec, probe(net) as probe.rec:
            net(X).sum().backward()

    net = made(Net)
    take(step, net)
    for inner in ({}, {}, {"select": EVERYTHING}, {"select": EVERYTHING}, {"select": "first"}):
        take(nested, net, inner)
    take(crossed, net)
    take(crossed, net)
    twice(take, net)


@story
def a_block_around_a_part_in_a_block(take):
    def nested(probe, net):
        with probe(net) as probe.rec, probe(net.first, select=["**", ":*"]) as probe.rec:
            net(X).sum().backward()

    net = made(Net)
    take(step, net)
    take(nested, net)
    take(nested, net)
    take(step, net)


@story
def a_plain_block_around_and_inside(take):
    def around(probe, net):
        with probe() as probe.rec:
            with probe(net) as probe.rec:
                hidden = net(X)
            loss = hidden.sum()
            loss.backward()

    def inside(probe, net):
        with probe(net) as probe.rec:
            hidden = net(X)
            with probe() as probe.rec:
                loss = hidden.sum()
                loss.backward()

    net = made(Net)
    for one in (step, around, around, inside, inside, step):
        take(one, net)


@story
def plain_blocks(take):
    def plain(probe, net, x, kind):
        with probe() as probe.rec:
            hidden = net.first(x)
            if hidden.sum() > 0:
                positive = hidden * 2
                hidden = positive
            if kind == "raises":
                raise RuntimeError("in the block")
            scaled_hidden = called_inside(hidden)
            if kind == "writes":
                scaled_hidden.mul_(2)
            loss = scaled_hidden.sum()
            if kind != "forward":
                loss.backward()

    net = made(Net)
    for x in (X, -X):
        for kind in ("", "", "raises", "writes", "forward", ""):
            take(plain, net, x, kind)


@story
def the_recording_is_read_in_the_block(take):
    def reads(probe, net, when):
        with probe(net) as probe.rec:
            out = net(X)
            if when == "forward" and probe.rec is not None:
                assert "first" in probe.rec and probe.rec["first"].grad_or_none is None
            out = out * 2 + net(2 * X)
            out.sum().backward()
            if when == "backward" and probe.rec is not None:
                assert probe.rec["first#0"].grad is not None
            net(3 * X).sum().backward()

    net = made(Net)
    for when in ("", "", "forward", "forward", "backward", "backward", ""):
        take(reads, net, when)


# backward


@story
def backward_is_called_another_number_of_times(take):
    def backwards(probe, net, count):
        with probe(net) as probe.rec:
            loss = net(X).sum()
            for at in range(count):
                loss.backward(retain_graph=at < count - 1)

    net = made(Net)
    for count in (1, 1, 2, 2, 0, 0, 1, 3):
        take(backwards, net, count)


@story_of_numbers
def backward_goes_through_a_part_of_the_graph(take):
    class Two(Net):
        def forward(self, x):
            hidden = self.first(x)
            one = self.act(hidden)
            two = self.last(hidden.sin())
            return one, two, hidden

    def partly(probe, net, *of):
        with probe(net) as probe.rec:
            outputs = net(X)
            for at in of:
                outputs[at].sum().backward(retain_graph=True)

    net = made(Two)
    for of in ((0,), (0,), (1,), (1,), (0, 1), (1, 0), (2,), (0, 0), (0,)):
        take(partly, net, *of)


@story
def backward_has_inputs_and_cotangents(take):
    def asking(probe, net, how):
        with probe(net) as probe.rec:
            out = net(X)
            if how == "inputs":
                out.sum().backward(inputs=[net.last.weight])
            elif how == "cotangent":
                out.backward(torch.full_like(out, 2.0))
            elif how == "scaled":
                (out.sum() * 1024).backward()
            elif how == "several":
                torch.autograd.backward([out.sum(), out.square().sum()])
            elif how == "grad":
                torch.autograd.grad(out.sum(), net.last.weight)
            else:
                out.sum().backward()

    net = made(Net)
    for how in (
        "",
        "",
        "inputs",
        "inputs",
        "cotangent",
        "cotangent",
        "scaled",
        "scaled",
        "several",
        "several",
        "grad",
        "grad",
        "",
    ):
        take(asking, net, how)


@story
def gradients_are_not_cleared(take):
    def accumulates(probe, net, before):
        for _ in range(before):
            net(X).sum().backward()
        step(probe, net)

    net = made(Net)
    for before in (0, 0, 1, 1, 0):
        take(accumulates, net, before)


# in-place writes


class Writes(Net):
    how = None

    def forward(self, x):
        hidden = self.first(x)
        start = hidden * 1.0
        view = start[:, :2]
        if self.how == "value":
            start.mul_(2)
        elif self.how == "view":
            view.add_(1)
        elif self.how == "item":
            start[0] = hidden[1]
        elif self.how == "augmented":
            start += hidden
        elif self.how == "data":
            start.data.mul_(2)
        elif self.how == "no_grad":
            with torch.no_grad():
                view.mul_(3)
        elif self.how == "twice":
            start.sin_().cos_()
        end = start + 1
        return self.last(end)


@story_of_numbers
def writes_in_some_steps(take):
    net = made(Writes)
    for net.how in (
        None,
        None,
        "value",
        "value",
        "view",
        "view",
        None,
        "item",
        "augmented",
        "data",
        "data",
        "no_grad",
        "no_grad",
        "twice",
        None,
    ):
        take(step, net)


@story_of_numbers
def a_module_writes_in_place_in_some_steps(take):
    net = made(nn.Sequential, nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(inplace=True), nn.Linear(4, 2))
    for net[2].inplace in (True, True, False, False, True):
        take(step, net)


@story_of_numbers
def what_the_module_writes_is_not_its_own(take):
    net = made(nn.Sequential, nn.Linear(3, 4), nn.Identity(), nn.ReLU(inplace=True), nn.Dropout(0.5, inplace=True))
    for net[3].p in (0.5, 0.5, 0.0, 0.0):
        take(step, net)
    net.eval()
    twice(take, net)


@story_of_numbers
def an_optimizer_steps_in_the_block_in_some_steps(take):
    def trained(probe, net, how):
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        with probe(net) as probe.rec:
            net(X).sum().backward()
            if how:
                optimizer.step()
            if how == "and on":
                net(X).sum().backward()

    net = made(Net)
    for how in ("", "", "steps", "steps", "and on", "and on", ""):
        take(trained, copy.deepcopy(net), how)  # a recording has the parameters themselves, which later steps write


@story_of_numbers
def the_input_is_written_between_forward_and_backward(take):
    def written(probe, net, how):
        x = X.clone().requires_grad_(how == "grad")
        with probe(net) as probe.rec:
            shift = x * 1.0
            out = net(shift)
            if how == "shift":
                shift.data.add_(1)
            out.sum().backward()

    net = made(Net)
    for how in ("", "", "shift", "shift", "grad", "grad", ""):
        take(written, net, how)


# what is differentiated


class Cut(Net):
    how = None

    def forward(self, x):
        hidden = self.first(x)
        if self.how == "no_grad":
            with torch.no_grad():
                hidden = hidden * 1.0
                active = self.act(hidden)
        else:
            hidden = hidden * 1.0
            active = self.act(hidden)
        between = frozen(active) if self.how == "detached" else active * 1.0
        return self.last(between)


def frozen(value):
    return value.detach()


@story_of_numbers
def a_tensor_is_frozen_in_some_steps(take):
    net = made(Cut)
    for net.how in (None, None, "detached", "detached", "no_grad", "no_grad", None):
        take(step, net)


@story
def the_input_requires_a_gradient_in_some_steps(take):
    def with_input(probe, net, requires):
        x = X.clone().requires_grad_(requires)
        step(probe, net, x)

    net = made(Net)
    for requires in (False, False, True, True, False):
        take(with_input, net, requires)


@story_of_numbers
def the_grad_mode_is_off_in_some_steps(take):
    def under(probe, net, mode):
        with probe(net) as probe.rec:
            with mode():
                out = net(X)
            if out.requires_grad:
                out.sum().backward()

    def around(probe, net, mode):
        with mode(), probe(net) as probe.rec:
            net(X)

    net = made(Net)
    modes = torch.no_grad, torch.inference_mode, torch.enable_grad, contextlib.nullcontext
    for mode in (torch.enable_grad, torch.enable_grad, *modes, *modes):
        take(under, net, mode)
    for mode in (*modes, *modes):
        take(around, net, mode)
    twice(take, net)


@story_of_numbers
def numbers_that_are_not_finite_in_some_steps(take):
    net = made(Net)
    bad = X.clone()
    bad[0, 0] = float("inf")
    worse = X.clone()
    worse[1, 1] = float("nan")
    for x in (X, X, bad, bad, worse, worse, X):
        take(step, net, x)


# the user's own hooks


@story_of_numbers
def hooks_come_and_go(take):
    def doubling(module, args, output):
        louder = output * 2
        return louder

    net = made(Net)
    twice(take, net)
    for add in (
        lambda: net.first.register_forward_hook(doubling),
        lambda: net.first.register_forward_hook(lambda module, args, output: None),
        lambda: net.last.register_forward_pre_hook(lambda module, args: (args[0] * 2,)),
        lambda: net.act.register_full_backward_hook(lambda module, given, got: None),
        lambda: net.act.register_full_backward_pre_hook(lambda module, got: (got[0] * 3,)),
        lambda: net.first.weight.register_hook(lambda gradient: gradient * 2),
        lambda: net.first.weight.register_post_accumulate_grad_hook(lambda parameter: None),
        lambda: nn.modules.module.register_module_forward_hook(
            lambda module, args, output: output * 2 if module is net.act else None
        ),
    ):
        handle = add()
        take.undo.callback(handle.remove)
        twice(take, net)
        handle.remove()
        take(step, net)


@story
def hooks_on_values_in_some_steps(take):
    class Hooked(Net):
        how = None

        def forward(self, x):
            hidden = self.first(x)
            if self.how == "hook":
                hidden.register_hook(lambda gradient: gradient * 2)
            elif self.how == "retain":
                hidden.retain_grad()
            return self.last(self.act(hidden))

    net = made(Hooked)
    for net.how in (None, None, "hook", "hook", "retain", "retain", None):
        take(step, net)


# threads


class Meets(Net):
    """A model that waits in the middle of its forward for the other threads to come there."""

    meet = staticmethod(threading.Barrier(1).wait)  # no other

    def forward(self, x):
        hidden = self.first(x)
        self.meet()
        active = self.act(hidden)
        self.meet()
        return self.last(active)


def at_once(probe, model, nets):
    """A block in a thread for each of these: all enter, run forward, run backward and leave by turns."""
    barrier = threading.Barrier(len(nets), timeout=60)
    errors = []

    def work(at, net):
        for _ in range(at):
            barrier.wait()
        with probe(net) as probe.rec:
            for _ in range(at, len(nets)):
                barrier.wait()
            loss = net(X * (at + 1)).sum()
            for turn in range(len(nets)):
                barrier.wait()
                if turn == at:
                    loss.backward()
                    net.zero_grad()
            for _ in range(at, len(nets)):
                barrier.wait()
        for _ in range(at):
            barrier.wait()

    def noting_errors(at, net):
        try:
            work(at, net)
        except RuntimeError as error:
            errors.append(error)
            barrier.abort()

    for net in nets:
        net.meet = barrier.wait
    threads = [threading.Thread(target=noting_errors, args=each) for each in enumerate(nets)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for net in {*nets}:
        del net.meet
    for error in errors:
        raise error


@story
def two_threads_around_two_models(take):
    one, other = made(Meets), Meets()
    take(step, one)
    for nets in ((one, other), (one, other), (other, one)):
        take(at_once, one, nets)
    take(step, one)
    take(step, other)


@story_of_numbers
def two_threads_around_one_model(take):
    net = made(Meets)
    take(step, net)
    take(at_once, net, (net, net))
    take(at_once, net, (net, net))
    take(step, net)


@story
def a_block_in_another_thread_each_time(take):
    net = made(Meets)
    take(step, net)
    take(at_once, net, (net,))
    take(at_once, net, (net,))
    take(step, net)


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("shared", [True, False], ids=["one model", "two models"])
def test_threads_at_once_have_the_records_of_threads_that_run_alone(asked, shared):
    """Each thread's block says what it says where no other thread runs."""

    def together(take):
        one = made(Meets)
        other = one if shared else copy.deepcopy(one)
        take(at_once, one, (one, other))

    (found,) = tell(together, ASKED[asked])
    assert not found.error
    assert len(found.recordings) == 2
    for at, recording in enumerate(found.recordings):

        def alone(take, at=at):
            def one_of_them(probe, net):
                with probe(net) as probe.rec:
                    loss = net(X * (at + 1)).sum()
                    loss.backward()
                    net.zero_grad()

            take(one_of_them, made(Meets))

        (expected,) = tell(alone, ASKED[asked])
        lines = differences(recording, expected.recordings[0])
        if shared:  # its parameters have the hooks of the other block, which are noted as hooks of the program
            lines = [line for line in lines if not line.startswith("notes is (Note(code='hooked'")]
        assert not lines, lines


# what is remembered, and how it is compared


@pytest.mark.parametrize("name", [field.name for field in fields(bp.Entry)])
def test_a_difference_in_one_field_of_an_entry_is_found(name):
    net = made(Net)
    with bp.probe(net, EVERYTHING) as rec:
        net(X).sum().backward()
    assert differences(rec, rec) == []
    entry = replace(rec["first"], **{name: ("something else",)})
    entries = tuple(entry if each is rec["first"] else each for each in rec.record.entries)
    lines = differences(bp.Recording(replace(rec.record, entries=entries)), rec)
    assert [line for line in lines if f"'first': {name}" in line]


@pytest.mark.parametrize("name", [field.name for field in fields(Record) if field.name not in ("stamp", "entries")])
def test_a_difference_in_one_field_of_a_record_is_found(name):
    net = made(Net)
    with bp.probe(net, EVERYTHING) as rec:
        net(X).sum().backward()
    lines = differences(bp.Recording(replace(rec.record, **{name: {"something": "else"}})), rec)
    assert [line for line in lines if line.startswith(name)]


@pytest.mark.parametrize("asked", ASKED)
def test_nothing_of_a_model_stays_alive(asked):
    """What is remembered of a model holds no module, no parameter and no tensor of it."""
    net = made(Net)
    net.forward = types.MethodType(louder, net)
    held = [weakref.ref(each) for each in (net, *net.modules(), *net.parameters())]
    for _ in range(3):
        with bp.probe(net, **ASKED[asked]):
            net(X).sum().backward()
    del net
    gc.collect()
    assert [each() for each in held if each() is not None] == []


@pytest.mark.parametrize("program", STORIES, ids=lambda program: program.__name__)
def test_each_step_is_recorded_as_if_it_were_the_first(program):
    assert_nothing_is_remembered_wrongly(program, ASKED["everything"])


@pytest.mark.parametrize("name", every(4, [program.__name__ for program in STORIES]))
def test_so_it_is_by_default(name):
    assert_nothing_is_remembered_wrongly(globals()[name], ASKED["by default"])


@pytest.mark.parametrize("program", OF_NUMBERS, ids=lambda program: program.__name__)
def test_so_are_copies_and_what_is_not_finite(program):
    assert_nothing_is_remembered_wrongly(program, COPIED)


def test_a_users_hook_on_a_parameter_stands_beside_the_probes_and_goes_by_its_own_handle():
    model, seen = torch.nn.Linear(2, 2), []
    with bp.probe(model, "weight") as rec:
        handle = model.weight.register_hook(seen.append)
        model(torch.ones(1, 2)).sum().backward()
    assert torch.equal(rec["weight"].grad, model.weight.grad)
    assert list(model.weight._backward_hooks) == [handle.id]
    model(torch.ones(1, 2)).sum().backward()
    handle.remove()
    assert len(seen) == 2
    assert not model.weight._backward_hooks
