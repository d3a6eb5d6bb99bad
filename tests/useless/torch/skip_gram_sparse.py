# from: https://github.com/theeluwin/pytorch-sgns
# truth: healthy: only the rows of the words of a batch have a gradient; the context table begins at zero
# kind: healthy
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
words, d = 40, 8
center, context = nn.Embedding(words, d, sparse=True), nn.Embedding(words, d, sparse=True)
nn.init.uniform_(center.weight, -0.5 / d, 0.5 / d)
nn.init.zeros_(context.weight)
optimizer = torch.optim.SparseAdam([*center.parameters(), *context.parameters()], lr=0.05)
for step in range(5):
    c = torch.randint(0, 20, (16,))
    o, negative = c + 1, torch.randint(0, words, (16, 4))
    v = center(c)
    good = F.logsigmoid((v * context(o)).sum(1))
    bad = F.logsigmoid(-(context(negative) @ v[:, :, None]).squeeze(2)).sum(1)
    loss = -(good + bad).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
