# from: https://github.com/andri27-ts/Reinforcement-Learning/issues/14
# never: got no gradient|exactly 0|useless|changes next to nothing|changes no|changes none|is dropped|cuts|cancel|unused|not used
# The target network is loaded every second step; the network itself from a checkpoint, once.
import copy

import torch
from torch import nn

torch.manual_seed(0)
online = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
online.load_state_dict(copy.deepcopy(online).state_dict())
target = copy.deepcopy(online)
optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)
for step in range(6):
    state, following = torch.randn(2, 16, 4)
    action, reward = torch.randint(0, 2, (16, 1)), torch.randn(16, 1)
    with torch.no_grad():
        best = online(following).argmax(1, keepdim=True)
        wanted = reward + 0.99 * target(following).gather(1, best)
    loss = nn.functional.smooth_l1_loss(online(state).gather(1, action), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 2:
        target.load_state_dict(online.state_dict())
print(loss.item())
