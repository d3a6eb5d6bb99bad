"""``bp.guard``: the first NaN or Inf raises in the forward call or ``backward()`` in which it arose."""

from __future__ import annotations

import copy
import gc
import threading

import pytest
import torch
from torch import nn

import backprobe as bp
from goldens import golden


class Ratio(nn.Module):
    """Its output is NaN where the row is zero, and its gradient is infinite where the root is at zero."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x):
        h = self.inner(x)
        gap = h * (x != 7)
        root = torch.sqrt(gap.abs())
        return root / x.sum(1, keepdim=True)


def healthy():
    return torch.rand(4, 3) + 1


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def test_a_call_that_returns_nan_raises_with_the_line():
    net = Ratio()
    with bp.guard(net):
        net(healthy()).sum().backward()
        with pytest.raises(bp.NotFinite) as caught:
            net(torch.zeros(4, 3))
    first = caught.value.report.findings[0]
    assert first.kind == "born"
    golden("guard", first)
    assert first.source.text.strip() == "return root / x.sum(1, keepdim=True)"
    golden("guard", caught.value)
    assert str(caught.value) == f"{caught.value.headline}\n{caught.value.report}"


def test_backward_raises_with_the_operation_before_the_optimizer_steps():
    net, steps = Ratio(), 0
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    before = copy.deepcopy(net.state_dict())
    with pytest.raises(bp.NotFinite) as caught, bp.guard(net):
        net(torch.tensor([[7.0, 1.0, 1.0]])).sum().backward()
        optimizer.step()
    first = caught.value.report.findings[0]
    assert (first.kind, first.name) == ("born_backward", "root")
    golden("guard", first)
    assert first.source.text.strip() == "root = torch.sqrt(gap.abs())"
    golden("guard", caught.value)
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())


def test_what_the_loss_brought_is_not_blamed_on_the_model():
    net = nn.Linear(3, 1)
    with pytest.raises(bp.NotFinite) as caught, bp.guard(net):
        torch.log(net(healthy()) * 0).sum().backward()
    (first,) = caught.value.report.findings
    assert first.kind == "came_in_backward"
    assert "what the call of Linear returned" in first.headline


def test_without_a_model_the_line_of_the_loss_is_found():
    net = nn.Linear(3, 1)
    with pytest.raises(bp.NotFinite) as caught, bp.guard():
        for scale in (1.0, 2.0, 0.0):
            out = net(healthy()) * scale
            squares = out.square().sum()
            loss = torch.sqrt(squares)
            loss.backward()
    first = caught.value.report.findings[0]
    assert (first.kind, first.name) == ("born_backward", "loss")
    golden("guard", first)
    assert first.source.text.strip() == "loss = torch.sqrt(squares)"
    assert scale == 0.0


def all_ignored(weight):
    logits = weight * torch.ones(2, 3)
    return nn.functional.cross_entropy(logits, torch.tensor([-100, -100]))


def mean_of_none(weight):
    picked = weight[weight < 0]
    return picked.mean()


def overflow(weight):
    out = weight + 1e20
    return out.square().mean()


@pytest.mark.parametrize(
    ("objective", "born"),
    [(all_ignored, "every target is ignored"), (mean_of_none, "of too few numbers"), (overflow, "overflow: float32")],
)
def test_a_bad_loss_raises_though_its_gradients_are_finite(objective, born):
    weight, seen = torch.ones(3, requires_grad=True), []
    with pytest.raises(bp.NotFinite) as caught, bp.guard():
        for loss_of in (torch.sum, objective):
            loss = loss_of(weight)
            loss.backward()
            seen.append(weight.grad)
    assert len(seen) == 1
    assert weight.grad.isfinite().all()
    assert caught.value.headline.endswith(" in what backward() ran from")
    assert born in caught.value.report.findings[0].headline


def test_without_a_model_and_without_backward_the_end_of_the_block_raises():
    with pytest.raises(bp.NotFinite, match="'ratio': 0/0"), bp.guard():
        x = torch.zeros(2)
        ratio = x / x


def test_a_mask_that_softmax_heals_does_not_raise():
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.project = nn.Linear(4, 4)

        def forward(self, x):
            scores = self.project(x) @ x.transpose(0, 1)
            scores = scores.masked_fill(torch.ones(3, 3).triu(1).bool(), -torch.inf)
            return scores.softmax(-1) @ x

    net, x = Attention(), torch.randn(3, 4)
    with bp.guard(net), bp.guard():
        for _ in range(3):
            net(x).square().sum().backward()


# gradient scalers


def _overflowing(scale):
    net = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    return net, optimizer, torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=10**6)


@pytest.mark.parametrize("with_model", [True, False])
def test_an_overflow_that_a_scaler_handles_does_not_raise(with_model):
    net, optimizer, scaler = _overflowing(2.0**126)
    with bp.guard(net if with_model else None):
        for _ in range(4):
            loss = net(torch.full((2, 2), 100.0)).sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    assert scaler.get_scale() == 2.0**122  # four steps were skipped


ELSEWHERE = """
import torch

def backward(net, optimizer, scaler, x):
    scaler.scale(net(x).sum()).backward()

def unscaled_first(net, optimizer, scaler, x):
    loss = net(x).sum()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)

def several(net, optimizer, scaler, x):
    one, other = scaler.scale([net(x).sum(), net(x).mean()])
    (one + other).backward()

def accumulated(net, optimizer, scaler, x):
    (scaler.scale(net(x).sum()) / 4).backward()

def by_function(net, optimizer, scaler, x):
    torch.autograd.backward(scaler.scale(net(x).sum()))

def by_grad(net, optimizer, scaler, x):
    scaled = scaler.scale(net(x).sum())
    for parameter, gradient in zip(net.parameters(), torch.autograd.grad(scaled, [*net.parameters()])):
        parameter.grad = gradient
"""


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """Steps in another file than the guard's block."""
    file = tmp_path_factory.mktemp("elsewhere") / "steps.py"
    file.write_text(ELSEWHERE)
    found: dict = {}
    exec(compile(ELSEWHERE, str(file), "exec"), found)
    return found


@pytest.mark.parametrize("with_model", [True, False])
@pytest.mark.parametrize("way", ["backward", "unscaled_first", "several", "accumulated", "by_function", "by_grad"])
def test_a_loss_may_be_scaled_in_a_function_of_another_file(elsewhere, way, with_model):
    net, optimizer, scaler = _overflowing(2.0**126)
    x = torch.full((2, 2), 100.0)
    with bp.guard(net if with_model else None):
        for _ in range(3):
            optimizer.zero_grad()
            elsewhere[way](net, optimizer, scaler, x)
            scaler.step(optimizer)
            scaler.update()
    assert scaler.get_scale() == 2.0**123


def test_what_came_before_the_scaling_raises_where_the_gradients_are_taken_by_hand(elsewhere):
    net, optimizer, scaler = _overflowing(2.0**16)
    with pytest.raises(bp.NotFinite, match="'ratio': 0/0"), bp.guard():
        x = torch.zeros(2, 2)
        ratio = x / x
        elsewhere["by_grad"](net, optimizer, scaler, ratio)


def test_an_infinite_loss_without_a_name_is_not_said_to_have_come_in(elsewhere):
    net, optimizer, scaler = _overflowing(2.0**126)
    with bp.probe() as rec:
        elsewhere["accumulated"](net, optimizer, scaler, torch.full((2, 2), 1e4))
    golden("guard", bp.explain(rec).findings[0])


def test_scaled_losses_may_be_summed():
    net, _, scaler = _overflowing(2.0**126)
    with bp.guard(net):
        out = net(torch.full((2, 2), 100.0))
        (scaler.scale(out.sum()) + scaler.scale(out.mean())).backward()
    assert net.weight.grad.isinf().any()


def test_at_a_scale_of_one_the_scaler_is_not_the_cause():
    net, _, scaler = _overflowing(1.0)
    with pytest.raises(bp.NotFinite, match="in the gradient of"), bp.guard(net):
        scaler.scale(torch.sqrt(net(torch.ones(1, 2)) * 0).sum()).backward()


def test_a_scaler_that_is_not_enabled_handles_nothing():
    net = nn.Linear(2, 1)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    with pytest.raises(bp.NotFinite), bp.guard(net):
        scaler.scale(torch.sqrt(net(torch.ones(1, 2)) * 0).sum()).backward()


def test_nan_of_a_forward_call_raises_under_a_scaler_too():
    net, _, scaler = _overflowing(2.0**16)
    with pytest.raises(bp.NotFinite), bp.guard(net):
        scaler.scale(net(torch.full((1, 2), torch.inf)).sum()).backward()


# allow


def test_allowed_outputs_are_not_looked_at():
    class Policy(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(3, 3)

        def forward(self, x):
            h = self.head(x)
            return {"logits": h.masked_fill(torch.tensor([False, True, False]), -torch.inf), "value": h.sum()}

    net = Policy()
    with bp.guard(net, allow=":return.logits"):
        out = net(healthy())
        (-out["logits"].log_softmax(-1)[:, 0].mean() + out["value"]).backward()
        with pytest.raises(bp.NotFinite, match="Inf comes in with"):
            net(torch.full((1, 3), torch.inf))
    with pytest.raises(bp.NotFinite), bp.guard(net):
        net(healthy())


def test_a_parameter_that_holds_nan_leads_to_what_wrote_it():
    layer, x = nn.Linear(3, 1), torch.ones(2, 3)
    with pytest.raises(bp.NotFinite) as caught, bp.guard(layer):
        layer(x).sum().backward()
        with torch.no_grad():
            layer.weight[0, 1] = torch.nan
        layer(x)
    first = caught.value.report.findings[0]
    assert first.kind == "came_in" and first.name == "weight"
    assert first.remedy.startswith("what wrote to 'weight' before this call, such as optimizer.step()")
    layer = nn.Linear(3, 1)
    with pytest.raises(bp.NotFinite) as caught, bp.guard(layer):
        layer(x * torch.nan)
    assert "optimizer" not in str(caught.value)


def test_allowed_parameters_and_places_do_not_raise():
    net, x = Ratio(), torch.tensor([[7.0, 1.0, 1.0]])
    with bp.guard(net, allow=["inner.weight", "inner.bias"]):
        net(x).sum().backward()
    net.zero_grad()
    with bp.guard(net, allow=[":root", ":gap", ":abs()"]):
        net(x).sum().backward()
    with pytest.raises(bp.NotFinite), bp.guard(net, allow="elsewhere"):
        net(x).sum().backward()


def test_allow_is_a_pattern_or_a_list_of_patterns():
    with pytest.raises(bp.BadOption, match="allow is a text or a list of texts, not an int"):
        bp.guard(allow=3)


# programs


def test_a_gan_with_two_models_and_a_guard_on_each():
    generator, judge = nn.Linear(2, 3), nn.Sequential(nn.Linear(3, 1))
    optimizers = [torch.optim.Adam(net.parameters(), 0.01) for net in (generator, judge)]

    def step(z, real, spoil):
        fake = generator(z)
        for loss, optimizer in (
            (lambda: judge(fake.detach()).mean() - judge(real).mean(), optimizers[1]),
            (lambda: -judge(fake).mean() * spoil, optimizers[0]),
        ):
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()

    with bp.guard(generator), bp.guard(judge):
        for _ in range(5):
            step(torch.randn(4, 2), torch.randn(4, 3), 1.0)
        with pytest.raises(bp.NotFinite) as caught:
            step(torch.randn(4, 2), torch.randn(4, 3), torch.inf)
    assert caught.value.report.findings[0].kind == "came_in_backward"


def test_accumulated_gradients_are_looked_at_after_each_pass():
    net, seen = nn.Linear(3, 1), []
    with pytest.raises(bp.NotFinite), bp.guard(net):
        for at in range(6):
            out = net(healthy())
            (torch.sqrt(out * 0 if at == 4 else out.square()).sum() / 2).backward()
            seen.append(at)
    assert seen == [0, 1, 2, 3]


def test_a_module_that_is_called_by_itself_is_guarded_too():
    model = nn.ModuleDict({"encoder": Ratio(), "head": nn.Linear(3, 1)})
    with bp.guard(model), pytest.raises(bp.NotFinite) as caught:
        model["head"](model["encoder"](torch.zeros(1, 3)))
    golden("guard", caught.value)
    assert caught.value.report.findings[0].name == "return"
    with bp.guard(model, allow="encoder"):
        model["encoder"](torch.zeros(1, 3))


def test_dropout_and_running_statistics_are_as_in_the_call_itself():
    class Noisy(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.drop = nn.BatchNorm1d(3), nn.Dropout(0.5)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x):
            self.calls += 1
            h = self.drop(self.norm(x))
            return torch.log((h != 0) * (self.calls - 3).abs() + h.abs() * 0)

    net = Noisy()
    for with_guard in (False, True):
        torch.manual_seed(1)
        net.calls.zero_()
        with bp.guard(net) if with_guard else torch.no_grad():
            for _ in range(3 if with_guard else 1):
                with pytest.raises(bp.NotFinite) if with_guard else torch.no_grad():
                    net(torch.randn(8, 3))
    # at each call the report is of the very mask that dropout drew, and the counter that the call began with
    assert net.calls == 3


def test_the_program_may_go_on_after_it_has_caught_the_error():
    net, skipped = nn.Linear(3, 1), 0
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with bp.guard(net):
        for at in range(6):
            optimizer.zero_grad()
            try:
                torch.sqrt(net(healthy()).square() * (at % 2)).sum().backward()
            except bp.NotFinite:
                skipped += 1
                continue
            optimizer.step()
    assert skipped == 3
    assert all(parameter.isfinite().all() for parameter in net.parameters())


def test_other_errors_come_out_as_they_are_and_the_guard_goes_on():
    class Fails(nn.Module):
        def forward(self, x):
            if x.sum() < 0:
                raise ValueError("negative")
            return x / 0

    net = Fails()
    with bp.guard(net):
        with pytest.raises(ValueError, match="negative"):
            net(-torch.ones(2))
        with pytest.raises(bp.NotFinite):
            net(torch.ones(2))


def test_a_guard_hears_its_own_thread_alone():
    found = []

    def work(bad):
        net = nn.Linear(2, 1)
        try:
            with bp.guard(net):
                for _ in range(20):
                    torch.sqrt(net(torch.ones(1, 2)).square() * bad).sum().backward()
            found.append((bad, None))
        except bp.NotFinite as error:
            found.append((bad, error.report.findings[0].kind))

    threads = [threading.Thread(target=work, args=(bad,)) for bad in (1, 0, 1, 0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found, key=str) == [(0, "came_in_backward")] * 2 + [(1, None)] * 2


def test_a_gradient_penalty_does_not_disturb_it():
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    with bp.guard(net):
        for bad in (1, 1, 0):
            x = torch.randn(4, 3, requires_grad=True)
            out = net(x)
            (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
            loss = out.mean() + ((slope * bad).norm(dim=1) - 1).square().mean()
            if bad:
                loss.backward()
    with pytest.raises(bp.NotFinite), bp.guard(net):
        torch.log(net(x) * 0).sum().backward()


# nothing is changed, and nothing is left behind


def _trained(guarded):
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 1))
    optimizer, losses = torch.optim.Adam(net.parameters(), 0.01), []

    def steps():
        for _ in range(50):
            x = torch.randn(16, 4)
            loss = (net(x)[:, 0] - x.sum(1)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())

    with guarded(net):
        steps()
    return losses, [parameter.detach().clone() for parameter in net.parameters()], torch.get_rng_state()


@pytest.mark.parametrize("guarded", [lambda net: bp.guard(net), lambda net: bp.guard()], ids=["model", "block"])
def test_fifty_steps_are_bitwise_the_same(guarded):
    bare, probed = _trained(lambda net: torch.enable_grad()), _trained(guarded)
    assert bare[0] == probed[0]
    assert all(torch.equal(one, other) for one, other in zip(bare[1], probed[1], strict=True))
    assert torch.equal(bare[2], probed[2])


def _alive():
    """Counted in a thread of its own, which no guard looks at."""
    counts = []

    def count():
        gc.collect()
        counts.append(sum(issubclass(type(one), torch.Tensor) for one in gc.get_objects()))

    thread = threading.Thread(target=count)
    thread.start()
    thread.join()
    return counts[0]


@pytest.mark.parametrize("with_model", [True, False])
def test_nothing_grows_over_the_steps_nor_in_an_evaluation_that_keeps_histories(with_model):
    net, counts = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), []

    def step():
        out = net(torch.randn(2, 4))
        out.sum().backward()
        net.zero_grad()

    def evaluate():
        total = 0
        for _ in range(200):
            out = net(torch.randn(2, 4))
            loss = out.sum()
            total += loss.item()

    with bp.guard(net if with_model else None):
        for at in range(80):
            step()
            if at % 20 == 19 and at > 20:  # what tests before have left goes in the first of them
                counts.append(_alive())
        evaluate()
        counts.append(_alive())
    assert max(counts[:3]) - min(counts[:3]) <= 2
    assert counts[3] - counts[2] < 200


def test_no_hook_is_left_behind():
    from torch.nn.modules import module

    net = nn.Linear(3, 1)
    x = healthy().requires_grad_()
    with bp.guard(net):
        out = net(x)
    assert not module._global_forward_hooks
    assert not module._global_forward_hooks_with_kwargs
    assert not module._global_forward_pre_hooks
    assert type(torch.amp.GradScaler.scale).__name__ == "function"
    torch.sqrt(out * 0).sum().backward()  # no longer guarded
    assert net.weight.grad.isnan().any()


def test_arguments_that_were_written_to_since_are_not_called_the_cause():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self, x):
            return torch.sqrt(self.weight * (x != 7))

    net, x = Masked(), torch.tensor([[7.0, 1.0, 1.0]])
    with pytest.raises(bp.NotFinite) as caught, bp.guard(net):
        out = net(x)
        x.zero_()
        out.sum().backward()
    (first,) = caught.value.report.findings
    assert first.kind == "unknown"
    golden("guard", first)


def test_refusals():
    with pytest.raises(bp.BadOption, match="takes a model, or nothing"), bp.guard(lambda x: x):
        pass
    with pytest.raises(bp.BadOption, match="not open"):
        bp.guard(nn.Linear(1, 1)).__exit__(None, None, None)


def test_lazy_modules_and_inference_mode_run_as_they_do_without_it():
    net = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d())
    with bp.guard(net):
        net(healthy()).sum().backward()
        with torch.inference_mode():
            x = healthy()
            assert net(x).is_inference()
            with pytest.raises(bp.NotFinite):
                net(x * torch.inf)


def test_a_model_of_layers_alone_has_no_lines_and_is_explained_all_the_same():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    with bp.guard(model), pytest.raises(bp.NotFinite) as raised:
        model(torch.tensor([[float("nan"), 1.0, 1.0, 1.0]]))
    assert "NothingMatched" not in str(raised.value.report)
    with torch.no_grad():
        model[2].weight.fill_(3e38)
    with bp.guard(model), pytest.raises(bp.NotFinite) as raised:
        model(torch.full((1, 4), 1e30))
    assert "NothingMatched" not in str(raised.value.report)
    assert raised.value.report.findings


class Shifted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(2)

    def forward(self, x):
        h = self.norm(x)
        return torch.sqrt(h + 10)


def test_a_call_begins_with_the_running_statistics_that_it_had():
    # batch normalisation writes to them without a new version
    torch.manual_seed(0)
    model = Shifted()
    with pytest.raises(bp.NotFinite) as raised, bp.guard(model):
        for _ in range(80):
            model(torch.randn(64, 2) * 0.1 + 100)
        model.eval()
        model(torch.full((4, 2), 97.0))
    (birth,) = raised.value.report.of_kind("born")
    assert birth.source.text == "return torch.sqrt(h + 10)"
