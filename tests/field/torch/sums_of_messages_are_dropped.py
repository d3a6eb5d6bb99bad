# from: own
# exit: 1
# says: message
# says: index_add
# never: retain_graph
# A graph layer sums what comes to each node, and drops the sums: what is left are zeros.
import torch
from torch import nn


class Conv(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.message, self.own = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x, source, target):
        sums = x.new_zeros(x.shape)
        sums.index_add(0, target, self.message(x)[source])  # <- here
        return (self.own(x) + sums).relu()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([Conv(6) for _ in range(2)])
        self.read = nn.Linear(6, 3)

    def forward(self, x, source, target):
        for conv in self.convs:
            x = conv(x, source, target)
        return self.read(x)


torch.manual_seed(0)
source, target = torch.randint(0, 10, (2, 40))
x, y = torch.randn(10, 6), torch.randint(0, 3, (10,))
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(4):
    loss = nn.functional.cross_entropy(model(x, source, target), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
