# from: https://docs.backpack.pt/en/master/use_cases/example_all_in_one.html
# says: all 4 parameters got a gradient
import torch
from backpack import backpack, extend
from backpack.extensions import BatchGrad, Variance
from torch import nn

torch.manual_seed(0)
X, y = torch.randn(16, 8), torch.randint(0, 3, (16,))
model = extend(nn.Sequential(nn.Linear(8, 10), nn.ReLU(), nn.Linear(10, 3)))
lossfunc = extend(nn.CrossEntropyLoss())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    loss = lossfunc(model(X), y)
    with backpack(BatchGrad(), Variance()):
        loss.backward()
    optimizer.step()
for name, param in model.named_parameters():
    print(name, param.grad_batch.shape, param.variance.sum().item().hex())
