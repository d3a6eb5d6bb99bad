# from: https://github.com/zhutmost/lsq-net/issues/23
# never: got no gradient|exactly 0|useless|changes no|changes next to nothing|is dropped|cuts|cancel|not used|no optimizer
# Learned step sizes as they are usually written: the gradient of the scale is made smaller by a trick with detach.
import torch
from torch import nn


def grad_scale(x, scale):
    return (x - x * scale).detach() + x * scale


def round_pass(x):
    return (x.round() - x).detach() + x


class Quantized(nn.Linear):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.s = nn.Parameter(2 * self.weight.detach().abs().mean() / 7**0.5)

    def forward(self, x):
        s = grad_scale(self.s, 1.0 / (7 * self.weight.numel()) ** 0.5)
        return nn.functional.linear(x, round_pass((self.weight / s).clamp(-8, 7)) * s, self.bias)


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
