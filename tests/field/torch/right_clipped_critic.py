# from: own
# never: outside autograd
# never: got no gradient
import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1, bias=False))
generator = nn.Linear(3, 2)
critic_optimizer = torch.optim.RMSprop(critic.parameters(), lr=1e-2)
generator_optimizer = torch.optim.RMSprop(generator.parameters(), lr=1e-2)
for step in range(3):
    real, fake = torch.randn(16, 2) + 2, generator(torch.randn(16, 3))
    loss = critic(fake.detach()).mean() - critic(real).mean()
    critic_optimizer.zero_grad()
    loss.backward()
    critic_optimizer.step()
    for p in critic.parameters():
        p.data.clamp_(-0.1, 0.1)
    generator_loss = -critic(fake).mean()
    generator_optimizer.zero_grad()
    generator_loss.backward()
    generator_optimizer.step()
print(float(generator.weight.grad.abs().sum()))
