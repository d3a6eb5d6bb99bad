"""The methods on ``docs/attribution.md``, against the formulas by hand: the model in two parts, and autograd alone.

With Captum 0.9.0 Grad-CAM and the gradient of a neuron were equal to these bit for bit, and integrated gradients, by
either of its methods here, within 3e-8 where the largest is 0.07.
"""

import numpy
import pytest
import torch
from torch import nn

import backprobe as bp


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.hidden, self.out = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8 * 16, 10), nn.Linear(10, 4)

    def forward(self, images):
        return self.after_conv(self.conv(images))

    def after_conv(self, features):
        return self.out(self.hidden(nn.functional.max_pool2d(features.relu(), 2).flatten(1)).relu())


torch.manual_seed(0)
MODEL, IMAGES = Net().eval(), torch.randn(5, 3, 8, 8)


def score(logits):
    return logits[:, 3].sum()


def gradient_after_conv(features):
    features = features.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(score(MODEL.after_conv(features)), features)
    return gradient


def test_grad_cam():
    conv = bp.probe(MODEL, "conv", of=score)(IMAGES)["conv"]
    cam = (conv.grad.mean((2, 3), keepdim=True) * conv.value).sum(1, keepdim=True)
    features = MODEL.conv(IMAGES).detach()
    weights = gradient_after_conv(features).mean((2, 3))
    by_hand = torch.stack([(weights[at, :, None, None] * features[at]).sum(0) for at in range(5)])
    assert torch.equal(cam, by_hand[:, None])


def test_the_gradient_of_a_neuron():
    given = IMAGES.clone().requires_grad_()
    rec = bp.probe(MODEL, ":images", of="hidden[:, 4]", cotangent=torch.ones(5))(given)
    inner = MODEL.hidden(nn.functional.max_pool2d(MODEL.conv(given).relu(), 2).flatten(1))
    (by_hand,) = torch.autograd.grad(inner[:, 4].sum(), given)
    assert torch.equal(rec[":images"].grad, by_hand)
    one = bp.probe(MODEL, ":images", of="hidden[2, 4]")(given)[":images"].grad
    assert torch.equal(one[2], by_hand[2])
    assert not one[[0, 1, 3, 4]].any()


def midpoints(count):
    return [((at + 0.5) / count, 1 / count) for at in range(count)]


def gauss(count):
    places, weights = numpy.polynomial.legendre.leggauss(count)
    return [((place + 1) / 2, weight / 2) for place, weight in zip(places, weights, strict=True)]


@pytest.mark.parametrize("rule", [midpoints, gauss])
def test_integrated_gradients_of_a_layer(rule):
    zeros = torch.zeros_like(IMAGES)
    base = bp.probe(MODEL, "conv", of=score)(zeros)["conv"].value
    attributions = torch.zeros_like(base)
    for part, weight in rule(50):
        step = bp.probe(MODEL, "conv", of=score, replace={"conv": lambda h: base + part * (h - base)})(IMAGES)["conv"]
        attributions += (step.original - base) * step.grad * weight
    own, features = MODEL.conv(zeros).detach(), MODEL.conv(IMAGES).detach()
    by_hand = torch.zeros_like(base)
    for part, weight in rule(50):
        by_hand += (features - own) * gradient_after_conv(own + part * (features - own)) * weight
    assert torch.equal(attributions, by_hand)
    change = score(MODEL(IMAGES)) - score(MODEL(zeros))
    assert attributions.sum().item() == pytest.approx(change.item(), abs=5e-3)


@pytest.mark.parametrize("rule", [midpoints, gauss])
def test_integrated_gradients_of_a_layer_in_one_pass(rule):
    """As Captum's ``LayerIntegratedGradients``: the rule's places as rows of one batch, its weights in their sum."""
    base = bp.probe(MODEL, "conv", of=score)(torch.zeros_like(IMAGES[:1]))["conv"].value
    places, weights = (torch.tensor(column, dtype=torch.float32) for column in zip(*rule(50), strict=True))
    parts = places.repeat(len(IMAGES))[:, None, None, None]
    conv = bp.probe(MODEL, "conv", of=score, replace={"conv": lambda h: base + parts * (h - base)})(
        IMAGES.repeat_interleave(50, dim=0)
    )["conv"]
    flows = ((conv.original - base) * conv.grad).unflatten(0, (-1, 50))
    attributions = (flows * weights[:, None, None, None]).sum(dim=1)
    own, features = MODEL.conv(torch.zeros_like(IMAGES)).detach(), MODEL.conv(IMAGES).detach()
    by_hand = torch.zeros_like(attributions)
    for part, weight in rule(50):
        by_hand += (features - own) * gradient_after_conv(own + part * (features - own)) * weight
    torch.testing.assert_close(attributions, by_hand, rtol=1e-4, atol=1e-6)


def test_channels_are_ablated():
    swept = bp.sweep(MODEL, "conv", of=score, replace=torch.zeros_like, axis=1)(IMAGES)
    for channel in range(8):
        features = MODEL.conv(IMAGES).detach()
        features[:, channel] = 0
        assert swept.outputs[f"conv[:, {channel}]"] == score(MODEL.after_conv(features)).item()
