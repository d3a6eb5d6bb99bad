"""Small models, and data that some of them can learn in seconds, as tests/trainings/torch/chosen.py trains them."""

import logging
import math

import torch
import torch.nn.functional as F
from torch import nn

CLASSES, FEATURES, SIDE, TOKENS, LENGTH = 4, 16, 8, 12, 8


def blobs(count, size=64, seed=0):
    """Points around a centre for each class, one batch after the other."""
    random = torch.Generator().manual_seed(seed)
    centres = torch.randn(CLASSES, FEATURES, generator=random)
    for _ in range(count):
        labels = torch.randint(CLASSES, (size,), generator=random)
        x = centres[labels] + 0.7 * torch.randn(size, FEATURES, generator=random)
        yield x / math.sqrt(1.5), labels


def images(count, size=32, seed=0):
    """Stripes of four directions, in noise."""
    random = torch.Generator().manual_seed(seed)
    patterns = torch.randn(CLASSES, 1, SIDE, SIDE, generator=random)
    for _ in range(count):
        labels = torch.randint(CLASSES, (size,), generator=random)
        x = patterns[labels] + 0.7 * torch.randn(size, 1, SIDE, SIDE, generator=random)
        yield x / math.sqrt(1.5), labels


def sequences(count, size=64, seed=0):
    """Sequences of numbers around one for each class."""
    random = torch.Generator().manual_seed(seed)
    patterns = torch.randn(CLASSES, LENGTH, 4, generator=random)
    for _ in range(count):
        labels = torch.randint(CLASSES, (size,), generator=random)
        x = patterns[labels] + 0.7 * torch.randn(size, LENGTH, 4, generator=random)
        yield x / math.sqrt(1.5), labels


def texts(count, size=32, seed=0):
    """Tokens, each of which mostly follows from the one before; labels are the next ones."""
    random = torch.Generator().manual_seed(seed)
    following = torch.randperm(TOKENS, generator=random)
    for _ in range(count):
        x = [torch.randint(TOKENS, (size,), generator=random)]
        for _ in range(LENGTH):
            other = torch.randint(TOKENS, (size,), generator=random)
            x.append(torch.where(torch.rand(size, generator=random) < 0.9, following[x[-1]], other))
        whole = torch.stack(x, 1)
        yield whole[:, :-1], whole[:, 1:]


def curve(count, size=64, seed=0):
    """Numbers, and a smooth function of them."""
    random = torch.Generator().manual_seed(seed)
    direction = torch.randn(FEATURES, generator=random) / 2
    for _ in range(count):
        x = torch.randn(size, FEATURES, generator=random)
        yield x, torch.tanh(x @ direction)[:, None] + 0.1 * torch.randn(size, 1, generator=random)


def cross_entropy(found, labels):
    return F.cross_entropy(found.reshape(-1, found.shape[-1]), labels.reshape(-1))


def mlp(depth=3, act=nn.ReLU, width=32, out=CLASSES, norm=None, dropout=0.0):
    layers, given = [], FEATURES
    for _ in range(depth):
        layers += [nn.Linear(given, width), *([norm(width)] if norm else []), act()]
        layers += [nn.Dropout(dropout)] if dropout else []
        given = width
    return nn.Sequential(*layers, nn.Linear(given, out))


class Residual(nn.Module):
    """Blocks whose last layer may begin at zero."""

    def __init__(self, depth=4, width=32, zero=True):
        super().__init__()
        self.stem = nn.Linear(FEATURES, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
            for _ in range(depth)
        )
        for block in self.blocks if zero else ():
            nn.init.zeros_(block[3].weight)
            nn.init.zeros_(block[3].bias)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


def cnn(norm=False, act=nn.ReLU, group=False):
    made = []
    for given, out in ((1, 8), (8, 16), (16, 16)):
        made.append(nn.Conv2d(given, out, 3, padding=1))
        made += [nn.BatchNorm2d(out)] if norm else [nn.GroupNorm(4, out)] if group else []
        made.append(act())
        made += [nn.MaxPool2d(2)] if out == 16 and given == 8 else []
    return nn.Sequential(*made, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, CLASSES))


class Recurrent(nn.Module):
    def __init__(self, kind=nn.GRU, width=24, layers=1):
        super().__init__()
        self.rnn = kind(4, width, layers, batch_first=True)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1])


class Unrolled(nn.Module):
    """A recurrent network written out: a module for each place in the sequence."""

    def __init__(self, width=24, act=torch.tanh):
        super().__init__()
        self.steps = nn.ModuleList(nn.Linear(4 + width, width) for _ in range(LENGTH))
        self.head, self.act, self.width = nn.Linear(width, CLASSES), act, width

    def forward(self, x):
        state = x.new_zeros(len(x), self.width)
        for at, step in enumerate(self.steps):
            state = self.act(step(torch.cat([x[:, at], state], 1)))
        return self.head(state)


class Block(nn.Module):
    def __init__(self, width, act=nn.GELU, dropout=0.0, first=True):
        super().__init__()
        self.first = first  # is it normalised before attention, or after?
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), act(), nn.Linear(2 * width, width), nn.Dropout(dropout))

    def attend(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True))

    def forward(self, x):
        if self.first:
            x = x + self.attend(self.norm1(x))
            return x + self.mlp(self.norm2(x))
        x = self.norm1(x + self.attend(x))
        return self.norm2(x + self.mlp(x))


class Transformer(nn.Module):
    def __init__(self, depth=3, width=32, tied=False, **block):
        super().__init__()
        self.embed, self.place = nn.Embedding(TOKENS, width), nn.Embedding(LENGTH, width)
        self.blocks = nn.ModuleList(Block(width, **block) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, TOKENS, bias=False)
        if tied:
            nn.init.normal_(self.embed.weight, std=0.1)
            self.head.weight = self.embed.weight

    def forward(self, x):
        x = self.embed(x) + self.place(torch.arange(x.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Branches(nn.Module):
    """Two branches, of which one may be detached."""

    def __init__(self, detached="", kind=None):
        super().__init__()
        made = kind or (lambda: nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, 16)))
        self.left, self.right, self.detached = made(), made(), detached
        self.head = nn.Linear(32, CLASSES)

    def forward(self, x):
        left = self.left(x)
        if self.detached == "no_grad":
            with torch.no_grad():
                right = self.right(x)
        else:
            right = self.right(x)
        right = right.detach() if self.detached == "detach" else right
        return self.head(torch.cat([left, right], 1))


class Lora(nn.Module):
    """A frozen layer, and two factors beside it, of which the second begins at zero."""

    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


class Autoencoder(nn.Module):
    def __init__(self, variational=False):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, 8))
        self.decoder = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, FEATURES))
        self.variational = variational

    def forward(self, x):
        mean, spread = self.encoder(x).chunk(2, -1)
        noise = torch.randn_like(mean) * torch.exp(spread / 2) if self.variational else 0
        return self.decoder(mean + noise), mean, spread


def scaled(model, factor, but=()):
    """The same with weights of another size, as a wrong initialisation gives them."""
    with torch.no_grad():
        for name, one in model.named_parameters():
            if one.dim() > 1 and not name.startswith(but or ("-",)):
                one.mul_(factor)
    return model


def small_gpt2(layers=2, width=64):
    """A GPT-2 with random weights, and a batch of tokens."""
    import transformers

    logging.getLogger("transformers").setLevel(logging.ERROR)
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        n_embd=width,
        n_layer=layers,
        n_head=4,
        vocab_size=1000,
        n_positions=128,
        bos_token_id=0,
        eos_token_id=0,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
        attn_implementation="eager",
        loss_type="ForCausalLM",
    )
    return transformers.GPT2LMHeadModel(config), torch.randint(0, 1000, (2, 16))
