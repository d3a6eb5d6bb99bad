# from: https://github.com/fastai/fastai/issues/2133
# never: got no gradient|exactly 0|useless|changes next to nothing|changes no|changes none|is dropped|cuts|cancel|unused|not used
# The first layers have the rate 0 for two epochs, and are then let go.
import torch
from torch import nn

torch.manual_seed(0)
body, head = nn.Sequential(nn.Linear(4, 8), nn.Tanh()), nn.Linear(8, 2)
optimizer = torch.optim.SGD([{"params": body.parameters(), "lr": 0.0}, {"params": head.parameters(), "lr": 0.1}])
for epoch in range(5):
    if epoch == 3:
        optimizer.param_groups[0]["lr"] = 0.01
    x, y = torch.randn(12, 4), torch.randint(0, 2, (12,))
    loss = nn.functional.cross_entropy(head(body(x)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
