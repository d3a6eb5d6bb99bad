# from: https://github.com/the-database/traiNNer-redux/pull/274
# exit: 1
# says: lr (is )?0|learning rate (is |of )?0
# never: a larger lr; or parameters in float32
# The factor is divided without a remainder: it is 0 for a hundred steps.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, step // 100))
for step in range(6):
    x = torch.randn(16, 4)
    loss = (model(x) - x[:, :1]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # <- here
    scheduler.step()
    print(step, loss.item())
