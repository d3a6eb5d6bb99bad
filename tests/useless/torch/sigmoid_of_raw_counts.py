# from: https://github.com/pytorch/pytorch/issues/31396
# truth: the inputs are raw counts in the thousands, the softmax gives exactly 0 and 1 and has no slope left
# kind: every zero
import torch
from torch import nn

torch.manual_seed(1)
counts = torch.randint(2000, 90000, (12, 20)).float()
labels = nn.functional.one_hot(torch.randint(0, 2, (12,)), 2).float()

model = nn.Sequential(nn.Linear(20, 2), nn.Softmax(dim=-1))  # <- here
criterion = nn.BCELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for epoch in range(3):
    optimizer.zero_grad()
    probabilities = model(counts)  # <- here
    loss = criterion(probabilities, labels)
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
