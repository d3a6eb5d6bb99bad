"""entmax: softmax that gives exact zeros. Its users learn attention with it, its losses, and its alpha."""

from pathlib import Path

import torch
from entmax import Entmax15Loss, EntmaxBisect, entmax15, entmax_bisect, sparsemax, sparsemax_loss
from torch import nn

FRAMEWORK, LIBRARIES = "PyTorch", ("entmax",)


# https://github.com/deep-spin/entmax: attention whose weights are exactly zero
def attention(query, keys, values):
    scores = keys @ query
    weights = entmax15(scores, dim=0)
    context = weights @ values
    return context.square().sum()


def given():
    query = torch.tensor([1.0, -0.5], requires_grad=True)
    keys = torch.tensor([[1.0, 0.0], [0.5, 0.2], [-2.0, 1.0]], requires_grad=True)
    return query, keys, torch.tensor([[1.0], [2.0], [3.0]], requires_grad=True)


def test_attention(ask):
    rec = ask.function(attention, given)
    query, keys, values = (each.detach() for each in given())
    weights = entmax15(keys @ query, dim=0)
    root = weights.sqrt()
    context = weights @ values
    d_context = 2 * context
    d_weights = values @ d_context
    d_scores = root * (d_weights - (root @ d_weights) / root.sum())  # Correia et al. 2019, with alpha 1.5
    right = {"context": d_context, "weights": d_weights, "scores": d_scores, "values": weights[:, None] * d_context}
    ask.gradients(rec, right | {"query": keys.T @ d_scores, "keys": d_scores[:, None] * query})
    ask.values(rec, {"weights": weights})
    ask.names(rec, "query", "keys", "values", "scores", "weights", "context", "return")
    ask.notes(rec)
    ask.clean(rec)
    ask.works("attention with `entmax15`: scores, weights and keys, also where a weight is exactly 0")


# https://github.com/deep-spin/entmax: the loss that goes with sparsemax, whose gradient is p - y
def sparse_loss(around):
    layer = nn.Linear(3, 4)
    x, y = torch.randn(5, 3), torch.tensor([0, 1, 2, 3, 0])
    with around(layer) as seen:
        logits = layer(x)
        loss = sparsemax_loss(logits, y).mean()
        loss.backward()
    return seen, loss, layer.weight.grad, layer.bias.grad


def sparse_loss_of_a_block(around):
    layer = nn.Linear(3, 4)
    x, y = torch.randn(5, 3), torch.tensor([0, 1, 2, 3, 0])
    with around() as seen:
        logits = layer(x)
        loss = sparsemax_loss(logits, y).mean()
        loss.backward()
    return seen, loss, layer.weight.grad, layer.bias.grad


def test_sparsemax_loss(ask):
    torch.manual_seed(0)
    layer = nn.Linear(3, 4)
    x, y = torch.randn(5, 3), torch.tensor([0, 1, 2, 3, 0])
    d_logits = (sparsemax(layer(x), dim=1) - torch.nn.functional.one_hot(y, 4)) / 5
    rec = ask.block(sparse_loss)
    ask.gradients(rec, {"return": d_logits, "weight": d_logits.T @ x, "bias": d_logits.sum(0)})
    rec = ask.block(sparse_loss_of_a_block)
    ask.gradients(rec, {"logits": d_logits, "loss": 1.0})
    ask.names(rec, "logits", "loss", "x")
    ask.statuses(rec, {"x": "frozen", "y": "not_float"})
    ask.clean(rec)
    ask.works("`sparsemax_loss` and `Entmax15Loss` in a block around a training step")


# https://github.com/deep-spin/entmax: an alpha for each head is learned
class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(3, 8)
        self.pre_alpha = nn.Parameter(torch.zeros(2, 1))

    def forward(self, x):
        scores = self.project(x).view(-1, 2, 4)
        alpha = 1 + torch.sigmoid(self.pre_alpha)
        weights = entmax_bisect(scores, alpha, dim=-1)
        return weights


def learned(around):
    model = Heads()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    target = torch.softmax(torch.randn(6, 2, 4), -1)
    with around(model, optimizer=optimizer) as seen:
        for _ in range(20):
            optimizer.zero_grad()
            loss = (model(torch.ones(6, 3)) - target).square().sum()
            loss.backward()
            optimizer.step()
    return seen, list(model.parameters())


def test_learned_alpha(ask):
    torch.manual_seed(0)
    model, x = Heads(), torch.randn(6, 3)
    rec = ask.function(lambda x: (model(x) ** 2).sum(), lambda: (x,))
    ask.names(rec, "x")
    last = ask.watched(learned)
    ask.rows(last, "pre_alpha", "project", "project.weight", "return")
    ask.works("`entmax_bisect` with an alpha that is learned; `bp.watch` over its training")


def test_gradient_of_alpha(ask):
    scores = torch.tensor([[1.0, 0.3, -0.2, 0.8]], dtype=torch.double)
    alpha = torch.tensor([[1.6]], dtype=torch.double, requires_grad=True)
    pull = torch.tensor([[1.0, 2.0, 0.0, -1.0]], dtype=torch.double)

    def program(scores, alpha):
        weights = EntmaxBisect(alpha, dim=-1, n_iter=100)(scores)
        pulled = (weights * pull).sum()
        return pulled

    step = 1e-5
    numeric = (program(scores, alpha.detach() + step) - program(scores, alpha.detach() - step)) / (2 * step)
    rec = ask.function(program, lambda: (scores.clone().requires_grad_(), alpha))
    ask.gradients(rec, {"alpha": numeric.reshape(1, 1), "weights": pull}, tolerance=1e-4)


# planted
def attention_cut(query, keys, values):
    scores = keys @ query
    weights = entmax15(scores, dim=0)
    kept = torch.tensor(weights.tolist())  # <- cut
    return (kept @ values).square().sum()


def entropy_of_zeros(scores):
    weights = sparsemax(scores, dim=0)
    entropy = -(weights * weights.log()).sum()  # <- nan
    return entropy


def test_planted(ask):
    rec = ask.function(attention_cut, given)
    ask.cut(rec, attention_cut)
    ask.statuses(rec, {"query": "not_connected", "kept": "detached", "weights": "not_connected"})
    rec = ask.function(entropy_of_zeros, lambda: (torch.tensor([3.0, 1.0, 0.5], requires_grad=True),), nonfinite=True)
    ask.nan(rec, entropy_of_zeros)


# https://github.com/deep-spin/entmax: Entmax15Loss, ignored targets
def ignored(logits):
    loss = Entmax15Loss(ignore_index=0, reduction="sum")(logits, torch.tensor([1, 0]))
    return loss


def test_ignored_targets(ask):
    rec = ask.function(ignored, lambda: (torch.tensor([[0.2, 1.0, -1.0], [5.0, 1.0, 0.0]], requires_grad=True),))
    logits = torch.tensor([0.2, 1.0, -1.0])
    row = entmax15(logits, dim=0) - torch.tensor([0.0, 1.0, 0.0])
    ask.gradients(rec, {"logits": torch.stack([row, torch.zeros(3)]), "loss": 1.0})


def test_script(ask):
    ask.script(Path(__file__).parent / "scripts" / "entmax_classifier.py")
    ask.works("a training script under `backprobe watch` and `backprobe explain`")
