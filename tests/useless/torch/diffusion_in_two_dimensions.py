# from: https://github.com/tanelp/tiny-diffusion
# truth: healthy: time steps times frequencies is a wanted outer product; [N, 1] factors scale [N, 2] points
# kind: healthy
import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.register_buffer("rates", torch.exp(torch.linspace(0, -4, 8)))
        self.net = nn.Sequential(nn.Linear(18, width), nn.GELU(), nn.Linear(width, width), nn.GELU())
        self.out = nn.Linear(width, 2)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, x, t):
        angle = t[:, None].float() * self.rates[None]
        return self.out(self.net(torch.cat([x, angle.sin(), angle.cos()], 1)))


torch.manual_seed(0)
kept = torch.cumprod(1 - torch.linspace(1e-3, 0.05, 50), 0)
model = Denoiser()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
for step in range(6):
    angle = torch.rand(64) * 6.28
    clean, noise = torch.stack([angle.cos(), angle.sin()], 1), torch.randn(64, 2)
    t = torch.randint(0, 50, (64,))
    noisy = kept[t, None].sqrt() * clean + (1 - kept[t, None]).sqrt() * noise
    loss = nn.functional.mse_loss(model(noisy, t), noise)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    print(step, loss.item())
