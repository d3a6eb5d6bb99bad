"""Journals of calls of models: they are followed, and then say what the program says where none is kept."""

import copy
import operator
import pickle
import sys
import threading
import types

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import backprobe as bp
import test_block_repeated
from block_cases import BlockRun, course, traces
from told_stories import tell, unequal

EVERYTHING = {"select": ["**", "**:*"]}
X = torch.tensor([[0.5, -1.0, 2.0, 1.0], [1.5, 0.25, -0.75, 0.5]])
STEPS = 6


@pytest.fixture(autouse=True)
def kept(monkeypatch):
    """No journal is kept where schedules of pipelines are imported, as by other tests: they run models unseen."""
    monkeypatch.setattr(traces, "JOURNALS", "1")
    monkeypatch.delitem(sys.modules, "torch.distributed.pipelining.stage", raising=False)


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


class WritesInPlace(Usual):
    """Writes that are seen: an operator, a method, an item, and an argument that asks for it."""

    def forward(self, x, scale=2):
        mask = torch.zeros(2, 4)
        mask[1] = 1.0
        x = x + mask
        x += 1
        x = self.blocks[0](x).clone()
        x.mul_(scale)
        active = F.relu(self.blocks[1](x), inplace=True)
        return self.logits(active, scale)


class TurnsGradientsOff(Usual):
    """Without a history: a block, a decorated function, and a module in one."""

    @torch.no_grad()
    def angles(self, x):
        angle = x.mean()
        return angle.cos()

    def forward(self, x, scale=2):
        with torch.no_grad():
            before = self.blocks[0](x)
            frozen = before * 2
        angle = self.angles(x)
        made = torch.ones(4) * scale
        x = self.blocks[1](x) * angle + frozen + made
        return self.logits(x, scale)


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


class Branches(Usual):
    """Another way through its code, and an error that it catches, when it is told so."""

    way = 0

    def forward(self, x, scale=2):
        if self.way == 1:
            x = x * 3
        try:
            x = self.blocks[0](x if self.way != 2 else x[:, :2])
        except RuntimeError:
            x = x.sin()
        return self.logits(self.blocks[1](x), scale if self.way != 3 else 0.5)


def step(probe, net, x=X):
    with probe(net) as probe.rec:
        net(x)["logits"].sum().backward()


def again(kind):
    def story(take):
        torch.default_generator.manual_seed(0)
        net = kind()
        for _ in range(STEPS):
            take(step, net)

    return story


def ways(take):
    torch.default_generator.manual_seed(0)
    net = Branches()
    for net.way in (0, 0, 0, 0, 1, 0, 1, 2, 2, 0, 3, 3, 1, 2):
        take(step, net)


def layers_change_places_and_are_frozen(take):
    torch.default_generator.manual_seed(0)
    net = Usual()
    for at in range(12):
        if at % 4 == 3:
            net.blocks[0], net.blocks[1] = net.blocks[1], net.blocks[0]
        net.blocks[0].first.requires_grad_(at % 5 != 4)
        take(step, net)


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


class WithoutSource(Usual):
    """What this calls has source text, and is not the last to return."""

    exec("def forward(self, x, scale=2):\n    return self.logits(self.blocks[0](x), scale)")


STORIES = {
    **{kind.__name__: again(kind) for kind in (Usual, WritesInPlace, TurnsGradientsOff, Collects, WithoutSource)},
    **{
        one.__name__: one
        for one in (
            ways,
            layers_change_places_and_are_frozen,
            hooks_come_and_go,
            a_forward_hooks_what_it_calls,
            a_hook_writes_and_raises,
            a_function_gets_other_code_and_defaults,
            the_model_is_copied_inside,
            forwards_are_set_and_deleted,
        )
    },
}


@pytest.fixture
def journals(monkeypatch):
    """Of each block in turn, how many segments its program has followed so far, and how many were read."""
    found = []
    release = BlockRun._release

    def released(run):
        if run.trace.courses is not None:
            found.append((run.trace.courses.followed, run.trace.courses.missed))
        release(run)

    monkeypatch.setattr(BlockRun, "_release", released)
    return found


def alone(story, at):
    """A step of a story as it is told where no journal was ever kept."""
    return tell(story, EVERYTHING, only=at)[at]


@pytest.mark.parametrize("name", STORIES)
def test_each_step_says_what_it_says_without_a_journal(name):
    told = tell(STORIES[name], EVERYTHING)
    for at, left in enumerate(told):
        lines = unequal(left, alone(STORIES[name], at))
        assert not lines, "\n  ".join([f"step {at} differs in:", *lines[:20]])


@pytest.mark.parametrize("kind", [Usual, WritesInPlace, TurnsGradientsOff], ids=lambda kind: kind.__name__)
def test_the_fourth_step_is_not_read(kind, journals):
    tell(again(kind), EVERYTHING)
    assert journals[1] == (0, 0)  # two steps that say the same come before the first journal
    followed, missed = journals[-1]
    assert followed > journals[3][0] > 0
    if kind is not WritesInPlace:  # what it writes to within a call is captured once more, and not along with others
        assert journals[3][1] == missed


def test_what_changes_each_time_has_no_journal_for_long(journals):
    torch.manual_seed(0)
    net = Usual()
    net.blocks.append(Block())
    for at in range(60):
        with bp.probe(net, **EVERYTHING):
            net(X if at % 2 else X[:1], at)["logits"].sum().backward()
    followed, missed = journals[-1]
    assert missed <= course.MOST_MISSED + followed // 2 + 8


@pytest.mark.parametrize("name", STORIES)
def test_what_is_followed_is_what_reading_says(name, monkeypatch):
    compared = []

    def compare(known, made):
        compared.append(known)
        assert not course.differences(known, made), course.differences(known, made)

    monkeypatch.setattr(course, "compare", compare)
    tell(STORIES[name], EVERYTHING)
    assert compared or name in ("Collects", "WithoutSource")


class WritesOutOfSight(Usual):
    """A method that is called by a function in C, and so is not followed, writes to what a module gives it."""

    writes = False

    def active(self, x):
        return F.relu(self.blocks[0](x), inplace=self.writes)

    def forward(self, x, scale=2):
        active = operator.call(self.active, x)
        return self.logits(self.blocks[1](active), scale)


def test_a_write_out_of_sight_hides_what_was_there_before():
    """Code that is not followed writes to a value for the first time when a journal of the program is kept."""

    def story(take):
        torch.default_generator.manual_seed(0)
        net = WritesOutOfSight()
        for net.writes in (False, False, False, False, True, True):
            take(step, net)

    told = tell(story, EVERYTHING)
    found, other = (left.recordings[0] for left in (told[4], alone(story, 4)))
    truth = [name for name, entry in other.items() if entry.status == "ok"]
    hidden = {name for name, entry in found.items() if entry.status == "opaque"}
    assert hidden == {"blocks.0"}
    for name in set(found) - hidden:
        expected = other[name]
        assert (found[name].status, str(found[name].source)) == (expected.status, str(expected.source)), name
        assert name not in truth or torch.equal(found[name].grad, expected.grad), name
    assert not unequal(told[5], alone(story, 5))  # no journal is kept any longer


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
        assert torch.equal(forward.given(net.blocks[0], X), expected)  # the journalling copy itself
    assert list(rec) == names


def test_blocks_of_two_threads_have_journals_of_their_own():
    """Both begin before either ends: the second cannot have the copies that the first has."""
    torch.manual_seed(0)
    net, other = Usual(), Usual()
    other.load_state_dict(net.state_dict())
    both, found = threading.Barrier(2, timeout=30), {}

    def steps(model, key):
        for _ in range(STEPS):
            both.wait()
            with bp.probe(model, **EVERYTHING) as rec:
                both.wait()
                model(X)["logits"].sum().backward()
                both.wait()
            found[key] = {name: (entry.status, entry.grad_or_none) for name, entry in rec.items()}
            model.zero_grad()

    threads = [threading.Thread(target=steps, args=pair) for pair in ((net, 0), (other, 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with bp.probe(Usual(), **EVERYTHING) as fresh:
        pass
    assert found[0].keys() == found[1].keys() > fresh.keys()
    for name, (status, grad) in found[0].items():
        assert status == found[1][name][0], name
        assert grad is None or torch.equal(grad, found[1][name][1]), name


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


def test_a_journal_keeps_nothing_of_a_call(leaves_nothing):
    net = Usual()
    for _ in range(STEPS):
        with bp.probe(net, **EVERYTHING) as rec:
            net(X)["logits"].sum().backward()
    assert rec["blocks.0"].status == "ok"


@pytest.mark.parametrize("at", range(0, len(test_block_repeated.STORIES), 3))
def test_stories_are_told_alike_with_a_journal_of_each_step(at, monkeypatch):
    """Also of the first: then what cannot wait is met where nothing is known of the program."""
    story = test_block_repeated.STORIES[at]
    monkeypatch.setattr(traces, "JOURNALS", "all")
    told = tell(story, EVERYTHING)
    monkeypatch.setattr(traces, "JOURNALS", "")
    for place in {0, len(told) - 1}:
        lines = unequal(told[place], tell(story, EVERYTHING, only=place)[place])
        assert not lines, "\n  ".join([f"{story.__name__}, step {place}, differs in:", *lines[:20]])
