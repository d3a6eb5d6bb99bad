# from: https://github.com/pytorch/examples/blob/main/regression/main.py
# truth: healthy: a plain linear fit whose targets have the shape of the predictions
# kind: healthy
import torch
import torch.nn.functional as F

torch.manual_seed(0)
degree = 4
w_target, b_target = torch.randn(degree, 1) * 5, torch.randn(1) * 5
fc = torch.nn.Linear(degree, 1)
for batch in range(6):
    seed = torch.randn(32).unsqueeze(1)
    x = torch.cat([seed**i for i in range(1, degree + 1)], 1)
    y = x @ w_target + b_target.item()
    fc.zero_grad()
    loss = F.smooth_l1_loss(fc(x), y)
    loss.backward()
    for p in fc.parameters():
        p.data.add_(-0.1 * p.grad)
    print(batch, loss.item())
