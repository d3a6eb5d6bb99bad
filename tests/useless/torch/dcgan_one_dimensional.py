# from: https://github.com/pytorch/examples/blob/main/dcgan/main.py
# truth: healthy: two optimizers; the fakes are detached for the discriminator alone
# kind: healthy
import torch
from torch import nn

torch.manual_seed(999)
net_g = nn.Sequential(nn.Linear(4, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU(True), nn.Linear(16, 8), nn.Tanh())
net_d = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1), nn.Sigmoid())
criterion = nn.BCELoss()
optimizer_d = torch.optim.Adam(net_d.parameters(), lr=2e-3, betas=(0.5, 0.999))
optimizer_g = torch.optim.Adam(net_g.parameters(), lr=2e-3, betas=(0.5, 0.999))
for i in range(4):
    real = torch.sin(torch.linspace(0, 3, 8) + torch.rand(20, 1))
    net_d.zero_grad()
    label = torch.ones(20)
    err_real = criterion(net_d(real).view(-1), label)
    err_real.backward()
    fake = net_g(torch.randn(20, 4))
    err_fake = criterion(net_d(fake.detach()).view(-1), label * 0)
    err_fake.backward()
    optimizer_d.step()
    net_g.zero_grad()
    err_g = criterion(net_d(fake).view(-1), label)
    err_g.backward()
    optimizer_g.step()
    print(i, (err_real + err_fake).item(), err_g.item())
