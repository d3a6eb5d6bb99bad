"""``bp.explain``: what it takes, what it says of a gradient that is there, of a bare loss, of whole recordings."""

import gc
import warnings
from collections import defaultdict, deque

import numpy as np
import pytest
import torch
from torch.utils.checkpoint import checkpoint

import backprobe as bp
from backprobe.record import Source
from backprobe.source.mentions import has_part, unseen_uses, uses
from backprobe.source.places import line_of
from block_cases import nothing_left


def _divided(statement):
    text, *below = statement.splitlines()
    return text, "", (), tuple(below)


def leaf(*numbers):
    return torch.tensor(numbers, requires_grad=True)


def kinds(report):
    return [finding.kind for finding in report.findings]


def cut(x, w):
    u = x * w
    d = u.detach()
    return (d * w).sum()


# what is asked


def test_a_gradient_that_is_there_is_no_finding():
    report = bp.explain(bp.probe(lambda x, w: (x * w).sum())(leaf(1.0, 2.0), leaf(3.0, 4.0)), "w")
    assert report.ok
    assert report.heading == "'w' has its gradient: nothing is missing"
    assert str(report) == report.heading


def test_a_gradient_that_comes_by_one_way_and_not_by_another():
    report = bp.explain(bp.probe(cut)(leaf(1.0, 2.0), leaf(3.0, 4.0)), "w")
    assert report.ok and "not along each way" in report.heading
    assert [note.split("`")[1] for note in report.notes] == ["u.detach()"]


def test_a_computed_value_has_its_gradient_in_the_recording_and_not_in_its_own_grad():
    x = leaf(1.0, 2.0)
    with bp.probe() as rec:
        u = x * 2
        alias = u
        u.sum().backward()
    report = bp.explain(rec, "u")
    assert report.ok
    assert report.notes == (
        "the same value is also called alias",
        "it was computed, and is no leaf: in PyTorch its own .grad is None, and rec['u'].grad is there",
    )


def test_names_are_those_of_the_recording():
    recording = bp.probe(cut)(leaf(1.0, 2.0), leaf(3.0, 4.0))
    with pytest.raises(bp.UnknownName, match="the nearest: d"):
        bp.explain(recording, "dd")
    recording = bp.probe(cut, ["u", "d"])(leaf(1.0, 2.0), leaf(3.0, 4.0))
    with pytest.raises(bp.UnknownName, match=r"next:  bp.probe\(\.\.\., \['w'\]\)"):
        bp.explain(recording, "w")


@pytest.mark.parametrize("given", [("rec", 3), ("rec", torch.ones(1))])
def test_a_recording_takes_a_name(given):
    recording = bp.probe(cut)(leaf(1.0, 2.0), leaf(3.0, 4.0))
    with pytest.raises(bp.BadOption, match=r"next:  bp.explain\(rec, 'u'\)"):
        bp.explain(recording, given[1])


def test_what_is_neither_a_recording_nor_a_tensor():
    with pytest.raises(bp.BadOption, match=r"a recording and a name, or a loss and a tensor[\s\S]*found: a str"):
        bp.explain(torch.ones(1), "u")
    with pytest.raises(bp.BackprobeError, match="next:"):
        bp.explain(3, 4)


def test_an_open_block_is_explained_as_far_as_it_is():
    x = leaf(1.0, 2.0)
    with bp.probe() as rec:
        u = x * 2
        assert kinds(bp.explain(rec, "u")) == ["backward_not_run"]
        u.sum().backward()
        assert bp.explain(rec, "u").ok


# a gradient that is there, and lacks a part


def test_ways_along_which_nothing_comes_back_are_notes():
    def gate(x, w):
        h = x * w
        g = torch.sigmoid(h.sum()).item()
        n = h.detach().norm()
        return (h * g / n / h.detach().max()).sum()

    rec = bp.probe(gate)(leaf(1.0, 2.0), leaf(3.0, 4.0))
    for name in ("h", "x"):
        report = bp.explain(rec, name)
        assert report.ok
        assert report.heading == f"{name!r} has its gradient, and not along each way that its numbers go"
        ways = [note.split("`")[1] for note in report.notes if "nothing comes back to 'h': meant, or lost?" in note]
        assert ways == ["torch.sigmoid(h.sum()).item()", "h.detach()", "h.detach()"]
    assert bp.explain(rec).notes[:3] == bp.explain(rec, "h").notes[:3]


def test_what_goes_along_each_way_lacks_nothing():
    def f(x, w):
        u = x * w
        mask = u > 1
        k = u.argmax()
        print_me = u.sum().item()
        return (u * mask).sum() + u[k]

    report = bp.explain(bp.probe(f)(leaf(1.0, 2.0), leaf(3.0, 4.0)), "u")
    assert report.heading == "'u' has its gradient: nothing is missing"


# an ordinary step


def test_a_loss_of_a_model_that_is_no_entry_was_not_made_to_require_a_gradient():
    net, data, target = torch.nn.Linear(3, 1), torch.randn(8, 3), torch.randn(8, 1)
    with bp.probe() as rec:
        loss = torch.nn.functional.mse_loss(net(data), target)
        loss.backward()
    assert rec["loss"].is_leaf is False
    assert bp.explain(rec).ok
    assert "made_leaf" not in kinds(bp.explain(rec, "data"))


# what is cut off, and has no entry


NET, HEAD, DATA = torch.nn.Linear(3, 3), torch.nn.Linear(3, 1), torch.ones(8, 3)


def test_a_model_that_is_no_entry_and_runs_under_no_grad():
    net, head, data = NET, HEAD, DATA
    with bp.probe() as rec:
        with torch.no_grad():
            h = net(data)
        loss = head(h).mean()
        loss.backward()
    report = bp.explain(rec, "h")
    assert [(finding.kind, finding.source.text) for finding in report.findings] == [("no_grad", "h = net(data)")]
    assert report.findings[0].headline.startswith("'h' is computed from `net(data)` under torch.no_grad()")
    assert bp.explain(rec).ok
    assert any(note.startswith("cut off from `net(data)`, which is not recorded (no_grad): 'h'")
               for note in bp.explain(rec).notes)  # fmt: skip


def test_what_a_model_gives_is_detached_where_the_model_is_no_entry():
    net, head, data = NET, HEAD, DATA
    with bp.probe() as rec:
        h = net(data).detach()
        k = torch.sin(data).detach()
        loss = head(h + k).mean()
        loss.backward()
    (finding,) = bp.explain(rec, "h").findings
    assert (finding.kind, finding.source.text, finding.name) == ("detach", "h = net(data).detach()", "h")
    assert finding.headline.startswith("`net(data).detach()` has the numbers of `net(data)`")
    assert kinds(bp.explain(rec, "k")) == ["frozen"]  # torch.sin has no history of its own


@pytest.mark.parametrize("cut", ["net(data).detach().mean()", "torch.tensor(net(data).mean().item())"])
def test_an_error_names_the_line_that_cuts_off_a_model_that_is_no_entry(cut):
    net, data = NET, DATA
    program = {
        "net(data).detach().mean()": lambda: net(data).detach().mean(),
        "torch.tensor(net(data).mean().item())": lambda: torch.tensor(net(data).mean().item()),
    }[cut]
    with pytest.raises(RuntimeError) as caught, bp.probe():
        loss = program()
        loss.backward()
    note = caught.value.__notes__[-1]
    assert "frozen" not in note
    assert "cut:" in note
    assert cut in note.partition("at: ")[2]


def test_an_error_where_the_probed_model_runs_under_no_grad():
    net, data = NET, DATA
    with pytest.raises(RuntimeError) as caught, bp.probe(net):
        with torch.no_grad():
            out = net(data)
        out.sum().backward()
    note = caught.value.__notes__[-1]
    assert "frozen" not in note
    assert "cut:     'return' is computed from 'weight' under torch.no_grad()" in note


@pytest.mark.parametrize("by_name", [True, False])
def test_a_frozen_model_is_named_and_not_what_it_gives(by_name):
    net = torch.nn.Linear(3, 1).requires_grad_(False)
    with pytest.raises(RuntimeError) as caught, bp.probe() as rec:
        data = torch.ones(2, 3)
        out = net(data)
        if by_name:
            loss = out.mean()
            loss.backward()
        else:
            net(data).mean().backward()
    note = caught.value.__notes__[-1]
    assert "frozen:  `net(data)` (" in note
    assert note.endswith("next:    requires_grad_() on what `net(data)` computes with, as the parameters of a module")
    (finding,) = bp.explain(rec, "out").findings
    assert (finding.kind, finding.source.text) == ("frozen", "out = net(data)")
    assert finding.remedy == "requires_grad_() on what `net(data)` computes with, as the parameters of a module"


def test_a_frozen_model_that_is_probed():
    net = torch.nn.Sequential(torch.nn.Linear(3, 1)).requires_grad_(False)
    with pytest.raises(RuntimeError) as caught, bp.probe(net):
        out = net(torch.ones(2, 3))
        loss = out.mean()
        loss.backward()
    assert caught.value.__notes__[-1].splitlines()[-3:] == [
        "  frozen:  '0.weight'", "  frozen:  '0.bias'",
        "  next:    requires_grad_() on 0.weight or 0.bias, before it is used",
    ]  # fmt: skip


def test_noise_of_the_shape_of_a_value_is_not_cut_off_from_it():
    deviation = leaf(1.0, 2.0)
    with bp.probe() as rec:
        noise = torch.randn_like(deviation)
        z = noise * deviation
        z.sum().backward()
    report = bp.explain(rec, "noise")
    assert report.heading == "'noise' has no gradient (detached)"
    (finding,) = report.findings
    assert (finding.kind, finding.facts) == (
        "frozen_leaf", ("of 'deviation' the shape and the like are used, and no number",)
    )  # fmt: skip


def test_what_an_expression_computes_with_that_is_not_recorded():
    def found(text, *known):
        return [(part, use.kind) for part, use in unseen_uses(text, frozenset(known), frozenset({"relu"}))]

    assert found("relu(x).detach()", "x") == []
    assert found("f(x).detach()", "x", "f()") == []
    assert found("(x * w).detach()", "x") == [("w", "detach")]
    assert found("self.layer(x).mean().item()", "x") == [("self.layer(x)", "number")]
    assert found("[t.item() for t in xs]", "xs") == []
    assert found("torch.zeros(n.shape[0]).detach()") == []
    assert found("x +") == []


# what the way goes through out of sight


class Part(torch.nn.Module):
    def __init__(self, cut):
        super().__init__()
        self.cut, self.first, self.last = cut, torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)

    @torch.no_grad()
    def features(self, x):
        return self.first(x)

    def forward(self, x):
        if self.cut == "no_grad":
            return self.last(self.features(x))
        return self.last(torch.tensor(self.first(x).tolist()))


@pytest.mark.parametrize("select", [None, ["**", "**:*"]])
def test_a_method_under_no_grad_is_found_with_the_locals_and_without(select):
    rec = bp.probe(Part("no_grad"), select, of=lambda y: y.sum())(torch.ones(1, 2))
    assert kinds(bp.explain(rec, "first.weight")) == ["no_grad"]


def test_what_a_caller_does_with_what_a_module_returns_is_unknown_without_its_locals():
    part = Part("copied")
    report = bp.explain(bp.probe(part, of=lambda y: y.sum())(torch.ones(1, 2)), "first.weight")
    assert kinds(report) == ["unknown"]
    assert "['**', '**:*']" in report.findings[0].remedy


def test_a_cut_in_a_call_that_is_given_an_expression_is_unknown_at_its_line():
    def f(x, w):
        u = x * w
        y = torch.histc(u * 1.0, 4).sum() * w
        return y.sum()

    (finding,) = bp.explain(bp.probe(f)(leaf(1.0, 2.0), leaf(3.0, 4.0)), "u").findings
    assert (finding.kind, finding.source.text) == ("unknown", "y = torch.histc(u * 1.0, 4).sum() * w")


def test_a_gradient_that_is_used_without_its_history():
    def penalty(x, w):
        y = (x**2 * w).sum()
        (g,) = torch.autograd.grad(y, x)
        return (g * w).sum()

    (finding,) = bp.explain(bp.probe(penalty)(leaf(1.0, 2.0), leaf(3.0, 4.0)), "y").findings
    assert (finding.kind, finding.source.text) == ("derivative", "(g,) = torch.autograd.grad(y, x)")
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError) as caught, bp.probe():
        y = (x**2).sum()
        (g,) = torch.autograd.grad(y, x)
        g.sum().backward()
    assert "create_graph=True there" in caught.value.__notes__[-1]


def test_the_call_that_fails_cuts_nothing():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError) as caught, bp.probe():
        d = (x * 2).detach()
        torch.autograd.grad(d.sum(), x)
    first, cut, at, _ = caught.value.__notes__[-1].splitlines()
    assert first == "backprobe: 'grad()' leads back to nothing that requires a gradient"
    assert "cuts 'd' off" in cut
    assert at.endswith("d = (x * 2).detach()")


def test_an_attribute_that_one_method_detaches_and_another_reads():
    class State:
        def run(self, x, w):
            self.cache = x * w
            self.cache = self.cache.detach()
            return self.use(w)

        def use(self, w):
            return (self.cache * w).sum()

    def carried(x, w):
        return State().run(x, w)

    (finding,) = bp.explain(bp.probe(carried)(leaf(1.0, 2.0), leaf(3.0, 4.0)), "x").findings
    assert (finding.kind, finding.source.text) == ("detach", "self.cache = self.cache.detach()")


def test_a_closure_that_detaches_what_it_has_from_around_it():
    def outer(x, w):
        def inner():
            return (x * w).detach()

        y = inner()
        return (y * w).sum()

    (finding,) = bp.explain(bp.probe(outer)(leaf(1.0, 2.0), leaf(3.0, 4.0)), "x").findings
    assert (finding.kind, finding.source.text) == ("detach", "return (x * w).detach()")


def test_containers_that_were_there_before_or_count_their_places():
    x, cache = leaf(1.0, 2.0), []
    with bp.probe() as rec:
        buffer, groups = deque(maxlen=2), defaultdict(list)
        a, b, c = x * 2, x * 3, x * 4
        cache.append(a.detach())
        buffer.append(b.detach())
        groups["c"].append(c.tolist())
        loss = (cache[-1] + buffer[-1]).sum() * torch.tensor(groups["c"]).sum() * x.sum()
        loss.backward()
    for name, text in (
        ("a", "cache.append(a.detach())"), ("b", "buffer.append(b.detach())"), ("c", 'groups["c"].append(c.tolist())')
    ):  # fmt: skip
        assert bp.explain(rec, name).findings[0].source.text == text


def test_a_list_of_more_values_than_are_followed_does_the_same_to_the_others():
    w, v = leaf(1.0, 2.0), leaf(3.0, 4.0)
    with bp.probe() as rec:
        kept = []
        for i in range(100):
            z = w * i
            kept.append(z.sum().item())
        loss = torch.tensor(kept).sum() * v.sum()
        loss.backward()
    (finding,) = bp.explain(rec).findings
    assert (finding.kind, finding.source.text) == ("number", "kept.append(z.sum().item())")
    (finding,) = bp.explain(rec, "z#99").findings
    assert (finding.kind, finding.source.text) == ("number", "kept.append(z.sum().item())")
    assert finding.facts[-1] == (
        "so it is of 'z#0', which the same line made; 'kept' passes on more than 64 values, of which the first 64 are "
        "followed"
    )


def test_an_object_that_is_made_and_asked_in_one_line():
    class Box:
        def __init__(self, value):
            self.value = value

        def frozen(self):
            return self.value.detach() * 3

    def f(x, w):
        z = x * w
        v = Box(z).frozen()
        return (v * w).sum()

    (finding,) = bp.explain(bp.probe(f)(leaf(1.0, 2.0), leaf(3.0, 4.0)), "z").findings
    assert (finding.kind, finding.source.text) == ("inside", "v = Box(z).frozen()")
    assert finding.facts[-1].startswith("what it gives is made in frozen, 'v' (")
    assert finding.facts[-1].endswith(": return self.value.detach() * 3)")
    assert finding.remedy.startswith("the lines of frozen are recorded: give a name to what it gives back")


def test_a_generator_that_cuts_in_what_it_yields():
    def rows(value):
        for row in value:
            yield row.detach() * 2

    def named_rows(value):
        for row in value:
            out = row.detach() * 2
            yield out

    def f(x, w):
        z, total = x * 2, w.sum()
        for r in rows(z):
            total = total + r
        return total

    def g(x, w):
        z, total = x * 2, w.sum()
        for r in named_rows(z):
            total = total + r
        return total

    (finding,) = bp.explain(bp.probe(f)(leaf(1.0, 2.0), leaf(3.0, 4.0))).findings
    assert (finding.kind, finding.source.text) == ("inside", "for r in rows(z):")
    assert finding.remedy.startswith("the lines of rows are recorded: give a name to what it gives back, out = ...")
    (finding,) = bp.explain(bp.probe(g)(leaf(1.0, 2.0), leaf(3.0, 4.0))).findings
    assert (finding.kind, finding.source.text) == ("detach", "out = row.detach() * 2")


# a second backward


def test_two_losses_over_one_trunk():
    net = torch.nn.Linear(2, 2)
    with pytest.raises(RuntimeError) as caught, bp.probe():
        h = net(torch.ones(1, 2)).tanh()
        first = h.sum()
        second = (h**2).sum()
        first.backward()
        second.backward()
    _, freed, survived, used, _, or_else = caught.value.__notes__[-1].splitlines()
    assert freed.endswith("first.backward()")
    assert survived.startswith("  survived: 'h' ")
    assert used.startswith("  used:     'second' ")
    assert "retain_graph=True in the call that comes first" in or_else


@pytest.mark.parametrize("kind", ["GRU", "RNN", "LSTM"])
def test_the_state_of_an_rnn_survives_though_backward_has_not_gone_through_it(kind):
    rnn, head = getattr(torch.nn, kind)(2, 3), torch.nn.Linear(3, 1)
    with pytest.raises(RuntimeError) as caught, bp.probe():
        state = None
        for _ in range(2):
            out, state = rnn(torch.ones(4, 1, 2), state)
            loss = head(out[-1]).mean()
            loss.backward()
    _, freed, survived, used, remedy, *_ = caught.value.__notes__[-1].splitlines()
    assert freed.endswith("loss.backward()")
    assert survived.startswith("  survived: 'state#1.0' (" if kind == "LSTM" else "  survived: 'state#1' (")
    assert used.startswith("  used:     'out#1' (")
    detached = "tuple(part.detach() for part in state)" if kind == "LSTM" else "state.detach()"
    assert f"next:     state = {detached} before it is used again" in remedy


def test_a_call_of_grad_has_freed_the_graph():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError) as caught, bp.probe():
        y = (x**3).sum()
        g = torch.autograd.grad(y, x)[0]
        y.backward()
    first, freed, survived, remedy = caught.value.__notes__[-1].splitlines()
    assert first == "backprobe: grad() has gone through 'y' before, and has freed what leads to it"
    assert freed.endswith(": g = torch.autograd.grad(y, x)[0]")
    assert survived.startswith("  survived: 'y' (")
    assert remedy == "  next:     retain_graph=True in that call"
    with pytest.raises(RuntimeError) as caught, bp.probe():
        h = x**3
        torch.autograd.grad(h.sum(), x, retain_graph=True)
        torch.autograd.grad(h.sum(), x)
        g = torch.autograd.grad(h.prod(), x)
    note = caught.value.__notes__[-1]
    assert "torch.autograd.grad(h.sum(), x)\n" in note
    assert "survived: 'h' (" in note


def test_a_call_that_keeps_the_graph_has_freed_nothing():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError) as caught, bp.probe():
        h = x.exp()
        h.sum().backward(retain_graph=True)
        h.prod().backward()
        h.exp().sum().backward()
    note = caught.value.__notes__[-1]
    assert "freed:    " in note
    assert "h.prod().backward()" in note


def test_losses_that_are_kept_in_a_list():
    w, history = leaf(1.0, 2.0), []
    with pytest.raises(RuntimeError) as caught, bp.probe():
        for i in range(2):
            history.append(w * i * w)
            loss = torch.stack(history).sum()
            loss.backward()
    lines = caught.value.__notes__[-1].splitlines()
    assert lines[1].startswith("  freed:    ")
    assert lines[2] == "  survived: a value without a name"
    assert lines[3].startswith("  used:     'loss#1' ")


def test_the_remedy_for_a_module_that_writes_in_place():
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Sigmoid(), torch.nn.ReLU(inplace=True))
    with pytest.raises(RuntimeError) as caught, bp.probe(net):
        net(torch.ones(1, 2)).sum().backward()
    written, remedy = caught.value.__notes__[-1].splitlines()[-2:]
    assert written == "  written: by the module '2'"
    assert remedy == "  next:    inplace=False for the module '2'"


class WritesInPlace(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.act = torch.nn.Linear(2, 2), torch.nn.ReLU(inplace=True)

    def forward(self, x):
        h = torch.sigmoid(self.first(x))
        y = self.act(h)
        return y.sum()


@pytest.mark.parametrize("select", [None, ["**", "**:*"]])
def test_a_module_that_writes_in_place_is_named_by_its_path(select):
    net = WritesInPlace()
    with pytest.raises(RuntimeError) as caught, bp.probe(net, select):
        net(torch.ones(1, 2)).backward()
    note = caught.value.__notes__[-1]
    assert "written: by the module 'act'" in note
    assert "site-packages" not in note
    assert note.endswith("next:    inplace=False for the module 'act'")


def test_a_module_that_writes_in_place_in_a_line_of_a_plain_block():
    net = WritesInPlace()
    with pytest.raises(RuntimeError) as caught, bp.probe():
        net(torch.ones(1, 2)).backward()
    note = caught.value.__notes__[-1]
    assert "y = self.act(h))" in note.partition("written: ")[2]
    assert "next:    inplace=False for the module that this line calls" in note


@pytest.mark.parametrize("is_named", [True, False])
def test_an_optimizer_that_updates_what_backward_needs_is_named_by_its_line(is_named):
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with pytest.raises(RuntimeError) as caught, bp.probe(net) if is_named else bp.probe():
        loss = net(torch.ones(1, 2)).sum()
        loss.backward(retain_graph=True)
        optimizer.step()
        loss.backward()
    note = caught.value.__notes__[-1]
    assert "\n  written: " in note
    assert ": optimizer.step()\n  next:    update it after the last backward()" in note


def test_a_leaf_that_an_optimizer_updates_between_two_uses():
    w, x = leaf(1.0, 2.0), leaf(3.0, 4.0)
    w.grad, optimizer = torch.ones(2), torch.optim.SGD([w], 0.1)
    with bp.probe() as rec:
        a = (x + w).sum()
        optimizer.step()
        b = (x + w).sum()
        (a + b).backward()
    (finding,) = bp.explain(rec).findings
    assert (finding.kind, finding.source.text) == ("overwritten", "optimizer.step()")


@pytest.mark.parametrize("write", [True, False])
def test_only_the_inference_tensor_that_the_line_uses_is_named(write):
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError) as caught, bp.probe():
        with torch.inference_mode():
            other, used = torch.ones(2), torch.ones(2) * 2
        if write:
            used.add_(1)
        y = used * x
    note = caught.value.__notes__[-1]
    assert "backprobe: 'used' was made under torch.inference_mode()" in note
    assert "'other'" not in note


def test_the_remedy_is_about_the_variable_that_the_line_writes_to():
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.act = torch.nn.Sigmoid()

        def forward(self, x):
            h = self.act(x)
            g = h * x
            h += x
            return h * g

    with pytest.raises(RuntimeError) as caught, bp.probe(block := Block(), ["**", "**:*"]):
        block(leaf(1.0, 2.0)).sum().backward()
    lines = caught.value.__notes__[-1].splitlines()
    assert lines[-2].endswith(": h += x)")
    assert lines[-1] == "  next:    an ordinary operation instead, h = h + ... and not h += ..."


def test_a_remedy_spells_the_value_as_the_program_does():
    def f(x, w):
        u = x * w
        k = u.argmax()
        return (w[k] * 2).sum()

    (finding,) = bp.explain(bp.probe(f)(leaf(1.0, 2.0), leaf(3.0, 4.0)), "u").findings
    assert "u.max(), u.gather(...)" in finding.remedy


def test_a_backward_before_the_block_has_freed_the_graph():
    w = leaf(1.0, 2.0)
    y = (w**2).sum()
    y.backward()
    with pytest.raises(RuntimeError) as caught, bp.probe():
        y.backward()
    note = caught.value.__notes__[-1]
    assert "an earlier backward() or grad(), not seen here, has gone through what 'y' leads to" in note
    assert "retain_graph=True there" in note


# what a recording cannot tell


def test_an_object_that_passes_a_value_on_is_not_seen_and_nothing_is_claimed():
    class Box:
        def __init__(self, value):
            self.value = value

        def numbers(self):
            return self.value.detach()

    def f(x, w):
        u = x * w
        box = Box(u)
        return (box.numbers() * w).sum()

    (finding,) = bp.explain(bp.probe(f)(leaf(1.0, 2.0), leaf(3.0, 4.0)), "u").findings
    assert finding.kind == "unused"
    assert finding.headline == "nothing that was recorded leads from 'u' to 'return'"
    assert "objects, closures and functions that are not followed" in finding.remedy


def test_what_only_the_shape_is_used_of_is_not_cut():
    def f(x, w):
        u = x * w
        size = u.shape[0]
        zeros = torch.zeros_like(u)
        return (w / size + zeros).sum()

    report = bp.explain(bp.probe(f)(leaf(1.0, 2.0), leaf(3.0, 4.0)), "u")
    assert kinds(report) == ["unused"]


def test_the_branch_that_is_not_taken_is_not_blamed():
    def f(x, w):
        u = x * w
        y = w if float(x.detach().sum()) > 0 else u.exp()
        return (y * w).sum()

    assert kinds(bp.explain(bp.probe(f)(leaf(1.0, 2.0), leaf(3.0, 4.0)), "u")) == ["unused"]


def test_a_name_bound_again_points_to_the_one_that_is_used():
    def f(x, w):
        y = x * 2
        y = w * 3
        return y.sum()

    (finding,) = bp.explain(bp.probe(f)(leaf(1.0, 2.0), leaf(3.0, 4.0)), "y#0").findings
    assert finding.kind == "other_call"
    assert "rec['y#1']" in finding.remedy


# modules


class Frozen(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU()), torch.nn.Linear(3, 1)

    def forward(self, x):
        with torch.no_grad():
            h = self.body(x)
        return self.head(h).sum()


def test_the_parameters_of_a_module_that_runs_under_no_grad():
    recording = bp.probe(Frozen())(torch.ones(1, 2))
    assert recording["body.0"].status == "no_grad"
    (finding,) = bp.explain(recording, "body.0.weight").findings
    assert (finding.kind, finding.chain) == ("no_grad", ("body.0.weight", "body.0"))
    assert kinds(bp.explain(recording)) == ["no_grad"]


def test_parameters_that_are_frozen_are_told_from_those():
    model = Frozen()
    model.body.requires_grad_(False)
    recording = bp.probe(model)(torch.ones(1, 2))
    assert recording["body.0"].status == "frozen"
    assert kinds(bp.explain(recording, "body.0.weight")) == ["frozen_leaf"]
    assert bp.explain(recording).ok


class Separated(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.critic = torch.nn.Linear(2, 3), torch.nn.Linear(3, 1)

    def forward(self, x):
        h = self.body(x)
        value = self.critic(h.detach())
        return value.sum()


@pytest.mark.parametrize("block", [True, False])
def test_what_a_module_is_given_is_cut_off(block):
    model, x = Separated(), torch.ones(1, 2)
    if block:
        with bp.probe(model, ["**", ":*"]) as recording:
            model(x).backward()
    else:
        recording = bp.probe(model, ["**", ":*"])(x)
    (finding,) = bp.explain(recording, "body.weight").findings
    assert (finding.kind, finding.source.text) == ("detach", "value = self.critic(h.detach())")
    assert finding.chain[0] == "body.weight"
    assert recording["body.weight"].cause == finding.source


class Checkpointed(torch.nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.body, self.head, self.reentrant = torch.nn.Linear(2, 3), torch.nn.Linear(3, 1), reentrant

    def forward(self, x):
        h = checkpoint(self.body, x, use_reentrant=self.reentrant)
        return self.head(h).sum()


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize("block", [True, False])
def test_a_reentrant_checkpoint_of_a_module_in_a_model(block):
    model, x = Checkpointed(True), torch.ones(1, 2)
    if block:
        with bp.probe(model) as recording:
            model(x).backward()
    else:
        recording = bp.probe(model)(x)
    assert model.body.weight.grad is None
    for name in ("body.weight", "body"):
        (finding,) = bp.explain(recording, name).findings
        assert finding.kind == "checkpoint"
        assert finding.source.text == "h = checkpoint(self.body, x, use_reentrant=self.reentrant)"


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
def test_the_whole_recording_has_a_reentrant_checkpoint_that_is_given_nothing_differentiated():
    w, data = leaf(1.0, 2.0), torch.ones(2)

    def part(value):
        first = value * w
        return first * 2

    with bp.probe() as recording:
        h = checkpoint(part, data, use_reentrant=True)
        loss = (h * w).sum()
        loss.backward()
    (finding,) = bp.explain(recording).findings
    assert (finding.kind, finding.source.text) == ("checkpoint", "h = checkpoint(part, data, use_reentrant=True)")


def test_the_other_kind_of_checkpoint_loses_nothing():
    model, x = Checkpointed(False), torch.ones(1, 2)
    with bp.probe(model) as recording:
        model(x).backward()
    assert bp.explain(recording).ok
    assert bp.explain(recording, "body.weight").ok


# whole recordings


def test_a_loop_that_cuts_at_each_turn_is_one_finding():
    def f(x, w):
        h = x
        for _ in range(20):
            h = (h * w).detach()
        return (h * w).sum()

    recording = bp.probe(f)(leaf(1.0, 2.0), leaf(0.5, 0.5))
    (finding,) = bp.explain(recording).findings
    assert finding.kind == "detach"
    assert "the gradients that are missing for it: x" in finding.facts


def noted(report, words):
    return [note for note in report.notes if words in note]


BESIDE = "computed, and not used for an output: "


def test_a_value_that_is_not_used_is_a_note_where_no_gradient_is_missing_for_it():
    w = leaf(1.0, 2.0)
    with bp.probe() as rec:
        total = w.sum()
        for i in range(20):
            a = w * i
            monitor = a.norm()
            _, largest = torch.max(a.view(1, 2), 1)
            total = total + a.sum()
        total.backward()
    report = bp.explain(rec)
    assert report.ok
    assert noted(report, BESIDE) == [f"{BESIDE}monitor (20 times), _ (20 times)"]
    assert kinds(bp.explain(rec, "monitor#3")) == ["unused"]


def test_a_leaf_that_is_not_used_is_a_finding_with_where_its_way_ends():
    def f(x, w):
        for _ in range(3):
            t = x * w
        return w.sum()

    report = bp.explain(bp.probe(f)(leaf(1.0, 2.0), leaf(3.0, 4.0)))
    (finding,) = report.findings
    assert (finding.kind, finding.name, finding.source.text) == ("unused", "x", "t = x * w")
    assert finding.facts[0].startswith("what is computed from it ends there: 't#0' (")
    assert noted(report, BESIDE) == [f"{BESIDE}t (3 times)"]


def test_the_parameters_of_a_module_that_is_not_used_are_one_finding():
    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.left = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)

        def forward(self, x):
            self.left(x)
            return self.used(x).sum()

    (finding,) = bp.explain(bp.probe(Two())(torch.ones(1, 2))).findings
    assert (finding.kind, finding.name) == ("unknown", "left.weight")
    assert finding.facts[-1] == "the same is missing for it of left.bias"


def test_a_state_that_the_last_step_gives_is_a_note():
    rnn, data = torch.nn.GRU(2, 2), torch.ones(3, 1, 2)
    with bp.probe() as rec:
        out, state = rnn(data)
        out.sum().backward()
    report = bp.explain(rec)
    assert report.ok
    assert noted(report, BESIDE) == [f"{BESIDE}state"]


def test_higher_derivatives_are_healthy():
    net, points = torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)), leaf(0.1, 0.2)
    w, first_order = leaf(1.0, 2.0), False
    with bp.probe() as rec:
        t = points[:, None]
        u = net(t)
        du = torch.autograd.grad(outputs=u.sum(), inputs=t, create_graph=True)[0]
        d2u = torch.autograd.grad(du.sum(), t, create_graph=True)[0]
        inner = ((w * 2) ** 2).sum()
        (g,) = torch.autograd.grad(inner, w, create_graph=not first_order)
        fast = w - 0.1 * g
        ((d2u + u * 0) ** 2).sum().backward()
        (fast**2).sum().backward()
    report = bp.explain(rec)
    assert report.ok, str(report)
    assert noted(report, "only the derivative") == ["only the derivative is used of: du, inner"]


def test_a_derivative_whose_flag_was_off_is_cut_off():
    def f(w, first_order=True):
        inner = (w**3).sum()
        (g,) = torch.autograd.grad(inner, w, create_graph=not first_order)
        return (g * 2).sum() + w.sum()

    (finding,) = bp.explain(bp.probe(f)(leaf(1.0, 2.0)), "inner").findings
    assert finding.kind == "derivative"


def test_what_cannot_be_told_is_a_note():
    w, online, target = leaf(1.0, 2.0), leaf(3.0), leaf(4.0)
    with bp.probe() as rec:
        loss = torch.func.grad(lambda v: (v**3).sum())(w).sum()
        loss.backward()
        with torch.no_grad():
            target.mul_(0.99).add_(online)
    report = bp.explain(rec)
    assert report.ok, str(report)
    assert noted(report, "cannot be told: it lives inside a torch.func transform")


def test_by_nature_and_frozen_values_are_notes():
    def f(x, w):
        n = 3
        k = x.argmax()
        ones = torch.ones(2)
        return (x * w * ones).sum() * n

    report = bp.explain(bp.probe(f)(leaf(1.0, 2.0), leaf(3.0, 4.0)))
    assert report.ok
    assert report.heading == "3 of 6 values have their gradient"
    assert report.notes == (
        "computed from nothing that requires a gradient: ones", "no tensors: n", "neither floating point nor complex: k"
    )  # fmt: skip


def test_items_of_a_comprehension_that_cuts_are_lost_with_what_it_goes_through():
    def f(x, w):
        u = x * w
        parts = [one.item() for one in u]
        return (torch.tensor(parts) * w).sum()

    assert kinds(bp.explain(bp.probe(f)(leaf(1.0, 2.0), leaf(3.0, 4.0)))) == ["number"]


# zeros


def test_contributions_that_cancel_are_told_from_a_derivative_that_is_zero():
    def f(x, w):
        u = x * w
        plus = u * 2
        minus = u * -2
        return (plus + minus).sum() + w.sum()

    report = bp.explain(bp.probe(f)(leaf(1.0, 2.0), leaf(3.0, 4.0)), "u")
    assert all("contributions may have cancelled" in " ".join(finding.facts) for finding in report.findings)


@pytest.mark.parametrize("block", [True, False])
def test_a_hook_that_makes_a_gradient_zero_is_told_from_a_derivative_that_is_zero(block):
    def f(x, w):
        z = x * 2
        z.register_hook(lambda gradient: gradient * 0)
        return (z * w).sum()

    if block:
        x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
        with bp.probe() as rec:
            z = x * 2
            z.register_hook(lambda gradient: gradient * 0)
            loss = (z * w).sum()
            loss.backward()
    else:
        rec = bp.probe(f)(leaf(1.0, 2.0), leaf(3.0, 4.0))
    for name in ("x", "z"):
        (finding,) = bp.explain(rec, name).findings
        assert (finding.kind, finding.name, finding.source.text) == ("hooked", "z", "z = x * 2")
    assert bp.explain(rec, "w").ok


def test_a_gradient_that_is_not_finite_is_a_note():
    report = bp.explain(bp.probe(lambda x: x.sqrt().sum())(leaf(0.0, 1.0)), "x")
    assert "1 of the 2 numbers of the gradient are not finite" in report.notes


# without a recording


def facts_of(loss, tensor):
    report = bp.explain(loss, tensor)
    return report.heading, kinds(report)


def test_a_tensor_that_is_no_leaf():
    weight = torch.ones(3, requires_grad=True) * 0.1
    report = bp.explain((weight * 2).sum(), weight)
    assert report.heading == "a path leads from the loss to weight: backward() brings it a gradient"
    assert kinds(report) == ["not_retained"]
    assert report.findings[0].facts == (
        "weight was computed by MulBackward0 from a leaf of shape (3,), and .grad is filled there",
    )
    weight.retain_grad()
    assert bp.explain((weight * 2).sum(), weight).ok


SHARED = leaf(1.0)


def test_leaves_are_called_as_the_caller_calls_them():
    x = leaf(1.0)
    u, v = x.exp(), SHARED.exp()
    assert "u was computed by ExpBackward0 from x" in str(bp.explain(u * 2, u))
    assert "v was computed by ExpBackward0 from SHARED" in str(bp.explain(v * 2, v))


def test_a_view_taken_again():
    b = leaf(1.0, 2.0).exp()
    t = b[0]
    report = bp.explain(b[0] * 2, t)
    assert report.heading == "no path leads from the loss to t: backward() brings it no gradient"
    assert kinds(report) == ["made_again"]
    assert facts_of(b[1] * 2, t)[1] == ["unused"]


def test_another_leaf_in_the_same_memory():
    x = leaf(1.0, 2.0)
    parameter = torch.nn.Parameter(x)
    (finding,) = bp.explain((parameter * 2).sum(), x).findings
    assert finding.kind == "shared"
    assert finding.headline.startswith("parameter lies in the same memory as x")


def test_a_view_that_is_not_used_is_cut_off_by_nothing():
    w = leaf(1.0, 2.0)
    view = w.view(2, 1)
    assert kinds(bp.explain((w * 2).sum(), view)) == ["unused"]


def test_a_detached_tensor_was_made_so_or_cut_off():
    w = leaf(1.0, 2.0)
    d = w.detach()
    (finding,) = bp.explain((d * 2).sum() + w.sum(), d).findings
    assert finding.headline == "d requires no gradient: it was made so, or was cut off"
    assert finding.facts[-1] == "it lies in the same memory as w"


def test_what_a_reentrant_checkpoint_leads_to_is_unknown():
    w, part = leaf(1.0, 2.0, 3.0), torch.nn.Linear(3, 3)
    loss = checkpoint(lambda given: part(given).sum(), w, use_reentrant=True)
    weight = part.weight
    report = bp.explain(loss, weight)
    assert kinds(report) == ["unknown"]
    assert report.heading == "no path is seen from loss to weight, and not all of the graph can be seen"
    loss.backward()
    assert weight.grad is not None


def test_a_backward_in_python_may_give_none():
    class Silent(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return None

    w = leaf(1.0, 2.0)
    loss = Silent.apply(w).sum()
    report = bp.explain(loss, w)
    assert report.heading == "a path leads from loss to w"
    assert report.notes == ("SilentBackward: written in Python, and may give None for w; only running it tells",)


def test_values_that_are_not_reached():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    u = x * 3
    assert facts_of((x * w).sum(), u)[1] == ["unused"]
    assert facts_of(w.sum(), x)[1] == ["unused"]
    assert facts_of(w.sum(), torch.ones(2))[1] == ["frozen"]
    assert facts_of(w.sum(), torch.tensor([1, 2]))[1] == ["not_float"]
    with torch.inference_mode():
        q = torch.ones(2)
    assert facts_of(w.sum(), q)[1] == ["inference"]


def test_a_loss_that_backward_cannot_run_from():
    x = leaf(1.0, 2.0)
    assert facts_of(x * 2, x)[1] == ["not_scalar"]
    assert facts_of(x.detach().sum(), x)[1] == ["no_history", "unused"]
    loss = x.detach().sum()
    loss.requires_grad = True
    assert facts_of(loss, x)[1] == ["made_leaf", "unused"]
    v = x.exp()
    loss = (v * x).sum()
    v.add_(1)
    assert facts_of(loss, x)[1] == ["in_place"]
    loss = (x * x).sum()
    loss.backward()
    report = bp.explain(loss, x)
    assert report.ok  # x.grad is there: that the graph is gone is no cause of anything missing
    assert report.heading == "a path leads from loss to x"
    assert report.notes == (
        "a part of the graph of loss is freed: a backward() or grad() has gone through it, and a second raises",
    )


def test_looking_at_a_graph_runs_nothing_of_it():
    ran = []

    def part(value):
        ran.append(1)
        return value.exp() * value

    x = leaf(1.0, 2.0)
    loss = checkpoint(part, x, use_reentrant=False).sum()
    assert len(ran) == 1
    assert bp.explain(loss, x).ok
    assert len(ran) == 1


# errors


def test_an_error_that_is_not_of_the_graph_gets_no_explanation():
    with pytest.raises(RuntimeError, match="size of tensor a") as caught, bp.probe():
        leaf(1.0, 2.0) + leaf(1.0, 2.0, 3.0)
    assert len(caught.value.__notes__) == 1


def test_an_error_of_a_checkpoint_runs_nothing_again():
    ran = []

    def part(value):
        ran.append(1)
        return value.exp() * value

    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"), bp.probe():
        y = checkpoint(part, x, use_reentrant=False)
        v = y.exp()
        v.add_(1)
        v.sum().backward()
    assert len(ran) == 1


def test_nothing_is_left_after_an_error_that_was_explained():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    with nothing_left():
        for _ in range(2):
            try:
                with bp.probe() as rec:
                    v = x.exp()
                    array = v.detach().numpy()
                    z = v * w
                    v.add_(1)
                    (z * torch.from_numpy(array)).sum().backward()
            except RuntimeError as error:
                assert "written: 'v#1'" in error.__notes__[-1]
            del rec, v, z, array


def test_the_function_form_explains_its_errors_too():
    def f(x):
        u = x.exp()
        u.add_(1)
        return u * 2

    with pytest.raises(RuntimeError) as caught:
        bp.probe(f)(1.0)
    note = caught.value.__notes__[-1]
    assert "saved:   'u#0'" in note
    assert "u.add_(1))" in note


def test_an_output_that_is_cut_off_names_the_line():
    def f(x, w):
        u = x * w
        d = u.detach()
        return d * 2

    with pytest.raises(bp.NothingToDifferentiate) as caught:
        bp.probe(f)(3.0, 2.0)
    (note,) = caught.value.__notes__
    assert "cut:     `u.detach()` has the numbers of 'u'" in note
    assert ": d = u.detach()" in note


def test_a_number_as_output_names_the_line():
    def f(x, w):
        loss = (x * w).sum()
        return loss.item()

    with pytest.raises(bp.BadOutput) as caught:
        bp.probe(f)(3.0, 2.0)
    assert ": return loss.item()" in caught.value.__notes__[0]


def test_the_error_is_that_of_the_program_where_names_were_not_selected():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught, bp.probe(select="z"):
        v = x.exp()
        z = v * x
        v.add_(1)
        z.sum().backward()
    assert "saved:   'z'" in caught.value.__notes__[-1]


# what is kept


def test_what_passes_through_names_without_tensors_is_forgotten_with_the_block():
    x = leaf(1.0, 2.0)
    with nothing_left():
        with bp.probe() as rec:
            seen = []
            for _ in range(3):
                u = x * 2
                seen.append(u.detach().numpy())
            torch.from_numpy(np.stack(seen)).sum().requires_grad_().backward()
        del rec, u
    gc.collect()


# texts


@pytest.mark.parametrize(
    ("text", "spelled", "found"),
    [
        ("u.detach()", "u", ["detach"]),
        ("float(u)", "u", ["number"]),
        ("u.float()", "u", [""]),
        ("u.to(torch.long)", "u", ["integer"]),
        ("u.to(torch.float64)", "u", [""]),
        ("tf.cast(u, tf.int32)", "u", ["integer"]),
        ("u is None", "u", ["shape"]),
        ("u > v", "v", ["comparison"]),
        ("pair[0].detach() + pair[1]", "pair.1", [""]),
        ("pair[0].detach() + pair[1]", "pair.0", ["detach"]),
        ("self.scale.item()", "self.scale", ["number"]),
        ("helper(u) * 2", "u", []),
        ("[v.item() for v in u]", "u", ["number"]),
        ("[v for v in u]", "u", [""]),
        ("return u.detach()", "u", ["detach"]),
        ("while (v := u.detach()).sum() > 3:", "u", ["detach"]),
    ],
)
def test_what_a_text_does_with_a_name(text, spelled, found):
    assert [use.kind for use in uses(text, spelled, ("helper",))] == found


def test_a_value_that_its_own_statement_cuts_off_says_in_which_line():
    def f(x, w):
        d = torch.cat(
            [
                torch.ones(2),
                (x * w).detach(),
            ]
        )
        return d.sum() + (x * w).sum()

    recording = bp.probe(f)(leaf(1.0, 2.0), leaf(3.0, 4.0))
    assert recording["d"].source.text == "d = torch.cat("
    assert recording["d"].source.below[2:] == ("                (x * w).detach(),", "            ]", "        )")
    with pytest.raises(bp.NoGradient) as caught:
        recording["d"].grad
    assert caught.value.found.splitlines()[1].endswith(f":{recording['d'].source.line + 3}: (x * w).detach(),")


def test_the_head_of_a_statement_that_has_a_body_is_all_of_its_lines():
    text = "with torch.set_grad_enabled(\n    float(u) > 0\n):  # on"
    assert [use.kind for use in uses(text, "u")] == ["number"]
    assert line_of(Source("a.py", 3, *_divided(text)), "float(u)").line == 4
    assert [use.kind for use in uses("elif u.item() > 3:", "u")] == ["number"]


def test_a_zero_derivative_is_at_the_line_of_the_operation():
    def f(x):
        u = x * 2
        r = (
            u.exp()
            .round()
            * 3
        )  # fmt: skip
        s = (
            torch.floor(
                u,
            )
        )  # fmt: skip
        return r.sum() + s.sum()

    report = bp.explain(bp.probe(f)(leaf(1.0, 2.0)), "u")
    assert [finding.source.text for finding in report.findings] == ["u.exp()", "torch.floor("]


@pytest.mark.parametrize(
    ("text", "spelled", "kind"),
    [
        ("[float(b) * a for a, b in zip(u, v)]", "u", ""),
        ("[float(b) * a for a, b in zip(u, v)]", "v", "number"),
        ("[b * a.item() for i, (a, b) in enumerate(zip(u, v))]", "u", "number"),
        ("math.exp(u) * v", "u", "number"),
        ("torch.sort(u, 0)[1]", "u", "index"),
        ("torch.sort(u, 0)[0]", "u", ""),
        ("u.topk(2).indices", "u", "index"),
        ("torch.round(u).detach()", "u", "detach"),
    ],
)
def test_what_functions_of_libraries_and_of_python_do(text, spelled, kind):
    assert [use.kind for use in uses(text, spelled)] == [kind]


def test_a_text_that_is_no_python_tells_nothing():
    assert uses("u = (", "u") is None
    assert uses("x * 2", "u") is None
    assert not has_part("u = (", "u[0]")


def test_python_warns_of_nothing_while_texts_are_read():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert uses('u.detach() if "\\d" else u', "u") is not None


def test_modules_that_did_not_run_are_no_fault():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.spare = torch.nn.Linear(2, 1), torch.nn.Dropout()

        def forward(self, x):
            return self.used(x)

    rec = bp.probe(Net(), of=lambda y: y.sum())(torch.ones(1, 2))
    assert bp.explain(rec).ok
    assert "never computed: spare" in bp.explain(rec).notes
    assert bp.explain(rec, "spare").findings[0].kind == "not_executed"


def test_what_is_drawn_does_change():
    def f(mean):
        z = torch.normal(mean, 1.0)
        return z.sum()

    finding = bp.explain(bp.probe(f)(torch.ones(3)), "mean").findings[0]
    assert finding.headline == "the derivative of 'z' towards 'mean' that backward takes is 0"
    assert "mean + deviation * randn_like(mean)" in finding.remedy
