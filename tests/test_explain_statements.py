"""Statements of explain and of notes on errors are true: about bystanders, values without history, raised errors."""

import runpy

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import backprobe as bp
from asked import Parts, leaf, noting
from backprobe import GradStatus
from goldens import golden, golden_note


def raised(error=RuntimeError):
    return pytest.raises(error)


# a write that is refused, and bystanders


@pytest.mark.parametrize("act", [nn.ReLU(inplace=True), nn.SiLU(inplace=True), nn.Dropout(0.5, inplace=True)])
def test_a_bystander_is_not_blamed_for_a_view_that_a_hook_made(act):
    net = nn.Sequential(nn.Linear(3, 3), act)
    net[0].register_full_backward_hook(lambda module, inner, outer: None)
    x = leaf(1.0, 2.0, 3.0)
    remedy = f"next:    inplace=False in {act}"
    with noting("a module with a full backward hook gives views", "net(x)", remedy, but=["'x'"]), bp.probe():
        loss = net(x).sum()


def test_what_a_line_writes_to_is_blamed_and_not_what_it_adds():
    u, x = leaf(1.0, 2.0), leaf(1.0, 2.0)
    with noting("'a' is a view", "next:    a = a.clone()", but=["'x'"]), bp.probe():
        a, b = (u * 2).unbind()
        a += x[0]


def _add(v):
    v += 1


def _set(v):
    v[0] = 1


@pytest.mark.parametrize("write", [lambda v: v.zero_(), _add, _set])
def test_a_view_of_a_leaf_is_not_called_a_leaf(write):
    w = torch.ones(4, 3, requires_grad=True)
    with golden_note("explain"), bp.probe():
        v = w[0]
        write(v)


def test_a_view_in_a_list_is_spelled_as_the_program_may_write_it():
    h = leaf(1.0, 2.0, 3.0, 4.0) * 2
    with golden_note("explain"), bp.probe():
        parts = h.chunk(2)
        for p in parts:
            p += 1
    with golden_note("explain"), bp.probe():
        halves = h.chunk(2)
        halves[0].add_(1)


# a write that backward finds later


class Writes(Parts):
    def forward(self, x):
        h = torch.sigmoid(self.first(x))
        h[:, 0] = 0
        return h.sum()


@pytest.mark.parametrize("select", [None, ["**", "**:*"]])
def test_inplace_false_is_said_of_modules_that_have_it_alone(select):
    net = Writes(first=nn.Linear(3, 3))
    parts = [] if select is None else ["h[:, 0] = 0`: h = ..."]
    with noting("next:", *parts, but=["inplace=False"]), bp.probe(net, select):
        net(torch.ones(2, 3)).backward()


def test_a_module_of_the_program_that_writes_is_not_told_to_have_an_option():
    class Shift(nn.Module):
        def forward(self, h):
            h += 1
            return h

    net = nn.Sequential(nn.Linear(3, 3), nn.Sigmoid(), Shift())
    with noting("written: by the module '2'", "no write in place inside '2'", but=["inplace=False"]), bp.probe(net):
        net(torch.ones(2, 3)).sum().backward()


def test_of_a_module_without_lines_an_operation_is_on_the_way_to_it():
    net = nn.Sequential(Writes(first=nn.Linear(3, 3)))
    with noting("saved:   on the way to", "its line may be seen", but=["of its items"]), bp.probe(net):
        net(torch.ones(2, 3)).backward()


# values without a history


def test_the_shape_of_a_differentiated_value_is_not_the_value():
    w = leaf(1.0, 2.0, 3.0)
    with bp.probe() as rec:
        h = w * 2
        zeros = torch.zeros_like(h)
        noise = torch.randn(h.shape)
        later = zeros + 1
        (h * noise + later).sum().backward()
    for name in ("zeros", "noise", "later"):
        assert rec[name].status is GradStatus.FROZEN
        assert "differentiated values, but" not in rec[name].reason + str(bp.explain(rec, name))
    assert rec["zeros"].why.code == rec["noise"].why.code == "shape_only"


def test_a_value_that_is_detached_is_not_computed_from_nothing():
    net, head = nn.Linear(3, 3), nn.Linear(3, 1)
    with bp.probe() as rec:
        features = net(torch.ones(2, 3)).detach()
        later = features + 1
        head(later).sum().backward()
    golden("explain", rec["features"].reason)
    golden("explain", rec["later"].reason)


class Detaches(Parts):
    def forward(self, x):
        h = torch.relu(self.enc(x)).detach()
        return self.dec(h).sum()


def test_a_value_that_is_cut_off_from_a_recorded_module_is_detached():
    rec = bp.probe(Detaches(enc=nn.Linear(3, 3), dec=nn.Linear(3, 1)), ["**", "**:*"])(torch.ones(2, 3))
    assert (rec["h"].status, rec["h"].why.code) == (GradStatus.DETACHED, "no_history")
    assert not [note for note in bp.explain(rec).notes if "from nothing" in note and "h" in note.split(": ")[1].split()]


def test_numbers_of_a_list_are_cut_off_where_they_were_taken():
    w = leaf(1.0, 2.0)
    with bp.probe() as rec:
        h = w * 2
        numbers = h.tolist()
        t = torch.tensor(numbers)
        (h + t).sum().backward()
    assert rec["t"].status is GradStatus.DETACHED
    (finding,) = bp.explain(rec, "t").findings
    assert (finding.kind, "one element" in finding.remedy) == ("number", False)


def test_a_condition_alone_makes_nothing_detached():
    w, c = leaf(1.0, 2.0), torch.ones(2)
    with bp.probe() as rec:
        h = w * 2
        t = h.detach() if h is None else c * 2
        (h + t).sum().backward()
    assert rec["t"].why.code != "inherited"


@pytest.mark.filterwarnings("ignore:None of the inputs")
@pytest.mark.parametrize("is_followed", [True, False])
def test_a_reentrant_checkpoint_of_frozen_inputs_is_not_frozen(is_followed):
    net, head, x = nn.Linear(3, 3), nn.Linear(3, 1), torch.ones(2, 3)

    def run(x):
        return net(x) * 2

    with bp.probe() as rec:
        h = checkpoint(run if is_followed else net, x, use_reentrant=True)
        later = h + 1
        head(later).sum().backward()
    assert (rec["h"].status, rec["h"].why.code) == (GradStatus.DETACHED, "reentrant_checkpoint")
    assert rec["later"].why.code == "inherited"
    (finding,) = bp.explain(rec, "later").findings
    assert (finding.kind, finding.chain) == ("checkpoint", ("h", "later"))
    assert not any("h" in note.partition(": ")[2].split(", ") for note in bp.explain(rec).notes)


@pytest.mark.filterwarnings("ignore:None of the inputs")
def test_of_a_checkpoint_that_may_be_another_nothing_is_claimed():
    net, head, reentrant = nn.Linear(3, 3).requires_grad_(False), nn.Linear(3, 1), False
    with bp.probe() as rec:
        h = checkpoint(net, torch.ones(2, 3), use_reentrant=reentrant)
        head(h).sum().backward()
    assert rec["h"].why.code == "frozen"


# programs that raised


def test_a_program_that_raised_is_not_ok():
    w = leaf(1.0, 2.0)
    with raised(), bp.probe() as rec:
        with torch.no_grad():
            loss = (w * 2).sum()
        loss.backward()
    report = bp.explain(rec)
    found = report.of_kind("raised")[0]
    assert (report.ok, found.source.text) == (False, "loss.backward()")
    golden("explain", found)
    assert "loss.backward() in the block" not in str(report)


def test_a_program_that_raised_after_a_backward_is_not_ok():
    w = leaf(1.0, 2.0)
    with raised(KeyError), bp.probe() as rec:
        (w * 2).sum().backward()
        {}["missing"]
    (found,) = bp.explain(rec).findings
    assert found.kind == "raised"
    golden("explain", found)


def test_an_interruption_is_a_note():
    w = leaf(1.0, 2.0)
    with raised(KeyboardInterrupt), bp.probe() as rec:
        loss = (w * 2).sum()
        loss.backward()
        raise KeyboardInterrupt
    assert bp.explain(rec).ok
    assert rec.record.notes[-1].code == "interrupted"


def test_that_a_program_raised_is_saved_with_its_recording(tmp_path):
    w = leaf(1.0, 2.0)
    with raised(), bp.probe() as rec:
        loss = (w.detach() * 2).sum()
        loss.backward()
    rec.save(tmp_path / "rec")
    assert str(bp.explain(bp.load(tmp_path / "rec"))) == str(bp.explain(rec))


# remedies


@pytest.mark.parametrize("keeps", [False, True])
def test_each_state_of_an_lstm_is_detached(keeps):
    rnn, head = nn.LSTM(3, 4), nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], 0.1)
    h = c = torch.zeros(1, 1, 4)
    with golden_note("explain"), bp.probe():
        for _ in range(2):
            out, (h, c) = rnn(torch.ones(2, 1, 3), (h, c))
            loss = head(out).sum()
            loss.backward(retain_graph=keeps)
            optimizer.step()


def test_a_state_that_a_cell_carries_on_is_detached_where_the_graph_is_kept():
    cell, head = nn.GRUCell(3, 4), nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], 0.1)
    with golden_note("explain"), bp.probe():
        h = torch.zeros(1, 4)
        for _ in range(3):
            h = cell(torch.ones(1, 3), h)
            loss = head(h).sum()
            loss.backward(retain_graph=True)
            optimizer.step()


def test_a_value_of_the_same_step_is_not_to_be_detached():
    net, critic = nn.Linear(3, 3), nn.Linear(3, 1)
    optimizer = torch.optim.SGD(critic.parameters(), 0.1)
    with golden_note("explain", but=["detach()"]), bp.probe():
        score = critic(net(torch.ones(2, 3)))
        score.mean().backward(retain_graph=True)
        optimizer.step()
        loss = -score.mean()
        loss.backward()


class Differentiates(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx, gradient):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        return torch.autograd.grad(x.exp(), x, gradient)[0]


def test_gradients_are_switched_off_inside_a_custom_backward():
    x = leaf(1.0, 2.0)
    with noting("inside a custom backward()", "torch.autograd.grad(x.exp()", "torch.enable_grad()"), bp.probe():
        y = Differentiates.apply(x)
        y.sum().backward()


def test_a_value_that_two_losses_share_is_not_of_a_step_before():
    generator, critic = nn.Linear(2, 2), nn.Linear(2, 1)
    with golden_note("explain", but=["step before"]), bp.probe():
        fake = generator(torch.ones(3, 2))
        critic(fake).mean().backward()
        loss = -critic(fake).mean()
        loss.backward()


def test_a_flag_that_writes_is_left_out():
    x = leaf(1.0, 2.0)
    with golden_note("explain"), bp.probe():
        h = torch.tanh(x)
        y = nn.functional.relu(h, inplace=True) + h
        y.sum().backward()


def test_a_leaf_that_is_updated_too_early_is_updated_later():
    w, x = leaf(1.0, 2.0), leaf(1.0, 2.0)
    with golden_note("explain", but=["torch.stack"]), bp.probe():
        y = w * x
        with torch.no_grad():
            w.mul_(0.9)
        y.sum().backward()


def test_of_a_write_to_what_has_no_name_no_line_is_promised():
    net, x = nn.Linear(3, 3, bias=False), torch.ones(2, 3, requires_grad=True)
    with golden_note("explain", but=["names its line"]), bp.probe():
        y = net(x)
        with torch.no_grad():
            net.weight.mul_(0.9)
        y.sum().backward()


def test_a_sample_is_not_computed_from_nothing():
    mean = leaf(0.0, 0.0)
    with bp.probe() as rec:
        distribution = torch.distributions.Normal(mean, 1.0)
        action = distribution.sample()
        loss = -distribution.log_prob(action).sum()
        loss.backward()
    assert rec["action"].status is GradStatus.DETACHED
    report = bp.explain(rec)
    assert (report.ok, report.notes) == (True, ())


def test_the_ones_of_a_remedy_are_of_the_framework_in_use():
    with pytest.raises(bp.BackprobeError, match=r"cotangent=torch\.ones\(\(2,\)\)"):
        bp.probe(lambda x: x * 2)(leaf(1.0, 2.0))


def test_what_is_loaded_into_a_module_is_copied():
    net, fast, x = nn.Linear(3, 1), nn.Linear(3, 1), torch.ones(5, 3)
    with bp.probe() as rec:
        inner = net(x).pow(2).mean()
        gradients = torch.autograd.grad(inner, list(net.parameters()), create_graph=True)
        new = {name: p - 0.1 * g for (name, p), g in zip(net.named_parameters(), gradients, strict=True)}
        fast.load_state_dict(new)
        outer = fast(x).pow(2).mean()
        outer.backward()
    (found,) = bp.explain(rec).of_kind("loaded")
    assert found.source.text == "fast.load_state_dict(new)"
    assert found.remedy.startswith("torch.func.functional_call(module, new, args)")
    assert bp.explain(rec, "new.weight").of_kind("loaded")[0].source == found.source


def test_a_moving_average_that_is_loaded_needs_no_gradient():
    net, average, x = nn.Linear(3, 1), nn.Linear(3, 1), torch.ones(5, 3)
    with bp.probe() as rec:
        net(x).mean().backward()
        old = average.state_dict()
        new = {name: 0.9 * old[name] + 0.1 * p for name, p in net.named_parameters()}
        average.load_state_dict(new)
    assert not bp.explain(rec).of_kind("loaded")


def test_what_an_unnamed_loss_uses_is_not_called_unused():
    w = leaf(1.0, 2.0)
    with bp.probe() as rec:
        h = w * 2
        h.detach_()
        (h * w).sum().backward()
    assert "not used" not in str(bp.explain(rec))


# arguments of which only the dtype, device or shape is read


LIKE = [
    "p.grad * scale.to(p)",
    "p.grad.type_as(p) * scale",
    "scale.expand_as(p) * 2",
    "torch.full_like(p, 0.5) * scale",
    "p.grad.view_as(p) * scale.to(p.device)",
]


@pytest.mark.parametrize("text", LIKE)
def test_what_a_value_is_made_like_is_not_cut_from_it(text, tmp_path):
    """As in sharpness-aware minimisation: a step along the gradient between two passes."""
    lines = [
        "import torch",
        "import backprobe as bp",
        "p = torch.tensor([1.0, 2.0], requires_grad=True)",
        "with bp.probe() as rec:",
        "    first = p.square().sum()",
        "    first.backward()",
        "    with torch.no_grad():",
        "        scale = torch.tensor(0.05, dtype=torch.float64)",
        f"        e_w = {text}",
        "        p.add_(e_w)",
        "    p.grad = None",
        "    second = p.square().sum()",
        "    second.backward()",
    ]
    path = tmp_path / "sam.py"
    path.write_text("\n".join(lines) + "\n")
    rec = runpy.run_path(str(path))["rec"]
    assert bp.explain(rec).findings == ()
    assert rec["e_w"].why.code == "frozen"


def test_the_tensor_that_a_method_belongs_to_is_cut():
    p = torch.tensor([1.0, 2.0], requires_grad=True)
    with bp.probe() as rec:
        other = torch.zeros(2, dtype=torch.float64)
        with torch.no_grad():
            h = p.to(other) * 2
        loss = (h * other).sum() + p.sum()
        loss.backward()
    assert rec["h"].status is GradStatus.NO_GRAD


def test_a_value_whose_data_was_replaced_behind_its_gradient():
    def f(x, w):
        h = x * w
        h.data = h.data.clamp(min=0)
        return (h * 3).sum()

    rec = bp.probe(f)(torch.tensor([1.0, -2.0]), torch.tensor([3.0, 4.0]))
    report = bp.explain(rec, "w")
    assert [(one.kind, one.name) for one in report] == [("overwritten", "h")]
    golden("explain", report)
