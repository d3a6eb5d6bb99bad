"""Two recordings compared: what is blamed, forward and backward, and what shows it."""

import copy
import json
import math

import numpy as np
import pytest
import torch
from torch import nn

import backprobe as bp
from asked import message
from backprobe.backends.rows import Rows
from backprobe.diff.blame import backward_order
from backprobe.diff.measuring import measure
from backprobe.diff.run import compared


def f(x, w):
    u = x * w
    v = torch.sin(u)
    y = v + u
    loss = y.sum()
    return loss


X, W = torch.tensor([1.0, -2.0, 3.0]), torch.tensor([0.5, 1.5, -1.0])


def recorded(function, *args, **options):
    return bp.probe(function, **options)(*(args or (X, W)))


class Wrong(torch.autograd.Function):
    """The sine, with half of its derivative."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, gradient):
        return 0.5 * gradient * torch.cos(ctx.saved_tensors[0])


def facts(finding):
    return "\n".join(finding.facts)


# what is blamed


def test_a_recording_agrees_with_itself_and_with_another_run():
    a = recorded(f)
    for b in (a, recorded(f)):
        report = bp.diff(a, b)
        assert report.ok is True and report.first is report.first_backward is None and report.findings == ()
        assert report.heading == "no difference in 6 values and 6 gradients"


def test_the_first_value_is_blamed_and_gradients_that_follow_from_it_are_not():
    def g(x, w):
        u = x * w
        v = torch.cos(u)
        y = v + u
        loss = y.sum()
        return loss

    report = bp.diff(recorded(f), recorded(g))
    first = report.first
    assert (first.name, first.other, first.kind, first.direction) == ("v", "v", "value", "forward")
    assert first.source.text.strip() == "v = torch.cos(u)" and "v = torch.sin(u)" in facts(first)
    assert "what it is computed from agrees: 'u' (equal)" in first.facts
    reference = np.sin((X * W).numpy())
    assert math.isclose(first.error, np.linalg.norm(np.cos((X * W).numpy()) - reference) / np.linalg.norm(reference),
                        rel_tol=1e-5)  # fmt: skip
    assert report.first_backward is None and report.ok is False and report.amplifiers == ()
    assert "3 gradients differ, each computed from something that differs too: none is blamed" in report.notes


def test_a_wrong_backward_is_blamed_by_the_line_that_it_flows_back_from():
    def g(x, w):
        u = x * w
        v = Wrong.apply(u)
        y = v + u
        loss = y.sum()
        return loss

    report = bp.diff(recorded(f), recorded(g))
    found = report.first_backward
    assert report.first is None and report.ok is False
    assert (found.name, found.kind, found.direction) == ("u", "gradient", "backward")
    assert "the gradients that it is computed from agree: 'v' (equal), 'y' (equal)" in found.facts
    assert "v = Wrong.apply(u)" in facts(found) and "bp.check" in found.remedy
    assert report.heading == "6 values agree; gradients differ first at 'u': 3 of 6 differ"


def test_a_value_and_a_gradient_that_have_nothing_to_do_with_each_other_are_both_blamed():
    def right(x, w):
        a = torch.sin(x)
        b = torch.cos(w)
        c = b * 3
        return a.sum() + c.sum()

    def wrong(x, w):
        a = Wrong.apply(x)
        b = torch.cos(w) * 2
        c = b * 3
        return a.sum() + c.sum()

    report = bp.diff(recorded(right), recorded(wrong))
    assert report.first.name == "b" and report.first_backward.name == "x"
    assert report.first_backward.source.text.strip() == "a = Wrong.apply(x)"
    assert not any("none is blamed" in note for note in report.notes)


def test_each_value_that_differs_by_itself_is_an_amplifier():
    def wrong(x, w):
        u = x * w * 2
        v = torch.sin(x)
        y = v + u
        loss = y.sum()
        return loss

    def right(x, w):
        u = x * w
        v = torch.cos(x)
        y = v + u
        loss = y.sum()
        return loss

    report = bp.diff(recorded(right), recorded(wrong))
    assert report.first.name == "u"
    assert [(one.name, one.direction) for one in report.amplifiers] == [("v", "forward")]
    assert report.findings == (report.first, *report.amplifiers)


def test_unequal_arguments_and_parameters_come_before_what_is_computed():
    report = bp.diff(recorded(f), recorded(f, X, W + 1))
    assert (report.first.kind, report.first.name) == ("argument", "w")
    assert str(report.first).startswith("the argument 'w' differs: relative error ")
    torch.manual_seed(0)
    a, b = nn.Linear(3, 2), nn.Linear(3, 2)
    report = bp.diff(*(recorded(model, X, of=torch.sum) for model in (a, b)))
    assert (report.first.kind, report.first.name) == ("parameter", "weight")
    assert "1 more argument or parameter differs: 'bias'" in report.first.facts


def test_a_parameter_that_both_recordings_hold_is_said_to_be_the_same():
    """What was written to it between the two is in both."""
    model = nn.Linear(3, 1)
    a = bp.probe(model, of=torch.sum)(X)
    model.bias.data += 1
    found = bp.diff(a, bp.probe(model, of=torch.sum)(X)).first
    assert "'bias' (the same tensor)" in facts(found)


def test_a_value_that_was_overwritten_since_is_not_compared():
    model = nn.Linear(3, 1)
    a = bp.probe(model, of=torch.sum)(X)
    with torch.no_grad():
        model.bias += 1
    report = bp.diff(a, bp.probe(model, of=torch.sum)(X))
    assert (
        "the values of 'bias' were not compared: it was modified in place after the recording was over" in report.notes
    )
    assert report.first.name == "return"
    with torch.no_grad():
        model.bias -= 1
    assert bp.diff(a, bp.probe(model, of=torch.sum)(X)).ok is None


def test_a_line_that_lets_no_gradient_through_is_named():
    def g(x, w):
        u = x * w
        v = torch.sin(u.detach())
        y = v + u
        loss = y.sum()
        return loss

    report = bp.diff(recorded(f), recorded(g))
    assert report.first is None and report.first_backward.kind == "status" and report.first_backward.name == "v"
    assert report.first_backward.headline == (
        "'v' has a gradient in the first, and in the second it is detached: it was computed from differentiated "
        "values, but has no gradient history"
    )
    other = bp.diff(recorded(g), recorded(f)).first_backward
    assert other.headline.startswith("'v' has a gradient in the second, and in the first it is detached")


def test_a_use_that_is_missing_in_backward_is_named():
    def g(x, w):
        u = x * w
        v = torch.sin(u)
        y = v + u.detach()
        loss = y.sum()
        return loss

    found = bp.diff(recorded(f), recorded(g)).first_backward
    assert found.name == "u" and "in the second nothing flows back to it from 'y'" in facts(found)
    assert found.source.text.strip() == "y = v + u.detach()"


# what is a difference


def changed(rule):
    """The report on a program whose value ``v`` goes through a rule."""

    def right(x):
        v = x * 1
        return v.sum()

    def wrong(x):
        v = rule(x)
        return v.sum()

    x = torch.linspace(-1, 2, 16).reshape(4, 4)
    return bp.diff(bp.probe(right)(x), bp.probe(wrong)(x)).first


@pytest.mark.parametrize(
    ("rule", "kind", "seen"),
    [
        (lambda x: 0.5 * x, "value", "the second is 0.5 × the first"),
        (lambda x: -x, "value", "the second is the first with the opposite sign"),
        (lambda x: x.T, "value", "the second is the transpose of the first"),
        (lambda x: x.roll(1), "value", "the second has the numbers of the first in another order"),
        (lambda x: x.bfloat16().float(), "value", "all numbers of the second are bfloat16 numbers, and not those of"),
        (lambda x: x.double(), "dtype", ""),
        (lambda x: x.reshape(2, 8), "shape", ""),
        (lambda x: x + torch.eye(4) * torch.tensor([0, 0, 1.0, 0]), "value", "1 of 16 elements is beyond the floor"),
        (lambda x: torch.where(x > 1.9, torch.nan, x), "value", "only one is finite at [3, 3]: 2 in the first, nan in"),
    ],
)
def test_each_kind_of_difference_says_what_it_is(rule, kind, seen):
    found = changed(rule)
    assert found.name == "v" and found.kind == kind and seen in facts(found)


def test_differences_of_shape_and_dtype_are_in_the_headline():
    assert changed(lambda x: x.reshape(2, 8)).headline == "'v' has shape 4×4 in the first, 2×8 in the second"
    assert changed(lambda x: x.double()).headline == "'v' is float32 in the first, float64 in the second"


def test_a_dtype_that_follows_from_that_of_the_arguments_is_no_difference():
    assert bp.diff(recorded(f), recorded(f, X.double(), W.double())).ok


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_nan_and_inf_equal_themselves_in_the_same_place(bad):
    spoilt = X.clone()
    spoilt[1] = bad
    assert bp.diff(recorded(f, spoilt, W), recorded(f, spoilt, W)).ok
    found = bp.diff(recorded(f, spoilt, W), recorded(f, X, W)).first
    assert found.name == "x" and found.error == math.inf and found.headline == "the argument 'x' differs"
    assert found.measure.clashes == 1 and found.measure.at == (1,)


def test_infinities_of_unlike_signs_are_not_said_to_be_finite():
    one, other = X.clone(), X.clone()
    one[1], other[1] = math.inf, -math.inf
    found = bp.diff(recorded(f, one, W), recorded(f, other, W)).first
    assert found.facts[0].startswith("neither is finite at [1]: inf in the first, -inf in the second")


def test_whole_numbers_are_equal_or_not():
    def g(x, big):
        at = x.argmax()
        far = big + (at > 5)
        return x[at] * 2

    a, b = torch.arange(8.0), torch.arange(8.0).flip(0)
    big = torch.tensor([2**60])
    same, other = recorded(g, a, big), recorded(g, a + 1e-6, big + 1)
    found = bp.diff(same, other).first
    assert (found.name, found.excess) == ("big", math.inf)  # which double precision does not tell apart
    found = bp.diff(same, recorded(g, b, big)).first
    assert found.name == "x"
    assert "at" in {row.a.name for row in bp.diff(same, recorded(g, b, big)).rows if row.value.kind}


def test_numbers_of_python_are_compared_and_texts_are_not():
    def g(x, scale, mode):
        half = scale / 2
        return (x * half).sum()

    report = bp.diff(recorded(g, X, 3.0, "a", wrt="x"), recorded(g, X, 4.0, "b", wrt="x"))
    assert report.first.name == "scale" and "mode" not in {one.name for one in report.findings}


def test_the_masks_of_attention_do_not_hide_what_is_beside_them():
    lowest = torch.finfo(torch.float32).min

    def masked(x):
        s = x + torch.full((3,), lowest).index_fill(0, torch.tensor([0, 1]), 0.0)
        return s.softmax(-1)[0]

    def wrong(x):
        s = x * 1.01 + torch.full((3,), lowest).index_fill(0, torch.tensor([0, 1]), 0.0)
        return s.softmax(-1)[0]

    assert bp.diff(bp.probe(masked)(X), bp.probe(wrong)(X)).first.name == "s"


def test_sums_that_cancel_have_a_floor_of_their_own():
    """The gradient of a bias before a softmax is zero but for rounding, and not the same in two right programs."""

    def right(x, b):
        s = x + b
        p = s.softmax(-1)
        return p.square().sum()

    def other(x, b):
        s = x + b
        p = s.exp() / s.exp().sum(-1, keepdim=True)
        return p.square().sum()

    x = torch.randn(64, 16, generator=torch.Generator().manual_seed(0))
    a, b = (recorded(function, x, torch.zeros(1)) for function in (right, other))
    assert abs(a["b"].grad.item()) < 1e-5 > abs(b["b"].grad.item())
    assert bp.diff(a, b).ok and bp.diff(b, a).ok


def test_a_small_gradient_is_compared_as_a_large_one_is():
    def g(x, factor):
        u = x * 2
        v = torch.sin(u) * factor
        return (v * 1e-9).sum()

    found = bp.diff(recorded(g, X, 1.0, wrt="x"), recorded(g, X, 1.0, wrt="x"))
    assert found.ok

    def wrong(x, factor):
        u = x * 2
        v = Wrong.apply(u) * factor
        return (v * 1e-9).sum()

    assert bp.diff(recorded(g, X, 1.0, wrt="x"), recorded(wrong, X, 1.0, wrt="x")).first_backward.name == "u"


def test_gradients_of_a_scaled_loss_are_compared_without_the_scale():
    def steps(scale):
        model = nn.Linear(3, 1)
        nn.init.ones_(model.weight)
        nn.init.ones_(model.bias)
        scaler = torch.amp.GradScaler("cpu", init_scale=scale)
        with bp.probe(model) as rec:
            scaler.scale(model(X).sum()).backward()
        return rec

    report = bp.diff(steps(4.0), steps(64.0))
    assert report.first_backward is None
    assert any("multiplied by 4 in the first and by 64 in the second" in note for note in report.notes)


# which entries belong together


def test_a_rename_is_about_all_names_that_begin_so():
    class Old(nn.Module):
        def __init__(self):
            super().__init__()
            self.h = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])

        def forward(self, x):
            for layer in self.h:
                x = layer(x)
            return x.sum()

    class New(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x.sum()

    old, new = Old(), New()
    new.layers.load_state_dict(old.h.state_dict())
    a, b = bp.probe(old)(X), bp.probe(new)(X)
    report = bp.diff(a, b, rename={"h.*": "layers.*"})
    assert report.ok and report.only_a == report.only_b == ()
    matched = {row.a.name: (row.b.name, row.match.how) for row in report.rows}
    assert matched["h.1.weight"] == ("layers.1.weight", "by the rename 'h.*': 'layers.*'")
    new.layers[1].bias.data += 1
    found = bp.diff(a, bp.probe(new)(X), rename={"h.*": "layers.*"}).first
    assert (found.name, found.other) == ("h.1.bias", "layers.1.bias")
    assert found.headline.startswith("the parameter 'h.1.bias' ('layers.1.bias' in the second) differs: ")
    assert found.matched == "by the rename 'h.*': 'layers.*'" and f"matched {found.matched}" in found.facts


def test_other_names_are_matched_by_shape_and_place_and_the_report_says_so():
    def g(a, b):
        prod = a * b
        sine = torch.sin(prod)
        total = sine + prod
        out = total.sum()
        return out

    report = bp.diff(recorded(f), recorded(g))
    assert report.ok
    assert {row.a.name: row.b.name for row in report.rows} == {
        "x": "a", "w": "b", "u": "prod", "v": "sine", "y": "total", "loss": "out"
    }  # fmt: skip
    how = {row.a.name: row.match.how for row in report.rows}
    assert how["u"] == "by shape and place" and how["loss"] == "by name"  # return
    assert "matched by shape and place: 'x' with 'a', 'w' with 'b', 'u' with 'prod', 'v' with 'sine' and 1 more" in (
        report.notes
    )


def test_what_could_belong_to_several_has_no_partner():
    def right(x):
        p = torch.sin(x)
        return p.sum()

    def other(x):
        q, r = torch.sin(x), torch.sin(x)
        return (q + r).sum() / 2

    report = bp.diff(bp.probe(right)(X), bp.probe(other)(X))
    assert report.only_a == ("p",) and report.only_b == ("q", "r") and report.ok is None and not report.findings
    assert "only in the first, and not compared: 'p'" in report.notes


def test_one_value_with_two_names_is_compared_with_both():
    def right(x):
        u = x * 2
        v = u
        return v.sum()

    def other(x):
        u = x * 2
        v = u.clone()
        return v.sum()

    def wrong(x):
        u = x * 2
        v = u * 1.5
        return v.sum()

    a = bp.probe(right)(X)
    assert not bp.diff(a, bp.probe(other)(X)).findings and not bp.diff(bp.probe(other)(X), a).findings
    for pair in ((right, wrong), (wrong, right)):
        report = bp.diff(*(bp.probe(one)(X) for one in pair))
        assert report.first.name in ("u", "v") and "v" in {report.first.name, report.first.other}


def test_layouts_turn_weights():
    torch.manual_seed(0)

    def right(x, kernel):
        return (x @ kernel).square().sum()

    def other(x, kernel):
        return (x @ kernel.T).square().sum()

    x, kernel = torch.randn(4, 3), torch.randn(3, 2)
    a, b = bp.probe(right)(x, kernel), bp.probe(other)(x, kernel.T.contiguous())
    assert bp.diff(a, b).first.kind == "shape"
    assert bp.diff(a, b, layout={"kernel": "T"}).ok and bp.diff(a, b, layout={"k*": (1, 0)}).ok
    image, filters = torch.randn(2, 3, 5, 5), torch.randn(4, 3, 3, 3)

    def conv(image, filters):
        return torch.conv2d(image, filters).sum()

    def last(image, filters):
        return torch.conv2d(image, filters.permute(3, 2, 0, 1)).sum()

    a, b = bp.probe(conv)(image, filters), bp.probe(last)(image, filters.permute(2, 3, 1, 0).contiguous())
    assert bp.diff(a, b, layout={"filters": (3, 2, 0, 1)}).ok
    assert bp.diff(a, b, layout={"filters": "T"}).first.name == "filters"


# the floor


def test_the_floor_is_the_root_of_eps_of_the_coarsest_dtype_on_the_way():
    def g(x):
        u = x.bfloat16() * 2
        v = u.float() * 3
        return v.sum()

    def h(x):
        u = x.bfloat16() * 2
        v = u.float() * (3 * (1 + 0.01))
        return v.sum()

    report = bp.diff(bp.probe(g)(X), bp.probe(h)(X))
    assert report.ok  # an error of 1 % is within what bfloat16 may do
    (row,) = [row for row in report.rows if row.a.name == "v"]
    assert row.value.floor.dtype == "bfloat16" and row.a.dtype == "float32"
    assert 0.05 < row.value.excess < 0.2
    assert bp.diff(bp.probe(f)(X, W), bp.probe(f)(X * 1.00003, W)).ok
    assert bp.diff(bp.probe(f)(X, W), bp.probe(f)(X * 1.0005, W)).first.name == "x"


def test_recordings_of_the_reference_measure_the_floor():
    def g(x, noise, wrong):
        u = x * (1 + noise)
        v = torch.sin(u) * wrong
        return v.sum()

    a = bp.probe(g, ["u", "v", "return"], wrt="x")(X, 0.0, 1.0)
    runs = [bp.probe(g, ["u", "v", "return"], wrt="x")(X, noise, 1.0) for noise in (0.001, -0.001)]
    off = bp.probe(g, ["u", "v", "return"], wrt="x")(X, 0.0, 1.002)
    assert bp.diff(a, off).first.name == "v"
    assert bp.diff(a, off, noise=runs).ok
    assert bp.diff(a, bp.probe(g, ["u", "v", "return"], wrt="x")(X, 0.0, 1.1), noise=runs).first.name == "v"
    same = [bp.probe(g, ["u", "v", "return"], wrt="x")(X, 0.0, 1.0)]
    found = bp.diff(a, bp.probe(g, ["u", "v", "return"], wrt="x")(X, 0.0, 1.00002), noise=same).first
    assert found.name == "v" and found.floor == "measured: 1 other recording"
    assert "floor: measured: 1 other recording" in found.facts


# saved recordings, data, printing


def test_paths_of_saved_recordings_are_compared_as_the_recordings_are(tmp_path):
    def g(x, w):
        u = x * w
        v = torch.cos(u)
        y = v + u
        loss = y.sum()
        return loss

    recorded(f).save(tmp_path / "a")
    recorded(g, X.bfloat16(), W.bfloat16()).save(tmp_path / "b")
    for pair in ((str(tmp_path / "a"), tmp_path / "b"), (bp.load(tmp_path / "a"), bp.load(tmp_path / "b"))):
        report = bp.diff(*pair)
        assert report.first.name == "v" and report.first.floor.startswith("the root of eps of bfloat16")
    assert bp.diff(tmp_path / "a", recorded(f)).ok


def test_the_report_is_data_that_json_can_hold():
    def g(x, w):
        u = x * w
        v = torch.where(u > 0, torch.nan, u)
        y = v + u
        loss = y.sum()
        return loss

    data = json.loads(json.dumps(bp.diff(recorded(f), recorded(g)).data, allow_nan=False))
    assert data["ok"] is False and data["first"] == 0 and data["first_backward"] is None
    assert data["findings"][0]["name"] == "v" and data["findings"][0]["error"] == "infinite"
    assert data["findings"][0]["measure"]["clashes"] == 1
    assert {pair["name"]: pair["value"]["differs"] for pair in data["pairs"]}["u"] == ""


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_a_report_fits_the_page(width):
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(6)), nn.Linear(4, 1))
    x = torch.randn(5, 4)
    a = bp.probe(copy.deepcopy(model), of=torch.sum)(x)
    model[3][0].bias.data += 1
    text = bp.diff(a, bp.probe(model, of=torch.sum)(x)).text(width)
    lines = text.split("\n")
    assert max(map(len, [line for line in lines if "/" not in line])) <= width
    assert lines[0].startswith("values differ first at '3.0.bias': ")
    (row,) = [line for line in lines if line.startswith("3.0.bias ")]
    assert row.split()[1] not in ("equal", "") and " ! " in row
    assert any(line.startswith("… ") and line.endswith(" more") for line in lines)


def test_a_report_shows_itself_in_a_notebook():
    page = bp.diff(recorded(f), recorded(f, X + 1, W))._repr_html_()
    assert "the argument &#x27;x&#x27; differs" in page and "<td>x</td>" in page


def test_recordings_without_gradients_are_compared_by_their_values():
    with bp.probe() as rec:
        u = X * W
    with bp.probe() as other:
        u = X * W
    report = bp.diff(rec, other)
    assert report.ok is None and not report.findings
    assert any("neither recording has gradients" in note for note in report.notes)
    report = bp.diff(recorded(f), rec)
    assert any("the second recording does not have gradients" in note for note in report.notes)


# bad input


def message_of(kind, **options):
    return message(kind, lambda: bp.diff(recorded(f), recorded(f), **options))


def test_what_is_not_a_recording_is_refused():
    assert message(bp.BadOption, lambda: bp.diff(recorded(f), None)) == (
        "diff compares two recordings, and the second is None\n  asked: bp.diff(..., None)\n"
        "  next:  bp.diff(bp.probe(f)(x), bp.probe(g)(x))"
    )
    assert "the first is a function" in message(bp.BadOption, lambda: bp.diff(f, recorded(f)))
    with pytest.raises(bp.BadRecording, match="no such folder"):
        bp.diff("no-such.recording", recorded(f))


def test_recordings_of_unlike_programs_are_refused():
    def other(z):
        s = z.exp()
        return s.sum()

    pair = bp.probe(f, "u", of="u", cotangent=X)(X, W), bp.probe(other, "s", of="s", cotangent=torch.ones(2))(X[:2])
    text = message(bp.BadOption, lambda: bp.diff(*pair))
    assert text.startswith("these recordings have nothing in common\n  asked: bp.diff(a, b)\n  found: 'u'")


@pytest.mark.parametrize(
    ("rename", "kind", "said"),
    [
        ({"hidden": "u"}, bp.NothingMatched, "no name of the first recording is 'hidden'"),
        ({"u": "hidden"}, bp.NothingMatched, "no name of the second recording is ':hidden'"),
        ({"u": "v", "v": "v"}, bp.BadOption, "':u' and ':v' are both renamed to ':v'"),
        ({"u": "v", ":u": ":w"}, bp.BadOption, "two patterns rename ':u'"),
        ({"*": "u"}, bp.BadOption, "both patterns of a rename have the same stars in the same order"),
        ({"": "u"}, bp.BadName, "a pattern of rename is empty"),
        ("u", bp.BadOption, "rename maps patterns of the first recording's names"),
    ],
)
def test_a_rename_that_cannot_be_right_is_refused(rename, kind, said):
    text = message_of(kind, rename=rename)
    assert text.startswith(said) and "  next:  " in text and "  asked: " in text


@pytest.mark.parametrize(
    ("layout", "kind", "said"),
    [
        ({"nothing": "T"}, bp.NothingMatched, "the pattern 'nothing' matches nothing in either recording"),
        (
            {"nothing": (1, 0)},
            bp.NothingMatched,
            "the pattern 'nothing' matches nothing in either recording\n  asked: layout={'nothing': (1, 0)}\n",
        ),
        ({"x": "transposed"}, bp.BadOption, 'a layout is "T", or the order of the axes'),
        ({"x": (0, 0)}, bp.BadOption, 'a layout is "T", or the order of the axes'),
        ({"x": (1, 0)}, bp.BadOption, "the layout of 'x' is of 2 axes"),
        (3, bp.BadOption, "layout maps patterns of names to axes"),
    ],
)
def test_a_layout_that_cannot_be_right_is_refused(layout, kind, said):
    text = message_of(kind, layout=layout)
    assert text.startswith(said) and "  next:  " in text and "  asked: " in text


def test_recordings_without_entries_have_nothing_in_common():
    with bp.probe() as empty:
        pass
    text = message(bp.BadOption, lambda: bp.diff(empty, recorded(f)))
    assert "  found: nothing in the first, 'x', " in text


def test_several_outputs_are_refused_on_the_side_that_has_them():
    several = bp.probe(lambda x: {"a": x.sum(), "b": x.prod()}, of=["a", "b"])(X)
    text = message(bp.BadOption, lambda: bp.diff(recorded(f), several))
    assert "asked: bp.diff(..., rec)" in text and "bp.diff(..., rec.of('a'))" in text


def test_what_the_noise_did_not_measure_is_said():
    def other(x):
        u = x * 2
        return u.sum()

    report = bp.diff(recorded(f), recorded(f), noise=bp.probe(other)(X))
    (note,) = [note for note in report.notes if note.startswith("noise= has no floor of these")]
    assert "'v'" in note and report.ok is True
    assert not any("noise=" in note for note in bp.diff(recorded(f), recorded(f), noise=recorded(f)).notes)


@pytest.mark.parametrize("noise", [3, [], [3]])
def test_noise_that_cannot_be_right_is_refused(noise):
    assert message_of(bp.BadOption, noise=noise).startswith("noise is recordings of the reference")


# what a measure gives


def measured(a, b, dtype="", factor=1.0):
    return measure(Rows.of(np.asarray(a)), Rows.of(np.asarray(b)), dtype, factor)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.complex64, np.int32])
@pytest.mark.parametrize("apart", [1e-3, 0.5, 3.0])
def test_a_measure_is_that_of_double_precision_over_many_chunks(kind, apart):
    rng = np.random.default_rng(0)
    a = (rng.normal(size=(3, 40_000)) * 50).astype(kind)
    b = (a + apart * np.abs(a) * rng.normal(size=a.shape)).astype(kind)
    b[0, 7] = a[0, 7]
    for x, y in ((a, b), (a.T, b.T), (a, np.ascontiguousarray(b.T).T)):
        found = measured(x, y, str(a.dtype))
        wide = [one.astype(np.complex128 if a.dtype.kind == "c" else np.float64) for one in (x, y)]
        error = np.abs(wide[1] - wide[0])
        norms = [np.linalg.norm(one) for one in (*wide, wide[1] - wide[0])]
        assert found.relative == pytest.approx(norms[2] / norms[0], rel=1e-4)
        assert found.reference_rms == pytest.approx(norms[0] / a.size**0.5, rel=1e-4)
        assert found.cosine == pytest.approx(np.vdot(*wide).real / (norms[0] * norms[1]), abs=2e-6)
        if a.dtype.kind != "c":  # of a complex number, the larger of its parts
            assert found.largest == pytest.approx(error.max(), rel=1e-4) and error[found.at] == error.max()
            assert found.differing == np.count_nonzero(error)
            lies = error.T if x.flags.f_contiguous and y.flags.f_contiguous else error
            first = tuple(map(int, np.argwhere(lies)[0]))
            assert found.first == (first if lies is error else first[::-1])


def test_numbers_of_bfloat16_are_compared_by_their_bits():
    bits = np.array([0x3F80, 0x3F81, 0xC000, 0x7FC0], np.uint16)  # 1, the next one, -2, NaN
    a, b = Rows(bits, "bfloat16"), Rows(bits[[0, 0, 2, 3]], "bfloat16")
    found = measure(a, b, "bfloat16")
    assert (found.differing, found.first, found.ulps, found.clashes) == (1, (1,), 1, 0)
    assert found.largest == 2**-7 and not measure(a, a, "bfloat16").differing
    other = Rows.of(np.array([1.0, 1.0, -2.0, np.nan], np.float32))
    assert measure(a, other, "bfloat16").ulps == 1 and measure(a, b, "bfloat16", 2.0).differing == 3


def test_units_in_the_last_place_are_counted_up_to_a_factor_of_two():
    one = np.float32(1.0)
    assert measured([one], [np.nextafter(one, np.float32(2))], "float32").ulps == 1
    assert measured([np.float32(1e-45)], [np.float32(-1e-45)], "float32").ulps == 2
    assert measured([one, one], [one, -one], "float32").ulps == 2**24
    assert measured([np.float64(1.0)], [np.float64(1 + 2**-30)], "float64").ulps == 2**22


def test_gradients_are_in_the_order_in_which_backward_came_to_them():
    """Also those that it came to in the second recording alone, behind what it came to before them there."""

    def program(x, shown):
        start = x
        for _ in range(3):
            u = torch.sin(x)
            x = u if shown else u.detach()
        return x.sum() + start.sum()

    a, b = bp.probe(lambda x: program(x, True))(X), bp.probe(lambda x: program(x, False))(X)
    one, other = compared(a.record, b.record, None, None, None), compared(b.record, a.record, None, None, None)
    for both in (one.comparison, other.comparison):
        order = backward_order(both)
        assert sorted(order) == list(range(len(both.pairs)))
        places = [order.index(both.of_a[at]) for at in both.a.record.backward if at in both.of_a]
        assert places == sorted(places)


def test_one_row_is_never_left_out_of_the_table():
    """To say so would take a line as well."""

    def chain(count, off):
        def f(x):
            for at in range(count):
                x = x * 1.5 + (off if at == count - 1 else 0.0)
            return x

        return bp.probe(f)(1.0)

    for count in range(3, 9):
        said = str(bp.diff(chain(count, 0.0), chain(count, 0.5)))
        assert "… 1 more" not in said, count
    assert "… 13 more" in said
