# from: own
# ask: explain --steps 5 PROGRAM
# never: no optimizer
# The critic is frozen while the generator is warmed up; its optimizer is made later.
import torch
from torch import nn

torch.manual_seed(0)
generator, critic = nn.Linear(2, 4), nn.Linear(4, 1).requires_grad_(False)
optimizer = torch.optim.Adam(generator.parameters())
for step in range(5):
    optimizer.zero_grad()
    critic(generator(torch.randn(8, 2))).square().mean().backward()
    optimizer.step()
    if step == 2:
        optimizer.add_param_group({"params": [*critic.requires_grad_(True).parameters()]})
