# from: own
# never: no optimizer
# The critic gets gradients in the generator's step as well, and is stepped by its own optimizer.
import torch
from torch import nn

torch.manual_seed(0)
generator, critic = nn.Linear(2, 4), nn.Linear(4, 1)
of_generator, of_critic = torch.optim.Adam(generator.parameters()), torch.optim.Adam(critic.parameters())
bce = nn.functional.binary_cross_entropy_with_logits
for _ in range(4):
    of_critic.zero_grad()
    real, fake = critic(torch.randn(8, 4)), critic(generator(torch.randn(8, 2)).detach())
    (bce(real, torch.ones(8, 1)) + bce(fake, torch.zeros(8, 1))).backward()
    of_critic.step()
    of_generator.zero_grad()
    bce(critic(generator(torch.randn(8, 2))), torch.ones(8, 1)).backward()
    of_generator.step()
