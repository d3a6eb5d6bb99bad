"""timm: vision models by name, with fused attention, stochastic depth and an average of their weights."""

import math

import timm
import torch
from timm.layers import DropPath, LayerScale
from timm.loss import LabelSmoothingCrossEntropy, SoftTargetCrossEntropy
from timm.utils import ModelEmaV3
from torch import nn

FRAMEWORK, LIBRARIES = "PyTorch", ("timm",)

TINY = {
    "vit_tiny_patch16_224": {"img_size": 32, "embed_dim": 16, "depth": 2, "num_heads": 2, "num_classes": 3},
    "resnet10t": {"num_classes": 3},
    "convnext_atto": {"num_classes": 3, "depths": (1, 1, 1, 1), "dims": (8, 8, 16, 16)},
}


# https://huggingface.co/docs/timm/training_script
def training(around, name, steps=20, select=None):
    model = timm.create_model(name, **TINY[name])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    criterion = LabelSmoothingCrossEntropy(smoothing=0.1)
    images, labels = torch.randn(4, 3, 32, 32), torch.tensor([0, 1, 2, 0])
    with around(model, select, optimizer=optimizer) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            logits = model(images)
            loss = criterion(logits, labels)
            loss.backward()
            optimizer.step()
    return seen, loss, {path: p.grad for path, p in model.named_parameters()}, list(model.buffers())


def of_model(ask, name, *names):
    rec = ask.block(training, name, 1)
    _, grads, _ = ask.bare(training, name, 1)
    ask.gradients(rec, {path: grad for path, grad in grads.items() if grad is not None})
    ask.names(rec, *names)
    ask.clean(rec)
    last = ask.watched(training, name, 5, steps=5)
    ask.rows(last, *names[:2])


def test_vision_transformer(ask):
    of_model(ask, "vit_tiny_patch16_224", "blocks.0.attn.qkv", "head", "patch_embed.proj", "cls_token", "norm")
    ask.works("a vision transformer: blocks, class token and positions by name, and `bp.watch`")


def test_resnet(ask):
    of_model(ask, "resnet10t", "conv1.0", "fc", "layer1.0.conv1", "layer4.0.bn2.weight")
    ask.works("ResNet")


def test_convnext(ask):
    of_model(ask, "convnext_atto", "stages.0.blocks.0.mlp.fc1", "head.fc", "stem.0")
    ask.works("ConvNeXt, with its scales of layers")


# https://github.com/huggingface/pytorch-image-models/blob/main/timm/layers/drop.py
def dropping(x):
    drop = DropPath(0.5).train()
    kept = drop(x)
    loss = kept.square().sum()
    return loss


def test_stochastic_depth(ask):
    torch.manual_seed(1)
    x = torch.randn(8, 4)
    rec = ask.function(dropping, lambda: (x.clone(),))
    kept = rec["kept"].value
    ask.gradients(rec, {"kept": 2 * kept, "x": 2 * kept * 2 * (kept.abs().sum(1, keepdim=True) > 0)})
    ask.names(rec, "x", "kept", "loss")
    ask.works("`DropPath`: rows that are dropped have a gradient of zero")


def scaled(x):
    scale = LayerScale(4, init_values=0.1)
    gamma = scale.gamma
    out = scale(x)
    loss = out.square().sum()
    return loss


def test_layer_scale(ask):
    x = torch.tensor([[1.0, 2.0, -1.0, 0.5]])
    rec = ask.function(scaled, lambda: (x.clone(),))
    ask.gradients(rec, {"x": 2 * 0.01 * x, "gamma": (2 * 0.1 * x * x)[0], "out": 0.2 * x})
    ask.clean(rec)


def soft(logits, target):
    loss = SoftTargetCrossEntropy()(logits, target)
    return loss


def test_losses_by_hand(ask):
    logits = torch.tensor([[1.0, 0.0, -1.0], [0.5, 0.2, 0.1]])
    target = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]])
    rec = ask.function(soft, lambda: (logits.clone(), target.clone()), wrt="logits")
    ask.gradients(rec, {"logits": (logits.softmax(1) - target) / 2, "loss": 1.0})
    ask.clean(rec)


# https://github.com/huggingface/pytorch-image-models/blob/main/timm/utils/model_ema.py
def averaged(around, steps=20):
    model = nn.Sequential(nn.Linear(4, 3), nn.GELU(), nn.Linear(3, 2))
    average = ModelEmaV3(model, decay=0.9)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(6, 4)
    with around(model, optimizer=optimizer) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            average.update(model)
    return seen, loss, list(average.module.parameters()), [p.grad for p in model.parameters()]


def test_average_of_weights(ask):
    rec = ask.block(averaged, 1)
    *_, grads = ask.bare(averaged, 1)
    ask.gradients(rec, dict(zip(("0.weight", "0.bias", "2.weight", "2.bias"), grads, strict=True)))
    ask.clean(rec)
    ask.rows(ask.watched(averaged), "0.weight", "2.bias")
    ask.works("`ModelEmaV3` beside the model")


# planted: a head that is given features which were cut off, and a norm of a row of zeros
class Cut(nn.Module):
    def __init__(self):
        super().__init__()
        settings = TINY["vit_tiny_patch16_224"] | {"num_classes": 0}
        self.body, self.head = timm.create_model("vit_tiny_patch16_224", **settings), nn.Linear(16, 2)

    def forward(self, images):
        features = self.body.forward_features(images)
        pooled = self.body.forward_head(features, pre_logits=True)
        kept = pooled.detach()  # <- cut
        return self.head(kept)


def cut(around):
    model = Cut()
    with around(model, ["**", ":*"]) as seen:
        loss = model(torch.randn(2, 3, 32, 32)).square().mean()
        loss.backward()
    return seen, loss, model.head.weight.grad


def unit(x):
    length = x.square().sum(1).sqrt()  # <- nan
    out = x / (length[:, None] + 1e-6)
    return out.sum()


def test_planted(ask):
    rec = ask.block(cut)
    ask.cut(rec, Cut.forward)
    ask.statuses(rec, {"body.blocks.0.attn.qkv.weight": "not_connected"})
    rec = ask.function(unit, lambda: (torch.tensor([[0.0, 0.0], [3.0, 4.0]]),), nonfinite=True)
    ask.nan(rec, unit)
    ask.that(math.isnan(rec["x"].grad[0, 0]), "the gradient of the row of zeros is no NaN")
