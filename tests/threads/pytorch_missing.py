"""Threads about gradients that are missing, zero, or there after all, without an error."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from threads import thread

THREADS = []
missing = thread("missing", THREADS)


@missing(
    "https://github.com/thuml/predrnn-pytorch/issues/11",
    "the decoupling losses are averaged by `torch.tensor(losses).mean()`, and play no role in training",
    "`torch.stack(losses)` keeps their history",
    "copied",
    asked="memory",
    says=("torch.stack",),
)
def decoupling(probe):
    cell = nn.Linear(2, 2)
    x = torch.ones(1, 2)
    with probe() as rec:
        losses = []
        memory = torch.tanh(cell(x))
        losses.append(F.cosine_similarity(memory, x).mean())
        decouple = torch.mean(torch.tensor(losses))  # <- here
        loss = cell(x).square().mean() + decouple
        loss.backward()
    return rec


@missing(
    "https://github.com/guopengf/FL-MRCM/issues/10",
    "the adversarial loss is turned into a number before it is added",
    "a bug: only the copy that is logged should be detached",
    "number",
    asked="adversarial",
    says=("Python numbers",),
)
def logged_too_early(probe):
    model = nn.Linear(2, 2)
    with probe() as rec:
        features = model(torch.ones(1, 2))
        adversarial = F.softplus(-features).mean()
        loss_adv = adversarial.detach().item()  # <- here
        loss = features.square().mean() + loss_adv
        loss.backward()
    return rec


@missing(
    "https://github.com/lululxvi/deepxde/pull/1318",
    "`torch.as_tensor` of a pair of tensors, with `requires_grad` set on the result",
    "`as_tensor` loses the gradients of the tensors in a tuple: use `torch.stack`",
    "copied",
    asked="a",
    says=("torch.stack",),
)
def joined(probe):
    a = torch.tensor(1.0, requires_grad=True)
    b = torch.tensor(2.0, requires_grad=True)
    with probe() as rec:
        ab = torch.as_tensor((a, b))  # <- here
        ab.requires_grad = True
        loss = ab.sum()
        loss.backward()
    return rec


@missing(
    "https://github.com/pytorch/pytorch/issues/7617",
    "the result of a checkpoint does not require a gradient, though the layer inside has parameters",
    "the reentrant checkpoint looks at its inputs alone: give it one that requires a gradient",
    "checkpoint",
    asked="hidden",
    says=("use_reentrant=False",),
)
def checkpointed(probe):
    first, last = nn.Linear(4, 3), nn.Linear(3, 1)
    x = torch.ones(2, 4)
    with probe() as rec:
        hidden = checkpoint(lambda value: first(value), x, use_reentrant=True)  # <- here
        loss = last(hidden).sum()
        loss.backward()
    return rec


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(4, 3)
        self.critic = nn.Linear(3, 1)

    def forward(self, observation):
        with torch.no_grad():
            state = self.encoder(observation)  # <- here for encoded_without_gradients
        return self.critic(state)


@missing(
    "https://github.com/rll-research/cic/issues/5",
    "observations are encoded under `torch.no_grad()`, so the CNN is never trained",
    "no answer; the asker has seen the line",
    "no_grad",
    asked="encoder.weight",
    says=("torch.no_grad()",),
)
def encoded_without_gradients(probe):
    model = Agent()
    with probe(model) as rec:
        loss = model(torch.ones(1, 4)).square().mean()
        loss.backward()
    return rec


class TextHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.language_model = nn.Linear(4, 3)
        self.projection = nn.Linear(3, 2)

    def forward(self, tokens):
        with torch.no_grad():
            pooled = self.language_model(tokens)
            embedding = self.projection(pooled)  # <- here for projection_frozen_too
        return embedding


@missing(
    "https://github.com/edreisMD/ConVIRT-pytorch/issues/7",
    "the projection after a frozen text encoder stands in the same `with torch.no_grad()`",
    "without the block the loss falls quickly: both were meant to learn",
    "no_grad",
    asked="text.projection.weight",
    says=("torch.no_grad()",),
)
def projection_frozen_too(probe):
    model = nn.ModuleDict({"text": TextHead(), "image": nn.Linear(4, 2)})
    with probe(model) as rec:
        text = model["text"](torch.ones(1, 4))
        image = model["image"](torch.ones(1, 4))
        loss = (text * image).sum()
        loss.backward()
    return rec


@missing(
    "https://github.com/jankrepl/deepdow/pull/106",
    "weights of a portfolio are drawn by `sample()` of a distribution",
    "`rsample()`, through which gradients flow",
    "sample",
    asked="mean",
    says=("rsample()",),
)
def drawn(probe):
    network = nn.Linear(2, 2)
    with probe() as rec:
        mean = network(torch.ones(1, 2))
        draws = torch.distributions.MultivariateNormal(mean, torch.eye(2)).sample()  # <- here
        loss = draws.square().sum() + network.bias.sum()
        loss.backward()
    return rec


@missing(
    "https://github.com/jolibrain/joliGEN/pull/20",
    "to silence an in-place error, the prediction of a segmentation network is detached",
    "not merged: with the `detach()` that loss is useless",
    "detach",
    asked="fake",
    says=("leave out detach()",),
)
def semantic_loss(probe):
    generator, segment = nn.Linear(2, 2), nn.Linear(2, 3)
    with probe() as rec:
        fake = generator(torch.ones(1, 2))
        predicted = segment(fake.detach())  # <- here
        loss_sem = F.cross_entropy(predicted, torch.tensor([1]))
        loss_sem.backward()
    return rec


@missing(
    "https://github.com/sonack/How_to_write_cuda_extensions_in_pytorch/issues/2",
    "`x.grad` is None after `x = x.cuda()` (here to another dtype), and a custom function is suspected",
    "the new `x` is not a leaf, and keeps no `.grad`; the function is right",
    asked="x",
    says=("has its gradient",),
)
def moved(probe):
    plain = torch.ones(2, requires_grad=True)
    with probe() as rec:
        x = plain.double()
        y = Rounded.apply(x)
        y.sum().backward()
    return rec


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(context, value):
        return torch.round(value)

    @staticmethod
    def backward(context, gradient):
        return gradient


class PassesBoth(torch.autograd.Function):
    @staticmethod
    def forward(context, first, second):
        return first * 1, second * 1  # <- here for zeros_of_a_function

    @staticmethod
    def backward(context, first, second):
        return first, second


@missing(
    "https://github.com/pytorch/pytorch/issues/58511",
    "an output that goes into no loss gets a gradient of zeros, not None, through a custom function",
    "as designed: the function is differentiated as a whole, with zeros for the output that is not used",
    "zero_derivative",
    asked="b",
    says=("zero",),
)
def zeros_of_a_function(probe):
    first, second = nn.Linear(1, 1), nn.Linear(1, 1)
    with probe() as rec:
        a, b = first(torch.ones(1)), second(torch.ones(1))
        kept, dropped = PassesBoth.apply(a, b)
        loss = kept.sum()
        loss.backward()
    return rec


class Spare(nn.Module):
    def __init__(self):
        super().__init__()
        self.used = nn.Linear(2, 2)
        self.spare = nn.Linear(2, 2)

    def forward(self, x):
        return self.used(x)


@missing(
    "https://github.com/ImprintLab/MedSegDiff/issues/27",
    "DistributedDataParallel finds parameters that were not used in producing the loss",
    "a layer is made in `__init__` and not used in `forward`",
    "not_executed",
    asked="spare.weight",
    says=("no call of that module was seen",),
)
def layer_not_used(probe):
    model = Spare()
    with probe(model) as rec:
        loss = model(torch.ones(1, 2)).sum()
        loss.backward()
    return rec


@missing(
    "https://github.com/openai/spinningup/issues/171",
    "does drawing an action break the gradient of a policy?",
    "no: only the log probability of the drawn action is differentiated",
    asked="logits",
    says=("has its gradient",),
)
def policy(probe):
    network = nn.Linear(2, 3)
    with probe() as rec:
        logits = network(torch.ones(4, 2))
        chances = torch.distributions.Categorical(logits=logits)
        action = chances.sample()
        loss = -(chances.log_prob(action) * torch.tensor([1.0, -1.0, 2.0, 0.5])).mean()
        loss.backward()
    return rec


@missing(
    "https://github.com/pytorch/pytorch/issues/48574",
    "is the gradient of `y_hard - y_soft.detach() + y_soft` that of `y_soft` alone?",
    "yes: `y_hard` has no gradient",
    asked="y_soft",
    says=("no gradient flows back along `y_soft.detach()`",),
)
def hard_gumbel(probe):
    logits = torch.tensor([0.1, 0.2, 0.3], requires_grad=True)
    with probe() as rec:
        y_soft = torch.softmax(logits, dim=-1)
        index = y_soft.argmax()
        y_hard = F.one_hot(index, 3).float()
        sample = y_hard - y_soft.detach() + y_soft
        loss = (sample * torch.tensor([1.0, 2.0, 3.0])).sum()
        loss.backward()
    return rec


@missing(
    "https://github.com/caogang/wgan-gp/issues/4",
    "a gradient penalty does not require a gradient",
    "answer not seen",
    "derivative",
    asked="score",
    says=("create_graph=True",),
)
def penalty(probe):
    critic = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
    mixed = torch.ones(3, 2, requires_grad=True)
    with probe() as rec:
        score = critic(mixed)
        (slopes,) = torch.autograd.grad(score.sum(), mixed, retain_graph=True)  # <- here
        penalised = (slopes.norm(2, dim=1) - 1).square().mean()
        loss = critic(torch.zeros(3, 2)).mean() + penalised
        loss.backward()
    return rec
