"""One output: a pass, or several passes that make one gradient."""

import torch
import torch.nn.functional as F

from passes.program import Collection, each, leaf

program = Collection()


@program(
    """
import torch
import torch.nn.functional as F
from torch.autograd import grad
x = torch.tensor([3.0, -1.0], requires_grad=True)
w = torch.tensor([2.0, 5.0], requires_grad=True)
b = torch.tensor([1.0, 0.5], requires_grad=True)
u = x * w
v = u + b
a = F.relu(v).sum()
d_a_v = grad(a, v, retain_graph=True)
d_a_u = grad(a, u, retain_graph=True)
d_a_b = grad(a, b, retain_graph=True)
d_a_w = grad(a, w, retain_graph=True)
d_a_x = grad(a, x)
""",
    "https://github.com/rasbt/deeplearning-models",
)
def a_call_for_each_value():
    x, w, b = leaf(3.0, -1.0), leaf(2.0, 5.0), leaf(1.0, 0.5)
    u = x * w
    v = u + b
    a = F.relu(v).sum()
    return {"a": each(a, x=x, w=w, b=b, u=u, v=v, a=a)}


@program(
    """
import torch
from torch.autograd import grad
x = torch.tensor([0.5, -0.25], requires_grad=True)
w = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
h = w @ x
a = torch.tanh(h)
loss = a.square().sum()
partials = grad(loss, (x, w, h, a))
""",
    "https://discuss.pytorch.org/t/why-cant-i-see-grad-of-an-intermediate-variable/94",
)
def one_call_for_all_values():
    x, w = leaf(0.5, -0.25), torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    h = w @ x
    a = torch.tanh(h)
    return {"loss": each(a.square().sum(), x=x, w=w, h=h, a=a)}


@program("""
import torch
x = torch.tensor([1.0, 2.0], requires_grad=True)
w = torch.tensor([3.0, 4.0], requires_grad=True)
b = torch.tensor([0.5, 0.5], requires_grad=True)
u = x * w
v = u.sin() + b
loss = v.square().sum()
(d_loss_u,) = torch.autograd.grad(loss, u)
""")
def a_pass_that_ends_within():
    u, b = leaf(1.0, 2.0) * leaf(3.0, 4.0), leaf(0.5, 0.5)
    v = u.sin() + b
    return {"loss": {**each(v.square().sum(), u=u, v=v), "x": None, "w": None, "b": None}}


@program("""
import torch
x = torch.linspace(-1, 1, 4, requires_grad=True)
scale = torch.tensor(1.5, requires_grad=True)
hidden = torch.sigmoid(x * scale)
energy = hidden.pow(3).sum()
along_x = torch.autograd.grad(energy, x, create_graph=True)[0]
along_scale = torch.autograd.grad(energy, scale)[0]
""")
def two_calls_that_ask_for_different_leaves():
    x, scale = torch.linspace(-1, 1, 4, requires_grad=True), torch.tensor(1.5, requires_grad=True)
    hidden = torch.sigmoid(x * scale)
    energy = hidden.pow(3).sum()
    return {"energy": each(energy, x=x, scale=scale, hidden=hidden, energy=energy)}


@program(
    """
import torch
x = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
y = x ** 3
dydx = torch.autograd.grad(y.sum(), x)[0]
""",
    "https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad.html",
)
def an_output_without_a_name():
    x = leaf(1.0, -2.0, 3.0)
    y = x**3
    return {"grad()": each(y.sum(), x=x, y=y)}


@program("""
import torch
x = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
y = x.exp()
total = torch.autograd.grad(y.sum(), x, retain_graph=True)[0]
product = torch.autograd.grad(y.prod(), x)[0]
""")
def two_outputs_without_a_name():
    x = leaf(1.0, -2.0, 3.0)
    y = x.exp()
    return {"grad()#0": each(y.sum(), x=x, y=y), "grad()#1": each(y.prod(), x=x, y=y)}


@program(
    """
import torch
x = torch.tensor([0.1, 0.2], requires_grad=True)
h = x.cos()
first = h.sum()
second = (h * x).sum()
(both,) = torch.autograd.grad((first, second), x)
""",
    "https://github.com/meta-pytorch/captum/issues/901",
)
def several_outputs_in_one_call():
    x = leaf(0.1, 0.2)
    h = x.cos()
    return {"first + second": each((h.sum(), (h * x).sum()), x=x, h=h)}


@program(
    """
import torch
torch.manual_seed(0)
inputs = torch.randn(3, 2, requires_grad=True)
weight = torch.randn(2)
outputs = (inputs @ weight).sigmoid()
grads = torch.autograd.grad(torch.unbind(outputs), inputs)
""",
    "https://github.com/meta-pytorch/captum/issues/901",
)
def the_outputs_of_a_batch_unbound():
    torch.manual_seed(0)
    inputs, weight = torch.randn(3, 2, requires_grad=True), torch.randn(2)
    outputs = (inputs @ weight).sigmoid()
    return {"grad() + grad() + grad()": each(outputs.sum(), inputs=inputs, outputs=outputs)}


@program("""
import torch
x = torch.tensor([1.0, 2.0], requires_grad=True)
u = x * 3
a = u.square().sum()
c = x.exp()
b = (c * x).sum()
(da,) = torch.autograd.grad(a, x)
(db,) = torch.autograd.grad(b, x)
""")
def two_outputs_apart():
    x = leaf(1.0, 2.0)
    u, c = x * 3, x.exp()
    a, b = u.square().sum(), (c * x).sum()
    return {"a": each(a, x=x, u=u, c=c, a=a), "b": each(b, x=x, u=u, c=c, b=b)}


@program(
    """
import torch
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = x.square()
z = y * x
v = torch.tensor([1.0, 0.1, 0.01])
vjp = torch.autograd.grad(z, x, grad_outputs=v)[0]
""",
    "https://docs.pytorch.org/tutorials/beginner/introyt/autogradyt_tutorial.html",
)
def an_output_that_is_no_scalar():
    x, v = leaf(1.0, 2.0, 3.0), torch.tensor([1.0, 0.1, 0.01])
    y = x.square()
    z = y * x
    return {"z": each(z, x=x, y=y, z=z, cotangent=v)}


JACOBIAN = "https://gist.github.com/apaszke/226abdf867c4e9d6698bd198f3b45fb7"


@program(
    """
import torch
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
s = x.sin()
y = s * x.flip(0)
jac = []
for row in torch.eye(3):
    jac.append(torch.autograd.grad(y, x, row, retain_graph=True)[0])
jacobian = torch.stack(jac)
""",
    JACOBIAN,
    loops=True,
)
def the_rows_of_a_jacobian():
    x = leaf(1.0, 2.0, 3.0)
    s = x.sin()
    y = s * x.flip(0)
    keys = "y", "y, pass 2", "y, pass 3"
    return {key: each(y, x=x, s=s, y=y, cotangent=row) for key, row in zip(keys, torch.eye(3), strict=True)}


@program(
    """
import torch
x = torch.tensor([1.0, 2.0], requires_grad=True)
h = x.tanh()
y = torch.stack([h.sum(), h.prod()])
rows = [torch.autograd.grad(y[i], x, retain_graph=True)[0] for i in range(2)]
jacobian = torch.stack(rows)
""",
    "https://discuss.pytorch.org/t/is-grads-batched/147377",
    loops=True,
)
def the_elements_of_an_output_one_by_one():
    x = leaf(1.0, 2.0)
    h = x.tanh()
    y = torch.stack([h.sum(), h.prod()])
    return {f"grad()#{i}": each(y[i], x=x, h=h, y=y) for i in range(2)}


@program("""
import torch
x = torch.tensor([2.0, 3.0], requires_grad=True)
y = x * x.sum()
up = torch.autograd.grad(y, x, torch.tensor([1.0, 0.0]), retain_graph=True)[0]
again = torch.autograd.grad(y, x, torch.tensor([1.0, 0.0]), retain_graph=True)[0]
down = torch.autograd.grad(y, x, torch.tensor([0.0, 1.0]))[0]
""")
def the_same_output_with_the_same_and_other_cotangents():
    x = leaf(2.0, 3.0)
    y = x * x.sum()
    up, down = torch.eye(2)
    return {"y": each(y, x=x, y=y, cotangent=up), "y, pass 2": each(y, x=x, y=y, cotangent=down)}


@program(
    """
import torch
torch.manual_seed(0)
wide = torch.randn(3, requires_grad=True)
deep = torch.randn(3, requires_grad=True)
unused = torch.randn(3, requires_grad=True)
score = wide.sum() + deep.square().sum()
prob = torch.sigmoid(score)
grads = torch.autograd.grad(prob, (wide, deep, unused), allow_unused=True)
""",
    "https://github.com/meta-pytorch/captum/issues/1063",
)
def an_input_that_is_not_used():
    torch.manual_seed(0)
    wide, deep, unused = (torch.randn(3, requires_grad=True) for _ in range(3))
    score = wide.sum() + deep.square().sum()
    return {"prob": each(torch.sigmoid(score), wide=wide, deep=deep, unused=unused, score=score)}


@program("""
import torch
x = torch.tensor([1.0, 2.0])
w = torch.tensor([0.5, -0.5], requires_grad=True)
u = x * w
loss = u.square().sum()
(plain,) = torch.autograd.grad(loss, w, retain_graph=True)
loss = loss + 0.1 * w.abs().sum()
(penalized,) = torch.autograd.grad(loss, w)
""")
def a_loss_that_is_bound_again():
    x, w = torch.tensor([1.0, 2.0]), leaf(0.5, -0.5)
    u = x * w
    first = u.square().sum()
    second = first + 0.1 * w.abs().sum()
    return {
        "loss#0": each(first, {"loss#0": first, "loss#1": second}, w=w, u=u) | {"x": None},
        "loss#1": each(second, {"loss#0": first, "loss#1": second}, w=w, u=u) | {"x": None},
    }


@program("""
import torch

def slope(y, x):
    return torch.autograd.grad(y.sum(), x, create_graph=True)[0]

x = torch.tensor([0.5, 1.5], requires_grad=True)
y = x.sin()
dy = slope(y, x)
""")
def a_pass_in_a_function():
    x = leaf(0.5, 1.5)
    y = x.sin()
    return {"grad()": each(y.sum(), x=x, y=y)}


@program("""
import torch

def value_and_slope(q):
    squared = q * q
    value = squared.sum()
    slope, = torch.autograd.grad(value, q)
    return value.detach(), slope

q0 = torch.tensor([1.0, 2.0], requires_grad=True)
number, slope = value_and_slope(q0)
""")
def an_output_that_is_a_local():
    q = leaf(1.0, 2.0)
    squared = q * q
    value = squared.sum()
    inside = {"/value_and_slope:squared": squared, "/value_and_slope:value": value}
    return {"/value_and_slope:value": each(value, inside, q0=q)}


@program("""
import torch

def step(q):
    cubed = q ** 3
    energy = cubed.sum()
    return torch.autograd.grad(energy, q)[0]

p = torch.tensor([1.0, 2.0], requires_grad=True)
r = torch.tensor([3.0, 4.0], requires_grad=True)
first = step(p)
second = step(r)
""")
def a_function_that_is_called_twice():
    answer = {}
    for call, name, other, q in ((0, "p", "r", leaf(1.0, 2.0)), (1, "r", "p", leaf(3.0, 4.0))):
        cubed = q**3
        answer[f"/step#{call}:energy"] = each(cubed.sum(), {name: q, f"/step#{call}:cubed": cubed}) | {other: None}
    return answer


@program(
    """
import torch
z = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
w = torch.tensor([0.5 + 0.5j, -1j], requires_grad=True)
product = z * w
power = product.abs().square().sum()
dz, dw = torch.autograd.grad(power, (z, w))
""",
    "https://docs.pytorch.org/docs/stable/notes/autograd.html",
)
def complex_values():
    z, w = leaf(1 + 2j, 3 - 1j), leaf(0.5 + 0.5j, -1j)
    product = z * w
    return {"power": each(product.abs().square().sum(), z=z, w=w, product=product)}


@program("""
import torch
x = torch.tensor([-1.0, -2.0], requires_grad=True)
h = torch.relu(x)
loss = (h * 3).sum()
(dead,) = torch.autograd.grad(loss, x)
""")
def a_gradient_of_zeros_is_one():
    x = leaf(-1.0, -2.0)
    h = torch.relu(x)
    return {"loss": each((h * 3).sum(), x=x, h=h)}


@program("""
import torch
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
parts = [x * 2, x.square()]
whole = {"sum": parts[0].sum() + parts[1].sum()}
(dx,) = torch.autograd.grad(whole["sum"], x)
""")
def values_in_containers():
    x = leaf(1.0, 2.0, 3.0)
    double, squared = x * 2, x.square()
    return {"whole.sum": each(double.sum() + squared.sum(), {"x": x, "parts.0": double, "parts.1": squared})}
