"""Programs with their attributions computed by hand: what ``bp.attribute`` is compared with.

Each case has two runs, the values that are asked for, and by plain PyTorch alone: (clean - corrupt) · gradient of each
value, the same along each edge, what replacing the value alone changes exactly, and how far the runs are apart.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class Truth:
    """The numbers of one case, by name, and by pairs of names for edges."""

    nodes: dict[str, float]
    edges: dict[tuple[str, str], float]
    exact: dict[str, float]
    change: float


@dataclass(frozen=True)
class Case:
    """A program, the arguments of both runs, what is asked for, and the truth."""

    name: str
    target: Any
    clean: Any
    corrupt: Any
    select: Any
    of: Any
    truth: Callable[[], Truth]
    steps: int | None = None
    along: Any = None


def dot(a, b):
    """The sum of the products, in double precision."""
    return float((a.double() * b.double()).sum())


def leaf(tensor):
    """A new leaf with these numbers."""
    return tensor.detach().clone().requires_grad_()


# a function


def chain(x, w, b):
    u = x * w
    v = torch.tanh(u + b)
    return (v * v * u).sum()


W, B = torch.tensor([2.0, -1.0, 0.5]), torch.tensor([0.1, 0.2, -0.3])
CLEAN, CORRUPT = torch.tensor([0.5, 1.0, -1.0]), torch.tensor([0.4, -0.5, 2.0])


def of_chain():
    def rest(u):
        v = torch.tanh(u + B)
        return (v * v * u).sum()

    x, u = leaf(CORRUPT), leaf(CORRUPT * W)
    v, u_of_output = leaf(torch.tanh(u + B)), leaf(u)
    of_v, of_u = torch.autograd.grad((v * v * u_of_output).sum(), [v, u_of_output])
    (u_through_v,) = torch.autograd.grad(torch.tanh(u + B), u, of_v)
    (of_x,) = torch.autograd.grad(rest(x * W), x)
    by_x, by_u = CLEAN - CORRUPT, CLEAN * W - CORRUPT * W
    by_v = torch.tanh(CLEAN * W + B) - torch.tanh(CORRUPT * W + B)
    before = float(chain(CORRUPT, W, B))
    v_replaced = torch.tanh(CLEAN * W + B)
    return Truth(
        {"x": dot(by_x, of_x), "u": dot(by_u, of_u + u_through_v), "v": dot(by_v, of_v)},
        {
            ("x", "u"): dot(by_x, of_x),
            ("u", "v"): dot(by_u, u_through_v),
            ("u", "return"): dot(by_u, of_u),
            ("v", "return"): dot(by_v, of_v),
        },
        {
            "x": float(chain(CLEAN, W, B)) - before,
            "u": float(rest(CLEAN * W)) - before,
            "v": float((v_replaced**2 * CORRUPT * W).sum()) - before,
        },
        float(chain(CLEAN, W, B)) - before,
    )


def of_integrated_chain(steps=8):
    def truth():
        nodes = {"x": 0.0, "u": 0.0, "v": 0.0}
        edges = {("x", "u"): 0.0, ("u", "v"): 0.0, ("u", "return"): 0.0, ("v", "return"): 0.0}
        by = {
            "x": CLEAN - CORRUPT,
            "u": CLEAN * W - CORRUPT * W,
            "v": torch.tanh(CLEAN * W + B) - torch.tanh(CORRUPT * W + B),
        }
        for step in range(steps):
            x = leaf(CORRUPT + (step + 0.5) / steps * (CLEAN - CORRUPT))
            u = leaf(x * W)
            v, beside = leaf(torch.tanh(u + B)), leaf(u)
            of_v, of_u = torch.autograd.grad((v * v * beside).sum(), [v, beside])
            (through,) = torch.autograd.grad(torch.tanh(u + B), u, of_v)
            own = {"x": (of_u + through) * W, "u": of_u + through, "v": of_v}
            for name, gradient in own.items():
                nodes[name] += dot(by[name], gradient) / steps
            flows = {("x", "u"): own["x"], ("u", "v"): through, ("u", "return"): of_u, ("v", "return"): of_v}
            for edge, flow in flows.items():
                edges[edge] += dot(by[edge[0]], flow) / steps
        known = of_chain()
        return Truth(nodes, edges, known.exact, known.change)

    return truth


# a linear function, in which attributions are exact


def linear(x, y):
    u = 3 * x
    v = u + 2 * y
    return v.sum()


def of_linear():
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([0.0, 1.0])
    by_x, by_y = 3 * float(x.sum()), 2 * float(y.sum())
    nodes = {"x": by_x, "y": by_y, "u": by_x, "v": by_x + by_y}
    edges = {("x", "u"): by_x, ("u", "v"): by_x, ("y", "v"): by_y, ("v", "return"): by_x + by_y}
    return Truth(nodes, edges, nodes, by_x + by_y)


# a model with a residual stream


class Attention(nn.Module):
    def __init__(self, width, heads=2):
        super().__init__()
        self.heads, self.inward, self.outward = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, h):
        q, k, v = self.inward(h).unflatten(-1, (3 * self.heads, -1)).transpose(1, 2).chunk(3, 1)
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        z = scores.masked_fill(torch.ones(h.shape[1], h.shape[1]).triu(1).bool(), -1e9).softmax(-1) @ v
        return self.outward(z.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn, self.mlp = Attention(width), nn.Sequential(nn.Linear(width, 16), nn.GELU(), nn.Linear(16, width))

    def forward(self, h):
        h = h + self.attn(self.one(h))
        return h + self.mlp(self.two(h))


class Stream(nn.Module):
    def __init__(self, width=8, blocks=2, vocabulary=7):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.h = nn.ModuleList(Block(width) for _ in range(blocks))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, ids):
        h = self.embed(ids)
        for block in self.h:
            h = block(h)
        return self.out(self.norm(h))


def stream():
    torch.manual_seed(0)
    return Stream().eval()


IDS, OTHER = torch.tensor([[1, 4, 2, 6, 1]]), torch.tensor([[1, 3, 2, 6, 3]])
PARTS = ["embed", *(f"h.{at}.{part}" for at in range(2) for part in ("attn", "mlp"))]


def difference(logits):
    """How much more one token is expected than another."""
    return logits[0, -1, 4] - logits[0, -1, 3]


def computed(model, ids, replaced=None):
    """Each part of the stream in turn: its input as a leaf, and what it adds; ``replaced`` are other outputs."""
    parts, seen = [], []
    for block in model.h:
        parts += [lambda h, b=block: b.attn(b.one(h)), lambda h, b=block: b.mlp(b.two(h))]
    outputs = [(replaced or {}).get("embed", model.embed(ids).detach())]
    for name, part in zip(PARTS[1:], parts, strict=True):
        given = leaf(sum(outputs))
        made = part(given)
        seen.append((given, made))
        outputs.append((replaced or {}).get(name, made.detach()))
    last = leaf(sum(outputs))
    seen.append((last, difference(model.out(model.norm(last)))))
    return outputs, seen


def of_stream(parts=None):
    """As in edge attribution patching: what comes to a reader of the stream is the sum of what was added before."""

    def truth():
        model = stream()
        clean, corrupt = computed(model, IDS)[0], computed(model, OTHER)[0]
        by = [one - other for one, other in zip(clean, corrupt, strict=True)]
        points = 1 if parts is None else parts
        nodes, edges = dict.fromkeys(PARTS, 0.0), {}
        for step in range(points):
            moved = None if parts is None else {"embed": corrupt[0] + (step + 0.5) / parts * by[0]}
            _, seen = computed(model, OTHER, moved)
            of_input = [torch.autograd.grad(seen[-1][1], seen[-1][0])[0]]  # of readers, the last one first
            for given, made in reversed(seen[:-1]):
                (through,) = torch.autograd.grad(made, given, sum(of_input))
                of_input.append(through)
            of_input.reverse()
            for at, name in enumerate(PARTS):
                for reader, gradient in zip([*PARTS[1:], "of()"][at:], of_input[at:], strict=True):
                    edges[name, reader] = edges.get((name, reader), 0.0) + dot(by[at], gradient) / points
                    nodes[name] += dot(by[at], gradient) / points
        before = float(computed(model, OTHER)[1][-1][1].detach())
        exact = {
            name: float(computed(model, OTHER, {name: one})[1][-1][1].detach()) - before
            for name, one in zip(PARTS, clean, strict=True)
        }
        return Truth(nodes, edges, exact, float(computed(model, IDS)[1][-1][1].detach()) - before)

    return truth


# a value that is written in place, one that is used many times, and names that occur several times


def counted(x):
    h = x * 1.0
    for _ in range(3):
        h = torch.sin(h) + h
    return h.sum()


def of_counted():
    def values(x):
        every = [x * 1.0]
        for _ in range(3):
            every.append(torch.sin(every[-1]) + every[-1])
        return every

    clean, corrupt = values(CLEAN), values(CORRUPT)
    nodes, edges, exact = {}, {}, {}
    before = float(corrupt[-1].sum())
    for at in range(4):
        h = moved = leaf(corrupt[at])
        other = clean[at]
        for _ in range(3 - at):
            moved, other = torch.sin(moved) + moved, torch.sin(other) + other
        (gradient,) = torch.autograd.grad(moved.sum(), h)
        nodes[f"h#{at}"] = dot(clean[at] - corrupt[at], gradient)
        exact[f"h#{at}"] = float(other.sum()) - before
        edges[f"h#{at}", f"h#{at + 1}" if at < 3 else "return"] = nodes[f"h#{at}"]
    return Truth(nodes, edges, exact, float(clean[-1].sum()) - before)


CASES = [
    Case("chain", chain, (CLEAN, W, B), (CORRUPT, W, B), ["x", "u", "v"], None, of_chain),
    Case(
        "chain by eight steps",
        chain,
        (CLEAN, W, B),
        (CORRUPT, W, B),
        ["x", "u", "v"],
        None,
        of_integrated_chain(),
        steps=8,
    ),
    Case(
        "linear",
        linear,
        (torch.tensor([1.0, 2.0]), torch.tensor([0.0, 1.0])),
        (torch.zeros(2), torch.zeros(2)),
        ["x", "y", "u", "v"],
        None,
        of_linear,
    ),
    Case("stream", stream(), IDS, OTHER, PARTS, difference, of_stream()),
    Case("stream by five steps", stream(), IDS, OTHER, PARTS, difference, of_stream(5), steps=5, along="embed"),
    Case("counted", counted, CLEAN, CORRUPT, "h", None, of_counted),
]
