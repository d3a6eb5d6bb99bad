"""``bp.per_sample`` beside Opacus, whose gradients of single samples are those of a sum."""

import pytest
import torch
from opacus import GradSampleModule
from torch import nn
from torch.nn import functional as F

import backprobe as bp


def dense():
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)), torch.randn(7, 6)


def convolutional():
    body = nn.Sequential(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3))
    return body, torch.randn(7, 2, 4, 4)


def embedded():
    return nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(12, 3)), torch.randint(9, (7, 3))


def normed():
    return nn.Sequential(nn.Linear(6, 4), nn.LayerNorm(4), nn.Linear(4, 3)), torch.randn(7, 6)


@pytest.mark.parametrize("make", [dense, convolutional, embedded, normed], ids=lambda make: make.__name__)
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.filterwarnings("ignore")
def test_rows_are_those_of_opacus_by_their_weights(make, reduction):
    torch.manual_seed(0)
    model, x = make()
    y = torch.arange(7) % 3
    samples = bp.per_sample(model, "**", of=lambda out: F.cross_entropy(out, y[: len(out)], reduction=reduction))
    with pytest.raises(bp.Unsupported):  # targets that are no argument stay as they are for each sample
        samples(x)

    class Training(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = model

        def forward(self, x, y):
            return F.cross_entropy(self.body(x), y, reduction=reduction)

    found = bp.per_sample(Training(), "**")(x, y)
    gradients = found.grads()  # before Opacus hooks itself on, and hears of each run
    wrapped = GradSampleModule(model, loss_reduction=reduction)
    F.cross_entropy(wrapped(x), y, reduction=reduction).backward()
    assert found.weights.tolist() == [1 / 7 if reduction == "mean" else 1.0] * 7
    for name, parameter in model.named_parameters():
        own = gradients[f"body.{name}"]
        torch.testing.assert_close(own / found.weights[0], parameter.grad_sample, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(own.sum(0), parameter.grad, rtol=1e-4, atol=1e-6)
