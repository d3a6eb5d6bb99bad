"""Threads about NaN and Inf in values and gradients."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from threads import thread

THREADS = []
nonfinite = thread("nonfinite", THREADS)


@nonfinite(
    "https://github.com/pytorch/pytorch/issues/187297",
    "`torch.where` with a square root in the branch that is not taken",
    "closed, answer not seen",
    "born_backward",
    says=("the square root of a negative number",),
)
def root_not_taken(probe):
    x = torch.tensor([-1.0, 4.0], requires_grad=True)
    with probe() as rec:
        y = torch.where(x > 0, torch.sqrt(x), x)  # <- here
        loss = y.sum()
        loss.backward()
    return rec


@nonfinite(
    "https://github.com/pytorch/pytorch/issues/68425",
    "`torch.where` with an exponential that overflows in the branch that is not taken",
    "closed, answer not seen",
    "born_backward",
    says=("overflow", "in the branch torch.exp(a) of where"),
)
def exponential_not_taken(probe):
    a = torch.tensor(100.0, requires_grad=True)
    with probe() as rec:
        b = torch.where(a <= 0, torch.exp(a), 1 + a)  # <- here
        b.backward()
    return rec


@nonfinite(
    "https://github.com/pytorch/pytorch/issues/36923",
    "`t * (x / t)` with t = 0, of which `where` takes nothing",
    "a duplicate of a thread that explains why",
    "born_backward",
    says=("the derivative of div is infinite at 0", "'y' is healed at 'z', by where"),
)
def quotient_not_taken(probe):
    x = torch.ones((), requires_grad=True)
    with probe() as rec:
        t = 0.0
        y = t * (x / t)  # <- here
        z = torch.where(x >= t, x, y)
        z.backward()
    return rec


@nonfinite(
    "https://github.com/pytorch/pytorch/issues/116349",
    "cross-entropy of a batch in which every label is `ignore_index`",
    "expected: a mean over nothing is 0/0",
    "born",
    says=("0/0",),
)
def all_ignored(probe):
    network = nn.Linear(2, 3)
    with probe() as rec:
        logits = network(torch.ones(2, 2))
        labels = torch.tensor([-100, -100])
        loss = F.cross_entropy(logits, labels)  # <- here
        loss.backward()
    return rec


@nonfinite(
    "https://github.com/allenai/allennlp/issues/890",
    "log-softmax of a row in which the log of the mask is -inf everywhere",
    "a bug of the helper: add a tiny number to the mask before its log",
    "born",
    "born_backward",
    says=("log(0)", "0 · NaN: a zero gradient"),
)
def masked_log_softmax(probe):
    vector = torch.tensor([[0.3, 0.5], [0.3, 0.3]], requires_grad=True)
    mask = torch.tensor([[1.0, 1.0], [0.0, 0.0]])
    with probe() as rec:
        masked = vector + mask.log()  # <- here
        out = torch.log_softmax(masked, dim=1)  # <- here
        loss = out[0].sum()
        loss.backward()
    return rec


@nonfinite(
    "https://github.com/pytorch/pytorch/pull/196170",
    "attention weights of a query that may attend to nothing",
    "a softmax over a row of -inf is 0/0, and the gradients of the whole batch are lost with it",
    "came_in",
    "born",
    "born_backward",
    "born_backward",
    says=("Inf − Inf: a row that is Inf or all −Inf",),
)
def attends_to_nothing(probe):
    project = nn.Linear(2, 2)
    x = torch.ones(2, 2)
    mask = torch.tensor([[0.0, -math.inf], [-math.inf, -math.inf]])
    with probe() as rec:
        q = project(x)
        scores = q @ q.t() + mask
        weights = torch.softmax(scores, dim=-1)  # <- here
        out = weights @ q  # <- here
        loss = out[0].sum()
        loss.backward()
    return rec


@nonfinite(
    "https://github.com/pytorch/pytorch/issues/8069",
    "`acos` of a cosine that is clamped to [-1, 1]",
    "clamp it to just inside of -1 and 1: at the ends the derivative is infinite",
    "born_backward",
    "born_backward",
    says=("the derivative of acos is infinite at 1", "0 · Inf: a gradient of Inf"),
)
def angle(probe):
    u = torch.tensor([1.0, 0.0], requires_grad=True)
    v = torch.tensor([1.0, 0.0])
    with probe() as rec:
        cosine = (u * v).sum().clamp(-1, 1)  # <- here
        theta = torch.acos(cosine)  # <- here
        theta.backward()
    return rec


@nonfinite(
    "https://github.com/pytorch/pytorch/issues/29372",
    "the standard deviation of a single number is NaN, unlike NumPy's",
    "the default is the unbiased estimate, which divides by n - 1: use `unbiased=False`",
    "born",
    says=("`scores.std()` gives NaN: 0/0: of too few numbers",),
)
def deviation_of_one(probe):
    scores = torch.tensor([4.0], requires_grad=True)
    with probe() as rec:
        advantage = scores - scores.mean()
        scaled = advantage / (scores.std() + 1e-8)  # <- here
        loss = scaled.sum()
        loss.backward()
    return rec


@nonfinite(
    "https://github.com/adambielski/siamese-triplet/issues/18",
    "a siamese loss whose distance is zero for two equal samples",
    "add a small epsilon under the square root",
    "born_backward",
    "born_backward",
    says=("the derivative of pow is infinite at 0",),
)
def equal_samples(probe):
    network = nn.Linear(2, 2)
    with probe() as rec:
        first, second = network(torch.ones(1, 2)), network(torch.ones(1, 2))
        distances = (second - first).pow(2).sum(1)  # <- here
        loss = F.relu(1.0 - distances.pow(0.5)).pow(2).mean()  # <- here
        loss.backward()
    return rec


@nonfinite(
    "https://github.com/kornia/kornia/issues/918",
    "a focal loss with gamma = 0.5, where the prediction is certain",
    "add epsilon inside the power as well",
    "born_backward",
    "born_backward",
    says=("the derivative of pow is infinite at 0",),
)
def focal(probe):
    prediction = torch.tensor([-100.0, 100.0], requires_grad=True)
    target = torch.tensor([0.0, 1.0])
    with probe() as rec:
        p = torch.sigmoid(prediction)  # <- here
        positive = torch.pow(1.0 - p, 0.5) * target * torch.log(p + 1e-6)  # <- here
        loss = -positive.mean()
        loss.backward()
    return rec


@nonfinite(
    "https://github.com/KevinMusgrave/pytorch-metric-learning/issues/107",
    "a triplet loss averaged over the triplets that still cost something, of which there are none",
    "divide only if there are any",
    "born",
    says=("0/0",),
)
def no_triplets_left(probe):
    network = nn.Linear(2, 1)
    with probe() as rec:
        relued = F.relu(network(torch.ones(3, 2)) - 100.0)
        count = (relued > 0).sum()
        loss = relued.sum() / count  # <- here
        loss.backward()
    return rec


@nonfinite(
    "https://github.com/fastino-ai/GLiNER2/pull/155",
    "a probability is clamped to `1 - 1e-6` in bfloat16, where that is 1",
    "an epsilon that the dtype can hold",
    "born_backward",
    says=("Log1P", "'survival' of shape (2,): 1 Inf of 2"),
    lacks="the reason: lines are evaluated again in float32, where this clamp holds",
)
def clamp_in_half(probe):
    logits = torch.tensor([100.0, 0.0], dtype=torch.bfloat16, requires_grad=True)
    with probe() as rec:
        probabilities = torch.sigmoid(logits)
        survival = torch.log1p(-probabilities.clamp(max=1.0 - 1e-6))  # <- here
        loss = 1 - survival.sum().exp()
        loss.backward()
    return rec


@nonfinite(
    "https://github.com/pytorch/pytorch/issues/49844",
    "`BCEWithLogitsLoss` of a logit of -inf",
    "use `sigmoid` and `BCELoss` for such logits",
    "came_in",
    "born",
    says=("Inf comes in with 'logits'",),
)
def infinite_logits(probe):
    logits = torch.tensor([-math.inf, 1.0], requires_grad=True)
    targets = torch.zeros(2)
    with probe() as rec:
        loss = F.binary_cross_entropy_with_logits(logits, targets)  # <- here
        loss.backward()
    return rec
