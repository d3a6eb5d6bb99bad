# from: https://github.com/huggingface/trl/issues/3857
# ask: health PROGRAM
# exit: 1
# says: exactly (0|zero)|zero
# never: no problems found
import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
for step in range(3):
    state = torch.randn(2, 4).repeat_interleave(4, 0)
    reward = (state[:, 0] > 0).float()
    grouped = reward.view(2, 4)
    advantage = ((grouped - grouped.mean(1, keepdim=True)) / (grouped.std(1, keepdim=True) + 1e-4)).view(-1)
    action = torch.randint(0, 3, (8,))
    chosen = policy(state).log_softmax(-1).gather(1, action[:, None]).squeeze(1)
    loss = -(chosen * advantage).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(max(float(p.grad.abs().max()) for p in policy.parameters()))
