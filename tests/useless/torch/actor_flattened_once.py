# from: https://github.com/vwxyzjn/cleanrl/issues/379
# truth: min_qf_pi is flattened to [B] while log_pi stays [B, 1]; their difference is a table of B times B
# kind: outer product
import torch
from torch import nn

torch.manual_seed(0)
alpha = 0.2
actor = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
qf1 = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
qf2 = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
actor_optimizer = torch.optim.Adam(actor.parameters(), lr=1e-3)
q_optimizer = torch.optim.Adam([*qf1.parameters(), *qf2.parameters()], lr=1e-3)


def act(obs):
    mean, log_std = actor(obs).chunk(2, -1)
    normal = torch.distributions.Normal(mean, log_std.clamp(-5, 2).exp())
    raw = normal.rsample()
    action = torch.tanh(raw)
    log_pi = normal.log_prob(raw) - torch.log(1 - action.pow(2) + 1e-6)
    return action, log_pi.sum(1, keepdim=True)


for step in range(3):
    obs = torch.randn(24, 3)
    with torch.no_grad():
        action, _ = act(obs)
        target = -(action - obs[:, :1]).pow(2)
    q_input = torch.cat([obs, action], 1)
    q_loss = (qf1(q_input) - target).pow(2).mean() + (qf2(q_input) - target).pow(2).mean()
    q_optimizer.zero_grad()
    q_loss.backward()
    q_optimizer.step()

    pi, log_pi = act(obs)
    pi_input = torch.cat([obs, pi], 1)
    min_qf_pi = torch.min(qf1(pi_input), qf2(pi_input)).view(-1)
    actor_loss = (alpha * log_pi - min_qf_pi).mean()  # <- here
    actor_optimizer.zero_grad()
    actor_loss.backward()
    actor_optimizer.step()
    print(step, q_loss.item(), actor_loss.item())
