"""Operations that take functions: flex_attention, scans, loops and conditions."""

import torch
from torch import nn
from torch._higher_order_ops import scan, while_loop
from torch._higher_order_ops.associative_scan import associative_scan
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

FRAMEWORK, LIBRARIES = "PyTorch", ("torch",)


# https://docs.pytorch.org/docs/stable/nn.attention.flex_attention.html: a causal mask and a learned bias
def attended(query, key, value, slope):
    def biased(score, batch, head, at, other):
        return score - slope * (at - other).abs()

    out = flex_attention(query, key, value, score_mod=biased)
    total = out.square().sum()
    return total


def queries():
    torch.manual_seed(2)
    return *(torch.randn(1, 1, 4, 8, requires_grad=True) for _ in range(3)), torch.tensor(0.3, requires_grad=True)


def by_hand(query, key, value, slope):
    at = torch.arange(4)
    scores = query @ key.transpose(-1, -2) / 8**0.5 - slope * (at[:, None] - at).abs()
    return (scores.softmax(-1) @ value).square().sum()


def test_flex_attention(ask):
    rec = ask.function(attended, queries)
    given = queries()
    grads = torch.autograd.grad(by_hand(*given), given)
    ask.gradients(rec, dict(zip(("query", "key", "value", "slope"), grads)) | {"total": 1.0}, tolerance=1e-4)
    ask.names(rec, "query", "out", "total", "slope")
    ask.clean(rec)
    ask.works("`flex_attention` with a bias that is learned, against plain attention")


def masked(around):
    layer = nn.Linear(8, 24)
    x = torch.randn(1, 4, 8)
    mask = create_block_mask(lambda b, h, q, k: q >= k, 1, 1, 4, 4, device="cpu", BLOCK_SIZE=4)
    with around(layer) as seen:
        query, key, value = (part[:, None] for part in layer(x).chunk(3, -1))
        loss = flex_attention(query, key, value, block_mask=mask).square().sum()
        loss.backward()
    return seen, loss, layer.weight.grad, layer.bias.grad


def test_block_mask(ask):
    rec = ask.block(masked)
    _, weight, bias = ask.bare(masked)
    ask.gradients(rec, {"weight": weight, "bias": bias})
    ask.clean(rec)


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


def flex_nan(query, key, value):
    out = flex_attention(query, key, value)
    norm = (out - out).square().sum(-1).sqrt()  # <- nan
    return norm.sum() + out.sum()


def test_planted(ask):
    inputs = lambda: (torch.tensor([1.0], requires_grad=True), torch.tensor([[0.5], [2.0]], requires_grad=True))
    rec = ask.function(scan_cut, inputs)
    ask.cut(rec, scan_cut)
    ask.statuses(rec, {"xs": "not_connected", "all": "not_connected"})
    rec = ask.function(flex_nan, lambda: queries()[:3], nonfinite=True)
    ask.nan(rec, flex_nan)
