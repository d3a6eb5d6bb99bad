# from: https://docs.gpytorch.ai/en/stable/kernels.html
# ask: explain --nonfinite
# birth: forward
# name: covariance
# operands: 0.0
# value: loss
# needs: gpytorch
"""The length of a kernel has underflown to zero."""

import gpytorch
import torch

torch.manual_seed(0)
kernel = gpytorch.kernels.RBFKernel()
kernel.raw_lengthscale.data.fill_(-200.0)
x, target = torch.linspace(0, 1, 4).unsqueeze(-1), torch.eye(4)
optimizer = torch.optim.Adam(kernel.parameters(), lr=0.1)
for _ in range(2):
    length = kernel.lengthscale
    covariance = kernel(x).to_dense()  # <- here
    loss = (covariance - target).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
