"""Operations that take functions: scans, loops and conditions. ``flex_attention`` has no backward on a CPU."""

import torch
from torch import nn
from torch._higher_order_ops import scan, while_loop
from torch._higher_order_ops.associative_scan import associative_scan

FRAMEWORK, LIBRARIES = "PyTorch", ("torch",)


# https://docs.pytorch.org/docs/stable/higher_order_ops/scan.html
def scanned(start, xs, decay):
    def step(carry, x):
        moved = carry * decay + x
        return moved, moved * 2

    last, all = scan(step, start, xs)
    total = last.sum() + all.sum()
    return total


def test_scan(ask):
    start, xs = torch.tensor([1.0]), torch.tensor([[0.5], [-1.0], [2.0]])
    inputs = lambda: (
        start.clone().requires_grad_(),
        xs.clone().requires_grad_(),
        torch.tensor(0.8, requires_grad=True),
    )
    rec = ask.function(scanned, inputs)

    def plain(carry, xs, decay):
        total = 0
        for x in xs:
            carry = carry * decay + x
            total = total + carry * 2
        return (total + carry).sum()

    given = inputs()
    ask.gradients(rec, dict(zip(("start", "xs", "decay"), torch.autograd.grad(plain(*given), given))))
    ask.names(rec, "start", "xs", "last", "all", "total")
    ask.gradients(rec, {"last": [1.0], "all": torch.ones(3, 1)})
    ask.clean(rec)
    ask.works("`scan`: what goes in, what is carried out, what it closes over")


# https://docs.pytorch.org/docs/stable/higher_order_ops/associative_scan.html
def products(xs):
    running = associative_scan(lambda a, b: a * b, xs, 0, combine_mode="generic")
    total = running.sum()
    return total


def test_associative_scan(ask):
    xs = torch.tensor([1.5, -2.0, 0.5])
    rec = ask.function(products, lambda: (xs.clone().requires_grad_(),))
    at = xs.clone().requires_grad_()
    ask.gradients(rec, {"xs": torch.autograd.grad(at.cumprod(0).sum(), at)[0], "running": torch.ones(3)})
    ask.values(rec, {"running": xs.cumprod(0)})
    ask.clean(rec)
    ask.works("`associative_scan`")


# https://docs.pytorch.org/docs/stable/cond.html
def branched(x, w):
    y = torch.cond(x.sum() > 0, lambda x: x * w, lambda x: x - w, (x,))
    return y.square().sum()


def test_cond(ask):
    x = torch.tensor([1.0, 2.0])
    rec = ask.function(branched, lambda: (x.clone().requires_grad_(), torch.tensor(3.0, requires_grad=True)))
    ask.gradients(rec, {"x": 2 * 9 * x, "w": 2 * 3 * (x**2).sum(), "y": 2 * 3 * x})
    ask.names(rec, "x", "w", "y")
    ask.clean(rec)
    ask.works("`cond`")


def counted(x):
    last, grown = while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 2), (torch.tensor(0), x.detach()))
    scaled = x * grown
    return scaled.sum()


def test_while_loop(ask):
    x = torch.tensor([1.0, 2.0])
    rec = ask.function(counted, lambda: (x.clone().requires_grad_(),))
    ask.gradients(rec, {"x": 8 * x, "scaled": torch.ones(2)})
    ask.statuses(rec, {"last": "not_float", "grown": "detached"})
    ask.works("`while_loop`, which carries no gradient where its state is cut off")


def scan_training(around):
    cell = nn.Linear(3, 2)
    optimizer = torch.optim.Adam(cell.parameters(), lr=0.01)
    xs = torch.randn(4, 5, 1)
    with around(cell, optimizer=optimizer) as seen:
        for _ in range(20):
            optimizer.zero_grad()
            weight, bias = cell.weight, cell.bias

            def step(h, x):
                h = torch.tanh(torch.cat([h, x], 1) @ weight.T + bias)
                return h, h.clone()

            _, states = scan(step, torch.zeros(5, 2), xs)
            loss = (states - 0.3).square().mean()
            loss.backward()
            optimizer.step()
    return seen, loss, list(cell.parameters())


def test_training_is_watched(ask):
    last = ask.watched(scan_training)
    ask.rows(last, "weight", "bias")
    ask.works("`bp.watch` over a recurrent training by `scan`")


# planted
def scan_cut(start, xs):
    last, all = scan(lambda carry, x: (carry + x, carry * x), start, xs)
    total = torch.tensor(all.sum().item())  # <- cut
    return total * start.sum()


def scan_nan(start, xs):
    def step(carry, x):
        moved = torch.sqrt(carry * 0)
        return moved, moved + x

    last, all = scan(step, start, xs)  # <- nan
    return all.sum() + last.sum()


def test_planted(ask):
    inputs = lambda: (torch.tensor([1.0], requires_grad=True), torch.tensor([[0.5], [2.0]], requires_grad=True))
    rec = ask.function(scan_cut, inputs)
    ask.cut(rec, scan_cut)
    ask.statuses(rec, {"xs": "not_connected", "all": "not_connected"})
    rec = ask.function(scan_nan, inputs, nonfinite=True)
    ask.nan(rec, scan_nan)
    ask.refuses("lines inside of the function that `scan` compiles: NaN is found at the call of `scan`")
