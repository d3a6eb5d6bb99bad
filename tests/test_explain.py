"""``bp.explain`` of one value: what is asked, a gradient that is there or is cut off, ways that go out of sight."""

import gc
import runpy
from collections import defaultdict, deque

import numpy as np
import pytest
import torch
from torch.utils.checkpoint import checkpoint

import backprobe as bp
from asked import Parts, kinds, leaf, on, well
from backprobe.cuts.cutting_operations import unseen_uses
from block_cases import nothing_left
from goldens import golden, golden_note


def cut(x, w):
    u = x * w
    d = u.detach()
    return (d * w).sum()


# what is asked


def test_a_gradient_that_is_there_is_no_finding():
    report = well(bp.explain(bp.probe(lambda x, w: (x * w).sum())(leaf(1.0, 2.0), leaf(3.0, 4.0)), "w"))
    assert str(report) == report.heading
    golden("explain", report)


def test_a_gradient_that_comes_by_one_way_and_not_by_another():
    report = bp.explain(bp.probe(cut)(leaf(1.0, 2.0), leaf(3.0, 4.0)), "w")
    assert report.ok
    assert [note.split("`")[1] for note in report.notes] == ["u.detach()"]
    golden("explain", report)


def test_a_computed_value_has_its_gradient_in_the_recording_and_not_in_its_own_grad():
    x = leaf(1.0, 2.0)
    with bp.probe() as rec:
        u = x * 2
        alias = u
        u.sum().backward()
    golden("explain", well(bp.explain(rec, "u")))


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
        report = well(bp.explain(rec, name))
        golden("explain", report)
        ways = [note.split("`")[1] for note in report.notes if "to 'h': " in note]
        assert ways == ["torch.sigmoid(h.sum()).item()", "h.detach()", "h.detach()"]
    assert bp.explain(rec).notes[:3] == bp.explain(rec, "h").notes[:3]


def test_what_goes_along_each_way_lacks_nothing():
    def f(x, w):
        u = x * w
        mask = u > 1
        k = u.argmax()
        print_me = u.sum().item()
        return (u * mask).sum() + u[k]

    golden("explain", well(bp.explain(bp.probe(f)(leaf(1.0, 2.0), leaf(3.0, 4.0)), "u")))


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
    golden("explain", report)
    golden("explain", well(bp.explain(rec)))


def test_what_a_model_gives_is_detached_where_the_model_is_no_entry():
    net, head, data = NET, HEAD, DATA
    with bp.probe() as rec:
        h = net(data).detach()
        k = torch.sin(data).detach()
        loss = head(h + k).mean()
        loss.backward()
    (finding,) = bp.explain(rec, "h").findings
    assert (finding.kind, finding.source.text, finding.name) == ("detach", "h = net(data).detach()", "h")
    golden("explain", finding)
    assert kinds(bp.explain(rec, "k")) == ["frozen"]  # torch.sin has no history of its own


@pytest.mark.parametrize("by_name", [True, False])
def test_a_frozen_model_is_named_and_not_what_it_gives(by_name):
    net = torch.nn.Linear(3, 1).requires_grad_(False)
    with golden_note("explain"), bp.probe() as rec:
        data = torch.ones(2, 3)
        out = net(data)
        if by_name:
            loss = out.mean()
            loss.backward()
        else:
            net(data).mean().backward()
    (finding,) = bp.explain(rec, "out").findings
    assert (finding.kind, finding.source.text) == ("frozen", "out = net(data)")
    golden("explain", finding)


def test_a_frozen_model_that_is_probed():
    net = torch.nn.Sequential(torch.nn.Linear(3, 1)).requires_grad_(False)
    with golden_note("explain"), bp.probe(net):
        out = net(torch.ones(2, 3))
        loss = out.mean()
        loss.backward()


def test_noise_of_the_shape_of_a_value_is_not_cut_off_from_it():
    deviation = leaf(1.0, 2.0)
    with bp.probe() as rec:
        noise = torch.randn_like(deviation)
        z = noise * deviation
        z.sum().backward()
    report = bp.explain(rec, "noise")
    assert (kinds(report), rec["noise"].status) == (["frozen_leaf"], "frozen")
    golden("explain", report)


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


def test_what_a_caller_does_with_what_a_module_returns_is_read_from_its_source():
    part = Part("copied")
    (found,) = bp.explain(bp.probe(part, of=lambda y: y.sum())(torch.ones(1, 2)), "first.weight").findings
    assert (found.kind, found.source.text) == ("number", "return self.last(torch.tensor(self.first(x).tolist()))")


@pytest.mark.parametrize("numbers", ["[e.item() for e in u]", "[[e.item()] for e in u]", "u.tolist()"])
def test_a_remedy_for_a_list_of_numbers_is_about_whole_tensors(numbers, tmp_path):
    file = tmp_path / "made.py"
    file.write_text(f"import torch\ndef f(x):\n    u = x * 2\n    return (torch.tensor({numbers}).ravel() * x).sum()\n")
    rec = bp.probe(runpy.run_path(str(file))["f"])(torch.ones(3))
    (found,) = bp.explain(rec, "u").findings
    assert (found.kind, found.source.line) == ("number", 4)
    golden("explain", found)


def test_what_a_caller_without_source_does_with_what_a_module_returns_is_unknown():
    known = {"torch": torch}
    exec("class Part(torch.nn.Sequential):\n def forward(self, x): return self[1](self[0](x).detach())", known)
    part = known["Part"](torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    with bp.probe(part) as rec:
        part(torch.ones(1, 2)).sum().backward()
    report = bp.explain(rec, "0.weight")
    assert kinds(report) == ["unknown"]
    assert "['**', '**:*']" in report.findings[0].remedy


@on(leaf(1.0, 2.0), leaf(3.0, 4.0)).explains("u", ("unknown", "y = torch.histc(u * 1.0, 4).sum() * w"))
def test_a_cut_in_a_call_that_is_given_an_expression_is_unknown_at_its_line(x, w):
    u = x * w
    y = torch.histc(u * 1.0, 4).sum() * w
    return y.sum()


def test_a_gradient_that_is_used_without_its_history():
    def penalty(x, w):
        y = (x**2 * w).sum()
        (g,) = torch.autograd.grad(y, x)
        return (g * w).sum()

    (finding,) = bp.explain(bp.probe(penalty)(leaf(1.0, 2.0), leaf(3.0, 4.0)), "y").findings
    assert (finding.kind, finding.source.text) == ("derivative", "(g,) = torch.autograd.grad(y, x)")
    x = leaf(1.0, 2.0)
    with golden_note("explain"), bp.probe():
        y = (x**2).sum()
        (g,) = torch.autograd.grad(y, x)
        g.sum().backward()


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


@on(leaf(1.0, 2.0), leaf(3.0, 4.0)).explains("x", ("detach", "return (x * w).detach()"))
def test_a_closure_that_detaches_what_it_has_from_around_it(x, w):
    def inner():
        return (x * w).detach()

    y = inner()
    return (y * w).sum()


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
    golden("explain", finding)


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
    golden("explain", finding)


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
    golden("explain", finding)
    (finding,) = bp.explain(bp.probe(g)(leaf(1.0, 2.0), leaf(3.0, 4.0))).findings
    assert (finding.kind, finding.source.text) == ("detach", "out = row.detach() * 2")


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
    assert (finding.kind, finding.name) == ("unused", "u")
    golden("explain", finding)


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


class Separated(Parts):
    def forward(self, x):
        h = self.body(x)
        value = self.critic(h.detach())
        return value.sum()


@pytest.mark.parametrize("block", [True, False])
def test_what_a_module_is_given_is_cut_off(block):
    model, x = Separated(body=torch.nn.Linear(2, 3), critic=torch.nn.Linear(3, 1)), torch.ones(1, 2)
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


# zeros


def test_contributions_that_cancel_are_told_from_a_derivative_that_is_zero():
    def f(x, w):
        u = x * w
        plus = u * 2
        minus = u * -2
        return (plus + minus).sum() + w.sum()

    report = bp.explain(bp.probe(f)(leaf(1.0, 2.0), leaf(3.0, 4.0)), "u")
    assert [(finding.kind, finding.name) for finding in report.findings] == [("added_up", "u")]
    golden("explain", report)


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
    golden("explain", well(bp.explain(bp.probe(lambda x: x.sqrt().sum())(leaf(0.0, 1.0)), "x")))


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


def test_what_is_drawn_does_change():
    def f(mean):
        z = torch.normal(mean, 1.0)
        return z.sum()

    finding = bp.explain(bp.probe(f)(torch.ones(3)), "mean").findings[0]
    assert (finding.kind, finding.name) == ("zero_derivative", "z")
    golden("explain", finding)


def test_a_distribution_on_a_line_of_its_own_is_cut_off_where_it_is_drawn_from():
    w = leaf(1.0, 2.0)
    with bp.probe() as rec:
        mean = w * 2
        drawn_from = torch.distributions.Normal(mean, torch.ones(2))
        sample = drawn_from.sample()
        loss = (sample * w).sum()
        loss.backward()
    (found,) = bp.explain(rec, "mean").findings
    assert (found.kind, found.source.text) == ("sample", "sample = drawn_from.sample()")


@pytest.mark.parametrize(
    ("text", "name"),
    [('{"loss": y.sum(), "dead": torch.ones(())}', "return.dead"), ("y.sum(), torch.zeros(2)", "return.1"),
     ("dict(loss=y.sum(), dead=torch.full((2,), 0.5))", "return.dead")],
)  # fmt: skip
def test_a_constant_beside_what_is_computed_is_computed_from_nothing(text, name, tmp_path):
    file = tmp_path / "made.py"
    file.write_text(f"import torch\ndef f(x):\n    y = x * 2\n    return {text}\n")
    rec = bp.probe(runpy.run_path(str(file))["f"], of="loss" if "dead" in name else 0)(torch.ones(3))
    assert rec[name].status == "frozen"
    golden("explain", rec[name].reason)
    well(bp.explain(rec))
