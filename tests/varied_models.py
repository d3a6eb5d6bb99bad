"""Models of other kinds than in tests/small_models.py: what tests/trainings/torch/varied.py and its faults train."""

import math

import torch
import torch.nn.functional as F
from torch import nn

CLASSES, NODES, ITEMS, SIDE = 5, 60, 40, 12


class Tagger(nn.Module):
    """Embedded tokens through a recurrent layer, and a label for each."""

    def __init__(self, kind=nn.GRU, width=24, layers=1, tied=False, tokens=14, **given):
        super().__init__()
        self.embed, self.rnn = nn.Embedding(tokens, width), kind(width, width, layers, batch_first=True, **given)
        self.head = nn.Linear(width * (2 if given.get("bidirectional") else 1), tokens, bias=not tied)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, x):
        return self.head(self.rnn(self.embed(x))[0])


class GraphNet(nn.Module):
    """Graph convolutions with a normalised adjacency matrix, as Kipf and Welling have them."""

    def __init__(self, adjacency, widths=(12, 16, CLASSES), act=nn.ReLU, dropout=0.0):
        super().__init__()
        self.register_buffer("adjacency", adjacency)
        self.convs = nn.ModuleList(nn.Linear(*pair) for pair in zip(widths, widths[1:], strict=False))
        self.acts = nn.ModuleList(act() for _ in widths[2:])
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        for at, conv in enumerate(self.convs):
            x = self.adjacency @ conv(x)
            x = self.dropout(self.acts[at](x)) if at < len(self.acts) else x
        return x


class ConvAutoencoder(nn.Module):
    """Strided convolutions, and transposed ones back."""

    def __init__(self, act=nn.ReLU, width=8):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, width, 3, 2, 1), act(), nn.Conv2d(width, 2 * width, 3, 2, 1), act())
        self.code = nn.Sequential(nn.Flatten(), nn.Linear(2 * width * 9, 12), nn.Linear(12, 2 * width * 9), act())
        self.up = nn.Sequential(
            nn.Unflatten(1, (2 * width, 3, 3)),
            nn.ConvTranspose2d(2 * width, width, 4, 2, 1),
            act(),
            nn.ConvTranspose2d(width, 1, 4, 2, 1),
        )

    def forward(self, x):
        return self.up(self.code(self.down(x)))


class Vae(nn.Module):
    """A variational autoencoder of binary pixels: it returns logits, means and log variances."""

    def __init__(self, size=SIDE * SIDE, hidden=48, latent=4, act=nn.ReLU):
        super().__init__()
        self.fc1, self.mean, self.spread = nn.Linear(size, hidden), nn.Linear(hidden, latent), nn.Linear(hidden, latent)
        self.fc2, self.out, self.act = nn.Linear(latent, hidden), nn.Linear(hidden, size), act()

    def forward(self, x):
        hidden = self.act(self.fc1(x.flatten(1)))
        mean, spread = self.mean(hidden), self.spread(hidden)
        latent = mean + torch.randn_like(mean) * torch.exp(0.5 * spread)
        return self.out(self.act(self.fc2(latent))), mean, spread


class Unet(nn.Module):
    """Two levels, with what was before each pooling brought back beside what comes up."""

    def __init__(self, width=8, norm=nn.BatchNorm2d, classes=2):
        super().__init__()
        self.down1, self.down2 = self.pair(1, width, norm), self.pair(width, 2 * width, norm)
        self.middle = self.pair(2 * width, 4 * width, norm)
        self.up2, self.up1 = self.pair(6 * width, 2 * width, norm), self.pair(3 * width, width, norm)
        self.head = nn.Conv2d(width, classes, 1)

    @staticmethod
    def pair(given, out, norm):
        parts = []
        for each in (given, out):
            parts += [nn.Conv2d(each, out, 3, padding=1), *([norm(out)] if norm else []), nn.ReLU(inplace=True)]
        return nn.Sequential(*parts)

    def forward(self, x):
        first = self.down1(x)
        second = self.down2(F.max_pool2d(first, 2))
        x = self.middle(F.max_pool2d(second, 2))
        x = self.up2(torch.cat([F.interpolate(x, scale_factor=2), second], 1))
        return self.head(self.up1(torch.cat([F.interpolate(x, scale_factor=2), first], 1)))


class Vit(nn.Module):
    """Patches, a class token, and encoder layers that normalise first."""

    def __init__(self, width=32, depth=3, classes=CLASSES, dropout=0.0, patch=3):
        super().__init__()
        self.patches = nn.Conv2d(1, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.place = nn.Parameter(0.02 * torch.randn(1, (SIDE // patch) ** 2 + 1, width))
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 2 * width, dropout, "gelu", batch_first=True, norm_first=True)
            for _ in range(depth)
        )
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.place
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x[:, 0]))


class Experts(nn.Module):
    """A mixture of experts: a router sends each input to the best one or two."""

    def __init__(self, given=16, width=24, experts=4, best=2, classes=CLASSES, hard=False):
        super().__init__()
        self.stem, self.router = nn.Linear(given, width), nn.Linear(width, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)) for _ in range(experts)
        )
        self.head, self.best, self.hard = nn.Linear(width, classes), best, hard
        self.balance = torch.zeros(())

    def forward(self, x):
        x = torch.relu(self.stem(x))
        shares = self.router(x).softmax(-1)
        top, at = shares.topk(self.best, -1)
        top = torch.ones_like(top) if self.hard else top / top.sum(-1, keepdim=True)
        self.balance = len(self.experts) * (shares.mean(0) ** 2).sum()
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows, slot = (at == number).nonzero(as_tuple=True)
            if len(rows):
                out = out.index_add(0, rows, top[rows, slot, None] * expert(x[rows]))
        return self.head(x + out)


class Recommender(nn.Module):
    """Bags of items that a user has liked, against one item more."""

    def __init__(self, width=16, sparse=False):
        super().__init__()
        self.liked = nn.EmbeddingBag(ITEMS, width, mode="mean", sparse=sparse)
        self.item, self.bias = nn.Embedding(ITEMS, width, sparse=sparse), nn.Embedding(ITEMS, 1, sparse=sparse)
        self.tower = nn.Sequential(nn.Linear(2 * width, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        liked, item = self.liked(x[:, :-1]), self.item(x[:, -1])
        return (self.tower(torch.cat([liked, item], 1)) + self.bias(x[:, -1]))[:, 0]


class Towers(nn.Module):
    """Two encoders whose results should agree: one may be detached."""

    def __init__(self, width=32, detached=False):
        super().__init__()
        self.left, self.right = (nn.Sequential(nn.Linear(16, width), nn.ReLU(), nn.Linear(width, 16)) for _ in range(2))
        self.detached = detached

    def forward(self, x):
        left, right = self.left(x[:, 0]), self.right(x[:, 1])
        right = right.detach() if self.detached else right
        return F.normalize(left, dim=1), F.normalize(right, dim=1)


class Gan(nn.Module):
    """A generator of points, and what tells them from those of the data."""

    def __init__(self, width=32, norm=False):
        super().__init__()
        self.generator = nn.Sequential(
            nn.Linear(4, width), *([nn.BatchNorm1d(width)] if norm else []), nn.ReLU(), nn.Linear(width, 2)
        )
        self.critic = nn.Sequential(
            nn.Linear(2, width), nn.LeakyReLU(0.2), nn.Linear(width, width), nn.LeakyReLU(0.2), nn.Linear(width, 1)
        )

    def forward(self, noise):
        return self.critic(self.generator(noise))


class Policy(nn.Module):
    """What to do in a corridor, and what that is worth."""

    def __init__(self, given=6, actions=2, width=32, act=nn.Tanh):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(given, width), act(), nn.Linear(width, width), act())
        self.actor, self.value = nn.Linear(width, actions), nn.Linear(width, 1)

    def forward(self, x):
        x = self.body(x)
        return self.actor(x), self.value(x)[:, 0]


class Sine(nn.Module):
    def forward(self, x):
        return torch.sin(30 * x)


def siren(width=32):
    """Sitzmann et al.: sines of 30 times the sums, and an initialisation that fits."""
    model = nn.Sequential(nn.Linear(2, width), Sine(), nn.Linear(width, width), Sine(), nn.Linear(width, 1))
    with torch.no_grad():
        model[0].weight.uniform_(-0.5, 0.5)
        for at in (2, 4):
            model[at].weight.uniform_(-math.sqrt(6 / width) / 30, math.sqrt(6 / width) / 30)
    return model


class Coupling(nn.Module):
    """One step of a normalising flow: half of the numbers scale and shift the others."""

    def __init__(self, flip, width=24):
        super().__init__()
        self.net, self.flip = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, 2)), flip

    def forward(self, x):
        kept, changed = x.flip(1).chunk(2, 1) if self.flip else x.chunk(2, 1)
        scale, shift = self.net(kept).chunk(2, 1)
        scale = torch.tanh(scale)
        both = [kept, changed * scale.exp() + shift]
        return torch.cat(both[::-1] if self.flip else both, 1), scale.sum(1)


class Flow(nn.Module):
    def __init__(self, depth=4):
        super().__init__()
        self.steps = nn.ModuleList(Coupling(at % 2 == 1) for at in range(depth))

    def forward(self, x):
        total = torch.zeros(len(x))
        for step in self.steps:
            x, scale = step(x)
            total = total + scale
        return x, total


class Denoiser(nn.Module):
    """The noise in a point, given how much of it there is."""

    def __init__(self, width=48):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(1, width), nn.SiLU(), nn.Linear(width, width))
        self.stem, self.hidden, self.out = nn.Linear(2, width), nn.Linear(width, width), nn.Linear(width, 2)

    def forward(self, x):
        hidden = F.silu(self.stem(x[:, :2]) + self.time(x[:, 2:]))
        return self.out(F.silu(self.hidden(hidden)))


class DropPath(nn.Module):
    """Residual blocks, each of which is left out in some steps."""

    def __init__(self, depth=5, width=24, keep=0.6):
        super().__init__()
        self.stem, self.head, self.keep = nn.Linear(16, width), nn.Linear(width, CLASSES), keep
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)) for _ in range(depth)
        )

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            if float(torch.rand(())) < self.keep:
                x = x + block(x)
        return self.head(x)


class Elman(nn.Module):
    """One cell for all places of a sequence, with weights of a given size."""

    def __init__(self, width=24, gain=1.0, length=20, act=torch.relu):
        super().__init__()
        self.given, self.cell, self.head = nn.Linear(1, width), nn.Linear(width, width), nn.Linear(width, 1)
        nn.init.orthogonal_(self.cell.weight, gain)
        self.length, self.act = length, act

    def forward(self, x):
        state = torch.zeros(len(x), self.cell.in_features)
        for at in range(self.length):
            state = self.act(self.given(x[:, at, None]) + self.cell(state))
        return self.head(state)[:, 0]


class Teaching(nn.Module):
    """A student beside a teacher that is not trained."""

    def __init__(self, teacher):
        super().__init__()
        self.teacher = teacher.requires_grad_(False).eval()
        self.student = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, CLASSES))

    def forward(self, x):
        return self.student(x), self.teacher(x)


class Backbone(nn.Module):
    """A pretrained convolutional part with BatchNorm, frozen, and a head."""

    def __init__(self):
        super().__init__()
        parts = []
        for given, out in ((1, 8), (8, 16)):
            parts += [nn.Conv2d(given, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU(), nn.MaxPool2d(2)]
        self.body, self.head = nn.Sequential(*parts, nn.Flatten()), nn.Linear(144, CLASSES)

    def frozen(self):
        self.body.requires_grad_(False).eval()
        self.head = nn.Linear(144, CLASSES)
        return self

    def forward(self, x):
        return self.head(self.body(x))


def plain(depth, act, width=24, given=16, out=CLASSES):
    """Layers one after another, without anything that helps gradients through."""
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(given, width), act()]
        given = width
    return nn.Sequential(*layers, nn.Linear(given, out))


def conv1d(act=nn.ReLU, depth=4, width=12):
    layers = []
    for at in range(depth):
        layers += [nn.Conv1d(1 if at == 0 else width, width, 5, padding=2), act()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(4 * width, CLASSES))


def smallest(depth=3, norm=True):
    """Convolutions with GroupNorm, or without."""
    parts, given = [], 1
    for out in (8, 12, 16)[:depth]:
        norms = [nn.GroupNorm(4, out)] if norm else []
        parts += [nn.Conv2d(given, out, 3, 2, 1), *norms, nn.ReLU(inplace=True)]
        given = out
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(given, CLASSES))
