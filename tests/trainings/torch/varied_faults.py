"""Faults planted in the trainings of varied.py and in models of their kinds.

Written with them, before the rules were looked at again.
"""

import copy

import torch
import torch.nn.functional as F
from torch import nn

import backprobe as bp
from small_models import blobs, curve, mlp, scaled
from trainings.torch._small import (
    EXPLODING,
    LONG,
    TOO_FAST,
    TOO_SLOW,
    VANISHING,
    adam,
    adamw,
    but,
    dead,
    family,
    groups,
    mean_square,
    planted,
    sgd,
    shuffled,
)
from trainings.torch.varied import (
    GRAPH,
    LIKES,
    SHAPES,
    TEXTS,
    agreement,
    bits,
    discs,
    evidence,
    graph_net,
    other,
    pairs,
    pixels,
    reinforced,
    series,
    sums,
    to_itself,
)
from varied_models import (
    CLASSES,
    ConvAutoencoder,
    Elman,
    Experts,
    Policy,
    Recommender,
    Tagger,
    Towers,
    Unet,
    Vae,
    Vit,
    conv1d,
    plain,
    smallest,
)

LARGE = (*EXPLODING, "large_values")
ZEROS = ("zero_gradient", "dead")
UNTRAINED = ("left_out", "unchanged", "no_gradient")
BITS = {"data": bits, "objective": evidence}
PAIRS = {"data": pairs, "objective": agreement}


# what is planted


def zero(model, *names):
    with torch.no_grad():
        for name, one in model.named_parameters():
            if not names or name.startswith(names):
                one.zero_()
    return model


def constant(model, name, number):
    with torch.no_grad():
        model.get_parameter(name).fill_(number)
    return model


def head_replaced(model):
    """An optimizer that was made before the head was."""
    old = list(model.parameters())
    model.head = nn.Linear(model.head.in_features, model.head.out_features)
    return old


def of_a_copy(model):
    return copy.deepcopy(model).parameters()


def one_feature(x):
    return torch.cat([x[:, :1] * 5000 + 20000, x[:, 1:]], 1)


def standardised(x):
    """By the deviation of a batch, where the last feature is constant."""
    x = torch.cat([x[:, :-1], torch.full_like(x[:, -1:], 3.0)], 1)
    return (x - x.mean(0)) / x.std(0)


def nearly_standardised(x):
    x = torch.cat([x[:, :-1], 3 + 0.01 * x[:, -1:]], 1)
    return torch.cat([x[:, :-1], (x[:, -1:] - 3) / 1e-8], 1)


class Numbers:
    """At which step something comes that the training cannot stand."""

    def __init__(self, make, at=6):
        self.make, self.at = make, at

    def __call__(self, count, **given):
        for step, (x, y) in enumerate(self.make(count, **given)):
            yield (torch.zeros_like(x) if step == self.at else x), y


def log_of_zero(training, model, x, labels):
    """Written by hand, without log_softmax; a class of which nothing is sure is in one step given nothing."""
    shares = model(x).softmax(1)
    shares = shares * (x.abs().sum((1,), keepdim=True) > 0).float()
    return -torch.log(shares[torch.arange(len(labels)), labels]).mean()


def root(training, model, x, labels):
    """The distance of two results, whose derivative is Inf where they are the same."""
    found = model(x)
    centre = found * (x.abs().sum(1, keepdim=True) > 0)
    return F.cross_entropy(found, labels) + 0.01 * centre.square().sum(1).sqrt().mean()


def masked_mean(training, model, x, labels):
    """A mean over what is there: in one step nothing is."""
    there = (x.abs().flatten(1).sum(1) > 0).float()
    return (F.cross_entropy(model(x), labels, reduction="none") * there).sum() / there.sum()


class Cut(nn.Module):
    """A part that is run in a way through which no gradient comes."""

    def __init__(self, part, how):
        super().__init__()
        self.part, self.how, self.beside = part, how, nn.Linear(16, 16)
        self.head = nn.Linear(32, CLASSES)

    def forward(self, x):
        if self.how == "numpy":
            found = torch.tensor(self.part(x).detach().numpy())
        elif self.how == "data":
            found = self.part(x).data
        elif self.how == "round":
            found = self.part(x).argmax(1, keepdim=True).float().expand(-1, 16)
        else:
            with torch.inference_mode():
                found = self.part(x)
            found = found.clone()
        return self.head(torch.cat([found, self.beside(x)], 1))


def cut(how):
    return lambda: Cut(plain(1, nn.ReLU, 16, 16, 16), how)


class Attention(nn.Module):
    """Attention and dense layers, without what is added around them and without normalisation."""

    def __init__(self, width=24, depth=6):
        super().__init__()
        self.embed, self.head = nn.Embedding(14, width), nn.Linear(width, 14)
        self.attend = nn.ModuleList(nn.MultiheadAttention(width, 4, batch_first=True) for _ in range(depth))
        self.dense = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(depth))

    def forward(self, x):
        x = self.embed(x)
        for attend, dense in zip(self.attend, self.dense, strict=True):
            x = dense(attend(x, x, x, need_weights=False)[0])
        return self.head(x)


class Functional(nn.Module):
    """Convolutions with functional ReLUs."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 12, 3, padding=1)
        self.head = nn.Linear(12, CLASSES)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        return self.head(F.relu(self.conv2(x)).mean((2, 3)))


def halves(training, model, optimizer, watched):
    """All in float16, with a loss that is made small: as without loss scaling."""
    for x, y in training.data(training.steps):
        loss = training.objective(training, model, x.half(), y) * 1e-4
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        watched.log(loss=loss * 1e4)


def of_half(found, labels):
    return F.cross_entropy(found.float(), labels)


def of_shares(found, labels):
    """Cross entropy of what is probabilities already."""
    return F.cross_entropy(found.reshape(-1, found.shape[-1]), labels.reshape(-1))


def with_softmax(model):
    return nn.Sequential(*model, nn.Softmax(1))


class Softmaxed(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x).softmax(-1)


VARIED_FAULTS = [
    *planted("initialisation × 50", (*LARGE, "rising_loss"),
        ("GRU", lambda: scaled(Tagger(), 50), {**TEXTS}),
        ("ViT", lambda: scaled(Vit(), 50), {**SHAPES, "optimizer": adamw(1e-3)}),
        ("U-Net", lambda: scaled(Unet(norm=None), 50), {"data": discs, "loss": pixels, "optimizer": adam(1e-3)}),
        ("autoencoder, tanh", lambda: scaled(ConvAutoencoder(nn.Tanh), 50), {"data": bits, "objective": to_itself}),
        ("graph", lambda: scaled(graph_net(16, 16)(), 50), GRAPH)),
    *planted("initialisation × 0.01", VANISHING,
        ("graph", lambda: scaled(graph_net(24, 24, 24, 24)(), 0.01), GRAPH),
        ("CNN, 1-D", lambda: scaled(conv1d(), 0.01), {"data": series}),
        ("autoencoder", lambda: scaled(ConvAutoencoder(nn.ELU), 0.01), {"data": bits, "objective": to_itself}),
        ("VAE", lambda: scaled(Vae(), 0.01), BITS)),
    *planted("a layer of zeros", ZEROS,
        ("all of an MLP", lambda: zero(mlp(3)), {}),
        ("in the middle of an MLP", lambda: zero(mlp(4), "4."), {}),
        ("CNN", lambda: zero(smallest(norm=False), "2."), SHAPES),
        ("graph", lambda: zero(graph_net(16, 16)(), "convs.1"), GRAPH)),
    *planted("sigmoids or tanhs one after another", VANISHING,
        ("8 sigmoids", lambda: plain(8, nn.Sigmoid, 16, 16, 16), {"objective": to_itself}),
        ("16 tanhs", lambda: plain(16, nn.Tanh), {"optimizer": sgd(0.05)}),
        ("CNN, 1-D, sigmoids", lambda: conv1d(nn.Sigmoid, 6), {"data": series, "optimizer": adam(1e-3)}),
        ("graph, sigmoids", graph_net(16, 16, 16, 16, 16, act=nn.Sigmoid), GRAPH)),
    *planted("residuals are missing", VANISHING,
        ("20 layers", lambda: plain(20, nn.ReLU), {"optimizer": adam(1e-3)}),
        ("attention", Attention, {**TEXTS, "optimizer": adamw(1e-3)})),
    *planted("learning rate × 100", TOO_FAST,
        ("ViT, AdamW", Vit, {**SHAPES, "optimizer": adamw(0.1)}),
        ("VAE, Adam", Vae, {**BITS, "optimizer": adam(0.3)}),
        ("graph, SGD", graph_net(16, 16), {**GRAPH, "optimizer": sgd(50.0)}),
        ("recommender, Adagrad", Recommender, {**LIKES, "optimizer": other(torch.optim.Adagrad, lr=10.0)}),
        ("U-Net, momentum", lambda: Unet(norm=None), {"data": discs, "loss": pixels,
            "optimizer": sgd(10.0, momentum=0.9)}),
        ("contrastive, Adam", Towers, {**PAIRS, "optimizer": adam(0.3)}),
        ("policy, Adam", Policy, {"loop": reinforced, "optimizer": adam(0.5), "steps": 60}),
        ("LSTM, RMSprop", lambda: Tagger(nn.LSTM), {**TEXTS, "optimizer": other(torch.optim.RMSprop, lr=0.3)})),
    *planted("learning rate / 1000", TOO_SLOW,
        ("ViT, AdamW", Vit, {**SHAPES, "optimizer": adamw(1e-6), "steps": 200}),
        ("VAE, Adam", Vae, {**BITS, "optimizer": adam(1e-6), "steps": 200}),
        ("GRU, RMSprop", Tagger, {**TEXTS, "optimizer": other(torch.optim.RMSprop, lr=1e-6), "steps": 200}),
        ("recommender, Adagrad", Recommender, {**LIKES, "optimizer": other(torch.optim.Adagrad, lr=1e-5),
            "steps": 200})),
    *planted("dead ReLUs", ZEROS,
        ("U-Net, in place", lambda: dead(Unet(norm=None), "middle.0.bias"), {"data": discs, "loss": pixels}),
        ("functional", lambda: dead(Functional(), "conv2.bias"), SHAPES),
        ("graph", lambda: dead(graph_net(16, 16)(), "convs.0.bias"), GRAPH),
        ("one expert", lambda: dead(Experts(classes=4), "experts.1.0.bias"), {}),
        ("recommender", lambda: dead(Recommender(), "tower.0.bias"), LIKES)),
    *planted("a part that is not trained", UNTRAINED,
        ("ViT, head replaced", Vit, {**SHAPES, "trained": head_replaced}),
        ("GRU, rate 0", Tagger, {**TEXTS, "trained": lambda model: groups(model, "rnn")}),
        ("U-Net, left out", Unet, {"data": discs, "loss": pixels, "trained": lambda model: but(model, "down1")}),
        ("optimizer of a copy", mlp, {"trained": of_a_copy})),
    *planted("zero_grad is missing", ("accumulated",),
        ("GRU", Tagger, {**TEXTS, "clears": False, "optimizer": adamw(1e-3)}),
        ("VAE", Vae, {**BITS, "clears": False, "optimizer": adam(1e-3)}),
        ("ViT, clipped", Vit, {**SHAPES, "clears": False, "clip": 1.0, "optimizer": adamw(1e-3)}),
        ("U-Net, SGD", Unet, {"data": discs, "loss": pixels, "clears": False, "optimizer": sgd(0.01)})),
    *planted("labels of other inputs", ("flat_loss",),
        ("CNN, 1-D", conv1d, {**LONG, "data": series, "labels": shuffled, "batch": 256}),
        ("ViT", lambda: Vit(depth=1), {**LONG, **SHAPES, "labels": shuffled, "batch": 64, "optimizer": adamw(1e-3)}),
        ("recommender", Recommender, {**LONG, **LIKES, "labels": shuffled, "batch": 512})),
    *planted("inputs that are not scaled", ("large_values", "saturated"),
        ("regression × 1000", lambda: mlp(2, out=1), {"data": curve, "loss": mean_square,
            "inputs": lambda x: 1000 * x}),
        ("one feature of 20000", mlp, {"inputs": one_feature}),
        ("GRU of sums", lambda: nn.Sequential(nn.Unflatten(1, (-1, 1)), nn.Conv1d(20, 24, 1), nn.Flatten(),
            nn.Tanh(), nn.Linear(24, 1), nn.Flatten(0)), {"data": sums, "loss": mean_square,
            "inputs": lambda x: 500 * x}),
        ("CNN, 1-D, × 300", lambda: conv1d(nn.GELU), {"data": series, "inputs": lambda x: 300 * x}),
        ("a feature divided by almost nothing", mlp, {"inputs": nearly_standardised})),
    *planted("a branch that is detached", ("no_gradient",),
        ("a tower", lambda: Towers(detached=True), PAIRS),
        ("a router without weights", lambda: Experts(classes=4, hard=True), {}),
        ("NumPy", cut("numpy"), {}),
        (".data", cut("data"), {}),
        ("argmax", cut("round"), {}),
        ("inference mode", cut("inference"), {})),
    *planted("NaN in step 6", ("nonfinite",),
        ("log of 0", lambda: plain(2, nn.ReLU), {"data": Numbers(blobs), "objective": log_of_zero}),
        ("root of 0", lambda: plain(2, nn.Tanh), {"data": Numbers(blobs), "objective": root}),
        ("mean of nothing", smallest, {"data": Numbers(SHAPES["data"]), "objective": masked_mean}),
        ("a constant feature divided by its deviation", mlp, {"inputs": standardised}),
        ("an exploding cell", lambda: Elman(gain=6.0, length=20), {"data": sums, "loss": mean_square,
            "optimizer": sgd(0.05)})),
    *planted("a recurrent cell that explodes", (*LARGE, *TOO_FAST),
        ("ReLU × 1.6", lambda: Elman(gain=1.6), {"data": sums, "loss": mean_square, "optimizer": sgd(0.01)}),
        ("ReLU × 2, Adam", lambda: Elman(gain=2.0), {"data": sums, "loss": mean_square, "optimizer": adam(1e-3)})),
    *planted("softmax twice", ("softmax_twice", "flat_loss"),
        ("MLP", lambda: with_softmax(mlp()), {"loss": of_shares}),
        ("ViT", lambda: Softmaxed(Vit()), {**SHAPES, "loss": of_shares, "optimizer": adamw(1e-3)}),
        ("GRU", lambda: Softmaxed(Tagger()), {**TEXTS, "loss": of_shares})),
    *planted("underflow in float16", ("underflow", "zero_gradient"),
        ("MLP", lambda: mlp(4).half(), {"loop": halves, "loss": of_half, "optimizer": sgd(0.1),
            "options": {"pace": bp.Pace(histogram=1)}}),
        ("CNN", lambda: smallest(norm=False).half(), {**SHAPES, "loop": halves, "loss": of_half,
            "optimizer": sgd(0.1), "options": {"pace": bp.Pace(histogram=1)}})),
    *planted("clipping to almost nothing", TOO_SLOW,
        ("ViT, SGD", Vit, {**SHAPES, "clip": 1e-5, "optimizer": sgd(0.1), "steps": 200}),
        ("MLP, momentum", mlp, {"clip": 1e-6, "optimizer": sgd(0.1, momentum=0.9), "steps": 200})),
    *planted("weight decay of 10", ("large_updates", "shrinking_weights", *VANISHING),
        ("MLP, SGD", mlp, {"optimizer": sgd(0.05, weight_decay=10)}),
        ("ViT, AdamW", Vit, {**SHAPES, "optimizer": adamw(3e-3, weight_decay=10), "steps": 200}),
        ("GRU, Adam", Tagger, {**TEXTS, "optimizer": adam(3e-3, weight_decay=10), "steps": 200})),
]  # fmt: skip

__all__ = ["VARIED_FAULTS"]

HEALTHY, FAULTY, make = family(VARIED_FAULTS, ())
