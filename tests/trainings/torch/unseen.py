"""Trainings that were new to the rules when they were written: a diffusion, sequences, schedules, adapters."""

import copy

import torch
from torch import nn

from trainings.planted import Fault
from trainings.with_torch import Training, optimizer_of, seeded

HEALTHY = {
    "diffusion": {"kind": "diffusion"},
    "variational autoencoder, KL annealed": {"kind": "variational"},
    "policy gradient with entropy": {"kind": "policy"},
    "sequence to sequence, teacher forcing fades": {"kind": "sequences"},
    "adapters on a frozen base, cyclic rate": {"kind": "adapters"},
    "curriculum that turns harder half way, smoothed labels": {"kind": "curriculum"},
}
FAULTY = {
    "diffusion, rate rises": {"kind": "diffusion", "fault": Fault("learning_rate", size=100.0)},
    "variational autoencoder, KL is subtracted": {"kind": "variational", "sign": -1.0, "fault": Fault("wrong_sign", 0)},
    "policy gradient, rate × 300": {"kind": "policy", "rate": 1.0, "fault": Fault("too_fast", 0)},
    "sequence to sequence, the encoder is detached": {"kind": "sequences", "cut": True, "fault": Fault("detached", 0)},
    "adapters, both factors are zero": {"kind": "adapters", "down": 0.0, "fault": Fault("zero_gradients", 0)},
    "curriculum, labels are renumbered half way": {"kind": "curriculum", "fault": Fault("wrong_labels")},
}


def make(seed, kind, **settings):
    return {
        "diffusion": diffusion,
        "variational": variational,
        "policy": policy,
        "sequences": sequences,
        "adapters": adapters,
        "curriculum": curriculum,
    }[kind](seeded(seed), **settings)


def rings(generator, count):
    angle = 6.283 * torch.rand(count, generator=generator)
    radius = 1.0 + torch.randint(0, 2, (count,), generator=generator) + 0.05 * torch.randn(count, generator=generator)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], -1)


def diffusion(generator):
    """The noise in points of two rings is predicted, at a random time of ten."""
    model = nn.Sequential(nn.Linear(12, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, 2))
    left = torch.cumprod(1 - torch.linspace(1e-3, 0.3, 10), 0)

    def draw(step):
        time = torch.randint(0, 10, (64,), generator=generator)
        return rings(generator, 64), torch.randn(64, 2, generator=generator), time

    def each(points, noise, time):
        noisy = left[time, None].sqrt() * points + (1 - left[time, None]).sqrt() * noise
        return (model(torch.cat([noisy, torch.eye(10)[time]], -1)) - noise).square().mean(-1)

    return Training(model, [optimizer_of("adamw", model.parameters(), 2e-3)], draw, each)


def variational(generator, sign=1.0):
    """The weight of the KL divergence grows from zero to one in the first half."""
    model = nn.ModuleDict(
        {
            "encoder": nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 6)),
            "decoder": nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Linear(24, 10)),
        }
    )
    mixing = torch.randn(3, 10, generator=generator)

    def draw(step):
        x = torch.randn(32, 3, generator=generator) @ mixing + 0.1 * torch.randn(32, 10, generator=generator)
        return x, torch.full((32,), min(1.0, step / 100)), torch.randn(32, 3, generator=generator)

    def each(x, weight, noise):
        mean, log_variance = model["encoder"](x).chunk(2, -1)
        code = mean + (0.5 * log_variance).exp() * noise
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(-1)
        return (model["decoder"](code) - x).square().sum(-1) + sign * weight * divergence

    return Training(model, [optimizer_of("adam", model.parameters())], draw, each)


def policy(generator, rate=3e-3):
    """REINFORCE on a bandit with contexts, with a running mean as its baseline and a bonus for entropy."""
    model = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 5))
    best, baseline = torch.randn(4, 5, generator=generator), torch.zeros(())
    made = torch.optim.Adam(model.parameters(), lr=rate)

    def loss():
        context = torch.randn(32, 4, generator=generator)
        chosen = torch.distributions.Categorical(logits=model(context))
        action = chosen.sample()
        reward = (context @ best)[torch.arange(32), action] + torch.randn(32, generator=generator)
        baseline.lerp_(reward.mean(), 0.1)
        return -((reward - baseline) * chosen.log_prob(action)).mean() - 0.02 * chosen.entropy().mean()

    return Training(model, [made], turns=lambda step: [(made, loss)])


class Translator(nn.Module):
    """A sequence is read by one cell and written backwards by another."""

    def __init__(self, cut):
        super().__init__()
        self.cut, self.embed = cut, nn.Embedding(9, 12)
        self.reader, self.writer, self.head = nn.GRU(12, 24, batch_first=True), nn.GRUCell(12, 24), nn.Linear(24, 9)

    def forward(self, x, forced):
        state = self.reader(self.embed(x))[1][0]
        state, token, scores = state.detach() if self.cut else state, torch.full((len(x),), 8), []
        for right, is_forced in zip(x.flip(1).unbind(1), forced.unbind(1)):
            state = self.writer(self.embed(token), state)
            scores.append(self.head(state))
            token = torch.where(is_forced, right, scores[-1].argmax(-1))
        return torch.stack(scores, -1)


def sequences(generator, cut=False):
    """The right token is given less and less often."""
    model = Translator(cut)

    def draw(step):
        x = torch.randint(0, 8, (24, 5), generator=generator)
        return x, torch.rand(24, 5, generator=generator) > step / 400

    def each(x, forced):
        return nn.functional.cross_entropy(model(x, forced), x.flip(1), reduction="none").mean(-1)

    return Training(model, [optimizer_of("adam", model.parameters())], draw, each, clip=1.0)


class Adapter(nn.Module):
    """A frozen layer, and a narrow one beside it that adds nothing at first."""

    def __init__(self, base, down):
        super().__init__()
        self.base = copy.deepcopy(base).requires_grad_(False)
        self.down, self.up = nn.Linear(base.in_features, 3, bias=False), nn.Linear(3, base.out_features, bias=False)
        nn.init.normal_(self.down.weight, std=down)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def adapters(generator, down=0.3):
    """Two adapters learn a new task, at a rate that goes up and down."""
    layers = [nn.Linear(6, 32), nn.Linear(32, 32)]
    head = nn.Linear(32, 4).requires_grad_(False)
    model = nn.Sequential(Adapter(layers[0], down), nn.GELU(), Adapter(layers[1], down), nn.GELU(), head)
    weights = torch.randn(6, 4, generator=generator)
    made = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=1e-3)
    cycle = torch.optim.lr_scheduler.CyclicLR(made, 1e-3, 1e-2, step_size_up=20, cycle_momentum=False)

    def draw(step):
        x = torch.randn(32, 6, generator=generator)
        return x, (x @ weights).argmax(-1)

    def each(x, y):
        return nn.functional.cross_entropy(model(x), y, reduction="none")

    return Training(model, [made], draw, each, schedulers=[cycle])


def curriculum(generator):
    """The noise of the inputs is doubled half way."""
    model = nn.Sequential(nn.Linear(6, 32), nn.LayerNorm(32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 3))
    centres = 2 * torch.randn(3, 6, generator=generator)

    def draw(step):
        y = torch.randint(0, 3, (32,), generator=generator)
        return centres[y] + (1.0 if step < 100 else 2.0) * torch.randn(32, 6, generator=generator), y

    def each(x, y):
        return nn.functional.cross_entropy(model(x), y, label_smoothing=0.1, reduction="none")

    return Training(model, [optimizer_of("adam", model.parameters())], draw, each)
