# from: own
# ask: explain --steps 20 PROGRAM
# exit: 1
# says: set_grad_enabled|no_grad
import torch
from torch import nn

torch.manual_seed(0)
embed, head = nn.Linear(4, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()], lr=0.1)


def validate():
    torch.set_grad_enabled(False)
    return head(embed(torch.randn(2, 4))).mean().item()


try:
    for step in range(8):
        h = embed(torch.randn(8, 4))
        with torch.enable_grad():
            loss = (head(h) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == 4:
            print("validation", validate())
    print(embed.weight.grad)
finally:
    torch.set_grad_enabled(True)
