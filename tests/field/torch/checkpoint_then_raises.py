# from: https://github.com/huggingface/accelerate/issues/2017
# ask: explain
# exit: 3
# says: 5 of 6 parameters got no gradient
# says: the program raised RuntimeError: a hook raised
# never: no_grad
# never: stem
# Backward ends before it comes to the checkpoint, which has computed nothing again by then.
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.block, self.head = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 1)

    def forward(self, x):
        return self.head(checkpoint(self.block, self.stem(x), use_reentrant=True))


def refuse(grad):
    raise RuntimeError("a hook raised")  # <- here


torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
net.head.weight.register_hook(refuse)
loss = net(torch.ones(3, 2)).mean()
loss.backward()
optimizer.step()
