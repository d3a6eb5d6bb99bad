"""Trainings of PyTorch that come to a NaN: what makes the model, and the steps, of which the last one fails."""

from __future__ import annotations

import random
from collections import namedtuple
from dataclasses import dataclass

import numpy
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

STEPS = 4


def root(h, x):
    """Its gradient is not finite where all of the batch is zero."""
    return torch.sqrt((h.abs() + 1e-6) * (x != 0).any())


def batch(step, *shape):
    return torch.zeros(*shape) if step == STEPS - 1 else torch.randn(*shape)


def tokens(step, *shape):
    return torch.zeros(*shape, dtype=torch.long) if step == STEPS - 1 else torch.randint(1, 9, shape)


class Training:
    """A training: ``model()`` makes what is guarded, and ``loss(model, step)`` is differentiated."""

    def __init__(self):
        self.net = self.model()

    def model(self):
        raise NotImplementedError

    def prepare(self):
        self.optimizer = torch.optim.SGD(self.net.parameters(), 0.01)

    def step(self, step):
        self.optimizer.zero_grad()
        self.loss(self.net, step).backward()
        self.optimizer.step()

    def loss(self, net, step):
        return net(batch(step, 6, 3)).square().mean()


CASES = {}


def case(kind):
    CASES[kind.__name__] = kind
    return kind


class Layers(nn.Module):
    def __init__(self, *layers, first=None, width=4):
        super().__init__()
        self.first = nn.Identity() if first is None else first
        self.layers, self.last = nn.Sequential(*layers), nn.Linear(width, 2)

    def forward(self, x, *rest):
        return self.last(root(self.layers(self.first(x)), x).flatten(1))


@case
class Dropout(Training):
    def model(self):
        return Layers(nn.Linear(3, 8), nn.GELU(), nn.Dropout(0.3), nn.Linear(8, 4))


@case
class BatchNorm(Training):
    def model(self):
        return Layers(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.AvgPool2d(2), width=36)

    def loss(self, net, step):
        return net(batch(step, 5, 3, 8, 8)).square().mean()


@case
class ChannelsLast(BatchNorm):
    def loss(self, net, step):
        return net(batch(step, 5, 3, 8, 8).to(memory_format=torch.channels_last)).square().mean()


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, batch, *, mask=None, scale=1.0, how="mean", parts=()):
        h = self.a(batch["x"][0]) * scale
        if mask is not None:
            h = h.masked_fill(mask, 0.0)
        return {"out": self.b(root(h, batch["x"][1])), "parts": (h, len(parts))}


@case
class NestedBatch(Training):
    model = staticmethod(Nested)

    def loss(self, net, step):
        held = {"x": [torch.randn(6, 3), batch(step, 6)], 3: None}
        mask = torch.rand(6, 4) > 0.7
        return net(held, mask=mask, scale=0.5, how="sum", parts=[1, (2.5, slice(1, 2))])["out"].square().mean()


@case
class Embedding(Training):
    def model(self):
        return Layers(nn.Flatten(), first=nn.Embedding(9, 4), width=20)

    def loss(self, net, step):
        return net(tokens(step, 6, 5)).square().mean()


@case
class SparseEmbedding(Embedding):
    def model(self):
        return Layers(nn.Flatten(), first=nn.Embedding(9, 4, sparse=True), width=20)


@case
class BFloat16(Training):
    def model(self):
        return Layers(nn.Linear(3, 8), nn.LayerNorm(8), width=8).bfloat16()

    def loss(self, net, step):
        return net(batch(step, 6, 3).bfloat16()).square().mean()


@case
class Autocast(Training):
    def model(self):
        return Layers(nn.Linear(3, 8), nn.LayerNorm(8), width=8)

    def loss(self, net, step):
        with torch.autocast("cpu", torch.bfloat16):
            return net(batch(step, 6, 3)).float().square().mean()


@case
class Adam(Dropout):
    def prepare(self):
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 0.01, amsgrad=True)


@case
class Accumulated(Dropout):
    def step(self, step):
        self.loss(self.net, step).backward()
        if step == 1:
            self.optimizer.step()
            self.optimizer.zero_grad()


@case
class Transformer(Training):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(9, 8)
            self.layer = nn.TransformerEncoderLayer(8, 2, 16, 0.2, batch_first=True)
            self.head = nn.Linear(8, 9)

        def forward(self, ids, padding=None):
            mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
            h = self.layer(self.embed(ids), src_mask=mask, src_key_padding_mask=padding, is_causal=True)
            return self.head(root(h, ids))

    def model(self):
        return self.Net()

    def loss(self, net, step):
        ids = tokens(step, 3, 6)
        return F.cross_entropy(net(ids, padding=torch.zeros(3, 6)).flatten(0, 1), ids.flatten())


@case
class Gan(Training):
    """The discriminator is called twice in each pass."""

    def model(self):
        return Layers(nn.Linear(3, 8), nn.LeakyReLU(), nn.Dropout(0.2), width=8)

    def prepare(self):
        super().prepare()
        self.generator = nn.Linear(2, 3)

    def loss(self, net, step):
        real, fake = torch.randn(6, 3), self.generator(torch.randn(6, 2)) * (step < STEPS - 1)
        return F.softplus(-net(real)).mean() + F.softplus(net(fake)).mean()


@case
class Lstm(Training):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.head = nn.LSTM(3, 4, 2, dropout=0.2), nn.Linear(4, 1)

        def forward(self, x, state=None):
            out, state = self.lstm(x, state)
            return self.head(root(out, x)), state

    def model(self):
        return self.Net()

    def loss(self, net, step):
        state = torch.zeros(2, 6, 4), torch.zeros(2, 6, 4)
        return net(batch(step, 5, 6, 3), state)[0].square().mean()


@case
class Tied(Training):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(9, 4), nn.Linear(4, 9, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids):
            return self.head(root(self.embed(ids), ids))

    def model(self):
        return self.Net()

    def loss(self, net, step):
        ids = tokens(step, 3, 6)
        return F.cross_entropy(net(ids).flatten(0, 1), ids.flatten())


@case
class Checkpointed(Training):
    class Net(Layers):
        def forward(self, x):
            h = checkpoint(self.layers, x, use_reentrant=False)
            return self.last(root(h, x))

    def model(self):
        return self.Net(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 4))


@case
class WritesItsInput(Training):
    class Net(Layers):
        def forward(self, x):
            x.mul_(0.5).add_(x.sign())
            return super().forward(x)

    def model(self):
        return self.Net(nn.Linear(3, 4))


@case
class Parts(Training):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.1)), Layers(nn.Linear(4, 4))

    def model(self):
        return self.Net()

    def loss(self, net, step):
        h = net.encoder(torch.randn(6, 3))
        return net.decoder(h * (step < STEPS - 1)).square().mean()


Pair = namedtuple("Pair", "left right")


@dataclass
class Batch:
    x: torch.Tensor
    weights: list
    size: int = 3


@case
class Objects(Training):
    class Net(Layers):
        def forward(self, batch, pair):
            return super().forward(batch.x) * batch.weights[0] + pair.left

    def model(self):
        return self.Net(nn.Linear(3, 4))

    def loss(self, net, step):
        return net(Batch(batch(step, 6, 3), [torch.rand(2)]), Pair(torch.ones(2), None)).square().mean()


@case
class Complex(Training):
    class Net(Layers):
        def forward(self, x):
            return super().forward(torch.view_as_real(x * torch.fft.fft(x)).flatten(1))

    def model(self):
        return self.Net(nn.Linear(6, 4))

    def loss(self, net, step):
        return net(torch.complex(batch(step, 6, 3), batch(step, 6, 3))).square().mean()


@case
class Double(Training):
    def model(self):
        return Layers(nn.Linear(3, 4), nn.Tanh()).double()

    def loss(self, net, step):
        return net(batch(step, 6, 3).double()).square().mean()


@case
class InForward(Training):
    class Net(Layers):
        def forward(self, x):
            return super().forward(x) / x.abs().sum()

    def model(self):
        return self.Net(nn.Linear(3, 4), nn.Dropout(0.4))


@case
class Evaluated(Training):
    class Net(Layers):
        def forward(self, x):
            return super().forward(x) / x.abs().sum()

    def model(self):
        return self.Net(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.4))

    def step(self, step):
        self.net.train(step < STEPS - 1)
        with torch.set_grad_enabled(step < STEPS - 1):
            self.net(batch(step, 6, 3))


@case
class FromTheLoss(Training):
    def model(self):
        return nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.2), nn.Linear(4, 1))

    def loss(self, net, step):
        return torch.log(net(torch.randn(6, 3)).square() * (step < STEPS - 1)).mean()


@case
class OtherDraws(Training):
    class Net(Layers):
        def forward(self, x):
            return super().forward(x * random.random() + numpy.random.rand())

    def model(self):
        return self.Net(nn.Linear(3, 4))

    def loss(self, net, step):
        return net(batch(step, 6, 3)).square().mean() if step < STEPS - 1 else net(torch.full((6, 3), torch.nan)).mean()


@case
class SpectralNorm(Training):
    def model(self):
        return Layers(nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4)), nn.GroupNorm(2, 4))


@case
class HiddenStates(Training):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 4), nn.Linear(4, 2)

        def forward(self, x):
            h = self.a(x)
            return self.b(root(h, x)), [x, h]

    def model(self):
        return self.Net()

    def loss(self, net, step):
        out, (_, h) = net(batch(step, 6, 3))
        return out.square().mean() + 0.1 * h.square().mean()


@case
class Expanded(Training):
    def model(self):
        return Layers(nn.Linear(3, 4))

    def loss(self, net, step):
        x = batch(step, 1, 3).expand(6, 3)[::2]
        return net(x.requires_grad_()).square().mean()


@case
class Frozen(Dropout):
    def prepare(self):
        self.net.layers[0].requires_grad_(False)
        super().prepare()


class Penalised(Dropout):
    """The loss reads the weights themselves, which no call does."""

    def loss(self, net, step):
        return super().loss(net, step) + 0.1 * net.last.weight.square().sum()
