"""Q learning with a target network, and policy gradients with a baseline: losses that are no measure of progress."""

import torch
from torch import nn

from trainings.planted import Fault, grid
from trainings.with_torch import Training, seeded

HEALTHY = grid(kind=["q", "double q"], every=[5, 20], optimizer=["Adam", "RMSprop"]) | grid(
    kind=["policy", "actor and critic"], every=[1], optimizer=["Adam", "SGD"]
)
FAULTY = {
    "q, no step": {"kind": "q", "fault": Fault("no_step")},
    "q, rate": {"kind": "q", "fault": Fault("learning_rate", size=500.0)},
    "q, wrong sign": {"kind": "q", "fault": Fault("wrong_sign", 0)},
    "policy, no step": {"kind": "policy", "fault": Fault("no_step")},
    "policy, zero": {"kind": "policy", "fault": Fault("zero_gradients")},
    "actor and critic, accumulated": {"kind": "actor and critic", "fault": Fault("accumulated")},
}


class Chain:
    """Five places in a row, with a reward at the right end."""

    def __init__(self, generator):
        self.generator = generator

    def draw(self, count):
        place = torch.randint(0, 5, (count,), generator=self.generator)
        action = torch.randint(0, 2, (count,), generator=self.generator)
        return place, action, *self.move(place, action)

    def move(self, place, action):
        after = (place + 2 * action - 1).clamp(0, 4)
        noise = 0.3 * torch.randn(len(place), generator=self.generator)
        return after, (after == 4).float() + noise


def make(seed, kind, every=10, optimizer="Adam"):
    generator = seeded(seed)
    chain, eye = Chain(generator), torch.eye(5)
    model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 3))
    target = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 3))
    target.load_state_dict(model.state_dict())
    made = getattr(torch.optim, optimizer)(model.parameters(), lr={"SGD": 0.02}.get(optimizer, 3e-3))

    def learned():
        place, action, after, reward = chain.draw(32)
        with torch.no_grad():
            best = (model if kind == "double q" else target)(eye[after])[:, :2].argmax(-1)
            aim = reward + 0.9 * target(eye[after])[torch.arange(32), best]
        return nn.functional.smooth_l1_loss(model(eye[place])[torch.arange(32), action], aim)

    def acted():
        place = torch.randint(0, 5, (24,), generator=generator)
        scores = model(eye[place])
        policy = torch.distributions.Categorical(logits=scores[:, :2])
        action = policy.sample()
        _, reward = chain.move(place, action)
        baseline = scores[:, 2] if kind == "actor and critic" else reward.mean().expand(24)
        loss = -(policy.log_prob(action) * (reward - baseline.detach())).mean() - 0.01 * policy.entropy().mean()
        return loss + (baseline - reward).square().mean() * (kind == "actor and critic")

    def after(step):
        if (step + 1) % every == 0:
            target.load_state_dict(model.state_dict())

    loss_of = learned if "q" in kind else acted
    return Training(model, [made], turns=lambda step: [(made, loss_of)], after=after)
