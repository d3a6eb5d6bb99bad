# from: https://github.com/mani-skill/ManiSkill/issues/899
# never: got no gradient|exactly 0|useless|changes no|changes next to nothing|is dropped|cuts|cancel|not used|no optimizer
# Twin critics, targets that follow them, a temperature that is learned: each loss has its own optimizer.
import copy

import torch
from torch import nn

torch.manual_seed(0)


def net(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, outputs))


actor, critics = net(3, 4), nn.ModuleList([net(5, 1), net(5, 1)])
targets = copy.deepcopy(critics).requires_grad_(False)
log_alpha = torch.zeros(1, requires_grad=True)
by_actor = torch.optim.Adam(actor.parameters(), lr=3e-4)
by_critics = torch.optim.Adam(critics.parameters(), lr=3e-4)
by_alpha = torch.optim.Adam([log_alpha], lr=3e-4)


def act(states):
    mean, log_std = actor(states).chunk(2, -1)
    normal = torch.distributions.Normal(mean, log_std.clamp(-20, 2).exp())
    raw = normal.rsample()
    action = raw.tanh()
    return action, (normal.log_prob(raw) - (1 - action.square() + 1e-6).log()).sum(-1, keepdim=True)


for step in range(6):
    states, nexts, actions = torch.randn(32, 3), torch.randn(32, 3), torch.rand(32, 2) * 2 - 1
    rewards, done = torch.randn(32, 1), (torch.rand(32, 1) < 0.1).float()
    with torch.no_grad():
        chosen, log = act(nexts)
        least = torch.min(*[one(torch.cat([nexts, chosen], 1)) for one in targets])
        goal = rewards + 0.99 * (1 - done) * (least - log_alpha.exp() * log)
    fits = [(one(torch.cat([states, actions], 1)) - goal).square().mean() for one in critics]
    by_critics.zero_grad()
    sum(fits).backward()
    by_critics.step()
    if step % 2 == 0:
        mine, log = act(states)
        values = torch.min(*[one(torch.cat([states, mine], 1)) for one in critics])
        by_actor.zero_grad()
        (log_alpha.exp().detach() * log - values).mean().backward()
        by_actor.step()
        by_alpha.zero_grad()
        (-log_alpha.exp() * (log.detach() - 2)).mean().backward()
        by_alpha.step()
    with torch.no_grad():
        for slow, fast in zip(targets.parameters(), critics.parameters()):
            slow.mul_(0.995).add_(fast, alpha=0.005)
