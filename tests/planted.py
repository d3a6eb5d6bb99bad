"""Three models as texts, and faults that are planted in them: each replaces one line by another.

``name`` is the entry that ``bp.diff`` has to name first. Of a backward that is wrong that is the value that the
gradient flows back to, and the line is the one that was changed.
"""

import functools
import itertools
import linecache
import types
from dataclasses import dataclass

import torch

import backprobe as bp

HEAD = """
import torch
import torch.nn.functional as F

class Skewed(torch.autograd.Function):
    '''The identity, with another backward.'''

    @staticmethod
    def forward(ctx, x, how):
        ctx.how = how
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return ctx.how(gradient), None

def one_element(t):
    t = t.clone()
    t.view(-1)[t.numel() // 2] *= 2
    return t
"""

MODELS = {
    "perceptron": """
def perceptron(x, w1, b1, g, w2, b2, keep, target):
    h = x @ w1 + b1
    mean = h.mean(-1, keepdim=True)
    var = h.var(-1, keepdim=True, unbiased=False)
    n = (h - mean) / torch.sqrt(var + 1e-5)
    s = n * g
    a = torch.relu(s)
    d = a * keep
    z = d @ w2 + b2
    p = torch.log_softmax(z, -1)
    nll = -(p * target).sum(-1)
    loss = nll.mean()
    return loss
""",
    "transformer": """
def transformer(tokens, table, wq, wk, wv, wo, up, down, head, mask, target):
    e = table[tokens]
    x = F.layer_norm(e, (16,), eps=1e-5)
    q = (x @ wq).view(2, 6, 4, 4).transpose(1, 2)
    k = (x @ wk).view(2, 6, 4, 4).transpose(1, 2)
    v = (x @ wv).view(2, 6, 4, 4).transpose(1, 2)
    scores = q @ k.transpose(-1, -2) / 2.0
    masked = scores + mask
    weights = masked.softmax(-1)
    mixed = (weights @ v).transpose(1, 2).reshape(2, 6, 16)
    r = e + mixed @ wo
    y = F.layer_norm(r, (16,), eps=1e-5)
    u = F.gelu(y @ up)
    out = r + u @ down
    logits = out @ head
    loss = F.cross_entropy(logits.view(-1, 11), target.view(-1))
    return loss
""",
    "recurrent": """
def recurrent(x, h, wx, wh, b, key, read):
    cache = []
    for step in range(4):
        gate = torch.sigmoid(x[step] @ wx + h @ wh)
        new = torch.tanh(x[step] @ wx + b)
        h = gate * h + (1 - gate) * new
        c = h @ key
        cache.append(c)
    keys = torch.stack(cache)
    similar = (keys * h).sum(-1)
    focus = similar.softmax(0)
    summary = (focus.unsqueeze(-1) * keys).sum(0)
    y = summary @ read
    loss = y.square().mean()
    return loss
""",
}


def arguments(model):
    """Arguments that are the same each time."""
    make = functools.partial(torch.randn, generator=torch.Generator().manual_seed(0))
    if model == "perceptron":
        keep = (make(8, 12) > -0.5).float() / 0.7
        target = torch.nn.functional.one_hot(torch.arange(8) % 5, 5).float()
        return make(8, 10), make(10, 12) / 3, make(12) / 9, 1 + make(12) / 9, make(12, 5) / 3, make(5) / 9, keep, target
    if model == "transformer":
        tokens, target = torch.arange(12).reshape(2, 6) * 7 % 11, torch.arange(12).reshape(2, 6) * 5 % 11
        mask = torch.full((6, 6), torch.finfo(torch.float32).min).triu(1)
        square = [make(16, 16) / 4 for _ in range(4)]
        return tokens, make(11, 16), *square, make(16, 32) / 4, make(32, 16) / 6, make(16, 11) / 4, mask, target
    return make(4, 3, 6), make(3, 5), make(6, 5) / 2, make(5, 5) / 2, make(5) / 2, make(5, 5) / 2, make(5, 3)


@dataclass(frozen=True)
class Fault:
    """One changed line of a model."""

    kind: str
    model: str
    line: str
    wrong: str
    name: str
    direction: str = "forward"


def forward(kind, model, line, wrong, name=None):
    return Fault(kind, model, line, wrong, name or line.split(" ")[0])


def backward(kind, model, line, wrong, name):
    return Fault(kind, model, line, wrong, name, "backward")


P, T, R = "perceptron", "transformer", "recurrent"
FAULTS = [
    # values
    forward("scaled", P, "s = n * g", "s = 1.01 * n * g"),
    forward("scaled", T, "scores = q @ k.transpose(-1, -2) / 2.0", "scores = q @ k.transpose(-1, -2)"),
    forward("scaled", R, "y = summary @ read", "y = 2 * summary @ read"),
    forward("sign", P, "z = d @ w2 + b2", "z = d @ w2 - b2"),
    forward("sign", T, "out = r + u @ down", "out = r - u @ down"),
    forward("sign", R, "h = gate * h + (1 - gate) * new", "h = gate * h + (gate - 1) * new", "h#1"),
    forward("one element", P, "a = torch.relu(s)",
            "a = torch.relu(s) + F.one_hot(torch.tensor(5), 96).view(8, 12) / 2"),
    forward("one element", T, "weights = masked.softmax(-1)",
            "weights = masked.softmax(-1) + F.one_hot(torch.tensor(6), 288).view(2, 4, 6, 6) / 9"),
    forward("one element", R, "keys = torch.stack(cache)",
            "keys = torch.stack(cache) + F.one_hot(torch.tensor(7), 60).view(4, 3, 5) / 9"),
    forward("permuted", P, "d = a * keep", "d = a * keep.flip(-1)"),
    forward("permuted", T, "mixed = (weights @ v).transpose(1, 2).reshape(2, 6, 16)",
            "mixed = (weights @ v).reshape(2, 6, 16)"),
    forward("permuted", R, "c = h @ key", "c = h @ key.T", "c#0"),
    forward("transposed weight", T, "r = e + mixed @ wo", "r = e + mixed @ wo.T"),
    forward("dtype cast", P, "z = d @ w2 + b2", "z = (d.bfloat16() @ w2.bfloat16()).float() + b2"),
    forward("dtype cast", T, "u = F.gelu(y @ up)", "u = F.gelu(y @ up).bfloat16().float()"),
    forward("dtype cast", R, "gate = torch.sigmoid(x[step] @ wx + h @ wh)",
            "gate = torch.sigmoid(x[step] @ wx + h @ wh).bfloat16()", "gate#0"),
    forward("stale cache", R, "keys = torch.stack(cache)", "keys = torch.stack(cache[:1] + cache[:-1])"),
    forward("stale cache", R, "c = h @ key", "c = (h if step < 2 else cache[1]) @ key", "c#2"),
    forward("another epsilon", P, "n = (h - mean) / torch.sqrt(var + 1e-5)", "n = (h - mean) / torch.sqrt(var + 1e-2)"),
    forward("another epsilon", T, "x = F.layer_norm(e, (16,), eps=1e-5)", "x = F.layer_norm(e, (16,), eps=1e-3)"),
    forward("another function", T, "u = F.gelu(y @ up)", "u = F.gelu(y @ up, approximate='tanh')"),
    forward("another function", P, "var = h.var(-1, keepdim=True, unbiased=False)", "var = h.var(-1, keepdim=True)"),
    forward("another function", R, "new = torch.tanh(x[step] @ wx + b)", "new = torch.tanh(x[step] @ wx)", "new#0"),
    forward("mask", T, "masked = scores + mask", "masked = scores + mask.roll(1, -1)"),
    forward("not finite", T, "masked = scores + mask", "masked = scores + mask * 2"),
    forward("another reduction", P, "loss = nll.mean()", "loss = nll.sum()"),
    forward("another axis", P, "p = torch.log_softmax(z, -1)", "p = torch.log_softmax(z, 0)"),
    forward("another axis", R, "focus = similar.softmax(0)", "focus = similar.softmax(1)"),
    # gradients: the values are right
    backward("scaled", P, "s = n * g", "s = Skewed.apply(n * g, lambda t: 1.5 * t)", "n"),
    backward("scaled", T, "scores = q @ k.transpose(-1, -2) / 2.0",
             "scores = Skewed.apply(q @ k.transpose(-1, -2) / 2.0, lambda t: 2 * t)", "k"),
    backward("scaled", R, "y = summary @ read", "y = Skewed.apply(summary @ read, lambda t: 0.9 * t)", "summary"),
    backward("sign", P, "a = torch.relu(s)", "a = Skewed.apply(torch.relu(s), torch.neg)", "s"),
    backward("sign", T, "logits = out @ head", "logits = Skewed.apply(out @ head, torch.neg)", "out"),
    backward("one element", P, "z = d @ w2 + b2", "z = Skewed.apply(d @ w2 + b2, one_element)", "d"),
    backward("one element", T, "mixed = (weights @ v).transpose(1, 2).reshape(2, 6, 16)",
             "mixed = Skewed.apply((weights @ v).transpose(1, 2).reshape(2, 6, 16), one_element)", "weights"),
    backward("one element", R, "focus = similar.softmax(0)", "focus = Skewed.apply(similar.softmax(0), one_element)",
             "similar"),
    backward("permuted", P, "d = a * keep", "d = Skewed.apply(a * keep, lambda t: t.flip(-1))", "a"),
    backward("permuted", T, "u = F.gelu(y @ up)", "u = Skewed.apply(F.gelu(y @ up), lambda t: t.roll(1, -1))", "y"),
    backward("permuted", R, "c = h @ key", "c = Skewed.apply(h @ key, lambda t: t.flip(0))", "h#4"),
    backward("dtype cast", P, "z = d @ w2 + b2",
             "z = Skewed.apply(d @ w2 + b2, lambda t: t.bfloat16().float())", "d"),
    backward("dtype cast", T, "y = F.layer_norm(r, (16,), eps=1e-5)",
             "y = F.layer_norm(Skewed.apply(r, lambda t: t.bfloat16().float()), (16,), eps=1e-5)", "r"),
    backward("missing accumulation", P, "n = (h - mean) / torch.sqrt(var + 1e-5)",
             "n = (h - mean.detach()) / torch.sqrt(var + 1e-5)", "mean"),
    backward("missing accumulation", T, "r = e + mixed @ wo", "r = e.detach() + mixed @ wo", "e"),
    backward("missing accumulation", R, "new = torch.tanh(x[step] @ wx + b)",
             "new = torch.tanh(x[step] @ wx.detach() + b)", "wx"),
    backward("missing accumulation", R, "h = gate * h + (1 - gate) * new", "h = gate * h.detach() + (1 - gate) * new",
             "h#3"),
    backward("detached", P, "z = d @ w2 + b2", "z = d @ w2 + b2.detach()", "b2"),
    backward("detached", T, "out = r + u @ down", "out = r + u.detach() @ down", "u"),
    backward("straight through", R, "gate = torch.sigmoid(x[step] @ wx + h @ wh)",
             "gate = (torch.sigmoid(x[step] @ wx + h @ wh) - h @ wh).detach() + h @ wh", "h#3"),
]  # fmt: skip


@dataclass(frozen=True)
class Right:
    """A program that computes what a model does in another way: by other lines, or from other arguments."""

    what: str
    model: str
    lines: tuple[tuple[str, str], ...] = ()
    dtype: torch.dtype = torch.float32


ATTENTION = (
    ("scores = q @ k.transpose(-1, -2) / 2.0", "fused = F.scaled_dot_product_attention(q, k, v, mask, scale=0.5)"),
    ("masked = scores + mask", "pass"),
    ("weights = masked.softmax(-1)", "pass"),
    ("mixed = (weights @ v).transpose(1, 2).reshape(2, 6, 16)", "mixed = fused.transpose(1, 2).reshape(2, 6, 16)"),
)
PARTS = (
    ("h = x @ w1 + b1", "h = torch.cat([part @ w1 + b1 for part in x.split(2)])"),
    ("z = d @ w2 + b2", "z = torch.cat([part @ w2 + b2 for part in d.split(2)])"),
)
RIGHT = [
    Right("run again", P),
    Right("fused attention for eager", T, ATTENTION),
    Right(
        "a fused layer norm",
        P,
        (
            ("mean = h.mean(-1, keepdim=True)", "pass"),
            ("var = h.var(-1, keepdim=True, unbiased=False)", "pass"),
            ("n = (h - mean) / torch.sqrt(var + 1e-5)", "n = F.layer_norm(h, (12,))"),
        ),
    ),
    Right(
        "a layer norm by hand",
        T,
        (
            (
                "y = F.layer_norm(r, (16,), eps=1e-5)",
                "y = (r - r.mean(-1, keepdim=True)) * (r.var(-1, keepdim=True, unbiased=False) + 1e-5).rsqrt()",
            ),
        ),
    ),
    Right("one matrix product for several", P, (("z = d @ w2 + b2", "z = torch.addmm(b2, d, w2)"),)),
    Right(
        "one matrix product for several",
        R,
        (
            (
                "gate = torch.sigmoid(x[step] @ wx + h @ wh)",
                "gate = torch.sigmoid(torch.cat([x[step], h], -1) @ torch.cat([wx, wh]))",
            ),
        ),
    ),
    Right(
        "a softmax by hand",
        T,
        (("weights = masked.softmax(-1)", "weights = (masked - masked.logsumexp(-1, keepdim=True)).exp()"),),
    ),
    Right("a cross entropy by hand", P, (("p = torch.log_softmax(z, -1)", "p = z - z.logsumexp(-1, keepdim=True)"),)),
    Right(
        "another order of additions",
        P,
        (("mean = h.mean(-1, keepdim=True)", "mean = h.flip(-1).cumsum(-1)[..., -1:] / 12"),),
    ),
    Right("parts of a batch", P, PARTS),
    Right("an einsum for a product", R, (("c = h @ key", "c = torch.einsum('bi,io->bo', h, key)"),)),
    *(
        Right(f"{str(dtype).removeprefix('torch.')} for float32", model, (), dtype)
        for dtype in (torch.bfloat16, torch.float16, torch.float64)
        for model in (P, T, R)
    ),
]


_numbers = itertools.count()


def program(model, *lines):
    """A model as a function, with some lines replaced, in a file of its own that only ``linecache`` has."""
    text = HEAD + MODELS[model]
    for line, other in lines:
        assert text.count(f" {line}\n") == 1, (line, text.count(line))
        text = text.replace(f" {line}\n", f" {other}\n")
    file = f"<{model} {next(_numbers)}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    module = types.ModuleType(model)
    exec(compile(text, file, "exec"), vars(module))
    return vars(module)[model]


@functools.cache
def reference(model):
    """The recording of a model as it should be."""
    return bp.probe(program(model))(*arguments(model))


@functools.cache
def floor(model, precision=None):
    """The measured floor of a model."""
    return bp.noise_floor(program(model), precision=precision)(*arguments(model))


@functools.cache
def planted(fault):
    """The reports on one fault: with the floor by dtype, and with one that was measured."""
    made = bp.probe(program(fault.model, (fault.line, fault.wrong)))(*arguments(fault.model))
    return bp.diff(reference(fault.model), made), bp.diff(reference(fault.model), made, noise=floor(fault.model))


@functools.cache
def right(pair):
    """The same of a program that is right."""
    args = [one.to(pair.dtype) if one.is_floating_point() else one for one in arguments(pair.model)]
    made = bp.probe(program(pair.model, *pair.lines))(*args)
    lower = str(pair.dtype).removeprefix("torch.") if pair.dtype in (torch.bfloat16, torch.float16) else None
    a = reference(pair.model)
    return bp.diff(a, made), bp.diff(a, made, noise=floor(pair.model, lower))


def is_found(fault, report):
    """Is the planted fault what a report blames first, with its line?"""
    found = report.first or report.first_backward
    named = found is not None and (found.name, found.direction) == (fault.name, fault.direction)
    return named and fault.wrong in " ".join(str(found).split())
