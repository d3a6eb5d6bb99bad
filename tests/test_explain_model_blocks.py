"""Parameters that are cut inside a forward, explained for a block around the model, which follows no locals.

A line that ends a way of the module's result is marked ``# <- here``; where it is marked ``# <- call``, the call is all
that is known; ``# cut`` is what is found where the model may run again. A forward without a mark has none to be
named.
"""

import inspect

import numpy as np
import pytest
import torch
from torch import nn

import backprobe as bp

CASES = []


def case(*kinds):
    def add(forward):
        CASES.append((forward, kinds))
        return forward

    return add


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.mid, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 1)
        self.scale = nn.Parameter(torch.ones(4))
        self.kept = None


@case("detach")
def in_the_statement_of_the_call(self, x):
    h = torch.relu(self.enc(x)).detach()  # <- here
    return self.head(self.mid(h * self.scale))


@case("data")
def in_the_returned_expression(self, x):
    return self.head(self.mid(self.enc(x).data * self.scale))  # <- here


@case("number")
def as_a_number(self, x):
    k = self.enc(x).mean().item()  # <- here
    return self.head(self.mid(x * k * self.scale))


@case("numpy")
def by_numpy(self, x):
    h = torch.from_numpy(np.tanh(self.enc(x).detach().numpy()))  # <- here
    return self.head(self.mid(h * self.scale))


@case("index")
def as_an_index(self, x):
    best = self.enc(x).argmax(-1)  # <- here
    return self.head(self.mid(x * self.scale))[best % 3]


@case("detach")
def by_a_name(self, x):
    h = self.enc(x)
    h = h.detach()  # <- here
    return self.head(self.mid(h * self.scale))


@case("detach")
def by_two_names(self, x):
    h = self.enc(x)
    z = torch.relu(h) + 1
    out = z.detach() * self.scale  # <- here
    return self.head(self.mid(out))


@case("detach", "number")
def in_both_of_its_uses(self, x):
    h = self.enc(x)
    k = h.mean().item()  # <- here
    out = h.detach() * self.scale  # <- here
    return self.head(self.mid(out)) * k


@case("detach")
def beside_its_shape(self, x):
    h = self.enc(x)
    count = h.shape[0]
    h = h.detach()  # <- here
    return self.head(self.mid(h * self.scale)) * count


@case("no_grad")
def under_no_grad(self, x):
    with torch.no_grad():
        h = self.enc(x)  # <- here
    return self.head(self.mid(h * self.scale))


@case("no_grad")
def under_no_grad_by_a_name(self, x):
    h = self.enc(x)
    with torch.no_grad():
        out = h * 2  # <- here
    return self.head(self.mid(out * self.scale))


@case("dropped")
def not_used(self, x):
    h = self.enc(x)  # <- here
    return self.head(self.mid(x * self.scale))


@case("detach")
def a_parameter_of_its_own(self, x):
    return self.head(self.mid(self.enc(x) * self.scale.detach()))  # <- here


@case("detach")
def behind_several_modules(self, x):
    h = self.mid(self.enc(x) * self.scale).detach()  # <- here
    return self.head(h)


@case("detach")
def the_second_of_two_calls(self, x):
    h = self.enc(x * self.scale)
    h = self.enc(h).detach()  # <- here
    return self.head(self.mid(h))


@case("number")
def as_a_list(self, x):
    rows = self.enc(x).tolist()  # <- here
    return self.head(self.mid(torch.tensor(rows) * self.scale))


# where the text proves nothing, no line but that of the call is named, and it is not said to cut


@case("unknown")
def given_to_an_attribute(self, x):
    self.kept = self.enc(x)  # <- call
    return self.head(self.mid(self.kept.detach() * self.scale))  # cut


@case("unknown")
def given_to_a_function(self, x):
    def cut(value):
        return value.detach()  # cut

    h = cut(self.enc(x))  # <- call
    return self.head(self.mid(h * self.scale))


@case("unknown")
def in_a_loop(self, x):
    h = x
    for _ in range(2):
        h = self.enc(h)  # <- call
        h = h.detach()  # cut
    return self.head(self.mid(h * self.scale))


@case("unknown")
def in_a_branch_that_may_not_run(self, x):
    h = self.enc(x)  # <- call
    if x.sum() > -1e9:
        h = h.detach() * 1  # cut
    else:
        h = h.detach() * 2
    return self.head(self.mid(h * self.scale))


@case("unknown")
def read_by_a_closure(self, x):
    h = self.enc(x)  # <- call
    later = lambda: h.detach()  # noqa: E731  # cut
    return self.head(self.mid(later() * self.scale))


@case("unknown")
def one_of_a_tuple(self, x):
    h, other = self.enc(x), self.scale  # <- call
    return self.head(self.mid(h.detach() * other))  # cut


@case("not_executed")
def never_called(self, x):
    return self.head(self.mid(x * self.scale))


def model_of(forward):
    torch.manual_seed(0)
    return type("Made", (Net,), {"forward": forward})()


def lines(forward, mark):
    source, first = inspect.getsourcelines(forward)
    return {at for at, line in enumerate(source, first) if mark in line}


def explained(forward, **options):
    model = model_of(forward)
    with bp.probe(model, **options) as rec:
        model(torch.randn(3, 4)).sum().backward()
    return rec, bp.explain(rec)


def check(report, forward, kinds):
    named = {found.source.line for found in report.findings if found.source is not None}
    assert named == lines(forward, "# <- "), str(report)
    assert sorted({found.kind for found in report.findings}) == sorted(kinds), str(report)


@pytest.mark.parametrize(("forward", "kinds"), CASES, ids=lambda part: getattr(part, "__name__", ""))
def test_the_line_in_the_forward(forward, kinds, tmp_path):
    rec, report = explained(forward)
    check(report, forward, kinds)
    rec.save(tmp_path / "saved")
    assert str(bp.explain(bp.load(tmp_path / "saved", to="numpy"))) == str(report)


@pytest.mark.parametrize(("forward", "kinds"), CASES, ids=lambda part: getattr(part, "__name__", ""))
def test_the_line_in_the_forward_of_the_model_form(forward, kinds):
    rec = bp.probe(model_of(forward), cotangent=torch.ones(3, 1))(torch.randn(3, 4))
    found = {one.source.line for one in bp.explain(rec).findings if one.source is not None}
    if lines(forward, "  # cut"):
        assert found == lines(forward, "  # cut")
    else:
        assert bool(found & lines(forward, "# <- ")) is bool(lines(forward, "# <- "))


def test_what_is_missing_for_other_reasons_is_not_said_to_be_missing_because_of_one_line():
    def forward(self, x):
        h = self.enc(x)
        self.kept = self.mid(x)
        return self.head((h.detach() if x.sum() else x) * self.scale)

    _, report = explained(forward)
    lost = {found.name: (found.consequence, *found.lost) for found in report.findings}
    assert {name: "mid" in str(names) for name, names in lost.items()} == {"enc.weight": False, "mid.weight": True}


def test_a_checkpoint_that_calls_a_module_again_names_no_line_of_another_call():
    class Checkpointed(Net):
        def forward(self, x):
            h = torch.utils.checkpoint.checkpoint(self.enc, x, use_reentrant=False)
            h = self.enc(h).detach()
            return self.head(self.mid(h * self.scale))

    model = Checkpointed()
    with bp.probe(model) as rec:
        for _ in range(2):
            model(torch.randn(3, 4)).sum().backward()
    (found,) = bp.explain(rec, "enc.weight").findings
    assert found.source is None or found.source.text == "h = self.enc(h).detach()"


def test_a_cut_behind_the_model_is_looked_for_without_it():
    """Nothing of the model is reached, though backward() is called: the remedy says how to see what lies between."""
    net, head = nn.Linear(2, 2), nn.Linear(2, 1)

    def between(h):
        return torch.from_numpy(h.detach().numpy())

    def step(block):
        with block as rec:
            for _ in range(2):
                loss = head(between(net(torch.ones(1, 2)))).sum()
                loss.backward()
        return bp.explain(rec)

    (finding,) = step(bp.probe(net)).findings
    assert finding.kind == "backward_not_run"
    assert "with bp.probe() as rec:" in finding.remedy
    assert "return torch.from_numpy(h.detach().numpy())" in {one.source.text for one in step(bp.probe()).findings}


def test_a_loss_that_is_made_a_leaf_in_each_step_is_one_finding():
    net = nn.Linear(2, 3)
    with bp.probe() as rec:
        for _ in range(2):
            chosen = net(torch.ones(1, 2)).argmax(1)
            loss = chosen.float().mean()
            loss.requires_grad_(True)
            loss.backward()
    assert len(bp.explain(rec).of_kind("made_leaf")) == 1
