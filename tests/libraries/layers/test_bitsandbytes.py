"""bitsandbytes on a CPU: weights in 4 bits, whose backward is a function of its own, and optimizers in 8 bits."""

import bitsandbytes as bnb
import torch
from bitsandbytes import functional as F
from torch import nn

FRAMEWORK, LIBRARIES = "PyTorch", ("bitsandbytes",)


# https://huggingface.co/docs/bitsandbytes/reference/nn/linear4bit
def quantised(inputs, outputs, kind="nf4"):
    layer = bnb.nn.Linear4bit(inputs, outputs, bias=False, quant_type=kind, compute_dtype=torch.float32)
    layer.load_state_dict({"weight": torch.randn(outputs, inputs)})
    return layer.to("cpu")


class QLoRA(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = quantised(64, 32)
        self.low, self.high = nn.Linear(64, 4, bias=False), nn.Linear(4, 32, bias=False)

    def forward(self, x):
        plain = self.base(x)
        extra = self.high(self.low(x))
        return plain + extra


TRAINED = ("low.weight", "high.weight")


# https://huggingface.co/docs/bitsandbytes/fsdp_qlora
def training(around, steps=20, select=None):
    model = QLoRA()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    x, y = torch.randn(4, 64), torch.randn(4, 32)
    with around(model, select, optimizer=optimizer) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
    return seen, loss, {name: p.grad for name, p in model.named_parameters() if p.requires_grad}


def test_qlora(ask):
    rec = ask.block(training, 1)
    _, grads = ask.bare(training, 1)
    ask.gradients(rec, grads)
    ask.names(rec, "base", "low", "high", *TRAINED)
    ask.statuses(rec, {"base.weight": "not_float"})
    ask.clean(rec)
    ask.rows(ask.watched(training), *TRAINED)
    ask.works("QLoRA: adapters beside weights in 4 bits, which have no gradient, and `bp.watch`")


# by hand: the derivative of what goes in is the dequantised weight
def layer_alone(around):
    layer = quantised(64, 32)
    x = torch.randn(3, 64, requires_grad=True)
    with around() as seen:
        out = layer(x)
        loss = out.square().sum()
        loss.backward()
    weight = F.dequantize_4bit(layer.weight.data, layer.weight.quant_state)
    return seen, loss, out, weight, x.grad


def test_through_weights_in_4_bits(ask):
    rec = ask.block(layer_alone)
    _, out, weight, grad = ask.bare(layer_alone)
    weight = weight if weight.shape == (32, 64) else weight.T
    ask.that(torch.allclose(grad, 2 * out @ weight, rtol=1e-3, atol=1e-3), "bitsandbytes' own gradient is another one")
    ask.gradients(rec, {"x": grad, "out": 2 * out, "loss": 1.0})
    ask.names(rec, "x", "out", "loss")
    ask.clean(rec)
    ask.works("gradients through a weight in 4 bits to what it is given")


# https://huggingface.co/docs/bitsandbytes/optimizers
def eight_bits(around, kind="AdamW8bit", steps=20):
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
    optimizer = getattr(bnb.optim, kind)(model.parameters(), lr=1e-3)
    x = torch.randn(8, 64)
    with around(model, optimizer=optimizer) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
    return seen, loss, {name: p.grad for name, p in model.named_parameters()}, list(model.parameters())


NAMES = ("0.weight", "0.bias", "2.weight", "2.bias")


def test_optimizer_in_8_bits(ask):
    rec = ask.block(eight_bits, "AdamW8bit", 1)
    _, grads, _ = ask.bare(eight_bits, "AdamW8bit", 1)
    ask.gradients(rec, grads)
    ask.names(rec, *NAMES)
    ask.clean(rec)
    ask.rows(ask.watched(eight_bits), *NAMES)
    ask.works("`AdamW8bit` under `bp.watch`")


class Embedded(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = bnb.nn.StableEmbedding(10, 8)
        self.head = nn.Linear(8, 10)

    def forward(self, ids):
        vectors = self.tokens(ids)
        return self.head(vectors)


# https://huggingface.co/docs/bitsandbytes/reference/nn/embeddings
def embedded(around, steps=20):
    model = Embedded()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    ids = torch.tensor([[1, 2, 3, 1]])
    with around(model, ["**", ":*"] if steps == 1 else None, optimizer=optimizer) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            logits = model(ids)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten())
            loss.backward()
            optimizer.step()
    return seen, loss, {name: p.grad for name, p in model.named_parameters()}


def test_stable_embedding(ask):
    rec = ask.block(embedded, 1)
    _, grads = ask.bare(embedded, 1)
    ask.gradients(rec, grads)
    ask.names(rec, "tokens", "tokens.norm", "head", ":vectors")
    ask.clean(rec)
    ask.rows(ask.watched(embedded), "tokens.weight", "head.weight")
    ask.works("`StableEmbedding`")


# planted
def cut(around):
    layer, head = quantised(64, 32), nn.Linear(32, 2)
    low = nn.Linear(64, 64)
    with around() as seen:
        hidden = low(torch.ones(2, 64))
        rounded = layer(hidden).detach()  # <- cut
        loss = head(rounded).square().mean()
        loss.backward()
    return seen, loss, head.weight.grad


def nan(around):
    layer, low = quantised(64, 32), nn.Linear(64, 64)
    with around() as seen:
        out = layer(low(torch.ones(2, 64)))
        zero = out * 0
        root = zero.sqrt()  # <- nan
        loss = root.sum()
        loss.backward()
    return seen, loss


def test_planted(ask):
    rec = ask.block(cut)
    ask.cut(rec, cut)
    ask.statuses(rec, {"hidden": "not_connected"})
    rec = ask.block(nan, nonfinite=True)
    ask.nan(rec, nan)
