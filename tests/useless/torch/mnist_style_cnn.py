# from: https://github.com/pytorch/examples/blob/main/mnist/main.py
# truth: healthy: log_softmax along the classes, then nll_loss; dropout and ReLU set many slopes to 0
# kind: healthy
import torch
import torch.nn.functional as F
from torch import nn, optim


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3)
        self.drop = nn.Dropout(0.5)
        self.fc1, self.fc2 = nn.Linear(200, 24), nn.Linear(24, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv(x)), 2)
        x = self.drop(torch.flatten(x, 1))
        return F.log_softmax(self.fc2(F.relu(self.fc1(x))), dim=1)


torch.manual_seed(1)
templates = torch.rand(10, 1, 12, 12)
model = Net()
optimizer = optim.Adadelta(model.parameters(), lr=1.0)
scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.7)
model.train()
for epoch in range(4):
    target = torch.randint(0, 10, (40,))
    data = templates[target] + 0.1 * torch.randn(40, 1, 12, 12)
    optimizer.zero_grad()
    loss = F.nll_loss(model(data), target)
    loss.backward()
    optimizer.step()
    scheduler.step()
    print(epoch, loss.item())
