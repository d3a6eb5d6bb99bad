# from: https://github.com/pytorch/pytorch/issues/16045
# truth: the linear model gives [N, 1] and y is [N]; the loss object compares each prediction with each target
# kind: outer product
# names: yhat loss_func
import warnings

import torch
from torch import nn

warnings.simplefilter("ignore")
torch.manual_seed(0)
sample_size = 64
x = torch.randn(sample_size, 2)
y = 10 + 9 * x[:, 0] - 2 * x[:, 1] + torch.randn(sample_size)
model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss_func = nn.MSELoss()
for epoch in range(5):
    optimizer.zero_grad()
    yhat = model(x)
    loss_val = loss_func(yhat, y)  # <- here
    loss_val.backward()
    optimizer.step()
    print(loss_val.item())
