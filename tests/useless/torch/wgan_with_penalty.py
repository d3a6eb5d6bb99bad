# from: https://github.com/eriklindernoren/PyTorch-GAN/blob/master/implementations/wgan_gp/wgan_gp.py
# truth: healthy: the critic's last bias cancels between real and fake as it always does; the penalty is second-order
# kind: healthy
import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(3, 16), nn.LeakyReLU(0.2), nn.Linear(16, 2))
critic = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
optimizer_g = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.9))
optimizer_d = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.9))


def penalty(real, fake):
    mix = torch.rand(len(real), 1)
    between = (mix * real + (1 - mix) * fake).requires_grad_(True)
    (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    return ((slope.norm(2, dim=1) - 1) ** 2).mean()


for i in range(4):
    angle = torch.rand(32, 1) * 6.28
    real = torch.cat([angle.cos(), angle.sin()], 1)
    fake = generator(torch.randn(32, 3)).detach()
    optimizer_d.zero_grad()
    d_loss = -critic(real).mean() + critic(fake).mean() + 10 * penalty(real, fake)
    d_loss.backward()
    optimizer_d.step()
    if i % 2 == 1:
        optimizer_g.zero_grad()
        g_loss = -critic(generator(torch.randn(32, 3))).mean()
        g_loss.backward()
        optimizer_g.step()
    print(i, d_loss.item())
