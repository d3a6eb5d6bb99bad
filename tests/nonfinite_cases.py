"""Programs that make NaN or Inf at a line that is known: for the tests, and for the table in docs/nonfinite.md.

The line of each birth carries ``# forward`` or ``# backward``, and where both begin at one line, both words.
"""

import inspect
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import tensor

from custom import custom

CASES = []


@dataclass(frozen=True)
class Case:
    """A program with what it is called with, and what is to be found: kind and name of each birth, and why."""

    title: str
    program: object
    args: tuple
    births: tuple  # (kind, name, what the headline says of it)
    calls: tuple = ()  # the functions of its own that it calls

    def lines(self, word):
        """The lines marked with a word."""
        marked = []
        for function in (self.program, *self.calls):
            text, first = inspect.getsourcelines(function)
            marked += [first + at for at, line in enumerate(text) if word in line.partition("#")[2].split()]
        return marked


def case(title, *args, births, calls=()):
    def known(program):
        CASES.append(Case(title, program, args, tuple(births), calls))
        return program

    return known


# born in the forward pass


@case("logarithm of zero", tensor([0.0, 1.0]), births=[("born", "y", "log(0)")])
def log_zero(x):
    y = torch.log(x)  # forward
    return y.sum()


@case("logarithm of a negative number", tensor([-1.0, 1.0]), births=[("born", "y", "log of a number below 0")])
def log_negative(x):
    y = x.log()  # forward
    return y.sum()


@case("0/0", tensor([0.0, 1.0]), births=[("born", "y", "0/0")])
def zero_over_zero(x):
    n = x * 2
    y = n / x  # forward
    return y.sum()


@case("a row normalised by its sum, which is zero", tensor([[0.0, 0.0], [1.0, 2.0]]), births=[("born", "p", "0/0")])
def empty_row(x):
    total = x.sum(1, keepdim=True)
    p = x / total  # forward
    return (p * p).sum()


@case("division by zero", tensor([0.0, 1.0]), births=[("born", "y", "division by zero")])
def one_over_zero(x):
    y = 1 / x  # forward
    return y.sum()


@case(
    "the second operation of a line", tensor([1.0, 2.0]), births=[("born", "log()", "log(0)"), ("born", "y", "0 · Inf")]
)
def within_a_line(x):
    y = torch.log(x - x) * 0  # forward
    return y.sum()


@case("Inf − Inf", tensor([0.0, 1.0]), births=[("born", "a", "division by zero"), ("born", "y", "Inf − Inf")])
def inf_minus_inf(x):
    a = 1 / x  # forward
    y = a - a  # forward
    return y.sum()


@case("0 · Inf", tensor([0.0, 1.0]), births=[("born", "a", "division by zero"), ("born", "y", "0 · Inf")])
def zero_times_inf(x):
    a = 1 / x  # forward
    y = a * x  # forward
    return y.sum()


@case("exp overflows", tensor([100.0, 1.0]), births=[("born", "e", "overflow: float32")])
def exp_overflow(x):
    e = torch.exp(x)  # forward
    return e.sum()


@case("softmax written by hand", tensor([100.0, 1.0]), births=[("born", "e", "overflow"), ("born", "p", "")])
def naive_softmax(x):
    e = torch.exp(x)  # forward
    p = e / e.sum()  # forward
    return p[0]


@case(
    "overflow in half precision",
    tensor([300.0, 1.0], dtype=torch.float16),
    births=[("born", "y", "float16 ends at 65504")],
)
def half_overflow(x):
    y = x * x  # forward
    return y.sum()


@case("cast to half precision", tensor([1e5, 1.0]), births=[("born", "h", "overflow: float16")])
def cast_overflow(x):
    h = x.half()  # forward
    return h.float().sum()


@case("a sum in half precision", tensor([60000.0, 60000.0], dtype=torch.float16), births=[("born", "s", "overflow")])
def half_sum(x):
    s = x.sum()  # forward
    return s * 0.5


@case(
    "matrix product in half precision",
    torch.full((2, 2), 200.0, dtype=torch.float16),
    births=[("born", "y", "overflow")],
)
def half_matmul(x):
    w = x * 1
    y = x @ (w * 4)  # forward
    return y.sum()


@case(
    "softmax of a row that is masked out", tensor([[1.0, 2.0], [3.0, 4.0]]), births=[("born", "weights", "Inf − Inf")]
)
def masked_row(x):
    mask = torch.tensor([[True, True], [False, False]])
    scores = x.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(scores, -1)  # forward
    return weights.sum()


@case(
    "square root of a negative number",
    tensor([-1.0, 4.0]),
    births=[("born", "y", "the square root of a negative number")],
)
def sqrt_negative(x):
    y = torch.sqrt(x)  # forward
    return y.sum()


@case("fractional power of a negative number", tensor([-1.0, 4.0]), births=[("born", "y", "fractional power")])
def fractional_power(x):
    y = x**0.5  # forward
    return y.sum()


@case("zero to a negative power", tensor([0.0, 4.0]), births=[("born", "y", "0 to a negative power")])
def negative_power(x):
    y = x**-1.0  # forward
    return y.sum()


@case(
    "arccosine outside −1…1 by rounding",
    tensor([1.0000001, 0.5]),
    births=[("born", "angle", "acos of a number outside")],
)
def acos_outside(x):
    angle = torch.acos(x)  # forward
    return angle.sum()


@case("variance of one number", tensor([[2.0], [3.0]]), births=[("born", "s", "0/0")])
def std_of_one(x):
    s = x.var(1)  # forward
    return s.sum()


@case("mean of nothing", tensor([1.0, 2.0]), births=[("born", "m", "0/0")])
def mean_of_none(x):
    none = x[x > 5]
    m = none.mean()  # forward
    return m + x.sum()


@case("written in place", tensor([0.0, 1.0]), births=[("born", "u#1", "division by zero")])
def in_place(x):
    u = x * 0 + 1
    u /= x  # forward
    return u.sum()


def normed(v):
    n = v.sum()
    r = v / n  # forward
    return r


@case("in a function that is called", tensor([0.0, 1.0]), births=[("born", "y", "0/0")], calls=(normed,))
def in_a_call(x):
    y = normed(x - x)
    return y.sum()


@case("in the third turn of a loop", tensor([2.0]), births=[("born", "y#3", "log of a number below 0")])
def in_a_loop(x):
    y = x * 1
    for _ in range(3):
        y = torch.log(y)  # forward
    return y.sum()


@case("complex division by zero", tensor([0j, 1 + 1j]), births=[("born", "y", "division by zero")])
def complex_division(x):
    y = 1 / x  # forward
    return y.abs().sum()


@case("cross entropy by hand", tensor([[200.0, 0.0]]), births=[("born", "l", "log(0)")])
def cross_entropy(x):
    p = torch.softmax(x, -1)
    l = torch.log(p)  # forward
    return -l[0, 1]


@case("a norm in half precision", tensor([500.0, 1.0], dtype=torch.float16), births=[("born", "squares", "overflow")])
def half_norm(x):
    squares = x**2  # forward
    n = torch.sqrt(squares.sum())
    return n


@case(
    "two births that know nothing of each other",
    tensor([0.0, 1.0]),
    births=[("born", "a", "log(0)"), ("born", "b", "division by zero")],
)
def two_births(x):
    a = torch.log(x)  # forward
    b = 1 / x  # forward
    return torch.stack([a, b]).abs().sum()


@case("inside of a library's function", tensor([0.0, 0.0]), births=[("born", "n", "")])
def library(x):
    n = F.normalize(x, dim=0, eps=0.0)  # forward
    return n.sum()


@case("under no_grad", tensor([0.0, 1.0]), births=[("born", "s", "0/0")])
def without_gradients(x):
    with torch.no_grad():
        s = x / x  # forward
    return (x * s).sum()


@case("in what is detached", tensor([0.0, 1.0]), births=[("born", "log()", "log(0)"), ("born", "y", "0 · Inf")])
def detached(x):
    s = torch.log(x).detach()  # forward
    y = x * s  # forward
    return y.sum()


@case("in a number", tensor([0.0, 1.0]), births=[("born", "div()", "0/0")])
def a_number(x):
    s = (x / x).sum().item()  # forward
    y = x * s
    return y.sum()


@case("written by index", tensor([1.0, 2.0]), births=[("born", "y#1", "it is written there")])
def by_index(x):
    y = x.clone()
    y[0] = float("nan")  # forward
    return y.sum()


@case(
    "written through a view",
    tensor([1.0, 2.0]),
    births=[("born", "u#1", "division by zero"), ("born", "v#1", "division by zero")],
)
def through_a_view(x):
    u = x * 1
    v = u[0]
    v.div_(0)  # forward
    return u.sum()


@case("under autocast", torch.full((2, 2), 300.0), births=[("born", "y", "overflow: float16")])
def autocast(x):
    with torch.autocast("cpu", dtype=torch.float16):
        y = x @ x  # forward
    return y.float().sum()


@case("an underflow, and its logarithm", torch.full((200,), 0.5), births=[("born", "z", "log(0)")])
def underflow(x):
    y = torch.cumprod(x, 0)
    z = torch.log(y)  # forward
    return z.sum()


@case("a value of a dictionary", tensor([0.0, 1.0]), births=[("born", "div()", "0/0")])
def in_a_dictionary(x):
    d = {"a": x * 2, "b": x / x}  # forward
    return d["b"].sum() + d["a"].sum()


# born in the backward pass alone


@case(
    "derivative of sqrt at zero",
    tensor([0.0, 1.0]),
    births=[("born_backward", "y", "the derivative of sqrt is infinite at 0")],
)
def sqrt_at_zero(x):
    y = torch.sqrt(x)  # backward
    return y.sum()


@case(
    "a norm at zero, by hand",
    tensor([0.0, 0.0]),
    births=[("born_backward", "n", "sqrt"), ("born_backward", "squares", "0 · Inf")],
)
def norm_at_zero(x):
    squares = x * x  # backward
    n = torch.sqrt(squares.sum())  # backward
    return n


@case(
    "the branch that where does not select",
    tensor([0.0, 4.0]),
    births=[("born_backward", "log()", "a zero gradient, and the derivative of log is infinite at 0")],
)
def masked_log(x):
    y = torch.where(x > 0, torch.log(x), 0)  # backward
    return y.sum()


@case("a branch bound to a name before where", tensor([0.0, 4.0]), births=[("born_backward", "root", "0 · Inf")])
def masked_sqrt(x):
    root = torch.sqrt(x)  # backward
    y = torch.where(x > 1, root, x)
    return y.sum()


@case("division in the branch not selected", tensor([0.0, 4.0]), births=[("born_backward", "ratio", "0 · Inf")])
def masked_division(x):
    ratio = 1 / x  # backward
    y = torch.where(x != 0, ratio, torch.zeros_like(x))
    return y.sum()


@case("masked by a product", tensor([0.0, 4.0]), births=[("born_backward", "root", "0 · Inf")])
def masked_by_product(x):
    mask = (x > 1).float()
    root = torch.sqrt(x)  # backward
    y = mask * root
    return y.sum()


@case("nan_to_num hides what backward does", tensor([0.0, 1.0]), births=[("born_backward", "y", "")])
def hidden(x):
    y = torch.log(x)  # backward
    z = torch.nan_to_num(y, neginf=0.0)
    return z.sum()


@case("clamp after the logarithm", tensor([0.0, 1.0]), births=[("born_backward", "y", "0 · Inf")])
def clamped(x):
    y = torch.log(x)  # backward
    z = y.clamp(min=-10.0)
    return z.sum()


@case("arccosine at one", tensor([1.0, 0.5]), births=[("born_backward", "angle", "infinite at 1")])
def acos_at_one(x):
    angle = torch.acos(x)  # backward
    return angle.sum()


@case("a power below one at zero", tensor([0.0, 1.0]), births=[("born_backward", "y", "infinite at 0")])
def power_at_zero(x):
    y = x**0.5  # backward
    return y.sum()


@case(
    "a trained exponent of negative numbers",
    tensor([1.0, -2.0]),
    tensor([2.0, 2.0]),
    births=[("born_backward", "y", "log(base), and the base is negative")],
)
def exponents(x, p):
    y = x**p  # backward
    return y.sum()


@case(
    "one trained exponent of several numbers",
    tensor([1.0, -2.0]),
    tensor(3.0),
    births=[("born_backward", "y", "log(base), and the base is negative")],
)
def exponent(x, p):
    y = torch.pow(x, p)  # backward
    return y.sum()


@case(
    "overflow of a gradient in half precision",
    tensor([0.001, 0.002], dtype=torch.float16),
    births=[("born_backward", "y", "overflow")],
)
def half_gradient(x):
    y = x * 300  # backward
    z = y * 300
    return z.float().sum()


@case(
    "exp, and its gradient in half precision",
    tensor([10.0, 1.0], dtype=torch.float16),
    births=[("born_backward", "e", "overflow")],
)
def half_exp(x):
    e = torch.exp(x)  # backward
    return (e.float() * 10).sum()


@case("eigenvectors of equal eigenvalues", torch.eye(3), births=[("born_backward", "l", "")])
def eigenvectors(x):
    l, v = torch.linalg.eigh(x)  # backward
    return v.sum()


@case("the root written in place", tensor([0.0, 1.0]), births=[("born_backward", "u#1", "infinite at 0")])
def in_place_root(x):
    u = x * 1
    u.sqrt_()  # backward
    return u.sum()


Broken = custom("Broken", lambda x: x * 2, lambda g, x: g / 0)


@case("a custom Function with a wrong backward", tensor([1.0, 2.0]), births=[("born_backward", "y", "")])
def custom(x):
    y = Broken.apply(x)  # backward
    return y.sum()


@case(
    "a zero gradient that meets a NaN",
    tensor([0.0, 2.0]),
    births=[("born", "tensor()#0", "written"), ("born_backward", "l", "0 · NaN: a zero gradient")],
)
def zero_times_nan(x):
    l = (x - torch.tensor([float("nan"), 1.0])) ** 2  # forward backward
    return l[torch.tensor([False, True])].mean()


@case("the items of a comprehension", tensor([0.0, 1.0]), births=[("born", "log()#0", "log(0)")])
def items(x):
    return torch.stack([torch.log(v) for v in x]).sum()  # forward


# came in, healed, nothing


@case("an argument that is NaN", tensor([float("nan"), 1.0]), births=[("came_in", "x", "")])
def nan_argument(x):  # forward
    y = x * 2
    return y.sum()


@case("an Inf that is written out", tensor([1.0, 2.0]), births=[("born", "c", "written")])
def written_out(x):
    c = torch.tensor([float("inf"), 1.0])  # forward
    y = x * c
    return y.sum()


@case("a hook that gives NaN", tensor([1.0, 2.0]), births=[("came_in_backward", "y", "hook")])
def hooked(x):
    y = x * 2  # backward
    y.register_hook(lambda g: g * float("nan"))
    return y.sum()


@case("a mask of −Inf, which softmax takes away", tensor([[1.0, 2.0], [3.0, 4.0]]), births=[])
def causal_mask(x):
    mask = torch.tensor([[True, False], [True, True]])
    scores = x.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(scores, -1)
    return (weights * x).sum()


@case("a running minimum that begins at Inf", tensor([[1.0, 2.0], [0.5, 1.0]]), births=[])
def running_minimum(x):
    best = float("inf")
    for row in x:
        total = row.sum()
        if total.item() < best:
            best, kept = total.item(), total
    return kept * 2


@case("padded with NaN, and then filled", tensor([1.0, 2.0]), births=[])
def filled(x):
    out = torch.empty(3)
    out[:] = float("nan")
    out[:2] = x
    out[2] = 1
    return out.sum()


@case("padded with NaN, and not filled", tensor([1.0, 2.0]), births=[("born", "out#1", "it is written there")])
def not_filled(x):
    out = torch.zeros(3)
    out[:] = float("nan")  # forward
    out[:2] = x
    return out.sum()


@case("the double where", tensor([0.0, 4.0]), births=[])
def double_where(x):
    safe = torch.where(x > 0, x, 1)
    y = torch.where(x > 0, torch.log(safe), 0)
    return y.sum()


@case("a healthy program", tensor([1.0, 4.0]), births=[])
def healthy(x):
    h = torch.tanh(x)
    y = F.layer_norm(h, (2,))
    return (y * x).sum()
