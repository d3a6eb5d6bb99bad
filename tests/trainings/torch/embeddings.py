"""Rows of tables that few batches use: words by their neighbours, and ratings as products of factors."""

import torch
from torch import nn

from trainings.planted import faults, grid
from trainings.with_torch import Training, seeded

HEALTHY = grid(kind=["words", "ratings"], sparse=[False, True], batch=[4, 32], small=[False, True])
FAULTY = faults("no_step", "learning_rate", "wrong_sign", "zero_gradients", kind="ratings", rate=0.05) | {
    f"{name}, words": one
    for name, one in faults("no_step", "wrong_sign", "accumulated", kind="words", rate=0.05).items()
}


class Model(nn.Module):
    def __init__(self, sparse, small):
        super().__init__()
        self.left, self.right = nn.Embedding(40, 6, sparse=sparse), nn.Embedding(40, 6, sparse=sparse)
        for table in (self.left, self.right):
            nn.init.uniform_(table.weight, -0.08, 0.08) if small else nn.init.normal_(table.weight, std=0.5)

    def forward(self, i, j):
        return (self.left(i) * self.right(j)).sum(-1)


def make(seed, kind, sparse=False, batch=16, small=False, rate=0.01):
    generator = seeded(seed)
    model, truth = Model(sparse, small), torch.randn(2, 40, 3, generator=generator)

    def draw(step):
        i, j = torch.randint(0, 40, (2, batch), generator=generator)
        fits = (truth[0, i] * truth[1, j]).sum(-1)
        return i, j, (fits > 0).float() if kind == "words" else fits + 0.2 * torch.randn(batch, generator=generator)

    def each(i, j, y):
        scores = model(i, j)
        if kind == "ratings":
            return (scores - y).square()
        return nn.functional.binary_cross_entropy_with_logits(scores, y, reduction="none")

    made = torch.optim.SparseAdam(model.parameters(), lr=rate) if sparse else torch.optim.Adam(model.parameters(), rate)
    return Training(model, [made], draw, each, steps=150)
