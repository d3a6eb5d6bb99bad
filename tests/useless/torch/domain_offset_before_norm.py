# from: own
# truth: the offset is one number added to all features just before a layer norm, which subtracts it again
# kind: cancels
# names: offset
import torch
from torch import nn


class TwoDomains(nn.Module):
    def __init__(self, features=10, hidden=24):
        super().__init__()
        self.inp = nn.Linear(features, hidden)
        self.offset = nn.Embedding(2, 1)
        self.norm = nn.LayerNorm(hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x, domain):
        h = self.norm(self.inp(x) + self.offset(domain))  # <- here
        return self.out(torch.relu(h)).squeeze(-1)


torch.manual_seed(0)
x, domain = torch.randn(80, 10), torch.randint(0, 2, (80,))
y = x[:, 0] + 3.0 * domain
model = TwoDomains()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(5):
    loss = (model(x, domain) - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
