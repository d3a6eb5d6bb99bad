# from: own
# exit: 1
# says: 2 parameters of the model that ran get gradients, and no optimizer has them
# says: only what ran so far was looked at: what comes later may train them
# never: parameters that are not trained
import torch
from torch import nn

torch.manual_seed(0)
body, head = nn.Linear(4, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD(body.parameters(), lr=0.1)
for step in range(12):
    loss = head(body(torch.randn(8, 4))).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 4 == 3:
        with torch.no_grad():
            for parameter in head.parameters():
                parameter.sub_(0.1 * parameter.grad)
                parameter.grad = None
