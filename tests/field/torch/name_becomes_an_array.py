# from: own
# exit: 1
# says: 2 of 4 parameters got no gradient
# says: NumPy arrays have no gradient history
import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.head = nn.Linear(3, 3), nn.Linear(3, 1)

    def forward(self, x):
        h = self.enc(x)
        h = h.data.cpu().numpy()  # <- here
        h = h / h.sum()
        h = torch.from_numpy(h)
        return self.head(h)


model = Net()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(8, 3), torch.randn(8, 1)
for _ in range(2):
    loss = (model(x) - y).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
