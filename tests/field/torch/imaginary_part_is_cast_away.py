# from: https://github.com/wavefrontshaping/complexPyTorch/issues/10
# exit: 1
# says: filter\.im|\bim\b
# says: exactly 0
# A filter of complex numbers meets a signal only after it was cast to real ones: half of it is never trained.
import torch
from torch import nn


class Filter(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.re = nn.Parameter(torch.randn(size))
        self.im = nn.Parameter(torch.randn(size))

    def forward(self, signal):
        kernel = torch.complex(self.re, self.im).to(signal.dtype)  # <- here
        return signal * kernel


torch.manual_seed(0)
filter, read = Filter(9), nn.Linear(9, 1)
optimizer = torch.optim.Adam([*filter.parameters(), *read.parameters()], lr=1e-2)
for step in range(4):
    signal = torch.randn(32, 9)
    loss = (read(filter(signal)) - signal[:, :1] * 2).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
