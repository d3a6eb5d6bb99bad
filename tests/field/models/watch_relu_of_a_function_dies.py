# from: https://ai.stackexchange.com/questions/39853/how-does-gradient-descent-work-with-relu-if-weights-are-negative
# ask: watch
# exit: 0
# says: step 4: the gradient of 'fc3\.weight' is exactly zero next: what goes into 'fc3'
# never: behind it in the forward
# Biases of -10 leave no positive number behind the ReLUs, which are functions: two layers learn nothing.
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
nn.init.constant_(model.fc2.bias, -10.0)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(40):
    x = torch.randn(32, 10)
    loss = F.mse_loss(model(x).squeeze(1), x.abs().sum(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
