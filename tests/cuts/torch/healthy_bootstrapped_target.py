# from: own
# ask: explain
# kind: healthy
"""Q-learning with a target network whose state is loaded now and then."""

import torch
from torch import nn

torch.manual_seed(0)
online, target = nn.Linear(4, 3), nn.Linear(4, 3)
target.load_state_dict(online.state_dict())
optimizer = torch.optim.Adam(online.parameters(), lr=1e-2)
before, after = torch.randn(32, 4), torch.randn(32, 4)
action, reward, done = torch.randint(0, 3, (32,)), torch.randn(32), (torch.rand(32) < 0.1).float()
for step in range(6):
    with torch.inference_mode():
        best = online(after).argmax(-1, keepdim=True)
        future = target(after).gather(1, best)[:, 0]
    wanted = reward + 0.99 * (1 - done) * future.clone()
    q = online(before).gather(1, action[:, None])[:, 0]
    loss = nn.functional.huber_loss(q, wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 3 == 2:
        target.load_state_dict(online.state_dict())
