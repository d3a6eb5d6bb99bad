# from: https://github.com/pytorch/examples
# never: got no gradient
# never: made again
import torch
from torch import nn

torch.manual_seed(0)
generator, discriminator = nn.Linear(3, 2), nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
by_generator = torch.optim.Adam(generator.parameters(), lr=1e-3)
by_discriminator = torch.optim.Adam(discriminator.parameters(), lr=1e-3)
criterion = nn.BCEWithLogitsLoss()
for step in range(3):
    discriminator.zero_grad()
    criterion(discriminator(torch.randn(8, 2) + 1), torch.ones(8, 1)).backward()
    fake = generator(torch.randn(8, 3))
    criterion(discriminator(fake.detach()), torch.zeros(8, 1)).backward()
    by_discriminator.step()
    generator.zero_grad()
    criterion(discriminator(fake), torch.ones(8, 1)).backward()
    by_generator.step()
print(float(generator.weight.grad.abs().sum()))
