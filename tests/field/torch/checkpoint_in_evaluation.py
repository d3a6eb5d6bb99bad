# from: own
# ask: explain
# exit: 1
# says: runs under torch\.no_grad
# says: switched off at checkpoint_in_evaluation\.py:28
# never: no input of
# A checkpoint that the program calls under no_grad: that is the cause, whatever the checkpoint is given.
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.block = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return checkpoint(self.block, self.stem(x), use_reentrant=True)


torch.manual_seed(0)
net, head = Net(), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
for _ in range(2):
    x = torch.randn(3, 4)
    optimizer.zero_grad()
    with torch.no_grad():
        h = net(x)
    head(h).square().mean().backward()
    optimizer.step()
