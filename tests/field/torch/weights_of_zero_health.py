# from: own
# ask: health
# exit: 1
# says: 2 gradients, all of them exactly 0
# never: no problems
# The same as weights_of_zero.py, for health.
import torch

torch.manual_seed(0)
model = torch.nn.Linear(3, 1)
for _ in range(3):
    model.zero_grad()
    weight = torch.zeros(8)
    loss = (model(torch.randn(8, 3))[:, 0] * weight).mean()  # <- here
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
