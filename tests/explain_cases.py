"""Programs whose gradients are missing, zero or wrong: for each the value that is asked for, what ``bp.explain`` finds,
and, by a comment on the line, where.

A program of the function form takes ``x`` and ``w``. One of a block takes ``probe`` as well, and opens a block with it,
so that it also runs without backprobe, for what PyTorch says by itself. A comment ``# <- word`` marks a line that must
be named; the word is that of an error's note, ``saved`` or ``written``, and for a report it is ``here``.
"""

import inspect
import math
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from custom import custom

FILE = Path(__file__).read_text().splitlines()
WORDS = ("made", "saved", "written", "survived", "used", "freed", "at:")
"""What marks the lines that the notes of errors name."""

X, W = (1.0, 2.0), (3.0, 4.0)


@dataclass(frozen=True)
class Case:
    """One program; ``row`` is the cause as the table of the docs calls it."""

    program: object
    row: str
    asked: str
    kinds: tuple[str, ...]

    @property
    def name(self):
        return self.program.__name__

    def lines(self, word="here"):
        """The numbers of the lines that are marked with a word; a helper's are marked for a program by its name."""
        source, first = inspect.getsourcelines(self.program)
        own = [first + at for at, line in enumerate(source) if f"# <- {word}" in line]
        helpers = [at for at, line in enumerate(FILE, 1) if f"# <- {word} for {self.name}" in line]
        return sorted(own + helpers)


FUNCTIONS, BLOCKS, ERRORS = [], [], []


def _into(cases, row, asked, *kinds):
    def add(program):
        cases.append(Case(program, row, asked, kinds))
        return program

    return add


def function(row, asked, *kinds):
    return _into(FUNCTIONS, row, asked, *kinds)


def block(row, asked, *kinds):
    return _into(BLOCKS, row, asked, *kinds)


def error(row, *kinds):
    return _into(ERRORS, row, "", *kinds)


# detach and its kin


@function("`detach()`", "x", "detach")
def detached(x, w):
    u = x * w
    d = u.detach()  # <- here
    return (d * w).sum()


@function("`detach()` in the middle of an expression", "u", "detach")
def detached_inline(x, w):
    u = x * w
    return (u.detach() * w).sum()  # <- here


@function("`detach_()`, by another name of the value", "x", "detach")
def detached_in_place(x, w):
    u = x * w
    alias = u
    alias.detach_()  # <- here
    return (u * w).sum()


@function("`.data`", "x", "data")
def through_data(x, w):
    u = x * w
    return (u.data * w).sum()  # <- here


@function("`.item()`", "x", "number")
def item(x, w):
    u = (x * w).sum()
    scale = u.item()  # <- here
    return (scale * w).sum()


@function("`float()`", "x", "number")
def python_float(x, w):
    u = (x * w).sum()
    scale = float(u)  # <- here
    return (scale * w).sum()


@function("a number summed up in a loop", "x", "number")
def summed_numbers(x, w):
    u = x * w
    total = 0.0
    for i in range(2):
        total += u[i].item()  # <- here
    return (total * w).sum()


@function("`.numpy()`", "x", "numpy")
def numpy_array(x, w):
    u = x * w
    array = u.detach().numpy()  # <- here
    doubled = array * 2
    back = torch.from_numpy(doubled)
    return (back * w).sum()


def to_array(tensor):
    return tensor.detach().numpy()  # <- here for array_of_a_helper


@function("`.numpy()` in your own function", "x", "numpy")
def array_of_a_helper(x, w):
    u = x * w
    back = torch.from_numpy(to_array(u))
    return (back * w).sum()


@function("`torch.tensor([t])`", "x", "copied")
def copied(x, w):
    u = (x * w).sum()
    t = torch.tensor([u])  # <- here
    return (t * w).sum()


@function("`torch.as_tensor` of several tensors", "x", "copied")
def joined_without_history(x, w):
    u = (x * w).sum()
    parts = [u]
    t = torch.as_tensor(parts)  # <- here
    return (t * w).sum()


@function("`.detach().item()`", "x", "number")
def detached_number(x, w):
    u = (x * w).sum()
    scale = u.detach().item()  # <- here
    return (scale * w).sum()


@function("a list of numbers", "x", "number")
def numbers_in_a_list(x, w):
    u = x * w
    parts = []
    for i in range(2):
        parts.append(u[i].item())  # <- here
    t = torch.tensor(parts)
    return (t * w).sum()


@function("`Parameter(t)`", "x", "parameter")
def parameter_of_a_value(x, w):
    u = x * w
    p = torch.nn.Parameter(u)  # <- here
    return (p * w).sum()


@function("`sample()` of a distribution", "x", "sample")
def sampled(x, w):
    u = x * w
    s = torch.distributions.Normal(u, 1.0).sample()  # <- here
    return (s * w).sum()


@function("`sample()` of a discrete distribution", "x", "sample")
def drawn_position(x, w):
    u = x * w
    k = torch.distributions.Categorical(logits=u).sample()  # <- here
    return w[k] * w.sum()


@function("numbers written into another tensor", "x", "detach")
def stored(x, w):
    out = torch.zeros(2)
    u = x * w
    out[0] = u[0].detach()  # <- here
    out[1] = w[1]
    return out.sum()


@function("a part of a statement over several lines", "x", "detach", "data", "number")
def over_several_lines(x, w):
    u = x * w
    both = torch.stack(
        [
            w,
            u.detach(),  # <- here
        ]
    )
    parts = []
    parts.append(
        u.sum()
        .item(),  # <- here
    )  # fmt: skip
    chained = (
        u.exp()
        .data  # <- here
        .sum()
    )  # fmt: skip
    return (both * w).sum() * parts[0] * chained


# modes


@function("`torch.no_grad()`", "x", "no_grad")
def no_grad(x, w):
    with torch.no_grad():
        u = x * w  # <- here
        v = u + 1
    return (v * w).sum()


@function("`torch.inference_mode()`", "x", "no_grad")
def inference_mode(x, w):
    with torch.inference_mode():
        u = x * w  # <- here
    return (u.clone() * w).sum()


@torch.no_grad()
def decorated(value):
    doubled = value * 2  # <- here for calls_decorated
    return doubled


@function("a function under `@torch.no_grad()`", "u", "no_grad")
def calls_decorated(x, w):
    u = x * w
    return (decorated(u) * w).sum()


@function("`set_grad_enabled(False)`", "u", "no_grad")
def grad_disabled(x, w):
    u = x * w
    with torch.set_grad_enabled(False):
        v = u.exp()  # <- here
    return (v * w).sum()


# whole numbers and steps


@function("`argmax`", "x", "index")
def positions(x, w):
    u = x * w
    k = u.argmax()  # <- here
    return w[k]


@function("positions beside sorted values", "x", "index")
def sorted_positions(x, w):
    u = x * w
    ordered, order = u.sort()  # <- here
    return w[order].sum()


@function("positions of the largest, without a name", "x", "index")
def largest_positions(x, w):
    u = x * w
    return w[u.topk(1)[1]].sum()  # <- here


@function("how often a loop runs", "x", "number")
def turns_of_a_loop(x, w):
    u = (x * w).sum()
    h = w
    for _ in range(int(u)):  # <- here
        h = h * 2
    return h.sum()


@function("one of two that are zipped", "x", "number")
def zipped(x, w):
    u = x * w
    parts = [a.item() * b for a, b in zip(u, w, strict=True)]  # <- here
    return torch.stack(parts).sum()


@function("Python's `math`", "x", "number")
def python_math(x, w):
    u = (x * w).sum()
    return (w * math.exp(-u)).sum()  # <- here


@function("a comparison", "x", "comparison")
def compared(x, w):
    u = x * w
    mask = u > 4  # <- here
    return (mask * w).sum()


@function("an integer cast", "x", "integer")
def cast(x, w):
    u = x * w
    k = u.to(torch.int64)  # <- here
    return (k * w).sum()


@function("an integer cast without a name", "u", "integer")
def cast_inline(x, w):
    u = x * 0.5
    return w[u.long()].sum()  # <- here


@function("an integer value", "k", "integer")
def asks_for_integers(x, w):
    u = x * w
    k = u.long()  # <- here
    return (u * w).sum() + k.sum()


@function("`round`", "x", "zero_derivative")
def rounded(x, w):
    u = x * w
    r = torch.round(u)  # <- here
    return (r * w).sum()


@function("a dead ReLU", "u", "zero_derivative")
def dead(x, w):
    u = -(x * w)
    a = F.relu(u)  # <- here
    return (a * w).sum()


@function("`clamp` beyond its limits", "x", "zero_derivative")
def clamped(x, w):
    u = x * w + 10
    c = u.clamp(max=5.0)  # <- here
    return (c * w).sum()


# the graph goes another way


@function("sliced again", "t", "made_again")
def sliced_again(x, w):
    b = x * w
    t = b[0]
    return b[0] * w.sum()  # <- here


@function("computed again", "h", "made_again")
def computed_again(x, w):
    h = torch.tanh(x)
    return (torch.tanh(x) * w).sum()  # <- here


@function("not used", "v", "unused")
def unused(x, w):
    u = x * w
    v = u * 2
    t = v.exp()  # <- here
    return u.sum()


GivesNone = custom("GivesNone", lambda value: value * 2, lambda gradient, value: None)


@function("a `backward` that returns None", "x", "silent")
def returns_none(x, w):
    u = x * w
    v = GivesNone.apply(u)  # <- here
    return (v * w).sum()


@function("only its derivative is used, with `create_graph=True`", "y", "differentiated")
def penalty(x, w):
    y = (torch.tanh(x) * w).sum()
    (slope,) = torch.autograd.grad(y, x, create_graph=True)  # <- here
    return (slope.norm() - 1) ** 2


def square(value):
    return value * value


@function("cut inside a library's function", "x", "inside")
def in_a_library(x, w):
    u = x * w
    j = torch.autograd.functional.jacobian(square, u)  # <- here
    return (j * w).sum()


def helper(value):
    half = value / 2
    return half.detach()  # <- here for in_a_helper


@function("cut inside your own function", "x", "detach")
def in_a_helper(x, w):
    u = x * w
    return (helper(u) * w).sum()


@function("an argument of your own function", "x", "detach")
def cut_argument(x, w):
    u = x * w
    half = doubled(u.detach())  # <- here
    return (half * w).sum()


def doubled(value):
    twice = value * 2
    return twice


@function("an argument of a call of itself", "x", "detach")
def recursive(x, w, depth=2):
    u = x * w
    return u.sum() if not depth else recursive(u.detach(), w, depth - 1)  # <- here


@function("several cuts, one after the other", "x", "detach", "index", "number")
def several(x, w):
    u = x * w
    a = u.detach() * w  # <- here
    b = a[a.argmax()]
    k = u.argmax()  # <- here
    c = b.item()  # <- here
    return (c * w).sum() + w[k]


@function("`requires_grad = True` on the loss", "x", "detach", "made_leaf")
def made_to_require(x, w):
    u = x * w
    d = u.detach()  # <- here
    loss = d.sum()
    loss.requires_grad = True  # <- here
    return loss


# written behind autograd's back


@function("a write through `.data`", "u", "overwritten")
def written_through_data(x, w):
    u = x * w
    v = u * u
    u.data.mul_(2)  # <- here
    return (v * w).sum()


@function("a write through `.data`, asked of what is before it", "x", "overwritten")
def written_before(x, w):
    u = x * w
    v = u * u
    handle = u.data
    handle.mul_(2)  # <- here
    return (v * w).sum()


@function("a write under `torch.no_grad()` to what has a history", "u#0", "overwritten")
def written_under_no_grad(x, w):
    u = x * w
    with torch.no_grad():
        u.mul_(2)  # <- here
    return (u * w).sum()


# what requires no gradient


@block("frozen inputs", "u", "frozen")
def frozen(x, w, probe):
    a = torch.ones(2)
    with probe() as rec:
        u = a * 2  # <- here
        loss = (u * w).sum()
        loss.backward()
    return rec


@block("`* 0.1` after `requires_grad=True`", "v")
def scaled_leaf(x, w, probe):
    with probe() as rec:
        v = torch.ones(2, requires_grad=True) * 0.1
        loss = (v * w).sum()
        loss.backward()
    return rec


@block("not a leaf, not retained", "u")
def not_retained(x, w, probe):
    with probe() as rec:
        u = x * w
        u.sum().backward()
    return rec


@block("a value of another forward (Grad-CAM)", "features#0", "other_call")
def another_forward(x, w, probe):
    with probe() as rec:
        features = torch.tanh(x * w)  # <- here
        features = torch.tanh(x * w * 2)
        features.sum().backward()
    return rec


@block("a reentrant checkpoint without an input that requires a gradient", "h", "checkpoint")
def reentrant(x, w, probe):
    image = torch.ones(2)

    def part(value):
        return value * w

    with probe() as rec:
        u = image * 2
        h = checkpoint(part, u, use_reentrant=True)  # <- here
        loss = (h * x).sum()
        loss.backward()
    return rec


@block("a checkpoint that is not reentrant", "u")
def not_reentrant(x, w, probe):
    def part(value):
        inner = value * w
        return inner

    with probe() as rec:
        u = x * 2
        h = checkpoint(part, u, use_reentrant=False)
        h.sum().backward()
    return rec


# errors


@error("a saved value written in place", "in_place")
def saved_and_written(x, w, probe):
    with probe() as rec:
        u = x * w
        v = u.exp()  # <- made  # <- saved
        z = v * w  # <- saved
        v.add_(1)  # <- written
        z.sum().backward()
    return rec


@error("a parameter updated between forward and backward", "in_place")
def optimizer_between(x, w, probe):
    optimizer = torch.optim.SGD([w], lr=0.1)
    with probe() as rec:
        u = x * w * w  # <- saved
        u.sum().backward(retain_graph=True)
        optimizer.step()  # <- written
        u.sum().backward()
    return rec


@error("`retain_graph=True` in a loop that updates the parameter", "in_place")
def retained_and_updated(x, w, probe):
    optimizer = torch.optim.SGD([w], lr=0.1)
    with probe() as rec:
        h = x * 1
        for _ in range(3):
            h = h * w  # <- saved
            loss = h.sum()
            loss.backward(retain_graph=True)
            optimizer.step()  # <- written
    return rec


class Squares(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        ctx.save_for_backward(value)
        return value * value  # <- saved for saved_by_a_function

    @staticmethod
    def backward(ctx, gradient):
        (value,) = ctx.saved_tensors
        return 2 * value * gradient


@error("a value saved by your own function", "in_place")
def saved_by_a_function(x, w, probe):
    with probe() as rec:
        u = x * w  # <- made
        y = Squares.apply(u)
        u.mul_(2)  # <- written
        y.sum().backward()
    return rec


@error("backward twice from one loss", "freed")
def twice(x, w, probe):
    with probe() as rec:
        u = x * w
        loss = u.exp().sum()  # <- survived
        loss.backward()  # <- freed
        loss.backward()
    return rec


@error("a state carried from one turn of a loop into the next", "freed")
def carried_state(x, w, probe):
    with probe() as rec:
        h = x * 1
        for _ in range(3):
            h = h * w + 1  # <- survived  # <- used
            loss = h.sum()
            loss.backward()  # <- freed
    return rec


@error("a value made before the loop", "freed")
def made_before_the_loop(x, w, probe):
    with probe() as rec:
        h = x * w
        s = h + 1  # <- survived
        for i in range(3):
            y = s * i  # <- used
            y.sum().backward()  # <- freed
    return rec


@error("nothing to differentiate: cut off", "no_history")
def cut_off(x, w, probe):
    with probe() as rec:
        u = x * w
        d = u.detach()  # <- at:
        d.sum().backward()
    return rec


@error("nothing to differentiate: a derivative without a history", "no_history")
def first_order(x, w, probe):
    with probe() as rec:
        y = (x**3).sum()
        slope = torch.autograd.grad(y, x)[0]  # <- at:
        curvature = torch.autograd.grad(slope.sum(), x)[0]
    return rec


@error("nothing to differentiate: under no_grad", "no_history")
def all_under_no_grad(x, w, probe):
    with probe() as rec:
        with torch.no_grad():
            u = x * w  # <- at:
        loss = u.sum()
        loss.backward()
    return rec


@error("nothing to differentiate: frozen", "no_history")
def all_frozen(x, w, probe):
    data = torch.ones(2)
    with probe() as rec:
        b = data * 2
        loss = b.sum()
        loss.backward()
    return rec


@error("an output that is not a scalar", "not_scalar")
def not_scalar(x, w, probe):
    with probe() as rec:
        u = x * w  # <- made
        u.backward()
    return rec


@error("not in the graph", "not_in_graph")
def not_in_the_graph(x, w, probe):
    with probe() as rec:
        u = x * w
        v = x * 2  # <- made
        torch.autograd.grad(u.sum(), [x, v])
    return rec


@error("a leaf written in place", "leaf_written")
def leaf_written(x, w, probe):
    with probe() as rec:
        x.mul_(2)  # <- at:
    return rec


@error("one of several views written", "view_written")
def view_written(x, w, probe):
    with probe() as rec:
        u = x * w
        a, b = u.unbind()  # <- made
        a.mul_(2)  # <- at:
    return rec


@error("an inference tensor", "inference")
def inference_tensor(x, w, probe):
    with probe() as rec:
        with torch.inference_mode():
            q = torch.ones(2)  # <- made
        y = q * x
    return rec


@error("an integer dtype", "integer_leaf")
def integer_leaf(x, w, probe):
    with probe() as rec:
        t = torch.tensor([1, 2], requires_grad=True)
    return rec
