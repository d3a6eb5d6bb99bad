"""A language model on letters that follow from one another: recurrent, with clipped gradients, or a transformer."""

import torch
from torch import nn

from trainings.planted import faults, grid
from trainings.with_torch import Training, optimizer_of, seeded

HEALTHY = grid(kind=["lstm", "gru"], clip=[0.0, 1.0], batch=[2, 16]) | grid(
    kind=["transformer"], clip=[0.0, 1.0], batch=[4, 16], tied=[False, True]
)
KINDS = "learning_rate", "wrong_sign", "no_step", "zero_gradients", "accumulated", "not_finite"
FAULTY = faults(*KINDS, kind="lstm", rise=300.0) | {
    f"{name}, transformer": one for name, one in faults(*KINDS, kind="transformer", rise=100.0).items()
}


class Model(nn.Module):
    def __init__(self, kind, tied):
        super().__init__()
        self.kind, self.embed, self.head = kind, nn.Embedding(8, 16), nn.Linear(16, 8)
        if kind == "transformer":
            self.place = nn.Parameter(0.1 * torch.randn(12, 16))
            self.body = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, norm_first=True)
        else:
            self.body = {"lstm": nn.LSTM, "gru": nn.GRU}[kind](16, 16, batch_first=True)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, words):
        h = self.embed(words)
        if self.kind == "transformer":
            mask = nn.Transformer.generate_square_subsequent_mask(words.shape[1])
            return self.head(self.body(h + self.place[: words.shape[1]], src_mask=mask, is_causal=True))
        return self.head(self.body(h)[0])


def make(seed, kind, clip=1.0, batch=8, tied=False):
    generator = seeded(seed)
    model = Model(kind, tied)
    follows = torch.softmax(3 * torch.randn(8, 8, generator=generator), -1)

    def draw(step):
        words = [torch.randint(0, 8, (batch,), generator=generator)]
        for _ in range(12):
            words.append(torch.multinomial(follows[words[-1]], 1, generator=generator).squeeze(-1))
        text = torch.stack(words, 1)
        return text[:, :-1], text[:, 1:]

    def each(words, after):
        return nn.functional.cross_entropy(model(words).flatten(0, 1), after.flatten(), reduction="none")

    made = optimizer_of("adamw", model.parameters(), 5e-3)
    warmup = torch.optim.lr_scheduler.LinearLR(made, 0.1, 1.0, 20)
    return Training(model, [made], draw, each, steps=120, clip=clip, schedulers=[warmup])
