"""torchao: quantised weights as tensors of a class of their own, and training that simulates quantisation."""

import torch
from torch import nn
from torchao.quantization import Int8WeightOnlyConfig, quantize_
from torchao.quantization.qat import FakeQuantizedLinear, IntxFakeQuantizeConfig, QATConfig

FRAMEWORK, LIBRARIES = "PyTorch", ("torchao",)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x):
        hidden = torch.relu(self.up(x))
        return self.down(hidden)


WEIGHTS = IntxFakeQuantizeConfig(torch.int8, group_size=32)


# https://docs.pytorch.org/ao/stable/finetuning.html: training with fake quantised weights
def simulated(around, steps=20, select=None):
    model = Net()
    quantize_(model, QATConfig(weight_config=WEIGHTS, step="prepare"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x, y = torch.randn(4, 32), torch.randn(4, 32)
    with around(model, select, optimizer=optimizer) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            out = model(x)
            loss = nn.functional.mse_loss(out, y)
            loss.backward()
            optimizer.step()
    return seen, loss, {name: p.grad for name, p in model.named_parameters()}


NAMES = ("up.weight", "up.bias", "down.weight", "down.bias")


def test_quantisation_aware_training(ask):
    rec = ask.block(simulated, 1)
    _, grads = ask.bare(simulated, 1)
    ask.gradients(rec, grads)
    ask.names(rec, "up", "down", *NAMES)
    ask.clean(rec)
    ask.rows(ask.watched(simulated), *NAMES)
    ask.works("training that simulates quantised weights (QAT): every weight by path, and `bp.watch`")


# by hand: rounding is straight-through, so that the derivative with respect to the weight is that of a plain layer
def one_layer(around):
    layer = FakeQuantizedLinear(32, 4, bias=False, weight_config=WEIGHTS)
    x = torch.randn(3, 32)
    with around(layer) as seen:
        out = layer(x)
        loss = out.square().sum()
        loss.backward()
    return seen, loss, x, out, layer.weight.grad


def test_fake_quantised_layer_by_hand(ask):
    rec = ask.block(one_layer)
    _, x, out, grad = ask.bare(one_layer)
    ask.gradients(rec, {"weight": (2 * out).T @ x, "return": 2 * out})
    ask.that(torch.allclose(grad, (2 * out).T @ x, rtol=1e-4), "torchao's own gradient is another one")
    ask.clean(rec)


# https://docs.pytorch.org/ao/stable/quick_start.html: weights in 8 bits, which are not trained
class Adapted(nn.Module):
    def __init__(self):
        super().__init__()
        self.base, self.low, self.high = nn.Linear(32, 8, bias=False), nn.Linear(32, 2), nn.Linear(2, 8)

    def forward(self, x):
        plain = self.base(x)
        extra = self.high(self.low(x))
        return plain + extra


def frozen(around, steps=20, select=None):
    model = Adapted()
    quantize_(model, Int8WeightOnlyConfig(), filter_fn=lambda module, name: name == "base")
    model.base.weight.requires_grad_(False)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    x, y = torch.randn(4, 32), torch.randn(4, 8)
    with around(model, select, optimizer=optimizer) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
    return seen, loss, {name: p.grad for name, p in model.named_parameters() if p.requires_grad}


TRAINED = ("low.weight", "low.bias", "high.weight", "high.bias")


def test_adapters_of_quantised_weights(ask):
    rec = ask.block(frozen, 1)
    _, grads = ask.bare(frozen, 1)
    ask.gradients(rec, grads)
    ask.statuses(rec, {"base.weight": "frozen"})
    ask.names(rec, "base", "low", "high", *TRAINED)
    ask.clean(rec)
    ask.rows(ask.watched(frozen), *TRAINED)
    ask.works("layers beside int8 weights, which are said to be frozen")


def through(x):
    layer = nn.Linear(32, 4, bias=False)
    quantize_(layer, Int8WeightOnlyConfig())
    out = layer(x)
    return out.square().sum()


def test_through_a_quantised_weight(ask):
    x = torch.randn(3, 32, generator=torch.Generator().manual_seed(1))
    leaf = x.clone().requires_grad_()
    torch.manual_seed(0)
    right = torch.autograd.grad(through(leaf), leaf)[0]
    rec = ask.function(through, lambda: (x.clone(),))
    ask.gradients(rec, {"x": right, "out": 2 * rec["out"].value})
    ask.names(rec, "x", "out")
    ask.clean(rec)
    ask.works("the gradient through a quantised weight to what it is given")


# planted
def nan(around):
    layer = FakeQuantizedLinear(32, 4, bias=False, weight_config=WEIGHTS)
    x = torch.randn(3, 32)
    with around() as seen:
        out = layer(x) * 0
        root = out.sqrt()  # <- nan
        loss = root.sum()
        loss.backward()
    return seen, loss


def test_planted(ask):
    rec = ask.block(nan, nonfinite=True)
    ask.nan(rec, nan)


def detached(around):
    model = Net()
    quantize_(model, QATConfig(weight_config=WEIGHTS, step="prepare"))
    x = torch.randn(4, 32)
    with around() as seen:
        hidden = torch.relu(model.up(x))
        kept = hidden.detach()  # <- cut
        loss = model.down(kept).square().mean()
        loss.backward()
    return seen, loss, model.down.weight.grad


def test_planted_cut(ask):
    rec = ask.block(detached)
    ask.cut(rec, detached)
    ask.statuses(rec, {"hidden": ("not_connected", "")})


def test_conversion_after_training(ask):
    """After the step ``convert`` the weights are integers: nothing of them is trained."""

    def converted(x):
        model = Net()
        quantize_(model, QATConfig(weight_config=WEIGHTS, step="prepare"))
        quantize_(model, QATConfig(Int8WeightOnlyConfig(), step="convert"))
        out = model(x)
        return out.sum()

    x = torch.randn(2, 32, generator=torch.Generator().manual_seed(1))
    leaf = x.clone().requires_grad_()
    torch.manual_seed(0)
    right = torch.autograd.grad(converted(leaf), leaf)[0]
    rec = ask.function(converted, lambda: (x.clone(),))
    ask.gradients(rec, {"x": right, "out": torch.ones(2, 32)})
    ask.clean(rec)
