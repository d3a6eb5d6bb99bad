# from: https://github.com/nikhilbarhate99/PPO-PyTorch/issues/18
# never: got no gradient|exactly 0|useless|changes no|changes next to nothing|is dropped|cuts|cancel|not used|no optimizer
# PPO with several epochs: where the old and the new policy are one, the ratio is 1, and its slope is not 0.
import torch
from torch import nn
from torch.distributions import Categorical


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
        self.critic = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))

    def act(self, state):
        choice = Categorical(logits=self.actor(state))
        action = choice.sample()
        return action.detach(), choice.log_prob(action).detach(), self.critic(state).detach()

    def evaluate(self, states, actions):
        choice = Categorical(logits=self.actor(states))
        return choice.log_prob(actions), self.critic(states).squeeze(-1), choice.entropy()


torch.manual_seed(0)
policy, old = ActorCritic(), ActorCritic()
old.load_state_dict(policy.state_dict())
groups = [{"params": policy.actor.parameters(), "lr": 3e-4}, {"params": policy.critic.parameters(), "lr": 1e-3}]
optimizer = torch.optim.Adam(groups)
for rollout in range(2):
    states, actions, logs, values, rewards = [], [], [], [], []
    state = torch.randn(4)
    for t in range(40):
        with torch.no_grad():
            action, log, value = old.act(state)
        for row, one in zip((states, actions, logs, values), (state, action, log, value)):
            row.append(one)
        state = 0.9 * state + 0.1 * (action - 0.5) + 0.05 * torch.randn(4)
        rewards.append(-state.square().sum())
    returns, total = [], torch.zeros(())
    for reward in reversed(rewards):
        total = reward + 0.99 * total
        returns.insert(0, total)
    goal = torch.stack(returns)
    goal = (goal - goal.mean()) / (goal.std() + 1e-7)
    before, chosen, old_logs = torch.stack(states).detach(), torch.stack(actions), torch.stack(logs)
    advantages = goal - torch.stack(values).squeeze(-1)
    for epoch in range(4):
        now, guess, entropy = policy.evaluate(before, chosen)
        ratios = torch.exp(now - old_logs)
        gain = torch.min(ratios * advantages, ratios.clamp(0.8, 1.2) * advantages)
        loss = -gain + 0.5 * (guess - goal).square() - 0.01 * entropy
        optimizer.zero_grad()
        loss.mean().backward()
        optimizer.step()
    old.load_state_dict(policy.state_dict())
