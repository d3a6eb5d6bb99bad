# from: https://ai.stackexchange.com/questions/39853/how-does-gradient-descent-work-with-relu-if-weights-are-negative
# ask: watch
# exit: 0
# says: step \d+: .*'(fc2|fc1)\.
# says: exactly zero
# A step far too large leaves a layer of ReLUs, written as functions, without a positive number.
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(10, 64), nn.Linear(64, 64), nn.Linear(64, 1)

    def forward(self, x):
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


torch.manual_seed(0)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
for step in range(40):
    x = torch.randn(32, 10)
    loss = F.mse_loss(model(x).squeeze(1), 10 * x.abs().sum(1))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 10.0)
    optimizer.step()
