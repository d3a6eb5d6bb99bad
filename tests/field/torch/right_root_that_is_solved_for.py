# from: https://github.com/prolearner/hypertorch/issues/2
# never: got no gradient|exactly 0|useless|changes next to nothing|changes no|changes none|is dropped|cuts|cancel|unused|not used
# The root is found without a graph, and one step of Newton behind it has the implicit gradient.
import torch
from torch import nn


class Root(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix, self.drive = nn.Linear(6, 6), nn.Linear(3, 6)
        with torch.no_grad():
            self.mix.weight.mul_(0.3)

    def step(self, z, x):
        return torch.tanh(self.mix(z) + self.drive(x))

    def forward(self, x):
        with torch.no_grad():
            z = torch.zeros(len(x), 6)
            for _ in range(30):
                z = self.step(z, x)
        return self.step(z, x)


torch.manual_seed(0)
model = nn.Sequential(Root(), nn.Linear(6, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(4):
    x = torch.randn(16, 3)
    loss = (model(x) - x.sum(1, keepdim=True).sin()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
