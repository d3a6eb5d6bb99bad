# from: https://ireneli.eu/2019/07/16/deep-learning-18-gans-with-pytorch/
# ask: watch
# exit: 0
# says: watched
# never: step \d+:
# The generator's backward leaves gradients in the critic, which are cleared before the critic's own.
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 2))
critic = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
of_generator = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
of_critic = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.999))
ones, zeros = torch.ones(64, 1), torch.zeros(64, 1)
for step in range(60):
    real = torch.randn(64, 2) * 0.5 + 1
    fake = generator(torch.randn(64, 4))
    of_critic.zero_grad()
    F.binary_cross_entropy_with_logits(critic(real), ones).backward()
    F.binary_cross_entropy_with_logits(critic(fake.detach()), zeros).backward()
    of_critic.step()
    of_generator.zero_grad()
    F.binary_cross_entropy_with_logits(critic(fake), ones).backward()
    of_generator.step()
