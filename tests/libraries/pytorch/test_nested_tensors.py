"""Nested tensors: sequences of different lengths as one tensor."""

import torch
from torch import nn

FRAMEWORK, LIBRARIES = "PyTorch", ("torch",)


def parts():
    torch.manual_seed(3)
    return torch.randn(2, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)


# https://docs.pytorch.org/docs/stable/nested.html: construction that keeps gradients
def joined(first, second):
    nested = torch.nested.as_nested_tensor([first, second], layout=torch.jagged)
    doubled = nested * 2
    flat = doubled.values()
    total = flat.square().sum()
    return total


def test_construction(ask):
    rec = ask.function(joined, parts)
    first, second = (each.detach() for each in parts())
    flat = 2 * torch.cat([first, second])
    ask.gradients(rec, {"first": 8 * first, "second": 8 * second, "flat": 2 * flat, "total": 1.0})
    ask.names(rec, "first", "nested", "doubled", "flat", "total")
    ask.statuses(rec, {"nested": "ok", "doubled": "ok"})
    ask.clean(rec)
    ask.works("jagged tensors that keep gradients of their parts")


# https://docs.pytorch.org/tutorials/unstable/nestedtensor.html: layers over sequences of different lengths
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(4), nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x):
        hidden = nn.functional.gelu(self.up(self.norm(x)))
        return self.down(hidden)


def training(around, steps=20, kind=Encoder, select=None):
    model = kind()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x = torch.nested.nested_tensor([torch.randn(2, 4), torch.randn(3, 4)], layout=torch.jagged)
    with around(model, select, optimizer=optimizer) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            loss = model(x).values().square().mean()
            loss.backward()
            optimizer.step()
    return seen, loss, {name: p.grad for name, p in model.named_parameters()}


def test_layers(ask):
    rec = ask.block(training, 1)
    _, grads = ask.bare(training, 1)
    ask.gradients(rec, grads)
    ask.names(rec, "norm", "up", "down", "return")
    ask.clean(rec)
    last = ask.watched(training)
    ask.rows(last, *grads)
    ask.works("layers over a jagged batch: every parameter, and `bp.watch`")


# rows by hand: a bias added to all rows gets the sum over them
def shifted(first, second, bias):
    nested = torch.nested.as_nested_tensor([first, second], layout=torch.jagged)
    moved = nested + bias
    rows = moved.unbind()
    return rows[0].sum() + 3 * rows[1].sum()


def test_rows_by_hand(ask):
    rec = ask.function(shifted, lambda: (*parts(), torch.ones(4, requires_grad=True)))
    ask.gradients(rec, {"first": torch.ones(2, 4), "second": 3 * torch.ones(3, 4), "bias": torch.full((4,), 11.0)})
    ask.gradients(rec, {"rows.0": torch.ones(2, 4), "rows.1": 3 * torch.ones(3, 4)})
    ask.clean(rec)


# planted: torch.nested.nested_tensor copies, as torch.tensor does
def copied(first, second, scale):
    nested = torch.nested.nested_tensor([first.detach(), second.detach()], layout=torch.jagged)  # <- cut
    doubled = nested * 2
    return doubled.values().sum() * scale


def normalised(first, second):
    nested = torch.nested.as_nested_tensor([first, second], layout=torch.jagged)
    gap = nested - nested
    root = gap.sqrt()  # <- nan
    return root.values().sum()


def test_planted(ask):
    rec = ask.function(copied, lambda: (*parts(), torch.ones((), requires_grad=True)))
    ask.statuses(rec, {"nested": "detached", "second": "not_connected"})
    ask.cut(rec, copied)
    rec = ask.function(normalised, parts, nonfinite=True)
    ask.nan(rec, normalised)
