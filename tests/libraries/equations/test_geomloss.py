"""GeomLoss: distances between clouds of points, by iterations that carry no gradient and a formula for the last."""

import torch
from geomloss import SamplesLoss
from torch import nn

FRAMEWORK, LIBRARIES = "PyTorch", ("geomloss",)


def clouds():
    torch.manual_seed(4)
    return torch.randn(5, 2, requires_grad=True), torch.randn(6, 2)


# https://www.kernel-operations.io/geomloss/api/pytorch-api.html: Maximum Mean Discrepancy with a Gaussian kernel
def discrepancy(x, y):
    loss = SamplesLoss("gaussian", blur=0.5, backend="tensorized")
    distance = loss(x, y)
    return distance


def by_kernels(x, y):
    own = kernel_of_own(x)
    other = torch.exp(-((y[:, None] - y) ** 2).sum(-1) / 0.5)
    both = torch.exp(-((x[:, None] - y) ** 2).sum(-1) / 0.5)
    return 0.5 * own.mean() + 0.5 * other.mean() - both.mean()


def kernel_of_own(x):
    return torch.exp(-((x[:, None] - x) ** 2).sum(-1) / 0.5)


def test_kernel_distance_by_hand(ask):
    rec = ask.function(discrepancy, clouds)
    x, y = clouds()
    (right,) = torch.autograd.grad(by_kernels(x, y), x)
    ask.gradients(rec, {"x": right, "distance": 1.0}, tolerance=1e-4)
    ask.values(rec, {"distance": by_kernels(x, y)}, tolerance=1e-4)
    ask.names(rec, "x", "y", "distance")
    ask.statuses(rec, {"y": "frozen"})
    ask.clean(rec)
    ask.works("kernel distances, against their formula")


# one point each: the cost is half the squared distance
def transport(x, y):
    distance = SamplesLoss("sinkhorn", p=2, blur=0.01, backend="tensorized")(x, y)
    doubled = distance * 2
    return doubled


def test_sinkhorn_of_single_points(ask):
    one, other = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, -1.0]])
    rec = ask.function(transport, lambda: (one.clone().requires_grad_(), other.clone().requires_grad_()))
    gap = one - other
    ask.gradients(rec, {"x": 2 * gap, "y": -2 * gap, "distance": 2.0, "doubled": 1.0}, tolerance=1e-3)
    ask.names(rec, "x", "y", "distance", "doubled")
    ask.clean(rec)
    ask.works("`SamplesLoss('sinkhorn')`: both clouds")


# https://www.kernel-operations.io/geomloss/_auto_examples/comparisons/plot_gradient_flows_2D.html
def flow(around, steps=20, kind=None):
    model = nn.Linear(2, 2) if kind is None else kind()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    source, target = torch.randn(12, 2), torch.randn(12, 2) + 2
    loss_function = SamplesLoss("sinkhorn", p=2, blur=0.1, backend="tensorized")
    with around(model, optimizer=optimizer) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            loss = loss_function(model(source), target)
            loss.backward()
            optimizer.step()
    return seen, loss, {name: p.grad for name, p in model.named_parameters()}


def test_flow(ask):
    rec = ask.block(flow, 1)
    _, grads = ask.bare(flow, 1)
    ask.gradients(rec, grads)
    ask.names(rec, "return", "weight", "bias")
    ask.clean(rec)
    last = ask.watched(flow)
    ask.rows(last, "weight", "bias", "return")
    ask.works("a network trained by optimal transport, in a block and under `bp.watch`")


# planted


def matched_by_hand(x, y):
    moved = torch.as_tensor((x * 2).tolist())  # <- cut
    distance = SamplesLoss("sinkhorn", p=2, blur=0.1, backend="tensorized")(moved, y)
    return distance


def normed(x, y):
    length = (x - x).norm(dim=1, keepdim=True)
    unit = x / length  # <- nan
    return SamplesLoss("gaussian", blur=0.5, backend="tensorized")(unit, y)


def test_planted(ask):
    both = lambda: tuple(each.detach().requires_grad_() for each in clouds())
    rec = ask.function(matched_by_hand, both)
    ask.cut(rec, matched_by_hand)
    ask.statuses(rec, {"x": "not_connected", "moved": "detached"})
    rec = ask.function(normed, both, nonfinite=True)
    ask.nan(rec, normed)
