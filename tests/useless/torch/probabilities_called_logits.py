# from: https://github.com/bkitano/llama-from-scratch/issues/5
# truth: what the model calls logits already went through a softmax, and cross_entropy takes another one of it
# kind: distribution twice
import torch
import torch.nn.functional as F
from torch import nn


class NextToken(nn.Module):
    def __init__(self, vocab=14, d=16):
        super().__init__()
        self.embedding = nn.Embedding(vocab, d)
        self.linear = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, vocab))

    def forward(self, ids, targets=None):
        scores = self.linear(self.embedding(ids))
        logits = F.softmax(scores, dim=-1)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))  # <- here


torch.manual_seed(0)
text = torch.arange(200) % 14
model = NextToken()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(4):
    start = torch.randint(0, 180, (8, 1)) + torch.arange(9)
    window = text[start]
    _, loss = model(window[:, :-1], window[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
