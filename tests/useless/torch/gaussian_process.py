# from: https://docs.gpytorch.ai/en/stable/examples/01_Exact_GPs/Simple_GP_Regression.html
# truth: healthy: the kernel compares each point with each, [N, 1] minus [1, N], on purpose
# kind: healthy
import math

import torch

torch.manual_seed(0)
x = torch.linspace(0, 1, 20, dtype=torch.float64)
y = torch.sin(x * 6.28) + 0.2 * torch.randn(20, dtype=torch.float64)
raw_length, raw_scale, raw_noise, mean = (torch.zeros((), dtype=torch.float64, requires_grad=True) for _ in range(4))
softplus = torch.nn.functional.softplus
optimizer = torch.optim.Adam([raw_length, raw_scale, raw_noise, mean], lr=0.1)
for i in range(6):
    optimizer.zero_grad()
    distance = (x[:, None] - x[None, :]) / softplus(raw_length)
    kernel = softplus(raw_scale) * torch.exp(-0.5 * distance**2)
    covariance = kernel + (softplus(raw_noise) + 1e-4) * torch.eye(20, dtype=torch.float64)
    chol = torch.linalg.cholesky(covariance)
    residual = (y - mean)[:, None]
    fit = (residual * torch.cholesky_solve(residual, chol)).sum()
    loss = 0.5 * (fit + 2 * chol.diagonal().log().sum() + 20 * math.log(2 * math.pi)) / 20
    loss.backward()
    optimizer.step()
    print(i, loss.item())
