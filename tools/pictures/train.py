"""A training that goes wrong, for docs/view.md and its lesson: the learning rate of a small transformer is raised.

python tools/pictures/train.py runs
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn

import backprobe as bp

STEPS, RAISED, NARROW = 400, range(240, 250), 18


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.MultiheadAttention(width, 2, batch_first=True)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        h = self.ln1(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.down(torch.relu(self.up(self.ln2(x))))


class Model(nn.Module):
    def __init__(self, blocks=5, width=16, words=24):
        super().__init__()
        self.embed, self.norm, self.head = nn.Embedding(words, width), nn.LayerNorm(width), nn.Linear(width, words)
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def train(folder, is_raised):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    data = torch.randint(0, 24, (64, NARROW))
    data[:, 1::2] = data[:, 0::2]
    pace = bp.Pace(histogram=5)
    with bp.watch(model, folder, optimizer=optimizer, what=("value", "grad", "param", "update"), pace=pace) as run:
        for step in range(STEPS):
            optimizer.param_groups[0]["lr"] = 0.15 if is_raised and step in RAISED else 2e-3
            batch = data[torch.randint(0, 64, (16,))]
            logits = model(batch[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
            if is_raised and step == 320:
                loss = loss + (logits[0, 0] * 0).log().sum() * 0  # 0 times minus infinity
            optimizer.zero_grad()
            loss.backward()
            run.log(loss=loss, lr=optimizer.param_groups[0]["lr"])
            for parameter in model.parameters():
                parameter.grad.nan_to_num_(0.0)  # which hides the NaN from the optimizer, and not from the watch
            optimizer.step()


if __name__ == "__main__":
    train(f"{sys.argv[1]}/raised", True)
    train(f"{sys.argv[1]}/steady", False)
