# from: https://github.com/microsoft/nni/pull/3503
# exit: 1
# says: scale
# says: item
# never: 2 of \d parameters got no gradient
# The step size is to be learned, and the operation takes it as a number of Python.
import torch
from torch import nn


class Quantized(nn.Module):
    def __init__(self, wide, out):
        super().__init__()
        self.linear = nn.Linear(wide, out)
        self.scale = nn.Parameter(torch.tensor(0.1))

    def forward(self, x):
        weight = torch.fake_quantize_per_tensor_affine(self.linear.weight, self.scale.item(), 0, -8, 7)  # <- here
        return nn.functional.linear(x, weight, self.linear.bias)


torch.manual_seed(0)
model = nn.Sequential(Quantized(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(3):
    x = torch.randn(16, 4)
    loss = (model(x) - x[:, :1]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
