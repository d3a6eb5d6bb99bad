# from: https://github.com/rtqichen/torchdiffeq/blob/master/examples/ode_demo.py
# says: all 4 parameters got a gradient
# never: not_executed|was not called
import torch
from torch import nn
from torchdiffeq import odeint_adjoint as odeint

torch.manual_seed(0)
true_y0 = torch.tensor([[2.0, 0.0]])
t = torch.linspace(0.0, 25.0, 100)
true_A = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])


class Lambda(nn.Module):
    def forward(self, t, y):
        return torch.mm(y**3, true_A)


with torch.no_grad():
    true_y = odeint(Lambda(), true_y0, t, method="rk4")


def get_batch():
    s = torch.randint(0, 90, (4,))
    return true_y[s], t[:5], torch.stack([true_y[s + i] for i in range(5)])


class ODEFunc(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))

    def forward(self, t, y):
        return self.net(y**3)


func = ODEFunc()
optimizer = torch.optim.RMSprop(func.parameters(), lr=1e-3)
for itr in range(6):
    optimizer.zero_grad()
    batch_y0, batch_t, batch_y = get_batch()
    pred_y = odeint(func, batch_y0, batch_t, method="rk4")
    loss = torch.mean(torch.abs(pred_y - batch_y))
    loss.backward()
    optimizer.step()
print(loss.item().hex())
