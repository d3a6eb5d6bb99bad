"""Gradients of gradients: penalties, Hessians, and products with them."""

import torch

from passes.program import Collection, each, leaf

program = Collection()


@program(
    """
import torch
x = torch.tensor([0.1, 0.2], requires_grad=True)
u = x * 3
v = u.exp()
score = v.sum()
(slope,) = torch.autograd.grad(score, x, create_graph=True)
penalty = slope.norm()
loss = score + penalty
loss.backward()
""",
    "https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-penalty",
    backward="loss",
)
def gradient_penalty():
    x = leaf(0.1, 0.2)
    u = x * 3
    v = u.exp()
    score = v.sum()
    (slope,) = torch.autograd.grad(score, x, create_graph=True)
    loss = score + slope.norm()
    values = {"x": x, "u": u, "v": v, "score": score}
    return {"score": each(score, values) | {"slope": None}, "loss": each(loss, values, slope=slope)}


@program(
    """
import torch
import torch.nn as nn
torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
weight = critic[0].weight
real, fake = torch.randn(4, 2), torch.randn(4, 2)
alpha = torch.rand(4, 1)
interpolates = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
disc = critic(interpolates)
gradients = torch.autograd.grad(outputs=disc, inputs=interpolates, grad_outputs=torch.ones(disc.size()),
                                create_graph=True, retain_graph=True, only_inputs=True)[0]
penalty = ((gradients.norm(2, dim=1) - 1) ** 2).mean() * 10
d_loss = critic(fake).mean() - critic(real).mean() + penalty
d_loss.backward()
""",
    "https://github.com/caogang/wgan-gp/issues/28",
    backward="d_loss",
)
def wgan_gp():
    torch.manual_seed(0)
    critic = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    real, fake, alpha = torch.randn(4, 2), torch.randn(4, 2), torch.rand(4, 1)
    x = (alpha * real + (1 - alpha) * fake).requires_grad_()
    disc = critic(x)
    (gradients,) = torch.autograd.grad(disc.sum(), x, create_graph=True)
    penalty = ((gradients.norm(2, dim=1) - 1) ** 2).mean() * 10
    d_loss = critic(fake).mean() - critic(real).mean() + penalty
    values = {"interpolates": x, "disc": disc}
    return {
        "disc": each(disc.sum(), values) | {"weight": None},
        "d_loss": each(d_loss, values, weight=critic[0].weight, gradients=gradients, penalty=penalty),
    }


@program(
    """
import torch
import torch.nn as nn
torch.manual_seed(1)
layer = nn.Linear(3, 1)
weight = layer.weight
real = torch.randn(2, 3, requires_grad=True)
pred = torch.nn.functional.softplus(layer(real))
(grad_real,) = torch.autograd.grad(outputs=pred.sum(), inputs=real, create_graph=True)
r1 = grad_real.pow(2).reshape(grad_real.shape[0], -1).sum(1).mean()
(5.0 * r1).backward()
""",
    "https://github.com/rosinality/stylegan2-pytorch",
    backward="backward()",
)
def r1_penalty():
    torch.manual_seed(1)
    layer, real = torch.nn.Linear(3, 1), torch.randn(2, 3, requires_grad=True)
    pred = torch.nn.functional.softplus(layer(real))
    (grad_real,) = torch.autograd.grad(pred.sum(), real, create_graph=True)
    r1 = grad_real.pow(2).sum(1).mean()
    return {
        "grad()": each(pred.sum(), real=real, pred=pred) | {"weight": None},
        "backward()": each(5.0 * r1, weight=layer.weight, real=real, grad_real=grad_real, r1=r1),
    }


@program(
    """
import torch
torch.manual_seed(2)
w = torch.randn(3, requires_grad=True)
u = w.sin()
loss = (u * u.cumsum(0)).sum()
v = torch.tensor([1.0, 0.0, -1.0])
g = torch.autograd.grad(loss, w, create_graph=True)[0]
hvp = torch.autograd.grad(g, w, grad_outputs=v)[0]
""",
    "https://github.com/noahgolmant/pytorch-hessian-eigenthings",
)
def hessian_vector_product():
    torch.manual_seed(2)
    w = torch.randn(3, requires_grad=True)
    u = w.sin()
    loss = (u * u.cumsum(0)).sum()
    (g,) = torch.autograd.grad(loss, w, create_graph=True)
    v = torch.tensor([1.0, 0.0, -1.0])
    return {"loss": each(loss, w=w, u=u) | {"g": None}, "g": each(g, w=w, u=u, g=g, cotangent=v)}


@program(
    """
import torch
w = torch.tensor([0.5, -1.0], requires_grad=True)
b = torch.tensor([0.1], requires_grad=True)
loss = ((w * w).sum() + b).pow(3).sum()
gw, gb = torch.autograd.grad(loss, (w, b), create_graph=True)
dot = (gw * torch.tensor([1.0, 2.0])).sum() + (gb * 3.0).sum()
hw, hb = torch.autograd.grad(dot, (w, b))
""",
    "https://github.com/anh-tong/second",
)
def hessian_vector_product_of_a_dot():
    w, b = leaf(0.5, -1.0), leaf(0.1)
    loss = ((w * w).sum() + b).pow(3).sum()
    gw, gb = torch.autograd.grad(loss, (w, b), create_graph=True)
    dot = (gw * torch.tensor([1.0, 2.0])).sum() + (gb * 3.0).sum()
    return {"loss": each(loss, w=w, b=b), "dot": each(dot, w=w, b=b, gw=gw, gb=gb)}


@program(
    """
import torch

def jvp(outputs, inputs, vector):
    dummy = torch.zeros_like(outputs, requires_grad=True)
    transposed = torch.autograd.grad(outputs, inputs, grad_outputs=dummy, create_graph=True)[0]
    return torch.autograd.grad(transposed, dummy, grad_outputs=vector)[0]

x = torch.tensor([0.3, 0.6], requires_grad=True)
y = torch.stack([x.prod(), x.sum(), x[0].exp()])
tangent = jvp(y, x, torch.tensor([1.0, -1.0]))
""",
    "https://j-towns.github.io/2017/06/12/A-new-trick.html",
)
def forward_mode_by_two_passes():
    x, tangent = leaf(0.3, 0.6), torch.tensor([1.0, -1.0])
    y = torch.stack([x.prod(), x.sum(), x[0].exp()])
    dummy = torch.zeros(3, requires_grad=True)
    (transposed,) = torch.autograd.grad(y, x, dummy, create_graph=True)
    return {
        "y": each(y, x=x, y=y, cotangent=torch.zeros(3)),
        "/jvp:transposed": each(transposed, {"/jvp:dummy": dummy}, cotangent=tangent) | {"x": None},
    }


@program(
    """
import torch
x = torch.tensor([1.0, 2.0], requires_grad=True)
f = x[0] ** 2 * x[1] + x[1] ** 3
(g,) = torch.autograd.grad(f, x, create_graph=True)
hessian = torch.zeros(2, 2)
for i in range(2):
    (hessian[i],) = torch.autograd.grad(g[i], x, retain_graph=True)
""",
    "https://github.com/suswei/RLCT/blob/master/utils.py",
    loops=True,
)
def hessian_by_rows():
    x = leaf(1.0, 2.0)
    f = x[0] ** 2 * x[1] + x[1] ** 3
    (g,) = torch.autograd.grad(f, x, create_graph=True)
    return {"f": each(f, x=x)} | {f"grad()#{i}": each(g[i], x=x, g=g) for i in range(2)}


@program(
    """
import torch

def jacobian(y, x):
    flat, rows = y.reshape(-1), []
    for i in range(len(flat)):
        one = torch.zeros_like(flat)
        one[i] = 1.0
        rows.append(torch.autograd.grad(flat, x, one, retain_graph=True, create_graph=True)[0])
    return torch.stack(rows)

x = torch.tensor([1.0, -1.0], requires_grad=True)
loss = (x ** 4).sum() + x.prod()
gradient = jacobian(loss, x)
hessian = jacobian(gradient, x)
""",
    "https://gist.github.com/apaszke/226abdf867c4e9d6698bd198f3b45fb7",
    loops=True,
)
def hessian_as_the_jacobian_of_a_jacobian():
    x = leaf(1.0, -1.0)
    loss = (x**4).sum() + x.prod()
    flat = loss.reshape(-1)
    (row,) = torch.autograd.grad(flat, x, torch.ones(1), create_graph=True)
    second = torch.stack([row]).reshape(-1)
    up, down = torch.eye(2)
    return {
        "/jacobian#0:flat": each(flat, x=x, loss=loss),
        "/jacobian#1:flat": each(second, x=x, cotangent=up),
        "/jacobian#1:flat, pass 2": each(second, x=x, cotangent=down),
    }


@program("""
import torch
x = torch.tensor(2.0, requires_grad=True)
y = x ** 4
(d1,) = torch.autograd.grad(y, x, create_graph=True)
(d2,) = torch.autograd.grad(d1, x, create_graph=True)
(d3,) = torch.autograd.grad(d2, x)
""")
def three_derivatives():
    x = torch.tensor(2.0, requires_grad=True)
    y = x**4
    (d1,) = torch.autograd.grad(y, x, create_graph=True)
    (d2,) = torch.autograd.grad(d1, x, create_graph=True)
    return {"y": each(y, x=x, y=y), "d1": each(d1, x=x, d1=d1), "d2": each(d2, x=x, d2=d2, y=y)}


@program(
    """
import torch
w = torch.tensor([1.0, 2.0], requires_grad=True)
h = w * w
loss = (h * w).sum()
loss.backward(create_graph=True)
first = w.grad
w.grad = None
first.sum().backward()
second = w.grad
""",
    "https://gist.github.com/delta2323/9bbca950ee32c523c7aec2e02ad7f85a",
)
def double_backward():
    w = leaf(1.0, 2.0)
    h = w * w
    loss = (h * w).sum()
    (first,) = torch.autograd.grad(loss, w, create_graph=True)
    once, twice = each(loss, w=w, h=h), each(first.sum(), w=w, h=h)
    return {"loss + backward()": {name: once[name] + twice[name] for name in once}}


@program("""
import torch
torch.manual_seed(3)
x = torch.randn(3, requires_grad=True)
w = torch.randn(3, requires_grad=True)
y = torch.sin(x * w)
loss = y.sum()
(dx,) = torch.autograd.grad(loss, x, retain_graph=True)
loss.backward()
""")
def grad_and_backward_from_the_same_loss():
    torch.manual_seed(3)
    x, w = (torch.randn(3, requires_grad=True) for _ in range(2))
    y = torch.sin(x * w)
    return {"loss": each(y.sum(), x=x, w=w, y=y)}


@program(
    """
import torch
torch.manual_seed(4)
params = [torch.randn(2, requires_grad=True), torch.randn(1, requires_grad=True)]
loss = (params[0].prod() * params[1]).sum().exp()
grads = torch.autograd.grad(loss, params, create_graph=True)
norm = sum(g.square().sum() for g in grads)
norm.backward()
""",
    "https://github.com/anh-tong/second",
    backward="norm",
)
def the_norm_of_all_gradients():
    torch.manual_seed(4)
    params = [torch.randn(2, requires_grad=True), torch.randn(1, requires_grad=True)]
    loss = (params[0].prod() * params[1]).sum().exp()
    grads = torch.autograd.grad(loss, params, create_graph=True)
    norm = sum(g.square().sum() for g in grads)
    values = {"params.0": params[0], "params.1": params[1], "loss": loss}
    between = {"grads.0": grads[0], "grads.1": grads[1]}
    return {"loss": each(loss, values), "norm": each(norm, values, **between)}


@program(
    """
import torch
torch.manual_seed(5)
w = torch.randn(3, requires_grad=True)
loss = (w ** 2 * torch.tensor([1.0, 2.0, 3.0])).sum() + w.prod()
(g,) = torch.autograd.grad(loss, w, create_graph=True)
v = torch.ones(3)
for step in range(2):
    (hv,) = torch.autograd.grad(g, w, v, retain_graph=True)
    v = hv / hv.norm()
eigenvalue = (v * hv).sum()
""",
    "https://github.com/amirgholami/PyHessian",
    loops=True,
)
def power_iteration():
    torch.manual_seed(5)
    w = torch.randn(3, requires_grad=True)
    loss = (w**2 * torch.tensor([1.0, 2.0, 3.0])).sum() + w.prod()
    (g,) = torch.autograd.grad(loss, w, create_graph=True)
    first = each(g, w=w, g=g, cotangent=torch.ones(3))
    v = first["w"] / first["w"].norm()
    return {"loss": each(loss, w=w), "g": first, "g, pass 2": each(g, w=w, g=g, cotangent=v)}


@program(
    """
import torch

class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 3

    @staticmethod
    def backward(ctx, grad_out):
        x, = ctx.saved_tensors
        return grad_out * 3 * x ** 2

x = torch.tensor([1.0, 2.0], requires_grad=True)
y = Cube.apply(x)
total = y.sum()
(dx,) = torch.autograd.grad(total, x, create_graph=True)
smooth = dx.square().sum()
smooth.backward()
""",
    "https://gist.github.com/arthurmensch/b02c45f3440c9d3de0ef2c0ae5ea1107",
    backward="smooth",
)
def a_function_of_ones_own_differentiated_twice():
    x = leaf(1.0, 2.0)
    dx = 3 * x**2
    return {
        "total": {"x": dx.detach(), "y": torch.ones(2), "total": torch.tensor(1.0)},
        "smooth": each(dx.square().sum(), x=x, dx=dx) | {"y": None, "total": None},
    }


@program(
    """
import torch

def trace_of_hessian(loss, w, samples):
    (g,) = torch.autograd.grad(loss, w, create_graph=True)
    z = samples.sign()
    (hz,) = torch.autograd.grad((g * z).sum(), w)
    return (z * hz).sum()

torch.manual_seed(6)
theta = torch.randn(4, requires_grad=True)
cost = theta.cos().prod() + theta.pow(4).sum()
trace = trace_of_hessian(cost, theta, torch.randn(4))
""",
    "https://github.com/amirgholami/adahessian",
)
def the_trace_of_a_hessian():
    torch.manual_seed(6)
    theta = torch.randn(4, requires_grad=True)
    cost, z = theta.cos().prod() + theta.pow(4).sum(), torch.randn(4).sign()
    (g,) = torch.autograd.grad(cost, theta, create_graph=True)
    dot = (g * z).sum()
    return {"cost": each(cost, theta=theta), "grad()": each(dot, {"theta": theta, "/trace_of_hessian:g": g})}
