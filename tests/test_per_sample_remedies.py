"""What comes next after per-sample gradients: a call that helps, for what was found."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import backprobe as bp


class Contrast(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 5)

    def forward(self, x, z):
        u = F.normalize(self.a(x), dim=1)
        logits = u @ z.T / 0.1  # here
        return F.cross_entropy(logits, torch.arange(len(x)))


class Centred(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 3)

    def forward(self, x):
        x = x - x.mean(0)  # here
        return self.a(x).square().mean()


class Ranked(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 1)

    def forward(self, x):
        scores = self.a(x).squeeze(1)
        shares = scores.softmax(0)  # here
        return (shares * x[:, 0]).sum()


def given(model):
    torch.manual_seed(0)
    return (torch.randn(6, 4), torch.randn(6, 5)) if isinstance(model, Contrast) else (torch.randn(6, 4),)


@pytest.mark.parametrize("kind", [Contrast, Centred, Ranked])
def test_of_a_line_that_mixes_samples_another_way_to_write_it(kind):
    with pytest.raises(bp.Unsupported) as caught:
        bp.per_sample(kind(), "**")(*given(kind()))
    assert "eval()" not in caught.value.next
    assert "bp.per_sample(model, ..., batch=['x'])" in caught.value.next


def test_of_a_layer_that_mixes_samples_another_layer():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(72, 1))
    with pytest.raises(bp.Unsupported) as caught:
        bp.per_sample(model, "**", of=lambda y: y.square().mean())(torch.randn(6, 1, 8, 8))
    assert caught.value.next.startswith("model.eval(), or LayerNorm in its place")


def test_where_nan_of_a_sample_begins():
    def loss(w, x, y):
        scale = x.norm(dim=1, keepdim=True)
        return ((x / scale) @ w - y).square().mean()

    torch.manual_seed(0)
    w, x, y = torch.randn(4), torch.randn(6, 4), torch.randn(6)
    x[2] = 0
    printed = str(bp.per_sample(loss, "w")(w, x, y))
    assert printed.endswith(
        "next: bp.explain(bp.probe(loss, nonfinite=True)(..., x[2:3], y[2:3])), for the line where it begins"
    )
    assert bp.explain(bp.probe(loss, nonfinite=True)(w, x[2:3], y[2:3])).findings
    assert "next:" not in str(bp.per_sample(loss, "w")(w, x[3:], y[3:]))


def test_arguments_of_different_lengths():
    def loss(w, x, y):
        return (x @ w - y).square().mean()

    with pytest.raises(bp.BadOption) as caught:
        bp.per_sample(loss, "w")(torch.randn(4), torch.randn(6, 4), torch.randn(3))
    assert caught.value.next.startswith("as many samples in each; or, where one holds no samples, the names of those")
