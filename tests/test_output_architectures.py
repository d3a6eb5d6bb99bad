"""``of=`` an element of what a random module of 12 architectures returns, against forward hooks by hand, bitwise."""

import random

import pytest
import torch
from torch import nn

import backprobe as bp
from test_real_models import ZOO, inputs
from test_replace_models import IMAGES, ROWS, STEPS, Experts, Recurrent, Residual

DRAWS = 4


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.middle = nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.up, self.out = nn.ConvTranspose2d(4, 4, 3, stride=2, padding=1), nn.Conv2d(7, 1, 1)

    def forward(self, x):
        low = self.down(x).relu()
        return self.out(torch.cat([self.up(self.middle(low).relu()), x], dim=1))


class Shared(nn.Module):
    """One block that is called three times, as in ALBERT."""

    def __init__(self):
        super().__init__()
        self.block, self.head = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), nn.Linear(4, 2)

    def forward(self, x):
        for _ in range(3):
            x = x + self.block(x)
        return {"logits": self.head(x)}


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.head = nn.GRU(4, 5, batch_first=True, bidirectional=True), nn.Linear(10, 2)

    def forward(self, x):
        every, last = self.gru(x)
        return self.head(every), last


MODELS = {
    **{name: (make, lambda name=name: ((), inputs(name))) for name, make in ZOO.items()},
    "lstm": (Recurrent, lambda: ((STEPS,), {})),
    "gru": (Gated, lambda: ((STEPS,), {})),
    "resnet": (lambda: nn.Sequential(Residual(), Residual()), lambda: ((IMAGES,), {})),
    "unet": (UNet, lambda: ((IMAGES,), {})),
    "mixture": (Experts, lambda: ((ROWS,), {})),
    "shared": (Shared, lambda: ((ROWS,), {})),
}


def outputs_by_hook(model, args, kwargs):
    """What each module returns, by its path and the count of the call: the tensors, and their leaves as texts."""
    found, handles = [], []
    for path, module in model.named_modules():
        handles.append(
            module.register_forward_hook(lambda module, given, output, path=path: found.append((path, output)))
        )
    try:
        model(*args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
    counts, named = {}, []
    for path, output in found:
        counts[path] = count = counts.get(path, -1) + 1
        if path:
            pairs = [("", output)] if isinstance(output, torch.Tensor) else list(enumerate(output))
            named += [(path, count, leaf, one) for leaf, one in pairs if isinstance(one, torch.Tensor)]
    return [
        (path, count, leaf, one, counts[path])
        for path, count, leaf, one in named
        if one.requires_grad and one.numel() and one._version == 0
    ]


def test_there_are_twelve():
    assert len(MODELS) == 12


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", MODELS)
def test_an_element_of_what_a_random_module_returns(name):
    make, given = MODELS[name]
    torch.manual_seed(0)
    model = make().eval()
    args, kwargs = given()
    parameters = dict(model.named_parameters())
    chance = random.Random(name)
    for _ in range(DRAWS):
        path, count, leaf, output, last = chance.choice(outputs_by_hook(model, args, kwargs))
        index = tuple(chance.randrange(-size, size) for size in output.shape)
        of = path + (f"#{count}" if last else "") + (f":return.{leaf}" if leaf != "" else "") + str([*index])
        by_hand = torch.autograd.grad(output[index], list(parameters.values()), allow_unused=True)
        rec = bp.probe(model, "**", of=of)(*args, **kwargs)
        assert torch.equal(rec.outputs[0].value, output[index].detach()), of
        for (key, parameter), gradient in zip(parameters.items(), by_hand, strict=True):
            found = rec[key].grad_or_none
            assert (found is None) == (gradient is None), (of, key)
            assert found is None or torch.equal(found, gradient), (of, key)
            assert parameter.grad is None
