# from: own
# ask: explain
# exit: 0
# says: all 2 parameters got a gradient
# never: exactly 0
# Without an optimizer, the program sets its gradients to 0 when it has used them.
import torch

torch.manual_seed(0)
model = torch.nn.Linear(3, 1)
for _ in range(3):
    loss = model(torch.randn(8, 3)).square().mean()
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
            parameter.grad.zero_()
