# from: https://github.com/pankajmishra000/VT-ADL/issues/10
# ask: explain --nonfinite
# exit: 1
# says: exp
# never: comes in with|learning rate
"""A mixture of normal densities: the log of a variance is so low that its exponential is 0."""

import torch
from torch import nn

torch.manual_seed(0)


class Mixture(nn.Module):
    def __init__(self, parts=3):
        super().__init__()
        self.shares, self.means, self.log_vars = nn.Linear(4, parts), nn.Linear(4, parts * 2), nn.Linear(4, parts * 2)
        with torch.no_grad():
            self.log_vars.bias[0] = -120.0

    def forward(self, x):
        return torch.log_softmax(self.shares(x), 1), self.means(x).view(-1, 3, 2), self.log_vars(x).view(-1, 3, 2)


def mixture_loss(x, log_share, mean, log_var):
    squared = (x.unsqueeze(1) - mean) ** 2
    log_density = -0.5 * (log_var + squared / torch.exp(log_var)).sum(2)  # <- here
    return -torch.logsumexp(log_share + log_density, dim=1).mean()


model = Mixture()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(3):
    patch, x = torch.randn(8, 4), torch.randn(8, 2)
    loss = mixture_loss(x, *model(patch))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
