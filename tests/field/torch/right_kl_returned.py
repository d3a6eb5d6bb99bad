# from: own
# never: got no gradient
import torch
from torch import nn

torch.manual_seed(0)
encoder, decoder = nn.Linear(6, 4), nn.Linear(2, 6)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-2)


def losses(x, beta=0.1):
    mean, log_var = encoder(x).chunk(2, -1)
    z = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
    kl = 0.5 * (mean.square() + log_var.exp() - 1 - log_var).sum(-1).mean()
    reconstruction = (decoder(z) - x).square().sum(-1).mean()
    logged = {"kl": kl.item(), "reconstruction": reconstruction.detach()}
    return reconstruction + beta * kl, logged


for step in range(3):
    loss, logged = losses(torch.randn(16, 6))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, logged)
