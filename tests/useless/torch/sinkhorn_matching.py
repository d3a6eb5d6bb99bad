# from: https://github.com/google/gumbel_sinkhorn
# truth: healthy: rows and columns are normalised in turn, many times, as Sinkhorn's algorithm does
# kind: healthy
import torch
from torch import nn


def sinkhorn(log_alpha, rounds=8):
    for _ in range(rounds):
        log_alpha = log_alpha - torch.logsumexp(log_alpha, dim=2, keepdim=True)
        log_alpha = log_alpha - torch.logsumexp(log_alpha, dim=1, keepdim=True)
    return log_alpha.exp()


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 24), nn.ReLU(), nn.Linear(24, 5))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(5):
    shuffled = torch.rand(16, 5)
    in_order, _ = shuffled.sort(dim=1)
    noise = -torch.log(-torch.log(torch.rand(16, 5, 5) + 1e-20) + 1e-20)
    soft = sinkhorn((net(shuffled[..., None]) + noise) / 0.7)
    guess = (soft.transpose(1, 2) @ shuffled[..., None])[..., 0]
    loss = nn.functional.mse_loss(guess, in_order)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, round(loss.item(), 4))
