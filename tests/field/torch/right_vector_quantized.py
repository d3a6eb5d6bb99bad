# from: own
# never: got no gradient
import torch
from torch import nn

torch.manual_seed(0)
encoder, codes, decoder = nn.Linear(6, 2), nn.Embedding(4, 2), nn.Linear(2, 6)
optimizer = torch.optim.Adam([*encoder.parameters(), *codes.parameters(), *decoder.parameters()], lr=1e-2)
for step in range(3):
    x = torch.randn(16, 6)
    z = encoder(x)
    nearest = torch.cdist(z, codes.weight).argmin(-1)
    q = codes(nearest)
    straight = z + (q - z).detach()
    loss = (decoder(straight) - x).square().mean()
    loss = loss + (q - z.detach()).square().mean() + 0.25 * (z - q.detach()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(float(encoder.weight.grad.abs().sum()), float(codes.weight.grad.abs().sum()))
