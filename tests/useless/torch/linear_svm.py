# from: own
# truth: healthy: samples beyond the margin have a hinge of 0, the others still pull
# kind: healthy
import torch

torch.manual_seed(0)
side = torch.randint(0, 2, (80,)) * 2.0 - 1
x = torch.randn(80, 2) + 1.2 * side[:, None]
w, b = torch.zeros(2, requires_grad=True), torch.zeros((), requires_grad=True)
optimizer = torch.optim.SGD([w, b], lr=0.1)
for epoch in range(6):
    for batch in torch.randperm(80).split(20):
        margin = side[batch] * (x[batch] @ w + b)
        loss = torch.clamp(1 - margin, min=0).mean() + 0.01 * w @ w
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
