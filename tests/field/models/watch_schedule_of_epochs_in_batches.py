# from: https://runebook.dev/en/docs/pytorch/generated/torch.optim.lr_scheduler.lrscheduler/torch.optim.lr_scheduler.LRScheduler.step
# ask: watch
# exit: 0
# says: step \d+: .*(do not change|does not change|unchanged|stay|updates)
# says: next: the learning rate, also that of a schedule
# never: gradient .* is exactly zero
# never: is dead
# never: too high
# The schedule is meant for epochs and is stepped after each batch, so that the learning rate is soon zero.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
direction = torch.randn(8)
for epoch in range(10):
    for batch in range(10):
        x = torch.randn(32, 8)
        loss = nn.functional.mse_loss(model(x).squeeze(1), (x @ direction).sin())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
