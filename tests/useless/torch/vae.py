# from: https://github.com/pytorch/examples/blob/main/vae/main.py
# truth: healthy: the two parts of the loss pull mu and logvar in opposite directions, they do not cancel
# kind: healthy
import torch
import torch.nn.functional as F
from torch import nn


class Vae(nn.Module):
    def __init__(self, n=20, hidden=16, z=3):
        super().__init__()
        self.enc, self.mu, self.logvar = nn.Linear(n, hidden), nn.Linear(hidden, z), nn.Linear(hidden, z)
        self.dec, self.out = nn.Linear(z, hidden), nn.Linear(hidden, n)

    def forward(self, x):
        h = F.relu(self.enc(x))
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return torch.sigmoid(self.out(F.relu(self.dec(z)))), mu, logvar


torch.manual_seed(1)
data = (torch.rand(50, 1) < torch.linspace(0, 1, 20)).float()
model = Vae()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(4):
    recon, mu, logvar = model(data)
    bce = F.binary_cross_entropy(recon, data, reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    loss = bce + kld
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item() / len(data))
