# from: own
# ask: python
import torch
from torch import nn

import backprobe as bp


class Decorated(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 1)

    @torch.no_grad()
    def forward(self, x):
        return self.lin(x)


def square(y):
    return y.square().mean()


def told(model, of, around=torch.enable_grad):
    """The notes of the error that a probe raises."""
    try:
        with around():
            bp.probe(model, of=of)(x)
    except bp.NothingToDifferentiate as error:
        return "\n".join([str(error), *getattr(error, "__notes__", ())])
    raise AssertionError("nothing was raised")


def cut(y):
    return y.detach().mean()


def item(y):
    return torch.tensor(y.mean().item())


def position(y):
    return y.argmax().float()


def through_numpy(y):
    return torch.from_numpy(y.detach().numpy()).mean()


def switched_off(y):
    with torch.no_grad():
        return y.mean()


x = torch.randn(3, 4)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
frozen = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1)).requires_grad_(False)
assert "under torch.no_grad()" in told(model, square, torch.no_grad)
assert "under torch.inference_mode()" in told(model, square, torch.inference_mode)
assert "under torch.no_grad()" in told(Decorated(), square)
assert "detach()" in told(model, cut)
assert ".item()" in told(model, item)
assert "argmax()" in told(model, position)
assert "detach()" in told(model, lambda y: y.detach().mean())
assert "numpy()" in told(model, through_numpy)
assert "switched_off, given as of=" in told(model, switched_off)
assert "requires a gradient" in told(frozen, square), told(frozen, square)
