"""The references: models of PyTorch, with the layers that ports are made of."""

import math

import torch
import torch.nn.functional as F
from torch import nn

WORDS, WIDTH, HEADS = 7, 8, 2


def seeded(model_class, *args):
    """A model with random parameters, its biases and scales too, and running statistics that are not 0 and 1."""
    torch.manual_seed(0)
    model = model_class(*args)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    for name, buffer in model.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            buffer.uniform_(0.5, 1.5)
    return model


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear1, self.linear2, self.linear3 = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x):
        x = F.relu(self.linear1(x))
        x = F.relu(self.linear2(x))
        return self.linear3(x)


class Stack(nn.Module):
    """Layers without names of their own."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3)])

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return self.layers[-1](x)


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        x = F.avg_pool2d(F.relu(self.conv1(x)), 2)
        x = F.relu(self.conv2(x))
        return self.fc(x.mean((-2, -1)))


class Residual(nn.Module):
    """A block of a residual network, with batch norms."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 3, 3, padding=1, bias=False), nn.BatchNorm2d(3)
        self.conv2, self.bn2 = nn.Conv2d(3, 3, 3, padding=1, bias=False), nn.BatchNorm2d(3)
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return self.fc(F.relu(x + y).mean((2, 3)))


class Recurrent(nn.Module):
    """A cell, one step after the other."""

    def __init__(self):
        super().__init__()
        self.embed, self.cell, self.head = nn.Embedding(WORDS, 5), nn.LSTMCell(5, 5), nn.Linear(5, 3)

    def forward(self, tokens):
        x = self.embed(tokens)
        h = c = torch.zeros(*x.shape[:-2], 5)
        for step in range(x.shape[-2]):
            h, c = self.cell(x[..., step, :], (h, c))
        return self.head(h)


class Lstm(nn.Module):
    """The layer, which runs all steps at once."""

    def __init__(self):
        super().__init__()
        self.embed, self.lstm = nn.Embedding(WORDS, 4), nn.LSTM(4, 5, batch_first=True)
        self.head = nn.Linear(5, 3)

    def forward(self, tokens):
        x, _ = self.lstm(self.embed(tokens))
        return self.head(x[:, -1])


def heads(x):
    return x.reshape(*x.shape[:-1], HEADS, -1).swapaxes(-2, -3)


def mixed(q, k, v):
    """Attention with its heads, in PyTorch."""
    scores = heads(q) @ heads(k).swapaxes(-1, -2) / math.sqrt(WIDTH // HEADS)
    return (scores.softmax(-1) @ heads(v)).swapaxes(-2, -3).reshape(q.shape)


class Attention(nn.Module):
    """Three projections and one of the result, under the names that it is given."""

    def __init__(self, *names):
        super().__init__()
        self.names = names
        for name in names:
            setattr(self, name, nn.Linear(WIDTH, WIDTH))

    def forward(self, x):
        q, k, v, o = (getattr(self, name) for name in self.names)
        return o(mixed(q(x), k(x), v(x)))


class Transformer(nn.Module):
    """One block with layer norms before attention and perceptron."""

    def __init__(self, attention):
        super().__init__()
        self.embed, self.ln_1, self.ln_2 = nn.Embedding(WORDS, WIDTH), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn = attention()
        self.up, self.down, self.head = nn.Linear(WIDTH, 16), nn.Linear(16, WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, tokens):
        x = self.embed(tokens)
        x = x + self.attn(self.ln_1(x))
        x = x + self.down(F.relu(self.up(self.ln_2(x))))
        return self.head(x)


class Torch(Transformer):
    """The same with ``torch.nn.MultiheadAttention`` itself as its attention."""

    def __init__(self):
        super().__init__(lambda: nn.MultiheadAttention(WIDTH, HEADS, batch_first=True))

    def forward(self, tokens):
        x = self.embed(tokens)
        n = self.ln_1(x)
        x = x + self.attn(n, n, n, need_weights=False)[0]
        x = x + self.down(F.relu(self.up(self.ln_2(x))))
        return self.head(x)


class OneProjection(nn.Module):
    """A projection to all of q, k and v at once, as in nanoGPT."""

    def __init__(self):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return self.c_proj(mixed(*self.c_attn(x).chunk(3, -1)))


class InputOutput(nn.Module):
    """A linear layer whose weight lies from input to output, as in GPT-2 of ``transformers``."""

    def __init__(self, size, out):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(size, out)), nn.Parameter(torch.empty(out))

    def forward(self, x):
        return x @ self.weight + self.bias


class InputFirst(OneProjection):
    def __init__(self):
        super().__init__()
        self.c_attn, self.c_proj = InputOutput(WIDTH, 3 * WIDTH), InputOutput(WIDTH, WIDTH)


class GruCell(nn.Module):
    """A cell with three gates, one step after the other."""

    def __init__(self):
        super().__init__()
        self.embed, self.cell, self.head = nn.Embedding(WORDS, 4), nn.GRUCell(4, 5), nn.Linear(5, 3)

    def forward(self, tokens):
        x = self.embed(tokens)
        h = torch.zeros(*x.shape[:-2], 5)
        for step in range(x.shape[-2]):
            h = self.cell(x[..., step, :], h)
        return self.head(h)


class Gru(nn.Module):
    """The layer, which runs all steps at once."""

    def __init__(self):
        super().__init__()
        self.embed, self.gru, self.head = nn.Embedding(WORDS, 4), nn.GRU(4, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, tokens):
        x, _ = self.gru(self.embed(tokens))
        return self.head(x[:, -1])


class Stacked(nn.Module):
    """Two layers, each in both directions, or one of that."""

    def __init__(self, layers=2, bidirectional=False):
        super().__init__()
        self.embed = nn.Embedding(WORDS, 4)
        self.lstm = nn.LSTM(4, 5, layers, batch_first=True, bidirectional=bidirectional)
        self.head = nn.Linear(10 if bidirectional else 5, 3)

    def forward(self, tokens):
        x, _ = self.lstm(self.embed(tokens))
        return self.head(x.sum(1))


class Upsampling(nn.Module):
    """A depthwise convolution, a pointwise one and a transposed one."""

    def __init__(self):
        super().__init__()
        self.depthwise, self.pointwise = nn.Conv2d(3, 3, 3, padding=1, groups=3), nn.Conv2d(3, 4, 1)
        self.up = nn.ConvTranspose2d(4, 2, 3, stride=3)

    def forward(self, x):
        return self.up(F.relu(self.pointwise(F.relu(self.depthwise(x)))))


class Flattened(nn.Module):
    """A linear layer behind the whole feature map."""

    def __init__(self):
        super().__init__()
        self.conv, self.hidden, self.fc = nn.Conv2d(2, 3, 3, padding=1), nn.Linear(3 * 4 * 2, 6), nn.Linear(6, 2)

    def forward(self, x):
        x = F.relu(self.conv(x))
        return self.fc(F.relu(self.hidden(x.flatten(1))))
