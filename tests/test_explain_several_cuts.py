"""Several lines that might cut a gradient off: those that do, and those that do not."""

from os.path import relpath

import pytest
import torch
from torch import nn

import backprobe as bp
from asked import Parts, kinds, noting
from goldens import golden

GIVEN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.5, -1.0, 2.0])


def explained(function, name=None):
    return bp.explain(bp.probe(function)(*GIVEN), name)


def lines(report):
    return [finding.source.text for finding in report.findings]


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
    class Two(Parts):
        def forward(self, x, cut=False):
            h = self.a(x)
            if cut:
                h = h.detach()
            return self.b(h)

    model = Two(a=nn.Linear(4, 4), b=nn.Linear(4, 1))
    with bp.probe(model, ["**", "**:*"]) as recording:
        (model(torch.ones(2, 4)) + model(torch.ones(2, 4), cut=True)).sum().backward()
    report = bp.explain(recording, "a.weight")
    assert report.ok and "h.detach()" in str(report)


class Encoder(Parts):
    def forward(self, x):
        h = self.norm(x)
        y = self.linear(h)
        return y


class OnEncoder(Parts):
    def forward(self, x):
        with torch.no_grad():
            h = self.encoder(x)
        return self.head(h)


def test_modules_of_a_framework_under_no_grad_are_one_finding_with_the_module_that_they_lie_in():
    model = OnEncoder(encoder=Encoder(norm=nn.LayerNorm(4), linear=nn.Linear(4, 4)), head=nn.Linear(4, 1))
    with bp.probe(model, ["**", "**:*"]) as recording:
        model(torch.ones(2, 4)).sum().backward()
    (found,) = bp.explain(recording).findings
    assert found.kind == "no_grad"
    golden("explain", found)
    for name in ("weight", "bias"):
        (found,) = bp.explain(recording, f"encoder.linear.{name}").findings
        assert (found.kind, found.name) == ("no_grad", "encoder.linear")


def test_a_line_of_the_program_around_a_model_has_its_own_file():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    with (
        noting("cut:     `model(torch.ones(2, 3)).detach()`", f"at:      {relpath(__file__)}:"),
        bp.probe(model, ["**", "**:*"]),
    ):
        model(torch.ones(2, 3)).detach().sum().backward()


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


# what was not selected


def chained(x, w):
    u = x * w
    a = u.exp()
    d = a.detach()
    e = d * 2
    g = e + 1
    return (g * w).sum()


def test_a_cut_that_is_recorded_is_found_though_what_follows_was_not_selected():
    report = bp.explain(bp.probe(chained, ["u", "a", "d", "e"])(*GIVEN), "u")
    assert (kinds(report), lines(report)) == (["detach"], ["d = a.detach()"])


def test_what_was_not_selected_leaves_unknown_what_a_value_goes_into():
    rec = bp.probe(chained, ["u"])(*GIVEN)
    assert {one.kind for one in bp.explain(rec, "u")} == {"detach"}  # where it runs again, with all names
    (found,) = bp.explain(rec, "u", experiments=False).findings
    assert found.kind == "unknown" and "not every name was selected" in found.headline


def test_a_value_that_is_not_used_is_said_not_to_be_where_all_is_recorded():
    def program(x, w):
        u = x * w
        u.exp()
        return w.sum()

    assert kinds(explained(program, "u")) == ["unused"]


# names of the program's own


def test_attributes_and_methods_of_the_programs_own_are_no_cuts_whatever_they_are_called():
    class Batch:
        def __init__(self, data, y):
            self.data, self.y = data, y

        def item(self, t):
            return t[0]

    w = GIVEN[0].clone().requires_grad_()
    with bp.probe() as recording:
        batch = Batch(data=w * 2, y=w * 3)
        q = w * 2
        first = batch.item(q)
        loss = (batch.data * batch.y).sum() + batch.data[0] + first * q.sum()
        loss.backward()
    assert not any("no gradient flows back" in note for note in bp.explain(recording).notes)


# what is not recorded, in the notes of errors


def noted(error):
    return "\n".join(error.__notes__)


def test_a_cut_in_one_value_of_a_dict_is_named_in_the_note_of_an_error():
    model = nn.Linear(3, 3)
    with pytest.raises(RuntimeError) as caught, bp.probe():
        losses = {"a": model(GIVEN[0]).mean().detach(), "b": torch.tensor(1.0)}
        total = sum(losses.values())
        total.backward()
    golden("explain", noted(caught.value))
    assert "requires_grad_()" not in noted(caught.value)


def test_what_holds_numbers_only_has_to_hold_tensors():
    model = nn.Linear(3, 3)
    with pytest.raises(RuntimeError) as caught, bp.probe():
        losses = []
        for _ in range(3):
            losses.append(model(GIVEN[0]).mean().item())
        total = torch.tensor(losses).mean()
        total.backward()
    said = noted(caught.value)
    assert "frozen" not in said
    assert said.index("cut:     `model(GIVEN[0]).mean().item()`") < said.index("cut:     `torch.tensor(losses)`")
    assert "next:    write torch.stack([...])" in noted(caught.value)


def test_an_error_that_is_raised_from_one_of_the_framework_has_the_note_of_that():
    w = GIVEN[0].clone().requires_grad_()
    with pytest.raises(ValueError, match="step failed") as caught, bp.probe():
        loss = w.detach().sum()
        try:
            loss.backward()
        except RuntimeError as error:
            raise ValueError("step failed") from error
    assert "cut:     `w.detach()`" in noted(caught.value)


def test_a_remedy_in_a_note_goes_on_to_its_end():
    w = GIVEN[0].clone().requires_grad_()
    with pytest.raises(RuntimeError) as caught, bp.probe():
        at = w.argmax()
        loss = at.float() * 2
        loss.backward()
    golden("explain", noted(caught.value))


# modules, modes and objects on the way


def test_a_parameter_of_a_module_that_did_not_run_says_so():
    class Dropped(Parts):
        def forward(self, x):
            for layer in list(self.layers)[::2]:
                x = layer(x)
            return x

    model = Dropped(layers=nn.ModuleList(nn.Linear(3, 3) for _ in range(3)))
    with bp.probe(model, ["**", "**:*"]) as recording:
        model(torch.ones(2, 3)).sum().backward()
    for name in ("layers.1.weight", None):
        (found,) = bp.explain(recording, name).findings
        assert found.kind == "not_executed"
        golden("explain", found)


def test_gradients_that_were_switched_off_are_not_said_to_be_under_no_grad_alone():
    w, v = GIVEN[0].clone().requires_grad_(), GIVEN[1].clone().requires_grad_()
    try:
        with bp.probe() as recording:
            u = w * 2
            torch.set_grad_enabled(False)
            y = u * v
            torch.set_grad_enabled(True)
            loss = (y * v).sum()
            loss.backward()
    finally:
        torch.set_grad_enabled(True)
    (found,) = bp.explain(recording, "u").findings
    assert found.kind == "no_grad" and "or set_grad_enabled(False)" in found.headline


def test_what_an_object_is_made_of_is_the_line_where_no_history_leads_back_to_it():
    base = torch.randn(2, 3, requires_grad=True)
    with bp.probe() as recording:
        t = base * 2
        layer = nn.Embedding.from_pretrained(t, freeze=False)
        loss = layer(torch.tensor([0, 1])).sum()
        loss.backward()
    (found,) = bp.explain(recording, "t").findings
    assert found.kind == "inside" and found.source.text.startswith("layer = nn.Embedding.from_pretrained")


def test_a_branch_that_is_not_taken_is_the_line_that_mentions_a_value():
    def program(x, w):
        u = x * 2
        y = w * 2 if u.requires_grad else u
        return y.sum()

    (found,) = explained(program, "u").findings
    assert found.kind == "unknown" and found.source.text == "y = w * 2 if u.requires_grad else u"
    assert any("under a condition" in fact for fact in found.facts)


def test_a_buffer_that_is_filled_again_has_to_be_a_new_tensor():
    layer = nn.Linear(3, 1)
    with pytest.raises(RuntimeError) as caught, bp.probe():
        buffer, losses = torch.zeros(3), []
        for i in range(2):
            buffer.copy_(GIVEN[i])
            losses.append(layer(buffer).pow(2).sum())
        sum(losses).backward()
    golden("explain", noted(caught.value))
    w = GIVEN[0].clone().requires_grad_()
    with pytest.raises(RuntimeError) as caught, bp.probe():
        states = torch.zeros(4, 3)
        states[0] = w * 1
        for i in range(3):
            states[i + 1] = torch.tanh(states[i] * w)
        states.sum().backward()
    golden("explain", noted(caught.value))
