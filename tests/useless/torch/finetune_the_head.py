# from: https://docs.pytorch.org/tutorials/beginner/transfer_learning_tutorial.html
# truth: healthy: the backbone is frozen on purpose, only the new head is given to the optimizer
# kind: healthy
import torch
from torch import nn

torch.manual_seed(0)
backbone = nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU())
for param in backbone.parameters():
    param.requires_grad = False
model = nn.Sequential(backbone, nn.Linear(16, 2))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model[1].parameters(), lr=0.05, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
x = torch.randn(40, 10)
y = (x[:, 0] > 0).long()
for epoch in range(5):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    scheduler.step()
    print(epoch, loss.item())
