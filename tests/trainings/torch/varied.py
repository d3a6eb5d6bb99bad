"""Healthy trainings of other kinds than those on which thresholds were chosen: models, losses, optimizers, schedules.

Written before the rules were looked at again, and each is shown to learn: ``python tests/alerts_page.py --learn``.
"""

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from small_models import blobs, mlp
from trainings.torch._small import Training, adam, adamw, family, mean_square, pretrained, sgd, warm
from varied_models import (
    CLASSES,
    ITEMS,
    NODES,
    SIDE,
    Backbone,
    ConvAutoencoder,
    Denoiser,
    DropPath,
    Elman,
    Experts,
    Flow,
    Gan,
    GraphNet,
    Policy,
    Recommender,
    Tagger,
    Teaching,
    Towers,
    Unet,
    Vae,
    Vit,
    conv1d,
    plain,
    siren,
    smallest,
)

# data


def shapes(count, size=32, seed=1):
    """Pictures with a bar in one of five places, in noise."""
    random = torch.Generator().manual_seed(seed)
    for _ in range(count):
        labels = torch.randint(CLASSES, (size,), generator=random)
        x = 0.5 * torch.randn(size, 1, SIDE, SIDE, generator=random)
        for at, label in enumerate(labels):
            x[at, 0, 2 * label : 2 * label + 3] += 1.5
        yield x, labels


def bits(count, size=48, seed=2):
    """Binary pictures: some rows or some columns are lit. They are their own labels."""
    random = torch.Generator().manual_seed(seed)
    for _ in range(count):
        lit = (torch.rand(size, SIDE, 1, generator=random) < 0.3).float().expand(size, SIDE, SIDE).clone()
        across = torch.rand(size, generator=random) < 0.5
        lit[across] = lit[across].transpose(1, 2)
        yield lit[:, None], lit.flatten(1)


def discs(count, size=8, seed=3):
    """Pictures of a disc in noise, and which pixels it has."""
    random = torch.Generator().manual_seed(seed)
    place = torch.arange(SIDE).float()
    for _ in range(count):
        middle = 3 + 6 * torch.rand(size, 2, generator=random)
        across = (place[None, :, None] - middle[:, :1, None]) ** 2 + (place[None, None] - middle[:, 1:, None]) ** 2
        inside = across < 9
        yield inside[:, None].float() + 0.4 * torch.randn(size, 1, SIDE, SIDE, generator=random), inside.long()


def sentences(count, size=24, seed=4, length=10):
    """Tokens that count up or down: labels are the next ones."""
    random = torch.Generator().manual_seed(seed)
    for _ in range(count):
        start = torch.randint(14, (size, 1), generator=random)
        way = 1 + 2 * torch.randint(2, (size, 1), generator=random)
        whole = (start + way * torch.arange(length + 1)) % 14
        yield whole[:, :-1], whole[:, 1:]


def graph(seed=5):
    """Five communities: the normalised adjacency, features that hint at the community, and the communities."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.arange(NODES) % CLASSES
    close = labels[:, None] == labels[None]
    edges = torch.rand(NODES, NODES, generator=random) < torch.where(close, 0.5, 0.04)
    both = ((edges | edges.T) | torch.eye(NODES, dtype=bool)).float()
    scale = both.sum(1) ** -0.5
    features = F.one_hot(labels, 12).float() + torch.randn(NODES, 12, generator=random)
    return scale[:, None] * both * scale, features, labels


def whole_graph(count):
    _, features, labels = graph()
    return ((features, labels) for _ in range(count))


def likes(count, size=128, seed=6):
    """Six items of a group that a user likes, and one more: is it of that group?"""
    random = torch.Generator().manual_seed(seed)
    for _ in range(count):
        group = torch.randint(4, (size, 1), generator=random)
        liked = 4 * torch.randint(ITEMS // 4, (size, 6), generator=random) + group
        item = torch.randint(ITEMS, (size, 1), generator=random)
        same = torch.rand(size, 1, generator=random) < 0.4
        item = torch.where(same, item // 4 * 4 + group, item)
        yield torch.cat([liked, item], 1), (item % 4 == group)[:, 0].float()


def pairs(count, size=48, seed=7):
    """Two noisy, different views of the same point."""
    random = torch.Generator().manual_seed(seed)
    first, second = torch.randn(2, 6, 16, generator=random) / math.sqrt(6)
    for _ in range(count):
        hidden = torch.randn(size, 6, generator=random)
        both = torch.stack([hidden @ first, hidden @ second], 1)
        yield both + 0.2 * torch.randn(size, 2, 16, generator=random), torch.arange(size)


def moons(count, size=64, seed=8):
    """Two half circles."""
    random = torch.Generator().manual_seed(seed)
    for _ in range(count):
        angle, which = math.pi * torch.rand(size, generator=random), torch.randint(2, (size,), generator=random)
        sign = 1 - 2 * which
        x = torch.stack([sign * angle.cos() + which, sign * angle.sin() + 0.5 * which], 1)
        yield x - 0.4 + 0.1 * torch.randn(size, 2, generator=random), which


def prices(count, size=64, seed=9):
    """Targets around 200, as they come."""
    random = torch.Generator().manual_seed(seed)
    direction = torch.randn(16, generator=random)
    for _ in range(count):
        x = torch.randn(size, 16, generator=random)
        yield x, (200 + 20 * (x @ direction))[:, None] + 5 * torch.randn(size, 1, generator=random)


def prices_scaled(count, size=64):
    return ((x, (y - 200) / 60) for x, y in prices(count, size))


def picture(count, size=256, seed=10):
    """Places in the plane, and how bright it is there."""
    random = torch.Generator().manual_seed(seed)
    for _ in range(count):
        x = 2 * torch.rand(size, 2, generator=random) - 1
        yield x, (torch.sin(6 * x[:, :1]) * torch.cos(5 * x[:, 1:]))


def sums(count, size=48, seed=11, length=20):
    """Sequences, and the mean of what is in them."""
    random = torch.Generator().manual_seed(seed)
    for _ in range(count):
        x = torch.randn(size, length, generator=random)
        yield x, x.mean(1) * math.sqrt(length)


def series(count, size=32, seed=12):
    random = torch.Generator().manual_seed(seed)
    time = torch.arange(32.0)
    for _ in range(count):
        labels = torch.randint(CLASSES, (size,), generator=random)
        phase = 6.3 * torch.rand(size, 1, generator=random)
        wave = torch.sin(0.25 * (1 + labels[:, None]) * time + phase)
        yield (wave + 0.3 * torch.randn(size, 32, generator=random))[:, None], labels


# losses


def to_itself(training, model, x, _):
    return F.mse_loss(model(x), x)


def evidence(training, model, x, pixels):
    found, mean, spread = model(x)
    rebuilt = F.binary_cross_entropy_with_logits(found, pixels, reduction="sum") / len(x)
    return rebuilt + 0.5 * (mean**2 + spread.exp() - spread - 1).sum(1).mean()


def agreement(training, model, x, labels, warmth=0.1):
    left, right = model(x)
    both = left @ right.T / warmth
    return (F.cross_entropy(both, labels) + F.cross_entropy(both.T, labels)) / 2


def triplets(training, model, x, _):
    left, right = model(x)
    return F.triplet_margin_loss(left, right, right.roll(1, 0), margin=0.5)


def balanced(training, model, x, labels):
    return F.cross_entropy(model(x), labels) + 0.01 * model.balance


def liked(training, model, x, labels):
    return F.binary_cross_entropy_with_logits(model(x), labels)


def overlap(training, model, x, inside):
    share, inside = model(x).softmax(1)[:, 1], inside.float()
    return 1 - (2 * (share * inside).sum() + 1) / (share.sum() + inside.sum() + 1)


def smooth(found, labels):
    return F.cross_entropy(found, labels, label_smoothing=0.1)


def pixels(found, inside):
    return F.cross_entropy(found, inside)


def likelihood(training, model, x, _):
    found, scale = model(x)
    return (0.5 * found**2).sum(1).mean() - scale.mean()


def noise(training, model, x, _):
    share, clean = torch.rand(len(x), 1), x
    added = torch.randn_like(clean)
    noisy = (1 - share).sqrt() * clean + share.sqrt() * added
    return F.mse_loss(model(torch.cat([noisy, share], 1)), added)


def taught(training, model, x, labels):
    found, teacher = model(x)
    return F.kl_div(F.log_softmax(found / 2, 1), (teacher / 2).softmax(1), reduction="batchmean") * 4


def oscillator(training, model, x, _):
    """A physics-informed loss: u'' + u = 0, u(0) = 1, u'(0) = 0, by second derivatives."""
    time = (3 * torch.rand(64, 1)).requires_grad_()
    found = model(time)
    (first,) = torch.autograd.grad(found.sum(), time, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), time, create_graph=True)
    start = torch.zeros(1, 1, requires_grad=True)
    begins = model(start)
    (slope,) = torch.autograd.grad(begins.sum(), start, create_graph=True)
    return ((second + found) ** 2).mean() + ((begins - 1) ** 2 + slope**2).sum()


# loops of their own


def adversarial(training, model, optimizers, watched, penalty=0.0):
    """Both players in turn; with a penalty of the gradient, as in WGAN-GP."""
    for x, _ in training.data(training.steps):
        fake = model.generator(torch.randn(len(x), 4))
        real, false = model.critic(x), model.critic(fake.detach())
        if penalty:
            share = torch.rand(len(x), 1)
            between = (share * x + (1 - share) * fake.detach()).requires_grad_()
            (slope,) = torch.autograd.grad(model.critic(between).sum(), between, create_graph=True)
            loss_d = false.mean() - real.mean() + penalty * ((slope.norm(dim=1) - 1) ** 2).mean()
        else:
            loss_d = (F.softplus(-real) + F.softplus(false)).mean()
        optimizers[0].zero_grad()
        loss_d.backward()
        optimizers[0].step()
        told = model.critic(fake)
        loss_g = -told.mean() if penalty else F.softplus(-told).mean()
        optimizers[1].zero_grad()
        loss_g.backward()
        optimizers[1].step()
        watched.log(loss_d=loss_d, loss_g=loss_g)


def players(rate, **settings):
    def made(model):
        return [torch.optim.Adam(part.parameters(), lr=rate, **settings) for part in (model.critic, model.generator)]

    return made


def corridor(model, random, games=16, length=12):
    """Walk in a corridor of six places to its right end: places, moves and discounted rewards."""
    places, moves, rewards = [], [], []
    for _ in range(games):
        at, seen = 0, []
        for _ in range(length):
            place = F.one_hot(torch.tensor(at), 6).float()
            with torch.no_grad():
                move = int(torch.multinomial(model(place[None])[0][0].softmax(0), 1, generator=random))
            at = max(0, at + 2 * move - 1)
            seen.append((place, move, 1.0 if at == 5 else -0.02))
            if at == 5:
                break
        total = 0.0
        for place, move, reward in reversed(seen):
            total = reward + 0.95 * total
            places.append(place), moves.append(move), rewards.append(total)
    return torch.stack(places), torch.tensor(moves), torch.tensor(rewards)


def reinforced(training, model, optimizer, watched):
    random = torch.Generator().manual_seed(3)
    for _ in range(training.steps):
        places, moves, rewards = corridor(model, random)
        chosen, worth = model(places)
        better = rewards - worth.detach()
        policy = F.log_softmax(chosen, 1)
        loss = -(policy[torch.arange(len(moves)), moves] * better).mean() + 0.5 * F.mse_loss(worth, rewards)
        loss = loss + 0.01 * (policy.exp() * policy).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        watched.log(loss=loss, reward=rewards.mean())


def temporal(training, model, optimizer, watched):
    """Deep Q-learning in the corridor: targets come from a copy that follows, so that the loss may rise first."""
    random, target = torch.Generator().manual_seed(3), training.model()
    target.load_state_dict(model.state_dict())
    for at in range(training.steps):
        places = torch.randint(5, (64,), generator=random)
        moves = torch.randint(2, (64,), generator=random)
        after = (places + 2 * moves - 1).clamp(0)
        with torch.no_grad():
            worth = target(F.one_hot(after, 6).float()).max(1).values
            wanted = torch.where(after == 5, 1.0, 0.9 * worth)
        loss = F.mse_loss(model(F.one_hot(places, 6).float())[torch.arange(64), moves], wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        watched.log(loss=loss)
        if at % 10 == 9:
            target.load_state_dict(model.state_dict())


def whole_batch(training, model, optimizer, watched):
    """LBFGS, whose closure is called several times in a step."""
    x, y = next(iter(training.data(1)))

    def closure():
        optimizer.zero_grad()
        loss = training.objective(training, model, x, y)
        loss.backward()
        return loss

    for _ in range(training.steps):
        watched.log(loss=optimizer.step(closure))


# schedules and settings


def scheduled(kind, **settings):
    return lambda optimizer: kind(optimizer, **settings)


SCHEDULES = torch.optim.lr_scheduler
CYCLIC = scheduled(SCHEDULES.CyclicLR, base_lr=0.005, max_lr=0.1, step_size_up=20)
RESTARTS = scheduled(SCHEDULES.CosineAnnealingWarmRestarts, T_0=40)
ONE_CYCLE = scheduled(SCHEDULES.OneCycleLR, max_lr=0.3, total_steps=160)


def other(kind, **settings):
    return lambda parameters: kind(parameters, **settings)


def asked(model):
    return [one for one in model.parameters() if one.requires_grad]


def itself(model):
    return model


def with_backbone():
    return pretrained(Backbone(), lambda count, seed: shapes(count, seed=20), 60).frozen()


def with_teacher():
    return Teaching(pretrained(mlp(3, nn.ReLU, 48, CLASSES), lambda count, seed: blobs(count, seed=21), 150))


def fine_tuned():
    """Bytes of a model that was trained before, its embedding frozen."""
    model = pretrained(Tagger(), lambda count, seed: sentences(count, seed=22), 120)
    model.embed.requires_grad_(False)
    return model


def graph_net(*widths, **given):
    return lambda: GraphNet(graph()[0], (12, *widths, CLASSES), **given)


def of_blobs(depth=2, act=nn.ReLU, **given):
    return lambda: mlp(depth, act, out=4, **given)


TEXTS, SHAPES = {"data": sentences}, {"data": shapes}
GRAPH, LIKES = {"data": whole_graph}, {"data": likes, "objective": liked}

VARIED_HEALTHY = [
    Training(name, model, **given) for name, model, given in [
        ("GRU, tagger", Tagger, {**TEXTS, "optimizer": adam(5e-3), "steps": 150}),
        ("GRU, RMSprop", partial(Tagger, layers=2), {**TEXTS, "optimizer": other(torch.optim.RMSprop, lr=2e-3),
            "steps": 150}),
        ("LSTM, strong decay", partial(Tagger, nn.LSTM), {**TEXTS, "optimizer": adamw(8e-3, weight_decay=0.5),
            "steps": 200}),
        ("LSTM, both ways, clipped", partial(Tagger, nn.LSTM, bidirectional=True), {**TEXTS, "clip": 0.5,
            "optimizer": adam(5e-3), "steps": 150}),
        ("LSTM, tied", partial(Tagger, nn.LSTM, tied=True), {**TEXTS, "optimizer": adam(5e-3), "steps": 150}),
        ("RNN, sums", Elman, {"data": sums, "loss": mean_square, "optimizer": adam(2e-3), "steps": 150}),
        ("graph, dropout", graph_net(16, dropout=0.5), {**GRAPH, "optimizer": adam(1e-2, weight_decay=5e-4),
            "steps": 200}),
        ("graph, 3 layers, momentum 0.99", graph_net(16, 16), {**GRAPH, "optimizer": sgd(0.02, momentum=0.99),
            "steps": 200}),
        ("graph, ELU", graph_net(24, 24, 24, act=nn.ELU), {**GRAPH, "optimizer": adam(5e-3)}),
        ("autoencoder, convolutions", ConvAutoencoder, {"data": bits, "objective": to_itself, "optimizer": adam(3e-3),
            "steps": 200}),
        ("autoencoder, ELU", lambda: ConvAutoencoder(nn.ELU), {"data": bits, "objective": to_itself, "steps": 150}),
        ("VAE, sums of pixels", Vae, {"data": bits, "objective": evidence, "optimizer": adam(3e-3), "steps": 200}),
        ("VAE, tanh, RMSprop", lambda: Vae(act=nn.Tanh), {"data": bits, "objective": evidence, "steps": 150,
            "optimizer": other(torch.optim.RMSprop, lr=1e-3)}),
        ("GAN", Gan, {"data": moons, "trained": itself, "optimizer": players(2e-3, betas=(0.5, 0.99)),
            "loop": adversarial, "steps": 200}),
        ("GAN, BatchNorm", lambda: Gan(norm=True), {"data": moons, "trained": itself, "loop": adversarial,
            "optimizer": players(1e-3, betas=(0.5, 0.999)), "steps": 150}),
        ("WGAN-GP", Gan, {"data": moons, "trained": itself, "loop": partial(adversarial, penalty=10.0), "steps": 200,
            "optimizer": players(1e-3, betas=(0.0, 0.9))}),
        ("contrastive", Towers, {"data": pairs, "objective": agreement, "optimizer": adam(3e-3), "steps": 150}),
        ("contrastive, large batch, SGD", Towers, {"data": pairs, "objective": agreement, "batch": 128,
            "optimizer": sgd(0.3, momentum=0.9), "schedule": warm(20, 150), "steps": 150}),
        ("triplets", lambda: Towers(48), {"data": pairs, "objective": triplets, "optimizer": adam(3e-3), "steps": 150}),
        ("U-Net", Unet, {"data": discs, "loss": pixels, "optimizer": adam(3e-3)}),
        ("U-Net, overlap", Unet, {"data": discs, "objective": overlap, "optimizer": adamw(2e-3)}),
        ("U-Net, no norm, SGD", lambda: Unet(norm=None), {"data": discs, "loss": pixels, "steps": 150,
            "optimizer": sgd(0.1, momentum=0.9)}),
        ("ViT, long warm-up", Vit, {**SHAPES, "optimizer": adamw(2e-3), "schedule": warm(100, 200), "steps": 200}),
        ("ViT, smoothing and dropout", lambda: Vit(dropout=0.1), {**SHAPES, "loss": smooth, "optimizer": adamw(1e-3),
            "schedule": warm(10), "steps": 150}),
        ("ViT, micro-batches, bfloat16", lambda: Vit(depth=2), {**SHAPES, "micro": 8, "autocast": True, "clip": 1.0,
            "optimizer": adamw(1e-3)}),
        ("experts", lambda: Experts(classes=4), {"data": blobs, "objective": balanced, "optimizer": adam(3e-3),
            "steps": 150}),
        ("experts, best one", lambda: Experts(experts=6, best=2, classes=4), {"data": blobs, "objective": balanced,
            "optimizer": adamw(2e-3), "steps": 150}),
        ("recommender, Adagrad", Recommender, {**LIKES, "optimizer": other(torch.optim.Adagrad, lr=0.1),
            "steps": 200}),
        ("recommender, sparse, SGD", lambda: Recommender(sparse=True), {**LIKES, "optimizer": sgd(1.0), "steps": 200}),
        ("policy gradient", Policy, {"loop": reinforced, "optimizer": adam(5e-3), "steps": 80}),
        ("Q-learning", lambda: nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(),
            nn.Linear(32, 2)), {"loop": temporal, "optimizer": adam(2e-3), "steps": 200}),
        ("regression, targets of 200", lambda: mlp(2, nn.ReLU, 32, 1), {"data": prices, "loss": mean_square,
            "optimizer": adam(2e-2), "steps": 200}),
        ("regression, targets of 200, SGD", lambda: mlp(2, nn.Tanh, 32, 1), {"data": prices, "loss": mean_square,
            "optimizer": sgd(1e-4, momentum=0.9), "steps": 200}),
        ("regression, LBFGS", lambda: mlp(2, nn.Tanh, 24, 1), {"data": partial(prices_scaled, size=256),
            "loss": mean_square, "loop": whole_batch, "steps": 30,
            "optimizer": other(torch.optim.LBFGS, lr=0.5, max_iter=5)}),
        ("head on frozen BatchNorm", with_backbone, {"data": shapes, "trained": asked, "optimizer": adam(3e-3)}),
        ("CNN, cyclic rate", smallest, {**SHAPES, "optimizer": sgd(0.005, momentum=0.9), "schedule": CYCLIC,
            "steps": 200}),
        ("CNN, restarts", smallest, {**SHAPES, "optimizer": adam(5e-3), "schedule": RESTARTS, "steps": 160}),
        ("CNN, batches of 2", smallest, {**SHAPES, "batch": 2, "optimizer": adam(2e-3), "steps": 300}),
        ("CNN, 1-D", conv1d, {"data": series, "optimizer": adam(3e-3), "steps": 200}),
        ("MLP, one by one", of_blobs(), {"batch": 1, "optimizer": sgd(0.02), "steps": 400}),
        ("MLP, batches of 4, dropout", of_blobs(dropout=0.5, width=64), {"batch": 4, "optimizer": adam(2e-3),
            "steps": 400}),
        ("MLP, momentum 0.99", of_blobs(3), {"optimizer": sgd(0.005, momentum=0.99), "steps": 200}),
        ("MLP, Adagrad", of_blobs(3), {"optimizer": other(torch.optim.Adagrad, lr=0.05)}),
        ("MLP, one cycle", of_blobs(3, norm=nn.BatchNorm1d), {"optimizer": sgd(0.01, momentum=0.9),
            "schedule": ONE_CYCLE, "steps": 160}),
        ("MLP, smoothing", of_blobs(), {"loss": smooth, "optimizer": adamw(3e-3, weight_decay=0.3)}),
        ("MLP, PReLU", of_blobs(3, nn.PReLU), {"optimizer": adam(3e-3)}),
        ("MLP, hard swish, Adamax", of_blobs(4, nn.Hardswish), {"optimizer": other(torch.optim.Adamax, lr=5e-3)}),
        ("MLP, softsign, Adam without memory", of_blobs(3, nn.Softsign), {"optimizer": adam(3e-3, betas=(0.5, 0.9))}),
        ("sines", siren, {"data": picture, "loss": mean_square, "optimizer": adam(1e-3), "steps": 200}),
        ("flow", Flow, {"data": moons, "objective": likelihood, "optimizer": adam(5e-3), "steps": 200}),
        ("diffusion", Denoiser, {"data": moons, "objective": noise, "optimizer": adam(3e-3), "steps": 300}),
        ("stochastic depth", DropPath, {"data": blobs, "optimizer": adam(3e-3), "steps": 150}),
        ("distillation", with_teacher, {"data": partial(blobs, seed=21), "objective": taught, "trained": asked,
            "optimizer": adam(3e-3), "steps": 150}),
        ("fine-tuning, embedding frozen", fine_tuned, {**TEXTS, "trained": asked, "optimizer": adam(5e-4)}),
        ("physics", lambda: plain(3, nn.Tanh, 24, 1, 1), {"data": blobs, "objective": oscillator,
            "optimizer": adam(3e-3), "steps": 200}),
    ]
]  # fmt: skip

__all__ = ["VARIED_HEALTHY"]

HEALTHY, FAULTY, make = family((), VARIED_HEALTHY)
