"""Which of several lines is why a gradient is missing, and which are not."""

import pytest
import torch
from torch import nn

import backprobe as bp

GIVEN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.5, -1.0, 2.0])


def explained(function, name=None):
    return bp.explain(bp.probe(function)(*GIVEN), name)


def lines(report):
    return [finding.source.text for finding in report.findings]


def kinds(report):
    return [finding.kind for finding in report.findings]


# a second line behind the first


def stable_softmax(x, w):
    u = x * w
    d = u.detach()
    p = (d - d.max().detach()).exp()
    return (p * w).sum()


def normalised(x, w):
    u = x * w
    d = u.detach()
    p = d / d.norm().item()
    return (p * w).sum()


def selected(x, w):
    u = x * w
    d = u.detach()
    p = torch.where(d.detach() > 0, d, d * 2)
    return (p * w).sum()


def sorted_by_itself(x, w):
    u = x * w
    d = u.detach()
    p = d[d.argsort()]
    return (p * w).sum()


def test_a_line_that_uses_a_value_that_is_cut_off_in_another_way_as_well_is_no_second_cut():
    for program in (stable_softmax, normalised, selected, sorted_by_itself):
        for name in ("u", None):
            assert lines(explained(program, name)) == ["d = u.detach()"], program


def test_a_line_after_no_grad_is_not_under_it():
    def indexed(x, w):
        with torch.no_grad():
            d = x * w
        n = d[d.argmax() :] + d.sum()
        return (n * w).sum()

    def detached(x, w):
        with torch.no_grad():
            d = x * w
        e = d.detach()
        return (e * w).sum()

    assert lines(explained(indexed, "x")) == ["d = x * w"]
    report = explained(detached, "x")
    assert kinds(report) == ["no_grad", "detach"]
    assert lines(report) == ["d = x * w", "e = d.detach()"]


# a cut that a gradient flows past


def standardised(x, w):
    u = x * w
    s = u.std().detach()
    t = u.mean().item()
    r = (u - t) / s
    q = r.detach()
    return (q * w).sum()


def test_a_cut_that_gradients_flow_past_is_a_note_where_another_takes_them_away():
    for name in ("x", "u", None):
        report = explained(standardised, name)
        assert lines(report) == ["q = r.detach()"]
        assert [note.split("`")[1] for note in report.notes if "`" in note] == ["u.std().detach()", "u.mean().item()"]
    recording = bp.probe(standardised)(*GIVEN)
    try:
        _ = recording["u"].grad
    except bp.NoGradient as error:
        assert "q = r.detach()" in str(error) and "u.std()" not in str(error)


def test_cuts_on_ways_of_their_own_are_all_causes():
    def two(x, w):
        u = x * w
        d = u.detach()
        t = u.mean().item()
        return (d * w).sum() + t * w.sum()

    assert lines(explained(two, "u")) == ["d = u.detach()", "t = u.mean().item()"]


def test_a_value_that_one_call_cuts_off_and_another_does_not():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 1)

        def forward(self, x, cut=False):
            h = self.a(x)
            if cut:
                h = h.detach()
            return self.b(h)

    model = Two()
    with bp.probe(model, ["**", "**:*"]) as recording:
        (model(torch.ones(2, 4)) + model(torch.ones(2, 4), cut=True)).sum().backward()
    report = bp.explain(recording, "a.weight")
    assert report.ok and "h.detach()" in str(report)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(4), nn.Linear(4, 4)

    def forward(self, x):
        h = self.norm(x)
        y = self.linear(h)
        return y


class OnEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.head = Encoder(), nn.Linear(4, 1)

    def forward(self, x):
        with torch.no_grad():
            h = self.encoder(x)
        return self.head(h)


def test_modules_of_a_framework_under_no_grad_are_one_finding_with_the_module_that_they_lie_in():
    model = OnEncoder()
    with bp.probe(model, ["**", "**:*"]) as recording:
        model(torch.ones(2, 4)).sum().backward()
    (found,) = bp.explain(recording).findings
    assert found.kind == "no_grad"
    assert "all of that is computed in 'encoder': look at the line that calls it" in found.facts
    for name in ("weight", "bias"):
        (found,) = bp.explain(recording, f"encoder.linear.{name}").findings
        assert (found.kind, found.name) == ("no_grad", "encoder.linear")


def test_a_line_of_the_program_around_a_model_has_its_own_file():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    with pytest.raises(RuntimeError) as caught, bp.probe(model, ["**", "**:*"]):
        model(torch.ones(2, 3)).detach().sum().backward()
    note = caught.value.__notes__[-1]
    assert "cut:     `model(torch.ones(2, 3)).detach()`" in note
    assert f"at:      {__file__}:" in note


# what backward was asked for


def test_backward_that_is_limited_to_inputs_is_why_others_have_no_gradient():
    w, v = GIVEN[0].clone().requires_grad_(), GIVEN[1].clone().requires_grad_()
    with bp.probe() as recording:
        u = w * 2
        loss = (u * v).sum()
        loss.backward(inputs=[w])
    for name in ("v", None):
        (found,) = bp.explain(recording, name).findings
        assert (found.kind, found.source.text) == ("limited", "loss.backward(inputs=[w])")
    with pytest.raises(bp.NoGradient, match=r"loss\.backward\(inputs=\[w\]\)"):
        _ = recording["v"].grad


def test_a_block_without_backward_says_so_with_the_cuts_in_it():
    w, v = GIVEN[0].clone().requires_grad_(), GIVEN[1].clone().requires_grad_()
    with bp.probe() as recording:
        u = w * 2
        d = u.detach()
        loss = (d * v).sum()
    report = bp.explain(recording)
    assert kinds(report) == ["backward_not_run"] and not report.ok
    assert [note.split("`")[1] for note in report.notes if "`" in note] == ["u.detach()"]
    assert loss.requires_grad
