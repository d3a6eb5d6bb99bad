# from: https://github.com/zalandoresearch/pytorch-vq-vae
# truth: healthy: codes that no sample chose have no gradient now, and the encoder gets its own straight through
# kind: healthy
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
encoder, decoder = nn.Linear(8, 4), nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))
codebook = nn.Embedding(12, 4)
nn.init.uniform_(codebook.weight, -0.5, 0.5)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters(), *codebook.parameters()], lr=5e-3)
groups = torch.randn(4, 8)
for step in range(4):
    x = groups[torch.randint(0, 4, (32,))] + 0.1 * torch.randn(32, 8)
    z = encoder(x)
    distances = (z**2).sum(1, keepdim=True) + (codebook.weight**2).sum(1) - 2 * z @ codebook.weight.t()
    q = codebook(distances.argmin(1))
    vq = F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach())
    recon = decoder(z + (q - z).detach())
    loss = F.mse_loss(recon, x) + vq
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
