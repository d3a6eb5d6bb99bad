# from: https://github.com/google-research/fast-soft-sort/issues/13
# exit: 3
# says: argsort
# never: requires_grad_\(
# Correlation of ranks: the ranks are numbers of places.
import torch
from torch import nn


def spearman(guess, truth):
    ranks = guess.argsort().argsort().float()  # <- here
    true = truth.argsort().argsort().float()
    ranks, true = ranks - ranks.mean(), true - true.mean()
    return (ranks * true).sum() / (ranks.norm() * true.norm())


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(3):
    x = torch.randn(40, 5)
    loss = 1 - spearman(model(x).squeeze(-1), x.sum(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
