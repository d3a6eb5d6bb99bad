# from: https://github.com/microsoft/nni/pull/3503
# exit: 1
# says: scale
# says: no optimizer
# never: got no gradient
# Learned step sizes: each layer makes its scale when it first sees data, and the optimizer was made before.
import torch
from torch import nn


class Quantized(nn.Linear):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.register_parameter("scale", None)

    def forward(self, x):
        if self.scale is None:
            self.scale = nn.Parameter(2 * self.weight.detach().abs().mean() / 7**0.5)
        steps = (self.weight / self.scale).clamp(-8, 7)
        steps = steps + (steps.round() - steps).detach()
        return nn.functional.linear(x, steps * self.scale, self.bias)


torch.manual_seed(0)
model = nn.Sequential(Quantized(6, 16), nn.ReLU(), Quantized(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(4):
    x, y = torch.randn(32, 6), torch.randint(0, 3, (32,))
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
