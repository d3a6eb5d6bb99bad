# from: https://github.com/fastai/fastai/issues/889
# ask: explain --nonfinite
# exit: 1
# never: learning rate|overflow
# never: born inside the model
"""A table is normalized before the training; one of its columns has the same number in every row."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


def normalized(table):
    means, spreads = table.mean(dim=0), table.std(dim=0)
    return (table - means) / spreads  # <- here


rows = torch.cat([torch.randn(24, 3), torch.full((24, 1), 20.0)], dim=1)
target = rows[:, 0] - rows[:, 1]
loader = DataLoader(TensorDataset(normalized(rows), target), batch_size=8)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for x, y in loader:
    predicted = model(x).squeeze(1)
    loss = nn.functional.mse_loss(predicted, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
