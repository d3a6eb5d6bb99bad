"""A model with two tasks and a penalty, and the gradients of each of the three by hand."""

import torch
from torch import nn


class Heads(nn.Module):
    """A small transformer that two tasks share, with a head for each."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.embed = nn.Embedding(11, 16)
        self.trunk = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.tag, self.score = nn.Linear(16, 5), nn.Linear(16, 1)

    def forward(self, ids, tags, scores):
        hidden = self.trunk(self.embed(ids))
        tagging = nn.functional.cross_entropy(self.tag(hidden).flatten(0, 1), tags.flatten())
        scoring = (self.score(hidden.mean(1)).squeeze(-1) - scores).square().mean()
        penalty = sum(p.square().sum() for p in self.trunk.parameters())
        return {"tagging": tagging, "scoring": scoring, "penalty": penalty}


def heads():
    torch.manual_seed(0)
    model = Heads()
    return model, (torch.randint(11, (3, 6)), torch.randint(5, (3, 6)), torch.randn(3))


KEYS = ["tagging", "scoring", "penalty"]


def one_at_a_time(model, batch):
    """The gradients of the parameters by hand: a forward pass and a backward pass for each loss."""
    found = {}
    for key in KEYS:
        grads = torch.autograd.grad(model(*batch)[key], list(model.parameters()), allow_unused=True)
        found[key] = dict(zip((name for name, _ in model.named_parameters()), grads, strict=True))
    return found
