"""Healthy programs that look ill at first sight, each beside one like it that is ill."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import backprobe as bp
from asked import well
from goldens import golden


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def kinds(report):
    return [finding.kind for finding in report.findings]


def square(y):
    return y.square().mean()


# products with what begins at zero


class Adapted(nn.Module):
    """LoRA: the second factor begins at zero."""

    def __init__(self, first=0.5, second=0.0):
        super().__init__()
        self.base, self.head = nn.Linear(8, 8), nn.Linear(8, 1)
        self.base.requires_grad_(False)
        self.A, self.B = nn.Linear(8, 2, bias=False), nn.Linear(2, 8, bias=False)
        nn.init.constant_(self.A.weight, first)
        nn.init.constant_(self.B.weight, second)

    def forward(self, x):
        return self.head(self.base(x) + self.B(self.A(x)))


class ZeroConvolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.zero = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 3, 1)
        nn.init.zeros_(self.zero.weight)
        nn.init.zeros_(self.zero.bias)

    def forward(self, x):
        return x + self.zero(F.silu(self.encoder(x)))


class ReZero(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.gain = nn.Linear(8, 8), nn.Parameter(torch.zeros(()))

    def forward(self, x):
        return x + self.gain * self.layer(x).tanh()


class Gated(nn.Module):
    """adaLN-Zero: what gates is computed by a layer that begins at zero."""

    def __init__(self):
        super().__init__()
        self.layer, self.gate = nn.Linear(8, 8), nn.Linear(8, 8)
        nn.init.zeros_(self.gate.weight)
        nn.init.zeros_(self.gate.bias)

    def forward(self, x):
        h = self.layer(x)
        gate = self.gate(x)
        return x + gate * h


@pytest.mark.parametrize("model", [Adapted, ZeroConvolution, ReZero, Gated], ids=lambda model: model.__name__)
def test_what_begins_at_zero_is_trained_away_from_there(model):
    x = torch.randn(2, 3, 4, 4) if model is ZeroConvolution else torch.randn(16, 8)
    for select in (None, ["**", "**:*"]):
        report = well(bp.health(bp.probe(model(), select, of=square)(x)))
        (note,) = report.notes
        golden("health", note)


class Residual(nn.Module):
    """ResNet's branch, whose last normalisation begins at zero."""

    def __init__(self, *, is_dead=False):
        super().__init__()
        self.first, self.second = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(4), nn.BatchNorm2d(4)
        nn.init.constant_(self.norm1.bias, -50.0 if is_dead else 0.0)
        nn.init.constant_(self.norm2.weight, 1.0 if is_dead else 0.0)

    def forward(self, x):
        h = self.norm1(self.first(x))
        out = self.norm2(self.second(F.relu(h)))
        return F.relu(out + x)


class Words(nn.Module):
    """word2vec: the second table begins at zero."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Embedding(10, 4), nn.Embedding(10, 4)
        nn.init.zeros_(self.second.weight)

    def forward(self, x):
        u, v = self.first(x[0]), self.second(x[1])
        return F.logsigmoid((u * v).sum(1))


class Pairs(Words):
    def forward(self, x):
        u, v = self.first(x[0]), self.second(x[1])
        return torch.sigmoid(torch.bmm(u.unsqueeze(1), v.unsqueeze(2)).squeeze())


class Gain(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.gain = nn.Linear(8, 8), nn.Parameter(torch.zeros(8))

    def forward(self, x):
        h = self.layer(x).tanh()
        return x + self.gain * h


class Head(nn.Module):
    """A head with a bias: what comes out is not zero."""

    def __init__(self, bias=0.0):
        super().__init__()
        self.layer, self.head = nn.Linear(8, 8), nn.Linear(8, 3)
        nn.init.constant_(self.layer.bias, bias)
        if not bias:
            nn.init.zeros_(self.head.weight)

    def forward(self, x):
        h = self.layer(x)
        return self.head(torch.relu(h))


PRODUCTS = {
    Residual: lambda: torch.randn(2, 4, 5, 5),
    Words: lambda: torch.randint(10, (2, 6)),
    Pairs: lambda: torch.randint(10, (2, 6)),
    Gain: lambda: torch.randn(16, 8),
    Head: lambda: torch.randn(16, 8),
    Gated: lambda: torch.randn(16, 8),
}


def step_in_a_block(model, x):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with bp.probe() as rec:
        loss = square(model(x))
        loss.backward()
        optimizer.step()
    return bp.health(rec)


@pytest.mark.parametrize("model", PRODUCTS, ids=lambda model: model.__name__)
def test_a_plain_block_does_not_show_what_begins_at_zero(model):
    report = well(step_in_a_block(model(), PRODUCTS[model]()))
    unseen, note = report.notes
    golden("health", unseen)
    golden("health", note)


@pytest.mark.parametrize("model", PRODUCTS, ids=lambda model: model.__name__)
def test_a_model_block_shows_what_begins_at_zero_after_the_step_too(model):
    model, x = model(), PRODUCTS[model]()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with bp.probe(model) as rec:
        loss = square(model(x))
        loss.backward()
        optimizer.step()
    well(bp.health(rec))


@pytest.mark.parametrize("model", [lambda: Head(bias=-50.0), lambda: Residual(is_dead=True)], ids=["head", "residual"])
def test_a_dead_layer_of_a_plain_block_is_not_excused_by_parameters_that_are_not_recorded(model):
    x = torch.randn(16, 8) if isinstance(model(), Head) else torch.randn(2, 4, 5, 5)
    (zero,) = step_in_a_block(model(), x).of_kind("zero_gradient")
    assert zero.name.endswith(":h")


@pytest.mark.parametrize("flat", [lambda h, w: torch.round(h) * w, lambda h, w: h * 0.0 + w.sum() * 0.1])
def test_what_is_flat_in_a_plain_block_is_not_excused_by_parameters_that_are_not_recorded(flat):
    w = torch.ones(4, requires_grad=True)
    with bp.probe() as rec:
        h = w * torch.linspace(1, 4, 4)
        y = flat(h, w)
        loss = y.sum()
        loss.backward()
    assert "zero_gradient" in kinds(bp.health(rec))


def test_two_factors_that_are_zero_stay_so():
    report = bp.health(bp.probe(Adapted(first=0.0), of=square)(torch.randn(16, 8)))
    assert "zero_gradient" in kinds(report)


def test_a_bias_that_is_zero_explains_no_gradient_of_what_it_is_added_to():
    def f(x, w, b):
        h = x @ w - 100
        return (torch.relu(h) + b).sum()

    report = bp.health(bp.probe(f)(torch.randn(4, 3), torch.randn(3, 2), torch.zeros(2)))
    assert [finding.name for finding in report.of_kind("zero_gradient")] == ["h"]


# what cancels


def test_the_last_bias_of_a_critic_has_no_gradient():
    critic = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    real, fake = torch.randn(16, 4), torch.randn(16, 4) + 1

    def step():
        mixed = (0.3 * real + 0.7 * fake).requires_grad_()
        judged = critic(mixed)
        (slope,) = torch.autograd.grad(judged, mixed, torch.ones_like(judged), create_graph=True)
        penalty = (slope.norm(2, 1) - 1).square().mean()
        loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
        loss.backward()

    with bp.probe(critic) as rec:
        step()
    report = well(bp.health(rec))
    golden("health", report)
    with bp.probe() as rec:
        mixed = (0.3 * real + 0.7 * fake).requires_grad_()
        judged = critic(mixed)
        (slope,) = torch.autograd.grad(judged, mixed, torch.ones_like(judged), create_graph=True)
        loss = (slope.norm(2, 1) - 1).square().mean()
        loss.backward()
    golden("health", " ".join(well(bp.health(rec)).notes))


@pytest.mark.parametrize("activation", [nn.LeakyReLU, nn.ReLU, nn.Hardtanh])
def test_a_penalty_need_not_change_with_the_values_that_its_gradient_was_taken_at(activation):
    critic = nn.Sequential(nn.Linear(8, 16), activation(), nn.Linear(16, 1))
    real, mixed = torch.randn(4, 8), torch.randn(4, 8, requires_grad=True)
    with bp.probe(critic) as rec:
        (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
        (critic(real).mean() + 10 * (slope.norm(2, 1) - 1).square().mean()).backward()
    assert not rec["0#0"].grad.any()
    golden("health", " ".join(well(bp.health(rec)).notes))


def test_a_shift_of_both_sides_of_a_difference_has_no_gradient():
    def f(x, y, shift):
        a = x + shift
        b = y + shift
        return (a - b).square().sum()

    well(bp.health(bp.probe(f)(torch.randn(5), torch.randn(5), torch.tensor(0.5))))


def test_a_dead_product_is_not_taken_for_what_cancels():
    def f(x, w):
        a = torch.relu(x - 100) * w
        b = torch.relu(x - 200) * w
        return (a + 1).square().sum() + (b + 1).square().sum()

    assert "zero_gradient" in kinds(bp.health(bp.probe(f)(torch.randn(5), torch.ones(5))))


# branches


@pytest.mark.parametrize("safe_for", [torch.log, torch.sqrt, torch.reciprocal], ids=["log", "sqrt", "reciprocal"])
def test_a_double_where_that_selects_nothing_works(safe_for):
    def f(x):
        safe = torch.where(x > 0, x, 1.0)
        y = torch.where(x > 0, safe_for(safe), 0.0)
        return y.sum()

    for x in (torch.tensor([1.0, -1.0]), torch.tensor([-1.0, -2.0])):
        for options in ({}, {"partials": True}):
            well(bp.health(bp.probe(f, **options)(x)))


def test_a_relu_by_where_may_still_be_dead():
    def f(x):
        y = torch.where(x > 0, x, 0.0)
        return y.sum()

    assert "dead" in kinds(bp.health(bp.probe(f)(torch.linspace(-9, -1, 64).reshape(16, 4))))


# loops


def test_samples_of_a_loop_are_no_layers():
    net, total = nn.Linear(8, 3), 0
    with bp.probe() as rec:
        for at in range(6):
            h = net(torch.randn(1, 8)).tanh()
            total = total + h.square().sum() * 10.0 ** (-2 * at)
        total.backward()
    well(bp.health(rec))


def test_experts_side_by_side_are_no_layers():
    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(6))

        def forward(self, x):
            return sum(10.0 ** (-2 * at) * expert(x) for at, expert in enumerate(self.experts))

    well(bp.health(bp.probe(Experts(), of=square)(torch.randn(9, 4))))


def test_losses_of_a_list_are_no_layers():
    def f(w):
        terms = []
        for at in range(5):
            term = (w * at + 1).square().sum()
            terms.append(term * 10.0 ** (-3 * at))
        return sum(terms)

    well(bp.health(bp.probe(f)(torch.ones(3))))


def test_a_recurrence_in_the_same_loop_has_a_depth():
    def f(w, x):
        h, total = x, 0.0
        for at in range(8):
            h = torch.tanh(h * w)
            total = total + h.sum() * (at == 7)
        return total

    report = bp.health(bp.probe(f)(torch.tensor(0.05), torch.ones(3)))
    assert kinds(report) == ["vanishing"]
    assert "from 'h#1' to 'h#8'" in report.findings[0].facts[1]


@pytest.mark.parametrize("steps", [4, 7, 20])
def test_an_attack_by_gradients_is_no_depth(steps):
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    x, labels = torch.rand(16, 8), torch.randint(0, 3, (16,))
    for block in (lambda: bp.probe(net), lambda: bp.probe()):
        with block() as rec:
            adversarial = x.clone()
            for _ in range(steps):
                adversarial = adversarial.detach().requires_grad_()
                loss = F.cross_entropy(net(adversarial), labels)
                (slope,) = torch.autograd.grad(loss, adversarial)
                adversarial = (adversarial + 0.05 * slope.sign()).clamp(0, 1)
            final = F.cross_entropy(net(adversarial), labels)
            final.backward()
        well(bp.health(rec))


# what has no gradient to lose


@pytest.mark.parametrize("activation", [torch.sigmoid, torch.tanh, torch.relu], ids=["sigmoid", "tanh", "relu"])
def test_an_activation_beside_the_loss_is_no_concern(activation):
    def f(x, w):
        logits = x * w
        shown = activation(logits)
        return logits.square().mean() + 0 * float(shown.sum())

    with bp.probe() as rec:
        x, w = -torch.linspace(20, 90, 64).reshape(16, 4), torch.full((4,), 3.0, requires_grad=True)
        logits = x * w
        shown = activation(logits)
        loss = logits.square().mean()
        loss.backward()
    assert kinds(bp.health(rec)) == []


# large


@pytest.mark.parametrize("form", ["function", "block", "model"])
def test_a_gradient_of_a_trillion_is_said(form):
    if form == "function":
        rec = bp.probe(lambda x: (x * 1e12).sum())(torch.ones(3))
    elif form == "block":
        x = torch.ones(3, requires_grad=True) * 1
        with bp.probe() as rec:
            h = x * 2
            (h * 1e12).sum().backward()
    else:
        model = nn.Linear(3, 3)
        model.requires_grad_(False)
        with bp.probe(model) as rec:
            (model(torch.ones(2, 3, requires_grad=True)) * 1e12).mean().backward()
    report = bp.health(rec)
    assert kinds(report) == ["large_gradients"]
    assert "rms" in report.findings[0].headline
