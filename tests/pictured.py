"""Models that people draw, small: the shapes of their graphs are those of the real ones."""

import torch
import torch.nn.functional as F
from torch import nn

import backprobe as bp
from small_models import small_gpt2


class MLP(nn.Module):
    """Twelve layers, one after the other."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(12))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x.pow(2).mean()


class BasicBlock(nn.Module):
    def __init__(self, entering, leaving, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(entering, leaving, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(leaving)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(leaving, leaving, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(leaving)
        self.downsample = None
        if stride != 1 or entering != leaving:
            self.downsample = nn.Sequential(
                nn.Conv2d(entering, leaving, 1, stride, bias=False), nn.BatchNorm2d(leaving)
            )

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet18(nn.Module):
    """With the names of torchvision's, and few channels."""

    def __init__(self, width=4):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = self.layer(width, width, 1)
        self.layer2 = self.layer(width, 2 * width, 2)
        self.layer3 = self.layer(2 * width, 4 * width, 2)
        self.layer4 = self.layer(4 * width, 8 * width, 2)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(8 * width, 10)

    @staticmethod
    def layer(entering, leaving, stride):
        return nn.Sequential(BasicBlock(entering, leaving, stride), BasicBlock(leaving, leaving, 1))

    def forward(self, x, y):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        logits = self.fc(torch.flatten(self.avgpool(x), 1))
        return F.cross_entropy(logits, y)


class Expert(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Mixture(nn.Module):
    """Each token goes to the best two of four experts."""

    def __init__(self, width=8, experts=4):
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.experts = nn.ModuleList(Expert(width) for _ in range(experts))

    def forward(self, x):
        weights = self.router(x).softmax(-1)
        top, chosen = weights.topk(2, -1)
        top = top / top.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        for at, expert in enumerate(self.experts):
            token, slot = torch.where(chosen == at)
            out = out.index_add(0, token, top[token, slot, None] * expert(x[token]))
        return out


class MixtureModel(nn.Module):
    def __init__(self, width=8, layers=2):
        super().__init__()
        self.embed = nn.Embedding(50, width)
        self.layers = nn.ModuleList(Mixture(width) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.head = nn.Linear(width, 50)

    def forward(self, ids):
        h = self.embed(ids)
        for norm, layer in zip(self.norms, self.layers, strict=True):
            h = h + layer(norm(h))
        return F.cross_entropy(self.head(h), ids)


class DoubleConv(nn.Sequential):
    def __init__(self, entering, leaving):
        super().__init__(
            nn.Conv2d(entering, leaving, 3, padding=1), nn.ReLU(), nn.Conv2d(leaving, leaving, 3, padding=1), nn.ReLU()
        )


class UNet(nn.Module):
    """Three floors down and up again, with a skip on each."""

    def __init__(self, width=4):
        super().__init__()
        sizes = [width, 2 * width, 4 * width]
        self.down = nn.ModuleList(map(DoubleConv, [1, *sizes[:-1]], sizes))
        self.bottom = DoubleConv(sizes[-1], 2 * sizes[-1])
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * size, size, 2, 2) for size in reversed(sizes))
        self.merge = nn.ModuleList(DoubleConv(2 * size, size) for size in reversed(sizes))
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, image, mask):
        x, skips = image, []
        for down in self.down:
            x = down(x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.bottom(x)
        for up, merge, skip in zip(self.up, self.merge, reversed(skips), strict=True):
            x = merge(torch.cat([skip, up(x)], 1))
        return F.binary_cross_entropy_with_logits(self.out(x), mask)


class Recurrent(nn.Module):
    """An LSTM's cell over twenty steps."""

    def __init__(self, width=8):
        super().__init__()
        self.cell = nn.LSTMCell(4, width)
        self.head = nn.Linear(width, 1)

    def forward(self, steps):
        h = c = steps.new_zeros(steps.shape[1], self.cell.hidden_size)
        for step in steps:
            h, c = self.cell(step, (h, c))
        return self.head(h).pow(2).mean()


def recorded(name, **options):
    """A recording of one of the models, by its name here."""
    torch.manual_seed(0)
    if name == "gpt2":
        model, ids = small_gpt2(12)
        return bp.probe(model, of="loss", **options)(ids, labels=ids)
    model, arguments = {
        "mlp": lambda: (MLP(), [torch.randn(4, 16)]),
        "resnet": lambda: (ResNet18(), [torch.randn(2, 3, 64, 64), torch.tensor([1, 2])]),
        "mixture": lambda: (MixtureModel(), [torch.randint(0, 50, (12,))]),
        "unet": lambda: (UNet(), [torch.randn(1, 1, 16, 16), torch.ones(1, 1, 16, 16)]),
        "lstm": lambda: (Recurrent(), [torch.randn(20, 3, 4)]),
    }[name]()
    return bp.probe(model, **options)(*arguments)


MODELS = "mlp", "resnet", "gpt2", "mixture", "unet", "lstm"
