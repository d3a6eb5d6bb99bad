# from: https://github.com/pytorch/opacus/blob/main/examples/mnist.py
# says: all 4 parameters got a gradient
import warnings

import torch
import torch.nn.functional as F
from opacus import PrivacyEngine
from torch import nn, optim

warnings.simplefilter("ignore")
torch.manual_seed(0)


class SampleConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 4, 2, padding=1)
        self.fc1 = nn.Linear(64, 3)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = x.view(-1, 64)
        return self.fc1(x)


data = torch.utils.data.TensorDataset(torch.randn(24, 1, 8, 8), torch.randint(0, 3, (24,)))
train_loader = torch.utils.data.DataLoader(data, batch_size=8)
model = SampleConvNet()
optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0)
privacy_engine = PrivacyEngine()
model, optimizer, train_loader = privacy_engine.make_private(
    module=model, optimizer=optimizer, data_loader=train_loader, noise_multiplier=1.0, max_grad_norm=1.0
)
criterion = nn.CrossEntropyLoss()
losses = []
for epoch in range(2):
    for x, target in train_loader:
        optimizer.zero_grad()
        loss = criterion(model(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
print([each.hex() for each in losses])
