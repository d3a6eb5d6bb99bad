"""Forwards that a block exchanges: what a program does to them and to their modules inside it, in several steps.

Each step says what it says where it is the only one that is probed.
"""

import copy
import copyreg
import pickle
import threading
import types

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import backprobe as bp
from told_stories import tell, unequal

EVERYTHING = {"select": ["**", "**:*"]}
X = torch.tensor([[0.5, -1.0, 2.0, 1.0], [1.5, 0.25, -0.75, 0.5]])
STEPS = 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.first, self.second = nn.LayerNorm(4), nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x):
        hidden = F.gelu(self.first(self.norm(x)))
        sizes = (hidden.shape[0], 2)
        pair = (hidden, hidden * sizes[1])
        return x + self.second(pair[1])


class Usual(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.last = nn.ModuleList([Block(), Block()]), nn.Linear(4, 2)

    def forward(self, x, scale=2):
        for block in self.blocks:
            x = block(x)
        return self.logits(x, scale)

    def logits(self, x, scale):
        logits = self.last(x) * scale
        return {"logits": logits, "scale": scale}


class Collects(Usual):
    """Lists that grow, a comprehension, a generator, and a function that is given to another."""

    def forward(self, x, scale=2):
        held = []
        for block in self.blocks:
            x = block(x)
            held.append(x)
        doubled = [one * scale for one in held]
        total = sum(self.parts(doubled))
        return self.logits(apply(torch.tanh, total), scale)

    def parts(self, held):
        for one in held:
            part = one + 1
            yield part


def apply(function, value):
    result = function(value)
    return result


def step(probe, net, x=X):
    with probe(net) as probe.rec:
        net(x)["logits"].sum().backward()


def hooks_come_and_go(take):
    torch.default_generator.manual_seed(0)
    net = Usual()
    for at in range(10):
        handle = net.blocks[0].register_forward_hook(lambda *args: args[2] * 2) if at in (3, 6) else None
        take(step, net)
        if handle is not None:
            handle.remove()


class HooksInside(Usual):
    """A forward that puts a hook on a module before it calls it, which writes in place to what the module is given."""

    hooked = raises = False

    def hook(self, module, given):
        given[0].mul_(3)
        if self.raises:
            raise RuntimeError("after a write")

    def forward(self, x, scale=2):
        x = self.blocks[0](x)
        y = x * 1.0
        if self.hooked:
            handle = self.blocks[1].register_forward_pre_hook(self.hook)
            y = self.blocks[1](y)
            handle.remove()
        else:
            y = self.blocks[1](y)
        return self.logits(y, scale)


def a_forward_hooks_what_it_calls(take):
    torch.default_generator.manual_seed(0)
    net = HooksInside()
    for net.hooked in (False, False, False, False, True, True, False, True):
        take(step, net)


def a_hook_writes_and_raises(take):
    torch.default_generator.manual_seed(0)
    net = HooksInside()
    net.raises = True
    for net.hooked in (False, False, False, False, True, False):
        take(step, net)
        vars(net.blocks[1])["_forward_pre_hooks"].clear()


def a_function_gets_other_code_and_defaults(take):
    torch.default_generator.manual_seed(0)
    net, own = Collects(), (apply.__code__, apply.__defaults__)
    try:
        for at in range(10):
            apply.__code__ = (lambda function, value: function(value) * 2).__code__ if at in (5, 6) else own[0]
            Usual.logits.__defaults__ = (at,) if at > 7 else None
            take(step, net)
    finally:
        apply.__code__, apply.__defaults__ = own
        Usual.logits.__defaults__ = None


def the_model_is_copied_inside(take):
    torch.default_generator.manual_seed(0)
    net = Usual()

    def copying(probe, net, x=X):
        with probe(net) as probe.rec:
            loss = net(x)["logits"].sum()
            other = copy.deepcopy(net)
            assert type(other.blocks[0].forward) is types.MethodType
            loss = loss + other(x)["logits"].sum()
            loss = loss + pickle.loads(pickle.dumps(net))(x)["logits"].sum()
            loss.backward()

    for _ in range(STEPS):
        take(copying, net)


def forwards_are_set_and_deleted(take):
    torch.default_generator.manual_seed(0)
    net = Usual()

    def halved(x):
        half = x / 2
        return half

    for at in range(12):
        if at in (4, 5, 9):
            net.blocks[0].forward = halved
        take(step, net)
        vars(net.blocks[0]).pop("forward", None)


STORIES = {
    one.__name__: one
    for one in (
        hooks_come_and_go,
        a_forward_hooks_what_it_calls,
        a_hook_writes_and_raises,
        a_function_gets_other_code_and_defaults,
        the_model_is_copied_inside,
        forwards_are_set_and_deleted,
    )
}


@pytest.mark.parametrize("name", STORIES)
def test_each_step_says_what_it_says_alone(name):
    told = tell(STORIES[name], EVERYTHING)
    for at, left in enumerate(told):
        lines = unequal(left, tell(STORIES[name], EVERYTHING, only=at)[at])
        assert not lines, "\n  ".join([f"step {at} differs in:", *lines[:20]])


def test_a_forward_that_the_program_keeps_runs_on_and_reports_to_nobody():
    net, kept = Usual(), []
    handle = net.blocks[0].register_forward_hook(lambda module, args, output: None)
    handle.remove()
    for _ in range(STEPS):
        with bp.probe(net, **EVERYTHING) as rec:
            loss = net(X)["logits"].sum()
            kept.append(net.blocks[0].forward)
            loss.backward()
    expected, names = net.blocks[0](X), list(rec)
    for forward in kept:
        assert torch.equal(forward(X), expected)
        assert torch.equal(forward.given(net.blocks[0], X), expected)  # the reporting copy itself
    assert list(rec) == names


@pytest.mark.parametrize("first", [0, 1])
def test_two_threads_exchange_the_forwards_of_one_model(first):
    """Each thread's block hears its own calls, whichever ends first, and the model is left as it was."""
    torch.manual_seed(0)
    net = Usual()
    both, over, found = threading.Barrier(2, timeout=30), threading.Event(), {}

    def steps(key):
        for at in range(STEPS):
            both.wait()
            with bp.probe(net, **EVERYTHING) as rec:
                both.wait()
                net(X * (key + 1))["logits"].sum().backward()
                both.wait()
                if key != first:
                    assert over.wait(30)
            over.set()
            both.wait()
            over.clear()
            found[key, at] = float(rec["blocks.0.norm:input"].value[0, 0]), list(rec)

    threads = [threading.Thread(target=steps, args=(key,)) for key in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {one for one, _ in found.values()} == {0.5, 1.0}
    assert all(value == 0.5 * (key + 1) for (key, _), (value, _) in found.items())
    assert len({tuple(names) for _, names in found.values()}) == 1 and len(found) == 2 * STEPS
    assert not any("forward" in vars(module) for module in net.modules())


class Scaled(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.inner = nn.Linear(1, 1, bias=False)
        nn.init.constant_(self.inner.weight, scale)

    def forward(self, x):
        y = self.inner(x)
        return y


class Doubled(Scaled):
    def forward(self, x):
        z = self.inner(x) * 2
        return z


ONE = torch.ones(1, 1)


def another(net, scale):
    """A shallow copy with other weights, as replicas and averages of models are made."""
    made = copy.copy(net)
    made._modules = {"inner": Scaled(scale).inner}
    return made


def test_a_shallow_copy_computes_with_its_own_modules():
    net = Scaled(1.0)
    with bp.probe(net, **EVERYTHING) as rec:
        inside, never_called = another(net, 3.0), another(net, 7.0)
        assert inside(ONE) == 3.0
        assert net(ONE) == 1.0
        net(ONE * 5).sum().backward()
    assert inside(ONE) == 3.0 and "forward" not in vars(inside)
    assert never_called.forward(ONE) == 7.0
    assert another(net, 4.0)(ONE) == 4.0 and net(ONE) == 1.0
    assert rec["y#1"].value == 5.0 and "forward" not in vars(net)


def test_a_replica_of_data_parallel_computes_with_its_own_modules():
    net = Scaled(1.0)
    with bp.probe(net, **EVERYTHING):
        replica = net._replicate_for_data_parallel()
        replica._modules["inner"] = Scaled(6.0).inner
        assert replica(ONE) == 6.0
        net(ONE).sum().backward()


def test_a_class_patched_inside_a_block_computes_as_patched(monkeypatch):
    net = Scaled(1.0)
    with bp.probe(net, **EVERYTHING):
        with monkeypatch.context() as patch:
            patch.setattr(Scaled, "forward", lambda self, x: self.inner(x) * 5)
            assert net(ONE) == 5.0
        net(ONE).sum().backward()
    assert net(ONE) == 1.0


def test_a_module_gets_another_class_inside_a_block():
    net = Scaled(1.0)
    with bp.probe(net, **EVERYTHING):
        net.__class__ = Doubled
        net(ONE).sum().backward()
        assert net(ONE) == 2.0
    assert net(ONE) == 2.0 and "forward" not in vars(net)


def test_a_deep_copy_keeps_no_forward():
    net = Scaled(1.0)
    with bp.probe(net, **EVERYTHING):
        made = copy.deepcopy(net)
        net(ONE).sum().backward()
        assert made(ONE) == 1.0
    assert not any("forward" in vars(module) for module in (*made.modules(), *net.modules()))


@pytest.mark.parametrize("kind", [Scaled, Doubled])
def test_an_object_that_is_given_the_method_of_another_calls_that(kind):
    net, other = Scaled(1.0), kind(3.0)
    with bp.probe(net, **EVERYTHING) as rec:
        other.forward = net.forward
        assert other(ONE) == 1.0 and other.forward(ONE) == 1.0
        net(ONE).sum().backward()
    assert other(ONE) == 1.0 and other.forward(ONE) == 1.0 and "forward" in vars(other)
    assert rec["inner.weight"].grad is not None


def test_a_module_that_says_itself_how_it_is_copied_is_copied():
    net = torch.fx.symbolic_trace(Scaled(3.0))
    with bp.probe(net, **EVERYTHING):
        made = [copy.deepcopy(net), pickle.loads(pickle.dumps(net)), copy.copy(net)]
        net(ONE).sum().backward()
    assert [one(ONE) for one in made] == [3.0] * 3
    assert not any("forward" in vars(one) for one in made)


def test_how_instances_are_copied_is_the_programs_own_again(monkeypatch):
    def own(net):
        return Scaled, (5.0,)

    monkeypatch.setitem(copyreg.dispatch_table, Doubled, own)
    before, net = {**copyreg.dispatch_table}, nn.Sequential(Scaled(1.0), Doubled(1.0))
    with bp.probe(net, **EVERYTHING):
        with bp.probe(net[0], **EVERYTHING):
            net(ONE).sum().backward()
        assert "forward" not in vars(copy.copy(net[0]))
        assert copy.copy(net[1])(ONE) == 5.0
    assert copyreg.dispatch_table == before


def test_a_hooked_module_that_calls_itself_or_raises_is_left_as_it_was():
    class Twice(nn.Linear):
        def forward(self, x, again=2):
            if again < 0:
                raise ValueError(again)
            return self(x, again - 1) if again else super().forward(x)

    net = nn.Sequential(Twice(1, 1))
    net[0].register_forward_hook(lambda module, args, output: output * 2)
    with bp.probe(net) as rec:
        y = net(ONE)
        with pytest.raises(ValueError, match="-1"):
            net[0](ONE, -1)
        net[0](ONE).sum().backward()
    assert [one.value.item() for one in rec.select("0").values()][:3] == [y.item() / 4, y.item() / 2, y.item()]
    assert len(net[0]._forward_hooks) == 1
