"""Record the programs whose pages the browser opens, and draw what a notebook shows of some:
``python tests/browser/recorded.py FOLDER``.

This runs where PyTorch is; the tests load the recordings where it is not.
"""

import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import backprobe as bp

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"' & \\ \u2028 é 数"


def two_paths(x, w, b):
    u = x * w
    v = u + b
    loss = v * v + u
    return loss


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(4, 300), nn.Linear(300, 4)

    def forward(self, x):
        hidden = torch.relu(self.up(x))
        return x + self.down(hidden)


class ScaledBlock(Block):
    def forward(self, x):
        hidden = torch.relu(self.up(x)) * 1.5
        return x + self.down(hidden)


class Net(nn.Module):
    def __init__(self, last=Block):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), last()])
        self.head = nn.Linear(4, 3)

    def forward(self, x, labels):
        for block in self.blocks:
            x = block(x)
        loss = F.cross_entropy(self.head(x), labels)
        return loss


class Deep(nn.Module):
    """Layers that are alike, after which come some of another width; in one of them a gradient turns to NaN."""

    def __init__(self, count=40, bad=None):
        super().__init__()
        self.layers = nn.ModuleList([Layer(4, at == bad) for at in range(count)])
        self.last = nn.ModuleList([Layer(6) for _ in range(3)])
        self.widen = nn.Linear(4, 6)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        x = self.widen(x)
        for layer in self.last:
            x = layer(x)
        loss = (x * x).mean()
        return loss


class Layer(nn.Module):
    def __init__(self, width, is_bad=False):
        super().__init__()
        self.up, self.down, self.is_bad = nn.Linear(width, width), nn.Linear(width, width), is_bad

    def forward(self, x):
        hidden = torch.relu(self.up(x))
        if self.is_bad:
            hidden = hidden + 0 * torch.sqrt(hidden - hidden)
        return x + self.down(hidden)


class Stage(nn.Module):
    """Parts of one, two or three layers."""

    def __init__(self, number, count):
        super().__init__()
        self.parts = nn.ModuleList(
            [nn.Sequential(*(nn.Linear(4, 4) for _ in range(1 + (at + number) % 3))) for at in range(count)]
        )

    def forward(self, x):
        for part in self.parts:
            hidden = part(x)
            x = x + torch.relu(hidden)
        return x


class Large(nn.Module):
    """Stages that are not alike: 10,000 values."""

    def __init__(self, stages=42, parts=40):
        super().__init__()
        self.stages = nn.ModuleList([Stage(at, parts) for at in range(stages)])

    def forward(self, x):
        for stage in self.stages:
            x = stage(x)
        loss = (x * x).mean()
        return loss


def turns(x, w, bad=-1):
    h = x
    for at in range(100):
        u = h * w
        if at == bad:
            u = u + 0 * torch.sqrt(u - u)
        h = torch.tanh(u)
    loss = h * h
    return loss


def turns_but(other):
    def program(x, w):
        h = x
        for at in range(100):
            u = h * (w + 0.01 if at == other else w)
            h = torch.tanh(u)
        loss = h * h
        return loss

    return program


def counted(x, w):
    h = x
    for _ in range(100):
        h = torch.tanh(h * w)
    loss = h * h
    return loss


def hostile(x):
    table = {HOSTILE: x * 2}
    made = table[HOSTILE] * 3  # </script><script>alert(3)</script>
    return made


def record(folder: Path) -> None:
    torch.manual_seed(0)
    net, port, batch = Net(), Net(ScaledBlock), (torch.randn(100, 4), torch.randint(0, 3, (100,)))
    port.load_state_dict(net.state_dict())
    recordings = {
        "two_paths": bp.probe(two_paths, partials=True)(3.0, 2.0, 1.0),
        "net": bp.probe(net, partials=True)(*batch),
        "port": bp.probe(port)(*batch),
        "hostile": bp.probe(hostile)(torch.tensor(3.0)),
        "special": bp.probe(lambda x: torch.relu(x - 9) + torch.sqrt(x - x), partials=True)(torch.tensor(1.0)),
    }
    for name, bad in (("deep", None), ("deep_nan", 17)):
        torch.manual_seed(0)
        recordings[name] = bp.probe(Deep(bad=bad))(torch.randn(5, 4))
    given = torch.tensor(0.5), torch.tensor(1.1)
    recordings["turns"] = bp.probe(turns)(*given)
    recordings["turns_nan"] = bp.probe(turns)(*given, bad=37)
    for at in (50, None):
        recordings[f"turns_but_{at}"] = bp.probe(turns_but(at))(*given)
    recordings["counted"] = bp.probe(counted)(*given)
    for name, recording in recordings.items():
        recording.save(folder / name, overwrite=True)
    for name in ("net", "special"):
        (folder / f"{name}.html").write_text(bp.draw(recordings[name])._repr_html_(), encoding="utf-8")
    names = ["blocks.*", "blocks.*.*", "head"]
    clean, corrupt = (batch[0], batch[1]), (batch[0] + 1, batch[1])
    bp.attribute(net, clean, corrupt, names).draw(folder / "attribution.html")
    torch.manual_seed(0)
    bp.draw(bp.probe(Large())(torch.randn(5, 4)), folder / "large.html")


if __name__ == "__main__":
    record(Path(sys.argv[1]))
