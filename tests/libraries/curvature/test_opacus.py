"""Opacus: training with differential privacy, through the gradient of each sample."""

import warnings
from pathlib import Path

import torch
from opacus import GradSampleModule, PrivacyEngine
from opacus.layers import DPMultiheadAttention
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FRAMEWORK, LIBRARIES = "PyTorch", ("opacus",)


def network():
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))


# https://opacus.ai/docs/introduction
def private(around, steps=20):
    warnings.simplefilter("ignore")
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    data = TensorDataset(torch.randn(40, 4), torch.randint(0, 2, (40,)))
    loader = DataLoader(data, batch_size=8)
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        noise_multiplier=1.1,
        max_grad_norm=1.0,
        poisson_sampling=False,
    )
    batches = [batch for _ in range(4) for batch in loader][:steps]
    with around(model, optimizer=optimizer) as seen:
        for x, y in batches:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
    return seen, loss, [p.grad for p in model.parameters()], list(model.parameters())


def test_private_training(ask):
    ask.block(private, 1)
    last = ask.watched(private)
    ask.rows(last, "_module.0.weight", "_module.2.bias", "_module.0")
    ask.works("`PrivacyEngine.make_private`: `bp.watch` over the training, the noise is the same")


def per_sample(around):
    model = GradSampleModule(network())
    x, y = torch.randn(5, 4), torch.tensor([0, 1, 0, 1, 1])
    with around(model) as seen:
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
    return seen, loss, [p.grad for p in model.parameters()], [p.grad_sample for p in model.parameters()]


NAMES = tuple(f"_module.{name}" for name in ("0.weight", "0.bias", "2.weight", "2.bias"))


def test_gradients_of_samples(ask):
    rec = ask.block(per_sample)
    _, grads, samples = ask.bare(per_sample)
    ask.gradients(rec, dict(zip(NAMES, grads)))
    ask.gradients(rec, {name: each.mean(0) for name, each in zip(NAMES, samples)})
    ask.names(rec, "_module", "_module.0", "_module.1")
    ask.clean(rec)
    ask.works("`GradSampleModule`: gradients, and `grad_sample` as without")


# the last layer by hand
def by_hand(around):
    model = GradSampleModule(network())
    x, y = torch.randn(5, 4), torch.tensor([0, 1, 0, 1, 1])
    with around() as seen:
        logits = model(x)
        loss = nn.functional.cross_entropy(logits, y)
        loss.backward()
    return seen, loss, logits, y


def test_logits_by_hand(ask):
    rec = ask.block(by_hand)
    _, logits, y = ask.bare(by_hand)
    ask.gradients(rec, {"logits": (logits.softmax(1) - nn.functional.one_hot(y, 2)) / 5, "loss": 1.0})
    ask.names(rec, "x", "y", "logits", "loss")
    ask.statuses(rec, {"x": "frozen", "y": "not_float"})
    ask.clean(rec)


# https://opacus.ai/tutorials/building_text_classifier: attention with layers of Opacus
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.head = DPMultiheadAttention(4, 2), nn.Linear(4, 2)

    def forward(self, x):
        mixed, weights = self.attention(x, x, x)
        return self.head(mixed.mean(0))


def attention(around):
    model = GradSampleModule(Attention())
    with around(model) as seen:
        loss = model(torch.randn(3, 5, 4)).square().mean()
        loss.backward()
    return seen, loss, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def test_attention(ask):
    rec = ask.block(attention)
    _, grads = ask.bare(attention)
    ask.gradients(rec, grads)
    ask.clean(rec)
    ask.works("`DPMultiheadAttention`")


# planted
class Cut(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 6), nn.Linear(6, 2)

    def forward(self, x):
        hidden = self.body(x)
        with torch.no_grad():
            hidden = hidden.relu()  # <- cut
        return self.head(hidden)


def cut(around):
    model = GradSampleModule(Cut())
    with around(model, ["**", "**:*"]) as seen:
        loss = model(torch.randn(5, 4)).square().mean()
        loss.backward()
    return seen, loss


class Nan(Cut):
    def forward(self, x):
        hidden = self.body(x) * 0
        normal = hidden / hidden.norm(dim=1, keepdim=True)  # <- nan
        return self.head(normal)


def nan(around):
    model = GradSampleModule(Nan())
    with around(model, ["**", "**:*"]) as seen:
        loss = model(torch.randn(5, 4)).square().mean()
        loss.backward()
    return seen, loss


def test_planted(ask):
    rec = ask.block(cut)
    ask.cut(rec, Cut.forward)
    ask.statuses(rec, {"_module.body.weight": "not_connected"})
    rec = ask.block(nan, nonfinite=True)
    ask.nan(rec, Nan.forward)


def test_script(ask):
    ask.script(Path(__file__).parent / "scripts" / "opacus_mnist.py")
