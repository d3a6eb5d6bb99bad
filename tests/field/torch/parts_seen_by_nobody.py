# from: https://github.com/DeepLabCut/DeepLabCut/issues/2751
# exit: 1
# says: exactly 0
# says: head\.weight|head
# says: seen|weights?
# never: ^all \d+ parameters got a gradient$
# The weights of the joints are 0 in each batch: three gradients are 0, and only the bias that a penalty has is moved.
import torch
from torch import nn


class Pose(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(6, 8)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.stem(x).tanh())


torch.manual_seed(0)
model = Pose()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(4):
    x, joints = torch.randn(10, 6), torch.randn(10, 4)
    visibility = torch.zeros(10, 4, dtype=torch.long)
    seen = (visibility > 1).float()
    located = ((model(x) - joints).square() * seen).mean()  # <- here
    loss = located + 1e-3 * model.head.bias.square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
