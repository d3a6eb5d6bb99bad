# from: https://github.com/pytorch/pytorch/issues/71062
# exit: 3
# says: a second time
# says: cached|parametriz|0\.weight
# never: next: (\S+ ){0,3}retain_graph=True
# The cache of parametrized weights is kept over all steps: the second step uses the weight of the first.
import torch
from torch import nn
from torch.nn.utils import parametrize


class Turning(nn.Module):
    def forward(self, square):
        return torch.matrix_exp(square.triu(1) - square.triu(1).T)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
parametrize.register_parametrization(model[0], "weight", Turning())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with parametrize.cached():  # <- here
    for step in range(3):
        loss = model(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
