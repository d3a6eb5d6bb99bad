# from: https://github.com/uvm-neurobotics-lab/ANML/issues/3
# exit: 1
# says: critic\.(\{?weight|0|\*)|critic
# says: create_graph
# The inner step has no graph: what is learned of the loss itself gets nothing from the outer one.
import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
student = nn.Linear(4, 1)
critic = nn.Sequential(nn.Linear(2, 8), nn.Softplus(), nn.Linear(8, 1))
outer = torch.optim.Adam([*student.parameters(), *critic.parameters()], lr=1e-2)
for episode in range(3):
    x, y = torch.randn(2, 10, 4), torch.randn(2, 10, 1)
    fast = dict(student.named_parameters())
    for _ in range(2):
        guess = functional_call(student, fast, (x[0],))
        inner = critic(torch.cat([guess, y[0]], 1)).mean()
        slopes = torch.autograd.grad(inner, list(fast.values()))  # <- here
        fast = {name: value - 0.1 * slope for (name, value), slope in zip(fast.items(), slopes)}
    loss = (functional_call(student, fast, (x[1],)) - y[1]).square().mean()
    outer.zero_grad()
    loss.backward()
    outer.step()
    print(episode, loss.item())
