# from: https://github.com/mindspore-ai/hyper-parallel/issues/752
# truth: the balance loss multiplies the load with probabilities summed over the experts, and those always sum to 1
# kind: cancels
# names: router balance
import torch
import torch.nn.functional as F
from torch import nn


class Experts(nn.Module):
    def __init__(self, d=8, n=4):
        super().__init__()
        self.router = nn.Linear(d, n)
        self.experts = nn.ModuleList(nn.Linear(d, d) for _ in range(n))

    def forward(self, x):
        scores = self.router(x).softmax(-1)
        chosen = scores.argmax(-1)
        y = torch.zeros_like(x)
        for k, expert in enumerate(self.experts):
            y = y + (chosen == k).float()[:, None] * expert(x)
        load = F.one_hot(chosen, scores.shape[-1]).float().mean(0)
        balance = (load[:, None] * scores.sum(-1).mean()).sum()  # <- here
        return y, balance


torch.manual_seed(0)
layer, head = Experts(), nn.Linear(8, 3)
optimizer = torch.optim.AdamW([*layer.parameters(), *head.parameters()], lr=0.01)
x, y = torch.randn(40, 8), torch.randint(0, 3, (40,))
for step in range(3):
    hidden, balance = layer(x)
    loss = F.cross_entropy(head(hidden), y) + 0.01 * balance
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), balance.item())
