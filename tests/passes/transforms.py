"""``torch.autograd.functional`` and ``torch.func``, by themselves and beside a pass of the program."""

import torch

from passes.program import Collection, each, leaf

program = Collection()

DOCS = "https://docs.pytorch.org/docs/stable/generated/torch"
FUNCTIONAL = """
import torch

def f(q):
    u = q.sin()
    y = u * u.sum()
    return y

x = torch.tensor([0.5, 1.0])
"""


def inside():
    q = leaf(0.5, 1.0)
    u = q.sin()
    return q, u, u * u.sum()


@program(
    FUNCTIONAL
    + """
out, pulled = torch.autograd.functional.vjp(f, x, torch.tensor([1.0, 2.0]))
""",
    DOCS + ".autograd.functional.vjp.html",
)
def functional_vjp():
    q, u, y = inside()
    return {"/f:y": each(y, {"/f:q": q, "/f:u": u, "/f:y": y}, cotangent=torch.tensor([1.0, 2.0]))}


@program(
    FUNCTIONAL
    + """
jac = torch.autograd.functional.jacobian(f, x)
""",
    DOCS + ".autograd.functional.jacobian.html",
)
def functional_jacobian():
    q, u, y = inside()
    return {f"grad()#{i}": each(y[i], {"/f:q": q, "/f:u": u, "/f:y": y}) for i in range(2)}


@program(
    """
import torch

def energy(q):
    e = q.pow(3).sum()
    return e

x = torch.tensor([1.0, 2.0])
w = torch.tensor([0.5, 0.5], requires_grad=True)
value, product = torch.autograd.functional.hvp(energy, x, torch.tensor([1.0, 0.0]))
loss = (w * product).sum()
loss.backward()
""",
    DOCS + ".autograd.functional.hvp.html",
    whole=False,
    backward="loss",
)
def functional_hvp():
    q, w = leaf(1.0, 2.0), leaf(0.5, 0.5)
    product = 6 * q.detach() * torch.tensor([1.0, 0.0])
    return {"/energy:e": each(q.pow(3).sum(), {"/energy:q": q}), "loss": each((w * product).sum(), w=w)}


@program(
    """
import torch
x = torch.tensor([1.0, 2.0])
w = torch.tensor([0.5, 0.5], requires_grad=True)
hessian = torch.autograd.functional.hessian(lambda q: q.pow(4).sum(), x)
u = hessian @ w
loss = u.square().sum()
(dw,) = torch.autograd.grad(loss, w)
""",
    DOCS + ".autograd.functional.hessian.html",
    whole=False,
)
def functional_hessian():
    w = leaf(0.5, 0.5)
    u = torch.diag(torch.tensor([12.0, 48.0])) @ w
    return {"loss": each(u.square().sum(), w=w, u=u)}


@program(
    """
import torch
from torch.func import grad

def f(q):
    return q.sin().sum()

x = torch.tensor([0.5, 1.0])
w = torch.tensor([2.0, 3.0], requires_grad=True)
slope = grad(f)(x)
u = slope * w
loss = u.sum()
loss.backward()
""",
    DOCS + ".func.grad.html",
    whole=False,
    backward="loss",
)
def func_grad_beside_a_backward():
    w = leaf(2.0, 3.0)
    u = torch.tensor([0.5, 1.0]).cos() * w
    return {"loss": each(u.sum(), w=w, u=u)}


@program(
    """
import torch
x = torch.tensor([0.5, 1.0], requires_grad=True)
jac = torch.func.jacrev(torch.tanh)(x.detach())
h = torch.tanh(x)
y = jac @ h
(dx,) = torch.autograd.grad(y.sum(), x)
""",
    DOCS + ".func.jacrev.html",
    whole=False,
)
def func_jacrev_beside_a_grad():
    x = leaf(0.5, 1.0)
    h = torch.tanh(x)
    y = torch.diag(1 - h.detach().square()) @ h
    return {"grad()": each(y.sum(), x=x, h=h, y=y)}


@program(
    """
import torch
x = torch.tensor([0.5, 1.0], requires_grad=True)
out, pull = torch.func.vjp(torch.sin, x.detach())
(pulled,) = pull(torch.ones(2))
u = x * pulled
loss = u.square().sum()
(dx,) = torch.autograd.grad(loss, x)
""",
    DOCS + ".func.vjp.html",
    whole=False,
)
def func_vjp_beside_a_grad():
    x = leaf(0.5, 1.0)
    u = x * x.detach().cos()
    return {"loss": each(u.square().sum(), x=x, u=u)}
