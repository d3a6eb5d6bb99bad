# from: https://github.com/milesial/Pytorch-UNet/issues/468
# exit: 1
# says: unscale_
# says: clip_grad_norm_
# The norm is that of gradients times 65536: after the scaler has divided them, next to nothing is left of a step.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=65536.0)
for step in range(4):
    x = torch.randn(32, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # <- here
    scaler.step(optimizer)
    scaler.update()
    print(step, loss.item())
