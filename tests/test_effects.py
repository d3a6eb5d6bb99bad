"""What calls write to: those that are known to write nothing are not looked after, and nothing is lost by that."""

import functools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import backprobe as bp
from backprobe.backends.facts import Effect
from backprobe.backends.torch.effects import effect
from block_cases import same

pytestmark = pytest.mark.usefixtures("leaves_nothing")

READS, AS_ASKED, WRITES, UNKNOWN = Effect.READS, Effect.AS_ASKED, Effect.WRITES, Effect.UNKNOWN


@functools.wraps(F.softmax)
def named_as_softmax(x):
    return x.mul_(2)


@pytest.mark.parametrize(
    "function, plain, flagged",
    [
        (torch.add, READS, AS_ASKED),
        (torch.ones(1).view, READS, AS_ASKED),
        (torch.ones(1).mul_, WRITES, WRITES),
        (torch.ones(1).requires_grad_, UNKNOWN, WRITES),  # what was without a history may get one
        (F.softmax, READS, AS_ASKED),
        (F.layer_norm, READS, AS_ASKED),
        (F.dropout, AS_ASKED, AS_ASKED),
        (F.relu, AS_ASKED, AS_ASKED),
        (F.relu_, WRITES, WRITES),
        (F.embedding, UNKNOWN, WRITES),  # with max_norm it writes to the weight
        (F.batch_norm, UNKNOWN, WRITES),
        (F.triplet_margin_with_distance_loss, UNKNOWN, WRITES),  # it calls a function of the user
        (named_as_softmax, UNKNOWN, WRITES),
        (torch.autograd.backward, UNKNOWN, WRITES),
        (nn.Linear(1, 1), UNKNOWN, UNKNOWN),
        (nn.Sequential(nn.ReLU(inplace=True)), WRITES, WRITES),
    ],
)
def test_the_effect_of_a_call(function, plain, flagged):
    assert effect(function, False) is plain
    assert effect(function, True) is flagged


class Writes(nn.Module):
    """Writes to what it is given, in a function of a library."""

    def forward(self, x, **options):
        nn.init.constant_(x.detach(), 5.0)
        return x * 2


class Keeps(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        u = x * 3
        v = u + 0
        w = self.inner(v, **{})
        return w + v


class Reads(nn.Module):
    def forward(self, x, **options):
        y = x * 2
        return y


def written_after(module, args, output):
    with torch.no_grad():
        args[0].add_(1)


def written_before(module, args):
    with torch.no_grad():
        args[0].add_(1)


class AsAsked(nn.Module):
    def __init__(self, call):
        super().__init__()
        self.call = call

    def forward(self, x, **options):
        before = x * 1
        after = self.call(before)
        return after + x


EVERYTHING = ["**", "**:*"]


@pytest.mark.parametrize(
    "call, written",
    [
        (lambda t: F.relu(t, inplace=True), True),
        (lambda t: F.relu(t, True), True),
        (lambda t: F.relu(t, inplace=False), False),
        (lambda t: torch.relu(t, **{}), False),
    ],
)
def test_a_call_writes_as_its_arguments_say(call, written):
    x = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
    model = AsAsked(call)
    with bp.probe(model, EVERYTHING) as rec:
        model(x).sum().backward()
    names = ["before#0", "before#1"] if written else ["before", "after"]
    assert list(rec)[1:3] == names
    assert [rec[name].value.tolist() for name in names] == [[1, -2, 3], [1, 0, 3]]
    assert [rec[name].grad.tolist() for name in names] == [[1, 0, 1], [1, 1, 1]]


def hooked(kind, model):
    """A hook that writes to what the inner module is given; and what takes it off."""
    inner = model.inner
    if kind == "before":
        return inner.register_forward_pre_hook(written_before)
    if kind == "after":
        return inner.register_forward_hook(written_after)
    return nn.modules.module.register_module_forward_hook(
        lambda module, args, output: written_after(module, args, output) if module is inner else None
    )


@pytest.mark.parametrize("select", [EVERYTHING, ["**:*"], [":*"]], ids=str)
@pytest.mark.parametrize("inner, hook", [(Reads, "before"), (Reads, "after"), (Reads, "all"), (Writes, None)])
def test_what_a_module_or_its_hooks_write_gives_the_names_of_its_caller_new_versions(inner, hook, select):
    model, x = Keeps(inner()), torch.ones(3, requires_grad=True)
    handle = None if hook is None else hooked(hook, model)
    with bp.probe(model, select) as rec:
        out = model(x)
        out.sum().backward()
    bare = model(x)
    if handle is not None:
        handle.remove()
    assert same(out, bare)
    assert [rec[name].status for name in ("v#0", "v#1")] == ["opaque", "opaque"]  # written out of autograd's sight
    assert rec["v#1"].value.tolist() == ([5, 5, 5] if inner is Writes else [4, 4, 4])
    assert rec["u"].grad.tolist() == [3, 3, 3]


def test_a_module_whose_forward_reports_leaves_the_names_of_its_caller_as_they_are():
    model, x = Keeps(Reads()), torch.ones(3, requires_grad=True)
    with bp.probe(model, EVERYTHING) as rec:
        model(x).sum().backward()
    assert list(rec) == ["x", "u", "v", "inner:y", "return", "backward()"]
