# from: https://discuss.pytorch.org/t/gpu-memory-increase-while-i-wanna-to-backward-with-accumulative-loss/43284
# ask: memory
# exit: 1
# says: keeps the graphs of \d+ earlier steps
# says: next: .*detach\(\)
# A meter, as many example scripts have one, sums losses with their graphs.
import torch
from torch import nn


class AverageMeter:
    def __init__(self):
        self.sum, self.count = 0, 0

    def update(self, value, n=1):
        self.sum += value * n  # <- here
        self.count += n

    @property
    def avg(self):
        return self.sum / self.count


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = AverageMeter()
    for step in range(12):
        x = torch.randn(16, 8)
        loss = nn.functional.mse_loss(model(x), x[:, :1])
        losses.update(loss, x.size(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
