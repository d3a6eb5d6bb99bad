# from: https://docs.pytorch.org/tutorials/intermediate/reinforcement_q_learning.html
# truth: healthy: only the chosen action of each state has a gradient; the targets come of a copy that follows slowly
# kind: healthy
import copy

import torch
from torch import nn

torch.manual_seed(0)
policy_net = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 3))
target_net = copy.deepcopy(policy_net)
optimizer = torch.optim.AdamW(policy_net.parameters(), lr=1e-3, amsgrad=True)
for step in range(4):
    state, action = torch.randn(20, 4), torch.randint(0, 3, (20, 1))
    reward, going_on = state[:, 0] + action[:, 0], torch.rand(20) < 0.8
    next_state = state + 0.1
    chosen = policy_net(state).gather(1, action)
    next_values = torch.zeros(20)
    with torch.no_grad():
        next_values[going_on] = target_net(next_state[going_on]).max(1).values
    expected = reward + 0.99 * next_values
    loss = nn.SmoothL1Loss()(chosen, expected.unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(policy_net.parameters(), 100)
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(target_net.parameters(), policy_net.parameters()):
            slow.lerp_(fast, 0.005)
    print(step, loss.item())
