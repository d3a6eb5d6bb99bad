"""NaN and Inf where programs are larger than a function: models, checkpoints, scaled losses, recordings on disk."""

import gc
import inspect
import runpy
import weakref
from os.path import relpath

import pytest
import torch
import torch.nn.functional as F
from torch import nn, tensor
from torch.utils.checkpoint import checkpoint

import backprobe as bp
from asked import Parts, round_trip, well
from backprobe.backends.torch.decompositions import decomposes
from backprobe.backends.torch.nonfinite import FINITE, NAN, NOTHING, FinitenessLook, nonfinite
from backprobe.explain.nonfinite.backward_births import BackwardPass
from backprobe.explain.nonfinite.forward_births import ForwardPass
from backprobe.findings.report import arranged
from custom import custom
from goldens import golden


def line_of(function, text):
    lines, first = inspect.getsourcelines(function)
    return next(first + at for at, line in enumerate(lines) if text in line)


class Attention(Parts):
    def forward(self, x, mask):
        q = self.q(x)
        scores = (q @ q.transpose(-1, -2)).masked_fill(~mask, float("-inf"))
        weights = torch.softmax(scores, -1)
        return self.o(weights @ q)


class Model(Parts):
    def forward(self, x, mask):
        h = self.emb(x)
        h = h + self.attn(h, mask)
        return self.head(h).mean()


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model(emb=nn.Linear(3, 4), attn=Attention(q=nn.Linear(4, 4), o=nn.Linear(4, 4)), head=nn.Linear(4, 1))


INPUT = torch.linspace(-1, 1, 9).reshape(3, 3)
CAUSAL = torch.tril(torch.ones(3, 3)).bool()
ROW_OUT = CAUSAL.clone()
ROW_OUT[1] = False


# models


def test_a_birth_between_modules_says_what_to_select(model):
    report = bp.explain(bp.probe(model, nonfinite=True)(INPUT, ROW_OUT))
    (born,) = report.of_kind("born")
    assert born.name == "attn.o"
    golden("nonfinite", born)


def test_what_to_select_shows_the_line(model):
    report = bp.explain(bp.probe(model, "attn:*", nonfinite=True)(INPUT, ROW_OUT))
    (nan,) = report.of_kind("born")
    golden("nonfinite", nan)
    assert (nan.name, nan.source.line) == ("attn:weights", line_of(Attention.forward, "weights ="))


def test_a_mask_that_softmax_takes_away_is_a_note(model):
    report = well(bp.explain(bp.probe(model, ["**", "**:*"], nonfinite=True)(INPUT, CAUSAL)))
    golden("nonfinite", report)


def test_a_parameter_that_holds_inf(model):
    model.attn.o.weight.data[0, 0] = float("inf")
    report = bp.explain(bp.probe(model, nonfinite=True)(INPUT, CAUSAL))
    (found,) = report.of_kind("born", "came_in", "unknown")
    assert (found.kind, found.name) == ("came_in", "attn.o.weight")
    golden("nonfinite", found)


def test_an_argument_that_holds_nan(model):
    bad = INPUT.clone()
    bad[0, 0] = float("nan")
    report = bp.explain(bp.probe(model, nonfinite=True)(bad, CAUSAL))
    (found,) = report.of_kind("born", "came_in", "unknown")
    assert (found.kind, found.name) == ("came_in", "x")
    assert found.source.line == line_of(Model.forward, "def forward")


def test_what_came_in_where_it_was_not_recorded_is_unknown(model):
    bad = INPUT.clone()
    bad[0, 0] = float("nan")
    report = bp.explain(bp.probe(model, "**", nonfinite=True)(bad, CAUSAL))
    (found,) = report.of_kind("born", "came_in", "unknown")
    assert found.name == "emb"
    golden("nonfinite", found)


def test_a_block_around_a_model(model):
    with bp.probe(model, "attn:*", nonfinite=True) as rec:
        model(INPUT, ROW_OUT).backward()
    assert [finding.name for finding in bp.explain(rec).of_kind("born")] == ["attn:weights"]


class Half(Parts):
    def forward(self, x):
        h = x * 1
        y = self.wide(h) + 1
        return y.sum()


@pytest.mark.parametrize("select", [None, ["**", "**:*"]])
def test_a_birth_in_a_line_of_the_framework_says_which_line_of_yours_uses_it(select):
    model = Half(wide=nn.Linear(2, 2)).half()
    model.wide.weight.data.fill_(300.0)
    rec = bp.probe(model, select, nonfinite=True)(torch.full((1, 2), 200.0, dtype=torch.float16, requires_grad=True))
    (found,) = bp.explain(rec).of_kind("born")
    assert found.name == "wide"
    line = line_of(Half.forward, "y = ")
    golden("nonfinite", found)


def trained(net, x, labels, lr):
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    for label in labels:
        optimizer.zero_grad()
        p = net(x)
        loss = (p - label).square().mean()
        loss.backward()
        optimizer.step()


@pytest.mark.parametrize("values", ["alias", "copy"])
def test_weights_that_an_optimizer_wrote_are_not_ruled_out(values):
    net = nn.Linear(3, 1)
    with bp.probe(net, nonfinite=True, values=values) as rec:
        trained(net, INPUT, [1.0, 2.0], lr=float("inf"))
    written, found, *_ = bp.explain(rec).findings
    assert (written.kind, written.name) == ("born", "net.bias")
    assert (found.kind, found.name) == ("unknown", "return#1")
    golden("nonfinite", found)


def test_weights_that_nothing_wrote_are_known():
    net = nn.Linear(3, 1)
    with bp.probe(net, nonfinite=True) as rec:
        net(INPUT).sum().backward()
    assert rec["weight"].finiteness.value == bp.Nonfinite(0, 0, 3)


def test_the_backward_of_a_loss_that_is_nan_is_no_hook():
    net = nn.Linear(3, 1)
    with bp.probe(net, nonfinite=True) as rec:
        trained(net, INPUT, [1.0, float("nan"), 1.0], lr=0.1)
    report = bp.explain(rec)
    assert [found.name for found in report.of_kind("unknown")] == ["backward()#1", "return#2"]
    assert not report.of_kind("came_in_backward", "born")


def test_a_module_that_a_line_calls_may_hold_it():
    nets = {"first": nn.Linear(3, 1)}
    nets["first"].weight.data.fill_(float("nan"))
    with bp.probe(nonfinite=True) as rec:
        net = nets.pop("first")
        p = net(INPUT)
        del net
        p.sum().backward()
    found = bp.explain(rec).findings[0]
    assert (found.kind, found.name) == ("unknown", "p")
    golden("nonfinite", found)
    assert "net" in found.headline


# what the source mentions and nobody recorded

SCALE = tensor(float("inf"))
DROPPED = 0.0


def by_a_global(x):
    y = x * SCALE
    return y.sum()


def test_what_is_not_recorded_is_not_ruled_out():
    found = bp.explain(bp.probe(by_a_global, nonfinite=True)(tensor([1.0, 2.0]))).findings[0]
    assert (found.kind, found.name) == ("unknown", "y")
    golden("nonfinite", found)


def test_what_the_numbers_prove_is_born_whatever_else_the_line_mentions():
    def f(x):
        y = torch.nn.functional.dropout(x / x, DROPPED)
        return y.sum()

    found = bp.explain(bp.probe(f, nonfinite=True)(tensor([0.0, 2.0]))).findings[0]
    assert (found.kind, found.name, found.headline) == ("born", "div()", "NaN is born at 'div()': 0/0")


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.head = nn.BatchNorm1d(2), nn.Linear(2, 1)
        self.register_buffer("scale", torch.ones(1))

    def forward(this, x):  # noqa: N805
        h = this.norm(x)
        y = this.head(h) * this.scale
        return y.sum()


BUFFERS = [("norm.running_mean", "norm"), ("scale", "y")]


@pytest.mark.parametrize(("buffer", "name"), BUFFERS)
@pytest.mark.parametrize("in_block", [False, True])
def test_nan_comes_in_with_a_buffer(buffer, name, in_block, tmp_path):
    model = Normed().eval()
    model.get_buffer(buffer).fill_(float("nan"))
    if in_block:
        with bp.probe(model, nonfinite=True) as rec:
            model(INPUT[:, :2]).backward()
    else:
        rec = bp.probe(model, nonfinite=True)(INPUT[:, :2])
    found = bp.explain(rec).findings[0]
    assert (found.kind, found.name) == ("came_in", name)
    golden("nonfinite", found)
    assert str(bp.explain(round_trip(rec, tmp_path))) == str(bp.explain(rec))


def test_a_buffer_that_became_nan_in_the_run_brought_nothing_in():
    model = Normed()
    x = INPUT[:, :2].clone()
    x[0, 0] = float("nan")
    found = bp.explain(bp.probe(model, nonfinite=True)(x)).findings[0]
    assert model.norm.running_mean.isnan().any()
    assert (found.kind, found.name) == ("came_in", "x")


def inverse(r):
    a = 1 / r
    return a


def test_what_a_transform_hides_is_not_ruled_out():
    def f(x):
        y = torch.vmap(inverse)(x)
        return y.sum()

    report = bp.explain(bp.probe(f, nonfinite=True)(tensor([[0.0], [2.0]])))
    (found,) = report.of_kind("born", "unknown")
    assert (found.kind, found.name) == ("unknown", "y")
    golden("nonfinite", found)


# the branch that where does not select


def test_the_branch_and_the_remedy_are_named():
    def masked(x):
        return torch.where(x > 0, x.log(), 0).sum()

    (found,) = bp.explain(bp.probe(masked, nonfinite=True)(tensor([0.0, 1.0]))).of_kind("born_backward")
    assert found.name == "log()"
    golden("nonfinite", found)


# the turns of a loop


def test_a_square_has_no_pole():
    def distances(a, b):
        squares = ((a[:, None] - b[None]) ** 2).sum(-1)
        return squares.sqrt().sum()

    x = torch.tensor([[1.0, 2.0], [3.0, 5.0]])
    report = bp.explain(bp.probe(distances, nonfinite=True)(x, x.clone()))
    assert [(one.kind, one.name) for one in report.findings[:2]] == [
        ("born_backward", "sqrt()"),
        ("born_backward", "pow()"),
    ]
    golden("nonfinite", report)


def test_a_derivative_is_infinite_where_it_is_and_not_where_another_is():
    def logit(x):
        y = x.log() - (1 - x).log()
        return torch.sigmoid(y).sum()

    births = bp.explain(bp.probe(logit, nonfinite=True)(torch.tensor([0.0, 1.0, 0.5]))).of_kind("born_backward")
    assert len(births) == 2
    golden("nonfinite", births)


def test_what_is_healed_in_a_loop_is_told_once():
    def looped(x):
        total = 0.0
        for _ in range(5):
            masked = torch.log(x * 0)
            total = total + torch.where(x > 5, masked, x).sum()
        return total

    report = bp.explain(bp.probe(looped, nonfinite=True)(torch.tensor([0.0, 1.0])))
    assert [one.kind for one in report.findings] == ["born_backward", "healed", "propagated"]
    assert any("4 more times" in fact for fact in report.findings[1].facts)


def test_what_passes_on_its_dtype_alone_is_not_healed():
    def cast(x, w):
        ratio = x / x
        kind = str(ratio.dtype).removeprefix("torch.")
        wide = w.to(getattr(torch, kind))
        return (ratio * wide).sum()

    report = bp.explain(bp.probe(cast, nonfinite=True)(torch.zeros(2), torch.ones(2, dtype=torch.float64)))
    assert [one.kind for one in report.findings] == ["born", "propagated"]
    assert not any("finite again" in fact for one in report.findings for fact in one.facts)


def test_an_operation_heals_only_what_it_is_applied_to():
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    with bp.probe(nonfinite=True) as rec:
        u = torch.log(x)
        left_out = u[1:].sum()
        left_out.backward()
    golden("nonfinite", healed(rec))
    with bp.probe(nonfinite=True) as rec:
        u = torch.log(x)
        survival = 1 - u.sum().exp()
        survival.backward()
    golden("nonfinite", healed(rec))
    with bp.probe(nonfinite=True) as rec:
        u = torch.log(x)
        clamped = u.clamp(min=-1.0)
        clamped.sum().backward()
    golden("nonfinite", healed(rec))
    with bp.probe(nonfinite=True) as rec:
        u = torch.log(x)
        chosen = torch.where(x > 0, u, -1.0)
        chosen.sum().backward()
    golden("nonfinite", healed(rec))


def healed(rec):
    return [one.headline for one in bp.explain(rec).findings if one.kind == "healed"]


def test_a_part_without_a_name_is_not_taken_for_an_overflow():
    vector = torch.tensor([0.3, 0.5], requires_grad=True)
    mask = torch.tensor([1.0, 0.0])
    with bp.probe(nonfinite=True) as rec:
        masked = vector + mask.log()
        masked.sum().backward()
    assert bp.explain(rec).findings[0].headline == "Inf is born at 'masked': log(0)"


@pytest.mark.parametrize("options", [{}, {"partials": True}])
def test_a_birth_in_the_gradient_of_a_parameter_that_is_closed_over(options):
    weight = nn.Parameter(torch.zeros(3))

    def closing(x):
        penalty = torch.sqrt(weight)
        return (weight * x).sum() + penalty.sum()

    (found,) = bp.explain(bp.probe(closing, nonfinite=True, **options)(torch.ones(3))).findings
    assert (found.kind, found.name, found.source.text.strip()) == (
        "born_backward",
        "penalty",
        "penalty = torch.sqrt(weight)",
    )
    assert weight.grad is None


def test_a_number_that_is_infinite_is_not_called_finite():
    def masked(scores, mask):
        return torch.softmax(scores.masked_fill(mask == 0, float("-inf")), -1).sum()

    report = bp.explain(bp.probe(masked, nonfinite=True)(torch.ones(2, 3), torch.zeros(2, 3)))
    golden("nonfinite", report.findings[0])
    assert not any("float()" in fact for fact in report.findings[0].facts)


def test_births_at_one_line_are_told_once():
    def f(x):
        u = x * 1
        for _ in range(50):
            u = u * 0 + torch.log(x)
        return u.sum()

    report = bp.explain(bp.probe(f, nonfinite=True)(tensor([0.0, 2.0])))
    (log,) = [found for found in report.of_kind("born") if "log(0)" in found.headline]
    assert log.name == "log()#0"
    golden("nonfinite", log)
    assert len(report.findings) < 8


# checkpoints


def segment(v):
    r = torch.sqrt(v)
    return r * 2


def test_a_checkpoint_names_its_operation():
    def f(x):
        y = checkpoint(segment, x * 1, use_reentrant=False)
        return y.sum()

    (found,) = bp.explain(bp.probe(f, nonfinite=True)(tensor([0.0, 2.0]))).of_kind("born_backward")
    assert found.name == "y"
    golden("nonfinite", found)


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_a_checkpoint_in_a_block_names_its_line(use_reentrant):
    x = tensor([0.0, 2.0], requires_grad=True)
    with bp.probe(nonfinite=True) as rec:
        y = checkpoint(segment, x * 1, use_reentrant=use_reentrant)
        y.sum().backward()
    (found,) = bp.explain(rec).of_kind("born_backward")
    assert (found.name, found.source.line) == ("/segment:r", line_of(segment, "torch.sqrt"))


@pytest.mark.parametrize("written", ['float("inf")', "-math.inf", "torch.inf", '-float("inf")'])
def test_an_inf_that_a_line_writes_is_no_overflow(written, tmp_path):
    (tmp_path / "written.py").write_text(f"import math, torch\ndef f(x):\n    y = x * {written}\n    return y.sum()\n")
    namespace = runpy.run_path(str(tmp_path / "written.py"))
    (found,) = bp.explain(bp.probe(namespace["f"], nonfinite=True)(tensor([1.0, 2.0]))).of_kind("born")
    assert found.name == "y"
    golden("nonfinite", found)


# scaled losses


def test_an_overflow_under_a_known_scale_says_so():
    x = tensor([3.0, 2.0], requires_grad=True)
    with bp.probe(nonfinite=True) as rec:
        h = x.half()
        loss = (h * 30).float().sum()
        (loss * 65536).backward()
    assert rec.record.scales == (65536.0,)
    (found,) = bp.explain(rec).of_kind("born_backward")
    assert found.name == "loss"
    golden("nonfinite", found)


def steps(net, *, bad):
    """Three steps, where the distance of one is 0: its root has an infinite derivative there."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        out = net(torch.ones(3, 2))
        target = out.detach() if step == bad else torch.full((3, 1), 5.0)
        distance = ((out - target) ** 2).sum()
        loss = distance.sqrt()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        first = net.weight.grad
        size = first.norm() + norm
        optimizer.step()
    return size


def test_births_come_in_the_order_of_the_passes():
    torch.manual_seed(0)
    with bp.probe(nonfinite=True) as rec:
        steps(nn.Linear(2, 1), bad=1)
    report = bp.explain(rec)
    births = [(one.kind, one.name.rpartition(":")[2]) for one in report.findings if one.kind != "propagated"]
    assert births == [("born_backward", "loss#1"), ("born_backward", "distance#1"), ("unknown", "out#2")]
    assert report.findings[1].headline.endswith("0 · Inf: a gradient of Inf")
    written = "NaN had been written into 'net.bias', 'net.weight' before, at `optimizer.step()`"
    assert any(fact.startswith(written) for fact in report.findings[2].facts)


def test_what_is_read_from_bad_gradients_is_no_birth():
    with bp.probe(nonfinite=True) as rec:
        steps(nn.Linear(2, 1), bad=2)
    report = bp.explain(rec)
    assert [(one.kind, one.name.rpartition(":")[2]) for one in report.findings] == [
        ("born_backward", "loss#2"),
        ("born_backward", "distance#2"),
        ("propagated", "norm#2"),
        ("propagated", "net.bias"),
    ]
    assert all(name in str(report.findings[2].facts) for name in (":norm#2", ":first#2", ":size#2"))


class Rooted(Parts):
    def forward(self, x):
        return (x * torch.sqrt(self.w)).sum()


def test_what_is_read_from_a_bad_gradient_of_a_parameter_is_no_birth():
    net = Rooted(w=nn.Parameter(torch.zeros(2)))
    with bp.probe(nonfinite=True) as rec:
        loss = net(torch.ones(2))
        loss.backward()
        total = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        norms = [parameter.grad.norm() for parameter in net.parameters()]
        size = sum(parameter.grad.norm() ** 2 for parameter in net.parameters()) ** 0.5
    assert not (total.isfinite() or norms[0].isfinite() or size.isfinite())
    assert [one.kind for one in bp.explain(rec).findings] == ["born_backward", "propagated"]


def test_nothing_is_called_clean_while_an_output_or_a_gradient_is_not(monkeypatch):
    monkeypatch.setattr(ForwardPass, "births", lambda *_: ())
    monkeypatch.setattr(BackwardPass, "births", lambda *_: ())
    bad = bp.probe(lambda x: torch.log(x).sum(), nonfinite=True)(torch.tensor([0.0, 1.0]))
    (found, spread) = bp.explain(bad).findings
    assert found.kind == "unknown"
    golden("nonfinite", found)
    worse_behind = bp.probe(lambda x: torch.sqrt(x).sum(), nonfinite=True)(torch.tensor([0.0, 1.0]))
    assert bp.explain(worse_behind).findings[0].headline.startswith("the gradient of 'x' holds Inf")
    assert bp.explain(bp.probe(lambda x: x.exp().sum(), nonfinite=True)(torch.ones(2))).ok


def test_an_attention_mask_that_is_made_in_the_program_is_a_note():
    def masked(x):
        mask = torch.zeros(3, 3).masked_fill(torch.triu(torch.ones(3, 3), 1) > 0, -float("inf"))
        return torch.nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=mask)

    report = well(bp.explain(bp.probe(masked, of=lambda y: y.sum(), nonfinite=True)(torch.randn(2, 3, 3))))
    assert any("'mask'" in note and "does no harm" in note for note in report.notes)


def test_an_inf_that_nothing_is_computed_with_is_a_note():
    def searched(x):
        best = torch.tensor(float("inf"))
        for value in x:
            if value < best:
                best = value.detach()
        return x.sum()

    assert bp.explain(bp.probe(searched, nonfinite=True)(torch.ones(2))).ok


def test_a_mean_of_what_is_not_recorded_has_no_reason():
    net = nn.Linear(2, 1)
    net.weight.data.fill_(float("nan"))
    x = torch.ones(4, 2)
    with bp.probe(nonfinite=True) as rec:
        mean = net(x).mean()
    assert not mean.isfinite()
    found = bp.explain(rec).findings[0]
    assert found.kind == "unknown"
    golden("nonfinite", found)


def test_an_inf_that_is_put_into_a_place_is_written_there():
    with bp.probe(nonfinite=True) as rec:
        x = torch.ones(3, 2)
        x[0, 0] = float("inf")
        y = x.sum()
    assert not y.isfinite()
    golden("nonfinite", bp.explain(rec).findings[0])


def test_a_gradient_that_came_bad_to_a_model_is_told_though_the_next_output_is_bad_too():
    net = nn.Linear(2, 1)
    with bp.probe(net, nonfinite=True) as rec:
        steps(net, bad=1)
    first, second, *_ = bp.explain(rec).findings
    assert (first.kind, first.name) == ("unknown", "return#1")
    golden("nonfinite", first)
    assert (second.kind, second.name) == ("unknown", "return#2")


@pytest.mark.parametrize(
    ("scale", "said"),
    [
        (2.0**100, "overflow: float32 ends at 3.40e38: the loss 1e+30 times its scale 1.26765e+30"),
        (float("inf"), "the loss 1e+30 is multiplied by a scale that is itself Inf"),
    ],
)
@pytest.mark.parametrize("is_named", [True, False])
def test_a_scale_that_makes_the_loss_infinite(scale, said, is_named):
    w, scaler = tensor([1e30], requires_grad=True), torch.amp.GradScaler("cpu", init_scale=scale)
    with bp.probe(nonfinite=True) as rec:
        loss = w.sum()
        if is_named:
            multiple = scaler.scale(loss)
            multiple.backward()
        else:
            scaler.scale(loss).backward()
    name = "multiple" if is_named else "backward()"
    assert bp.explain(rec).findings[0].headline == f"Inf is born at {name!r}: {said}"
    assert rec.record.scales == (scale,)


def test_a_loss_that_is_infinite_by_itself_is_not_the_scales():
    w, scaler = tensor([0.0], requires_grad=True), torch.amp.GradScaler("cpu", init_scale=4.0)
    with bp.probe(nonfinite=True) as rec:
        loss = (1 / w).sum()
        scaler.scale(loss).backward()
    assert rec.record.scales == (4.0,)
    assert [found.name for found in bp.explain(rec).of_kind("born")] == ["loss"]


def test_between_backward_and_the_first_recorded_value_nothing_is_seen():
    """A model's block under a real GradScaler: the loss is computed outside of the model."""
    torch.manual_seed(0)
    layer, scaler = nn.Linear(4, 1), torch.amp.GradScaler("cpu", init_scale=2.0**20)
    with bp.probe(layer, nonfinite=True) as rec:
        with torch.autocast("cpu", dtype=torch.float16):
            y = layer(torch.ones(2, 4))
        scaler.scale((y.float() * 100).square().mean()).backward()
    found = bp.explain(rec).of_kind("unknown", "came_in_backward", "born_backward")[0]
    assert found.kind == "unknown"
    golden("nonfinite", found)


def test_what_lies_between_a_model_and_backward_is_not_said_to_be_in_the_model():
    net = nn.Linear(2, 1)
    with bp.probe(net, nonfinite=True) as rec:
        ((net(torch.full((4, 2), 1e30)) * 1e5) ** 2).mean().backward()
    found = bp.explain(rec).findings[0]
    assert (found.kind, found.name) == ("unknown", "backward()")
    golden("nonfinite", found)


def test_a_number_that_is_not_finite_says_so():
    def f(x):
        c = float("inf")
        y = x * c
        return y.sum()

    found = bp.explain(bp.probe(f, nonfinite=True)(tensor([1.0, 2.0]))).findings[0]
    assert (found.kind, found.name) == ("born", "c")
    assert "'c' is inf" in found.facts


# no observer


def test_a_model_computes_what_it_computes_without():
    """Outputs, gradients and random state, with dropout and a custom Function in it."""

    Doubled = custom("Doubled", lambda x: x * 2, lambda g, x: g.mul_(2))  # writes into what it is given

    class Part(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.dropout = nn.Linear(4, 4), nn.Dropout(0.5)

        def forward(self, x):
            return Doubled.apply(self.dropout(self.inner(x)).relu_() + x)

    def step(probing):
        torch.manual_seed(0)
        model = nn.Sequential(Part(), Part(), nn.Linear(4, 1))
        x = torch.randn(5, 4)
        if probing:
            with bp.probe(model, ["**", "**:*"], nonfinite=True):
                model(x).sum().backward()
        else:
            model(x).sum().backward()
        return [parameter.grad for parameter in model.parameters()], torch.get_rng_state()

    (grads, state), (expected, expected_state) = step(True), step(False)
    assert all(torch.equal(a, b) for a, b in zip(grads, expected, strict=True))
    assert torch.equal(state, expected_state)


def test_what_a_users_backward_writes_into_is_judged_as_it_was():
    Spoiling = custom("Spoiling", lambda x: x * 1, lambda g, x: g.clone().mul_(float("inf")))

    def f(x):
        y = Spoiling.apply(x * 2)
        return (y * 3).sum()

    report = bp.explain(bp.probe(f, nonfinite=True)(tensor([1.0, 2.0])))
    assert [finding.name for finding in report.of_kind("born_backward")] == ["y"]


# other options


def test_partials_tell_nothing_of_gradients():
    """The local passes run through the same nodes, and start from ones: those are no births of the gradient's."""

    def f(x):
        y = torch.sqrt(x)
        return (y * 0 + x).sum()

    without = bp.explain(bp.probe(f, nonfinite=True)(tensor([1.0, 2.0])))
    with_partials = bp.explain(bp.probe(f, nonfinite=True, partials=True)(tensor([1.0, 2.0])))
    assert without.ok
    assert with_partials.ok


def test_gradients_that_can_be_differentiated_again():
    report = bp.explain(bp.probe(segment, of=torch.sum, nonfinite=True, create_graph=True)(tensor([0.0, 2.0])))
    assert [finding.name for finding in report.of_kind("born_backward")] == ["r"]


def test_several_backward_passes_in_one_block():
    x = tensor([0.0, 2.0], requires_grad=True)
    with bp.probe(nonfinite=True) as rec:
        y = x * 2
        y.sum().backward(retain_graph=True)
        z = torch.sqrt(y)
        z.sum().backward()
    assert [finding.name for finding in bp.explain(rec).of_kind("born_backward")] == ["z"]


def test_nan_in_a_pass_of_grad_is_of_its_output():
    x = tensor([0.0, 2.0], requires_grad=True)
    with bp.probe(nonfinite=True) as rec:
        y = torch.sqrt(x)
        torch.autograd.grad(y.sum(), x, retain_graph=True)
        loss = (x * 3).sum()
        loss.backward()
    (found,) = bp.explain(rec).of_kind("born_backward")
    assert (found.name, found.facts[-1]) == ("y", "this is about grad()")
    assert bp.explain(rec.of("loss")).ok and not bp.explain(rec.of("grad()")).ok


def test_a_cotangent_that_is_not_finite():
    rec = bp.probe(lambda x: x * 2, cotangent=[1.0, float("nan")], nonfinite=True)(tensor([1.0, 2.0]))
    (found,) = bp.explain(rec).of_kind("came_in_backward")
    assert found.name == "return"
    golden("nonfinite", found)


# recordings


def test_what_is_recorded_of_each_entry():
    rec = bp.probe(segment, of=torch.sum, nonfinite=True)(tensor([0.0, 4.0]))
    assert rec["v"].finiteness == bp.Finiteness(bp.Nonfinite(0, 0, 2), bp.Nonfinite(0, 1, 2), ())
    assert rec["r"].finiteness.made == (bp.BackwardOp("Sqrt", list(rec).index("v"), "finite", "inf", name="v"),)


def test_counts_in_kinds_of_tensors():
    value = tensor([[1.0, float("nan")], [float("inf"), -float("inf")]])
    kinds = {
        "transposed": (value.t(), bp.Nonfinite(1, 2, 4)),
        "expanded": (value[:, :1].expand(2, 3), bp.Nonfinite(0, 3, 6)),
        "complex": (torch.complex(value, value), bp.Nonfinite(1, 2, 4)),
        "half": (value.half(), bp.Nonfinite(1, 2, 4)),
        "sparse": (value.to_sparse(), bp.Nonfinite(1, 2, 4)),
        "float8": (value.to(torch.float8_e5m2), bp.Nonfinite(1, 2, 4)),
        "empty": (torch.empty(0), bp.Nonfinite(0, 0, 0)),
        "integer": (torch.arange(3), None),
        "meta": (torch.empty(2, device="meta"), None),
    }
    assert dict(zip(kinds, nonfinite([t for t, _ in kinds.values()]), strict=True)) == {
        kind: expected for kind, (_, expected) in kinds.items()
    }


@pytest.mark.parametrize("spot", [(0, 0, 0), (1, 2, 3), (1, 0, 3)])
@pytest.mark.parametrize(
    "view",
    [
        lambda t: t,
        lambda t: t.transpose(0, 2),
        lambda t: t.permute(1, 2, 0),
        lambda t: t[:, ::2],
        lambda t: t[..., 0:1],
        lambda t: t[..., None].expand(2, 3, 4, 5),
        lambda t: t.transpose(0, 1).unsqueeze(1).expand(3, 6, 2, 4),
        lambda t: t.diagonal(dim1=0, dim2=1),
        lambda t: t.unfold(2, 2, 1),
        lambda t: t[0, 0, 0],
    ],
)
def test_a_view_is_read_as_it_lies_in_memory_and_holds_what_it_holds(view, spot):
    numbers = torch.zeros(2, 3, 4)
    numbers[spot] = float("nan")
    expected = NAN if view(numbers).isnan().any() else FINITE
    judged = FinitenessLook()
    at = judged.add(view(numbers))
    assert judged.kinds()[at] == expected


def test_a_view_is_read_in_the_order_of_memory(monkeypatch):
    """A transposed tensor takes ten times as long otherwise, and an expanded one as often as it is repeated."""
    read = []
    aminmax = torch.aminmax
    monkeypatch.setattr(torch, "aminmax", lambda numbers: read.append(numbers) or aminmax(numbers))
    FinitenessLook().add(torch.full((2, 3, 4), torch.nan).permute(2, 0, 1)[:, None].expand(4, 7, 2, 3))
    assert read[0].is_contiguous()
    assert read[0].numel() == 24


def test_the_largest_numbers_are_finite():
    """Their sum overflows, which is no sign that one of them is not finite."""

    def f(x):
        u = x * 1
        return u.amax()

    for largest, dtype in (
        (3e38, torch.float32),
        (65504, torch.float16),
        (3e38, torch.bfloat16),
        (1e308, torch.double),
    ):
        x = torch.full((1000,), largest, dtype=dtype)
        assert bp.explain(bp.probe(f, nonfinite=True)(x)).ok, dtype
        with bp.probe(nonfinite=True) as rec:
            v = x.clone().requires_grad_() * 1
            v.backward(x)
        assert bp.explain(rec).ok, dtype
        assert rec["v"].finiteness == bp.Finiteness(bp.Nonfinite(0, 0, 1000), bp.Nonfinite(0, 0, 1000), ())


PLAIN = torch.tensor([[1.0, -2.0, 3.0], [0.0, 5.0, 6.0]])
KINDS = {
    "float16": lambda t: t.half(),
    "bfloat16": lambda t: t.bfloat16(),
    "float64": lambda t: t.double(),
    "float8": lambda t: t.to(torch.float8_e5m2),
    "complex": lambda t: torch.complex(PLAIN, t),
    "conjugate": lambda t: torch.complex(t, t).conj(),
    "negative view": lambda t: torch.complex(t, t).conj().imag,
    "coo": lambda t: t.to_sparse(),
    "csr": lambda t: t.to_sparse_csr(),
    "mkldnn": lambda t: t.to_mkldnn(),
    "nested": lambda t: torch.nested.nested_tensor([t, t[:1]]),
    "subclass": lambda t: t.as_subclass(Marked),
    "parameter": lambda t: nn.Parameter(t),
    "inference": lambda t: in_inference(t),
    "transposed": lambda t: t.t(),
    "every other": lambda t: t[:, ::2],
    "expanded": lambda t: t[:, :1, None].expand(2, 3, 4),
}


class Marked(torch.Tensor):
    pass


def in_inference(numbers):
    with torch.inference_mode():
        return numbers.clone()


@pytest.mark.filterwarnings("ignore:.*(prototype|beta) s")  # PyTorch's, of compressed and nested tensors
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("number", "expected"), [(1.0, "finite"), (float("inf"), "inf"), (float("nan"), "nan")])
def test_every_kind_of_tensor_is_judged_by_its_numbers(kind, number, expected):
    numbers = PLAIN.clone()
    numbers[0, 0] = number
    judged = FinitenessLook()
    at = judged.add(KINDS[kind](numbers))
    assert judged.kinds()[at] == expected


def test_opposite_infinities_are_not_finite():
    numbers = tensor([1.0, float("inf"), -float("inf")])
    assert nonfinite([numbers]) == [bp.Nonfinite(0, 2, 3)]


@pytest.mark.parametrize(
    "others",
    [
        torch.arange(3),
        torch.tensor([True]),
        torch.empty(2, device="meta"),
        torch.empty(0),
        torch.empty(0, 3).t(),
        torch.empty(0, dtype=torch.long),
        torch.zeros(2, 2).to_sparse(),
    ],
)
def test_what_holds_no_floating_numbers_is_not_in_doubt(others):
    judged = FinitenessLook()
    at = judged.add(others)
    assert not judged
    assert judged.kinds()[at] == FINITE


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")  # PyTorch's: it will go
def test_quantized_numbers_are_finite():
    numbers = torch.quantize_per_tensor(PLAIN, 0.1, 0, torch.qint8)
    judged = FinitenessLook()
    assert judged.add(numbers) == NOTHING
    assert judged.kinds()[NOTHING] == FINITE


def test_what_is_finite_by_its_sum_is_read_once(model, monkeypatch):
    """In a healthy step nothing needs its extremes: not a value, nor a gradient, nor what passes in backward."""
    monkeypatch.setattr(torch, "aminmax", None)
    with bp.probe(model, ["**", "**:*"], nonfinite=True) as rec:
        model(INPUT, torch.ones(3, 3).bool()).backward()
        torch.optim.SGD(model.parameters(), 0.1).step()
    assert bp.explain(rec).ok
    assert rec["emb"].finiteness.grad == bp.Nonfinite(0, 0, 12)


def test_a_saved_recording_is_explained_alike(tmp_path):
    rec = bp.probe(segment, of=torch.sum, nonfinite=True)(tensor([0.0, 2.0]))
    rec.save(tmp_path / "rec")
    for to in ("torch", "numpy"):
        loaded = bp.load(tmp_path / "rec", to=to)
        assert loaded["r"].finiteness == rec["r"].finiteness
        assert str(bp.explain(loaded)) == str(bp.explain(rec, experiments=False))


def test_a_scale_is_saved(tmp_path):
    x = tensor([3.0, 2.0], requires_grad=True)
    with bp.probe() as rec:
        loss = (x * 30).sum()
        (loss * 4).backward()
    assert round_trip(rec, tmp_path).record.scales == rec.record.scales == (4.0,)


def test_a_recording_without_the_option_is_judged_by_what_it_holds():
    report = bp.explain(bp.probe(segment, of=torch.sum)(tensor([0.0, 2.0])))
    assert [(finding.kind, finding.name) for finding in report.findings[:1]] == [("born_backward", "r")]
    assert report.notes[0].startswith("recorded without nonfinite=True")


def test_nothing_is_left_behind():
    def step():  # a frame of its own, which takes its variables with it
        y = torch.sqrt(tensor([0.0, 2.0], requires_grad=True))
        with bp.probe(nonfinite=True) as rec:
            z = y * 2
            z.sum().backward(retain_graph=True)
        told = str(bp.explain(rec))
        z.sum().backward()  # the hooks of the block are gone: nothing more is added
        assert str(bp.explain(rec)) == told
        return weakref.ref(z), weakref.ref(rec)

    kept = step()
    gc.collect()
    assert [one() for one in kept] == [None, None]


def test_the_report_prints_lines_and_shapes():
    text = str(bp.explain(bp.probe(segment, of=torch.sum, nonfinite=True)(tensor([0.0, 4.0]))))
    line = line_of(segment, "torch.sqrt")
    assert text.splitlines() == [
        f"NaN or Inf begins at 1 place, first at 'r' (test_nonfinite_programs.py:{line})",
        f"  Inf is born in the backward of 'r' (test_nonfinite_programs.py:{line}): the derivative of sqrt is infinite "
        "at 0",
        f"    line:  {relpath(__file__)}:{line}: r = torch.sqrt(v)",
        "    path:  r -> v",
        "    seen:  the gradient of v at [0] is Inf: v is 0.0 there, r is 0.0, the incoming gradient is 2.0",
        "    seen:  the derivative of Sqrt at [0] is Inf, times an incoming 2.0",
        "    seen:  the operation Sqrt was given a finite gradient and made Inf",
        "    seen:  the gradient of 'r': finite",
        "    seen:  the gradient of 'v': 1 Inf of 2",
        "    seen:  'v' of shape (2,) is finite, between 0 and 4",
        "    tried: all 2 outputs and gradients are finite then, and equal where they were finite before",
        "    next:  `torch.sqrt(v + 1e-12)` instead of `torch.sqrt(v)`: a small number keeps it from 0, where the "
        "derivative is infinite",
        "  - NaN and Inf spread from there",
        "      seen:  1 gradient: v",
    ]


# what is refused


def test_the_option_is_a_flag():
    with pytest.raises(bp.BadOption, match="nonfinite is True or False"):
        bp.probe(segment, nonfinite="yes")


def test_other_strategies_are_refused():
    with pytest.raises(bp.BadOption, match="NaN and Inf are looked for in one pass over the gradient edges"):
        bp.probe(segment, nonfinite=True, strategy="hooks")


# consequences hang beneath their causes


def masked(x, w):
    q = x @ w
    scores = (q @ q.T).masked_fill(PAD, float("-inf"))
    attention = scores.softmax(-1)
    return F.cross_entropy(attention @ q, torch.tensor([0, 1, 2, 0]))


def overflowing(x, w):
    e = torch.exp(x.abs() * 1000)
    gap = e - e
    return (gap * w[:1]).sum()


def apart(x, w):
    e = torch.exp(x.abs() * 1000) - torch.exp(x.abs() * 1000)
    root = torch.log(w - w - 1)
    return e.sum() + root.sum()


PAD = torch.zeros(4, 4, dtype=torch.bool)
PAD[:, 3] = PAD[2] = True


def beneath(function):
    """The headlines that stand at the margin of a report, each with those beneath it."""
    report = bp.explain(bp.probe(function, nonfinite=True)(torch.ones(4, 3), torch.ones(3, 3)))
    found = arranged(report.findings)
    return [(root.headline, [one.headline for one in below]) for root, below in found], str(report)


def test_a_mask_is_harmless_and_the_row_that_it_covers_is_the_cause():
    found, text = beneath(masked)
    golden("nonfinite", found)
    assert text.splitlines()[0].startswith("NaN or Inf begins at 1 place, first at 'attention'")
    assert "\n    seen:  the Inf of 'scores' is written there (" in text


def test_nan_of_an_overflow_hangs_beneath_the_overflow():
    ((root, below),), _ = beneath(overflowing)
    golden("nonfinite", root)
    golden("nonfinite", below[0])
    assert below[1].startswith("NaN and Inf spread from there")


def test_what_spreads_from_several_places_hangs_beneath_none():
    found, text = beneath(apart)
    assert len(found) == 4 or len(found) == 3
    assert found[-1][0].startswith("NaN and Inf spread from there")
    assert found[-1][1] == []
    assert "\n  1. " in text


def test_a_mask_that_softmax_takes_away_is_no_birth_where_gradients_are_off():
    """No edge leads from the mask to the probabilities there: what the line mentions shows it."""
    w, x = tensor([1.0, 2.0]), tensor([1.0, 2.0])
    with bp.probe(nonfinite=True) as rec, torch.no_grad():
        scores = w * x
        scores = scores.masked_fill(scores < 2.5, -float("inf"))
        chances = torch.softmax(scores, 0)
        torch.multinomial(chances, 1)
    assert not bp.explain(rec).of_kind("born")


def test_a_product_with_an_orthonormal_matrix_decomposes_nothing():
    """It saves a matrix of orthonormal vectors and a number for each, as a decomposition does."""
    x = torch.ones(3, requires_grad=True)
    assert not decomposes((torch.eye(3) @ x).grad_fn)
    assert not decomposes((torch.eye(3).requires_grad_() @ x).grad_fn)
    values, vectors = torch.linalg.eigh(torch.eye(3).requires_grad_())
    assert decomposes(values.grad_fn) and decomposes(vectors.grad_fn)
    assert decomposes(torch.linalg.svd(torch.eye(3).requires_grad_()).S.grad_fn)
