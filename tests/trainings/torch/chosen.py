"""Small trainings on which thresholds were chosen, each fault planted in several models, and as many healthy ones."""

import torch
import torch.nn.functional as F
from torch import nn

from small_models import (
    Autoencoder,
    Branches,
    Lora,
    Recurrent,
    Residual,
    Transformer,
    Unrolled,
    blobs,
    cnn,
    curve,
    images,
    mlp,
    scaled,
    sequences,
    texts,
)
from trainings.torch._small import (
    EXPLODING,
    LONG,
    TOO_FAST,
    TOO_SLOW,
    VANISHING,
    Training,
    adam,
    adamw,
    but,
    dead,
    family,
    groups,
    mean_square,
    planted,
    pretrained,
    replaced,
    sgd,
    shuffled,
    tanh_mlp,
    warm,
)
from trainings.torch.held_out import CHANGED_FAULTS, CHANGED_HEALTHY

CHOSEN_FAULTS = [
    *planted(
        "initialisation × 0.01",
        VANISHING,
        ("MLP", lambda: scaled(mlp(), 0.01), {}),
        ("deep MLP", lambda: scaled(mlp(6), 0.01), {"optimizer": sgd()}),
        ("tanh", lambda: scaled(mlp(4, nn.Tanh), 0.01), {"steps": 60}),
        ("CNN", lambda: scaled(cnn(), 0.01), {"data": images, "optimizer": sgd()}),
        ("RNN", lambda: scaled(Unrolled(), 0.01), {"data": sequences, "optimizer": sgd()}),
    ),
    *planted(
        "initialisation × 20",
        EXPLODING,
        ("MLP", lambda: scaled(mlp(4), 20), {}),
        ("tanh", lambda: scaled(mlp(4, nn.Tanh), 20), {}),
        ("CNN", lambda: scaled(cnn(), 20), {"data": images}),
        ("RNN", lambda: scaled(Unrolled(), 20), {"data": sequences, "steps": 60}),
    ),
    *planted(
        "a stack of sigmoids",
        VANISHING,
        ("6 layers", lambda: mlp(6, nn.Sigmoid), {}),
        ("10 layers", lambda: mlp(10, nn.Sigmoid), {"optimizer": sgd()}),
        ("RNN", lambda: Unrolled(act=torch.sigmoid), {"data": sequences, "steps": 60}),
    ),
    *planted(
        "learning rate × 100",
        TOO_FAST,
        ("MLP, Adam", mlp, {"optimizer": adam(0.3)}),
        ("MLP, SGD", mlp, {"optimizer": sgd(10.0)}),
        ("tanh, SGD", tanh_mlp, {"optimizer": sgd(10.0), "steps": 60}),
        ("CNN, SGD", cnn, {"data": images, "optimizer": sgd(10.0)}),
        ("GRU, Adam", Recurrent, {"data": sequences, "optimizer": adam(0.3)}),
        ("transformer, Adam", Transformer, {"data": texts, "optimizer": adam(0.3)}),
    ),
    *planted(
        "learning rate / 1000",
        TOO_SLOW,
        ("MLP, Adam", mlp, {"optimizer": adam(3e-6), "steps": 200}),
        ("MLP, SGD", mlp, {"optimizer": sgd(1e-4), "steps": 200}),
        ("CNN, SGD", cnn, {"data": images, "optimizer": sgd(1e-4), "steps": 200}),
        ("transformer, Adam", Transformer, {"data": texts, "optimizer": adam(3e-6), "steps": 200}),
    ),
    *planted(
        "dead ReLUs",
        ("dead",),
        ("first layer", lambda: dead(mlp(), "0.bias"), {}),
        ("all layers", lambda: dead(mlp(), "0.bias", "2.bias", "4.bias"), {"steps": 60}),
        ("CNN", lambda: dead(cnn(), "2.bias"), {"data": images, "optimizer": sgd()}),
        ("transformer", lambda: dead(Transformer(act=nn.ReLU), "blocks.1.mlp.0.bias"), {"data": texts}),
    ),
    *planted(
        "a part that is not trained",
        ("left_out", "unchanged"),
        ("MLP, left out", mlp, {"trained": lambda model: but(model, "0.")}),
        ("MLP, exchanged", mlp, {"trained": replaced}),
        ("CNN, rate 0", cnn, {"data": images, "trained": lambda model: groups(model, "0.")}),
        ("transformer, left out", Transformer, {"data": texts, "trained": lambda model: but(model, "blocks.0.")}),
    ),
    *planted(
        "zero_grad is missing",
        ("accumulated",),
        ("MLP", mlp, {"clears": False}),
        ("CNN", cnn, {"data": images, "clears": False, "optimizer": sgd(0.02)}),
        ("transformer", Transformer, {"data": texts, "clears": False, "steps": 60}),
        ("micro-batches", lambda: mlp(norm=nn.LayerNorm), {"clears": False, "micro": 2}),
    ),
    *planted(
        "labels of other inputs",
        ("flat_loss",),
        ("MLP", mlp, {**LONG, "labels": shuffled, "batch": 256}),
        ("tanh", tanh_mlp, {**LONG, "labels": shuffled, "batch": 256, "optimizer": sgd(0.1, momentum=0.9)}),
        ("CNN", cnn, {**LONG, "data": images, "labels": shuffled, "batch": 128}),
        ("GRU", Recurrent, {**LONG, "data": sequences, "labels": shuffled, "batch": 256}),
    ),
    *planted(
        "inputs that are not scaled",
        ("large_values",),
        ("MLP × 255", mlp, {"inputs": lambda x: 255 * x}),
        ("tanh × 1000", tanh_mlp, {"inputs": lambda x: 1000 * x, "steps": 60}),
        ("pixels", cnn, {"data": images, "inputs": lambda x: (127 + 64 * x).clamp(0, 255)}),
    ),
    *planted(
        "a branch that is detached",
        ("no_gradient",),
        ("detach", lambda: Branches("detach"), {}),
        (
            "CNN",
            lambda: Branches(
                "detach",
                lambda: nn.Sequential(
                    nn.Unflatten(1, (1, 4, 4)), nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 16)
                ),
            ),
            {},
        ),
        ("no_grad", lambda: Branches("no_grad"), {"steps": 200}),
    ),
]

# healthy


def lora():
    model = pretrained(mlp(3, nn.GELU, 64), lambda count, seed: blobs(count, seed=5))
    for at in (2, 4):
        model[at] = Lora(model[at])
    for name, one in model.named_parameters():
        one.requires_grad_("up" in name or "down" in name or name.startswith("6."))
    return model


def frozen():
    model = pretrained(mlp(3, nn.ReLU, 64), lambda count, seed: blobs(count, seed=5))
    for name, one in model.named_parameters():
        one.requires_grad_(name.startswith("6."))
    return model


def rebuilt(found, _):
    return F.mse_loss(found[0], rebuilt.inputs) + 0.01 * (found[1] ** 2 + found[2].exp() - found[2] - 1).mean()


def kept(x):
    rebuilt.inputs = x
    return x


def binary(found, labels):
    return F.binary_cross_entropy(found[:, 0], (labels % 2).float())


CHOSEN_HEALTHY = [
    Training(name, model, **given)
    for name, model, given in [
        ("MLP, Adam", mlp, {}),
        ("MLP, SGD", mlp, {"optimizer": sgd(), "steps": 200}),
        ("MLP, momentum", mlp, {"optimizer": sgd(0.05, momentum=0.9)}),
        ("MLP, RMSprop", mlp, {"optimizer": lambda given: torch.optim.RMSprop(given, lr=1e-3)}),
        ("MLP, Adam 0.01", mlp, {"optimizer": adam(1e-2)}),
        ("MLP, dropout", lambda: mlp(dropout=0.5, width=64), {"steps": 200}),
        ("MLP, BatchNorm", lambda: mlp(norm=nn.BatchNorm1d), {}),
        ("MLP, LayerNorm", lambda: mlp(4, norm=nn.LayerNorm), {"optimizer": sgd()}),
        ("MLP, tanh", tanh_mlp, {}),
        ("MLP, GELU", lambda: mlp(4, nn.GELU), {}),
        ("MLP, SiLU", lambda: mlp(3, nn.SiLU), {"optimizer": sgd(0.3)}),
        ("MLP, LeakyReLU", lambda: mlp(3, nn.LeakyReLU), {"steps": 60}),
        ("MLP, one sigmoid", lambda: mlp(1, nn.Sigmoid), {"optimizer": adam(1e-2)}),
        ("MLP, two sigmoids", lambda: mlp(2, nn.Sigmoid), {"optimizer": adam(1e-2), "steps": 200}),
        ("MLP, warm-up", mlp, {"schedule": warm(20), "steps": 200}),
        ("MLP, warm-up and cosine", mlp, {"schedule": warm(10, 200), "steps": 200}),
        ("MLP, clipped", mlp, {"clip": 0.1, "optimizer": sgd(0.5)}),
        ("MLP, weight decay", mlp, {"optimizer": adamw(weight_decay=0.1)}),
        ("MLP, micro-batches", mlp, {"micro": 4}),
        ("MLP, bfloat16", mlp, {"autocast": True}),
        ("MLP, small batches", mlp, {"batch": 8, "optimizer": sgd(0.02), "steps": 200}),
        ("MLP, probabilities", lambda: nn.Sequential(*mlp(2, out=1), nn.Sigmoid()), {"loss": binary, "steps": 200}),
        ("MLP, long", mlp, {"steps": 400, "optimizer": adam(1e-2)}),
        ("residual, from zero", Residual, {"steps": 150}),
        ("residual", lambda: Residual(zero=False), {"schedule": warm(10, 150), "steps": 150}),
        ("CNN, Adam", cnn, {"data": images}),
        ("CNN, BatchNorm", lambda: cnn(norm=True), {"data": images, "optimizer": sgd(0.05, momentum=0.9)}),
        ("CNN, GroupNorm", lambda: cnn(group=True, act=nn.SiLU), {"data": images, "schedule": warm(10, 100)}),
        ("GRU", Recurrent, {"data": sequences}),
        ("LSTM", lambda: Recurrent(nn.LSTM), {"data": sequences, "optimizer": adam(1e-2), "clip": 1.0}),
        ("RNN", lambda: Recurrent(nn.RNN), {"data": sequences, "optimizer": sgd()}),
        ("RNN, unrolled", Unrolled, {"data": sequences}),
        ("transformer", Transformer, {"data": texts}),
        ("transformer, warm-up", Transformer, {"data": texts, "schedule": warm(20, 200), "steps": 200}),
        ("transformer, norm after", lambda: Transformer(2, first=False), {"data": texts, "optimizer": adam(1e-3)}),
        ("transformer, dropout", lambda: Transformer(dropout=0.1), {"data": texts, "clip": 1.0}),
        ("transformer, tied", lambda: Transformer(tied=True), {"data": texts, "optimizer": adamw()}),
        ("transformer, ReLU", lambda: Transformer(act=nn.ReLU), {"data": texts, "steps": 60}),
        ("LoRA", lora, {"trained": lambda model: [one for one in model.parameters() if one.requires_grad]}),
        ("LoRA, all in the optimizer", lora, {"schedule": warm(10)}),
        ("head on a frozen part", frozen, {"optimizer": adam(1e-3)}),
        ("fine-tuning", lambda: pretrained(mlp(), lambda count, seed: blobs(count, seed=5)), {"optimizer": adam(3e-4)}),
        ("regression", lambda: mlp(out=1), {"data": curve, "loss": mean_square}),
        ("regression, tanh", lambda: mlp(act=nn.Tanh, out=1), {"data": curve, "loss": mean_square, "optimizer": sgd()}),
        ("autoencoder", Autoencoder, {"loss": rebuilt, "inputs": kept, "steps": 150}),
        ("variational autoencoder", lambda: Autoencoder(True), {"loss": rebuilt, "inputs": kept, "steps": 150}),
        ("branches", Branches, {}),
    ]
]

HEALTHY, FAULTY, make = family([*CHOSEN_FAULTS, *CHANGED_FAULTS], [*CHOSEN_HEALTHY, *CHANGED_HEALTHY])
