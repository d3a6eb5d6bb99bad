# from: own
# ask: explain
# exit: 1
# says: ^2 gradients, all of them exactly 0
# says: the gradients of: model\.weight, model\.bias
# never: got a gradient
# The loss of each sample is weighted by a mask that leaves none.
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
