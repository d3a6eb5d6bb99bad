# from: https://github.com/sktime/pytorch-forecasting/issues/689
# exit: 3
# says: numpy
# never: no_grad
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)


def weighted_error(predicted, actual):
    predicted, actual = predicted.detach().numpy(), actual.numpy()  # <- here
    return torch.tensor((abs(predicted - actual) * 2).mean())


x, y = torch.randn(8, 3), torch.randn(8, 1)
loss = weighted_error(model(x), y)
optimizer.zero_grad()
loss.backward()
optimizer.step()
