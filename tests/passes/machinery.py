"""What PyTorch offers beside a plain pass: hooks, ``inputs=``, batches, views, functions of one's own."""

import torch

from passes.program import Collection, each, leaf

program = Collection()


@program(
    """
import torch
grads = {}

def save(name):
    def hook(grad):
        grads[name] = grad
    return hook

x = torch.tensor([3.0, 1.0], requires_grad=True)
u = x * 2
v = u.square()
u.register_hook(save("u"))
v.register_hook(save("v"))
total = v.sum()
(dx,) = torch.autograd.grad(total, x)
""",
    "https://discuss.pytorch.org/t/why-cant-i-see-grad-of-an-intermediate-variable/94/7",
)
def hooks_that_save():
    x = leaf(3.0, 1.0)
    u = x * 2
    v = u.square()
    return {"total": each(v.sum(), x=x, u=u, v=v)}


@program(
    """
import torch
x = torch.tensor([3.0, 1.0], requires_grad=True)
u = x * 2
v = u.square()
v.register_hook(lambda grad: grad * 10)
total = v.sum()
(dx,) = torch.autograd.grad(total, x)
""",
    "https://docs.pytorch.org/docs/stable/generated/torch.Tensor.register_hook.html",
)
def a_hook_that_returns_another_gradient():
    x = leaf(3.0, 1.0)
    u = x * 2
    ten = torch.tensor([10.0, 10.0])
    v = u.square()
    return {"total": each(v, x=x, u=u, cotangent=ten) | {"v": ten}}


@program(
    """
import torch
x = torch.tensor([3.0, 1.0], requires_grad=True)
u = x * 2
u.register_hook(lambda grad: grad.clamp(max=1.0))
loss = u.square().sum()
(du,) = torch.autograd.grad(loss, u, retain_graph=True)
loss.backward()
""",
    "https://discuss.pytorch.org/t/gradient-clipping/2836",
)
def a_hook_that_clips_in_grad_and_backward():
    return {"loss": {"u": torch.ones(2), "x": torch.full((2,), 2.0), "loss": torch.tensor(1.0)}}


@program(
    """
import torch
x = torch.tensor([1.0, 2.0], requires_grad=True)
u = x.exp()
v = u * 2
u.retain_grad()
v.retain_grad()
loss = v.sum()
loss.backward()
""",
    "https://github.com/rasbt/deeplearning-models",
)
def retain_grad():
    x = leaf(1.0, 2.0)
    u = x.exp()
    v = u * 2
    return {"loss": each(v.sum(), x=x, u=u, v=v)}


@program(
    """
import torch
a = torch.tensor([1.0, 2.0], requires_grad=True)
b = torch.tensor([3.0, 4.0], requires_grad=True)
mid = a.sin()
out = mid * b
loss = out.sum()
loss.backward(inputs=[b], retain_graph=True)
""",
    "https://github.com/pytorch/pytorch/issues/46373",
)
def backward_into_some_leaves():
    mid, b = leaf(1.0, 2.0).sin().detach(), leaf(3.0, 4.0)
    out = mid * b
    return {"loss": each(out.sum(), b=b, out=out) | {"a": None, "mid": None}}


@program(
    """
import torch
x = torch.tensor([1.0, 2.0])
w1 = torch.tensor([0.5, 0.5], requires_grad=True)
w2 = torch.tensor([2.0, 3.0], requires_grad=True)
out_a = x * w1
out_b = out_a * w2
loss_a = out_a.square().sum()
loss_b = out_b.square().sum()
loss_a.backward(inputs=[w1], retain_graph=True)
loss_b.backward(inputs=[w2])
""",
    "https://github.com/pytorch/pytorch/issues/46373",
)
def two_models_each_with_its_own_inputs():
    w1, w2 = leaf(0.5, 0.5), leaf(2.0, 3.0)
    out_a = torch.tensor([1.0, 2.0]) * w1
    out_b = out_a * w2
    first = each(out_a.square().sum(), w1=w1, out_a=out_a)
    return {"loss_a + loss_b": first | each(out_b.square().sum(), w2=w2, out_b=out_b) | {"x": None}}


@program(
    """
import torch
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
u = x.sin()
y = u * u.sum()
(jac,) = torch.autograd.grad(y, x, torch.eye(3), is_grads_batched=True)
""",
    "https://discuss.pytorch.org/t/is-grads-batched/147377",
)
def batched_cotangents():
    x = leaf(1.0, 2.0, 3.0)
    u = x.sin()
    y = u * u.sum()
    rows = [each(y, x=x, u=u, cotangent=row) for row in torch.eye(3)]
    return {"y": {name: torch.stack([row[name] for row in rows]) for name in ("x", "u")}}


@program(
    """
import torch
x = torch.tensor([1.0, 2.0], requires_grad=True)
loss = x.prod() ** 2
(g,) = torch.autograd.grad(loss, x, create_graph=True)
(hessian,) = torch.autograd.grad(g, x, torch.eye(2), is_grads_batched=True)
""",
    "https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad.html",
)
def a_hessian_by_batched_cotangents():
    x = leaf(1.0, 2.0)
    loss = x.prod() ** 2
    (g,) = torch.autograd.grad(loss, x, create_graph=True)
    return {"loss": each(loss, x=x), "g": {"x": torch.stack([each(element, x=x)["x"] for element in g])}}


@program(
    """
import torch
x = torch.tensor([1.0, 2.0], requires_grad=True)
y = torch.tensor([3.0], requires_grad=True)
loss = x.square().sum()
dx, dy = torch.autograd.grad(loss, (x, y), allow_unused=True, materialize_grads=True)
""",
    "https://github.com/pytorch/pytorch/issues/168059",
)
def zeros_for_what_is_not_used():
    x = leaf(1.0, 2.0)
    return {"loss": each(x.square().sum(), x=x)}


@program("""
import torch
x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
flat = x.view(-1)
first = x[0]
loss = (flat * flat).sum() + first.prod()
d_first, d_flat, d_x = torch.autograd.grad(loss, (first, flat, x))
""")
def views():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    flat, first = x.view(-1), x[0]
    return {"loss": each((flat * flat).sum() + first.prod(), x=x, flat=flat, first=first)}


@program("""
import torch
x = torch.tensor([1.0, 2.0], requires_grad=True)
h = x * 3
h += 1
loss = h.square().sum()
(dx,) = torch.autograd.grad(loss, x)
""")
def a_value_written_in_place():
    x = leaf(1.0, 2.0)
    before = x * 3
    after = before + 1
    return {"loss": each(after.square().sum(), {"x": x, "h#0": before, "h#1": after})}


@program(
    """
import torch

class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, i):
        ctx.save_for_backward(i)
        return i * torch.sigmoid(i)

    @staticmethod
    def backward(ctx, grad_out):
        i, = ctx.saved_tensors
        s = torch.sigmoid(i)
        return grad_out * s * (1 + i * (1 - s))

x = torch.tensor([-1.0, 2.0], requires_grad=True)
h = x * 2
y = Swish.apply(h)
out = y.sum()
dx, dh = torch.autograd.grad(out, (x, h))
""",
    "https://docs.pytorch.org/docs/stable/notes/extending.html",
)
def a_function_of_ones_own():
    x = leaf(-1.0, 2.0)
    h = x * 2
    y = h * torch.sigmoid(h)
    return {"out": each(y.sum(), x=x, h=h, y=y)}


@program(
    """
import torch
import torch.nn as nn
from torch import autograd

class DEQ(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.tensor([[0.2, 0.1], [0.0, 0.3]]))

    def f(self, z, x):
        return torch.tanh(z @ self.w + x)

    def forward(self, x):
        with torch.no_grad():
            z = torch.zeros_like(x)
            for _ in range(30):
                z = self.f(z, x)
        z = self.f(z, x)
        z0 = z.clone().detach().requires_grad_()
        f0 = self.f(z0, x)

        def backward_hook(grad):
            g = grad
            for _ in range(30):
                g = autograd.grad(f0, z0, g, retain_graph=True)[0] + grad
            return g

        z.register_hook(backward_hook)
        return z

x = torch.tensor([[0.5, -0.5]], requires_grad=True)
model = DEQ()
out = model(x)
loss = out.sum()
loss.backward()
""",
    "https://github.com/locuslab/deq/issues/11",
    loops=True,
    whole=False,
    backward="loss",
)
def a_deep_equilibrium():
    x, w = torch.tensor([[0.5, -0.5]], requires_grad=True), torch.tensor([[0.2, 0.1], [0.0, 0.3]])
    z = torch.zeros(1, 2)
    for _ in range(31):
        z = torch.tanh(z @ w + x)
    return {"loss": each(z.sum(), x=x)}


@program(
    """
import torch
a = torch.tensor([2.0, 3.0], requires_grad=True)
with torch.no_grad():
    root = a.clone()
    for _ in range(20):
        root = 0.5 * (root + a / root)
root.requires_grad_()
f = root.square() - a
(dfdr,) = torch.autograd.grad(f, root, torch.ones(2), retain_graph=True)
(dfda,) = torch.autograd.grad(f, a, torch.ones(2))
drda = -dfda / dfdr
""",
    "http://implicit-layers-tutorial.org/implicit_functions/",
)
def an_implicit_function():
    a = leaf(2.0, 3.0)
    root = a.detach().sqrt().requires_grad_()
    f = root.square() - a
    return {"f": each(f, {"a": a, "root#20": root, "f": f}, cotangent=torch.ones(2))}


@program(
    """
import torch
x = torch.tensor([1.0, 2.0], requires_grad=True)
u = x * 2
c = u.detach().requires_grad_()
loss = c.square().sum()
(dc,) = torch.autograd.grad(loss, c)
u.backward(dc)
""",
    "https://docs.pytorch.org/docs/stable/notes/autograd.html",
    backward="u",
)
def a_gradient_carried_over_a_cut():
    c, x = leaf(2.0, 4.0), leaf(1.0, 2.0)
    loss, u = c.square().sum(), x * 2
    dc = each(loss, c=c)["c"]
    return {"loss": {"c": dc, "x": None, "u": None}, "u": each(u, x=x, u=u, cotangent=dc) | {"c": None, "loss": None}}


@program(
    """
import torch
x = torch.tensor([1.0, 2.0], requires_grad=True)
h = x.exp()
a = h.sum()
b = h.square().sum()
torch.autograd.backward([a, b], retain_graph=True)
(dh,) = torch.autograd.grad(b, h)
""",
    "https://docs.pytorch.org/docs/stable/generated/torch.autograd.backward.html",
    backward="a + b",
)
def backward_of_several_beside_a_grad():
    x = leaf(1.0, 2.0)
    h = x.exp()
    a, b = h.sum(), h.square().sum()
    return {"a + b": each((a, b), x=x, h=h), "b": each(b, h=h) | {"x": None, "a": None}}


@program(
    """
import torch

class Explainer:
    def __init__(self, weight):
        self.weight = weight

    def attribute(self, inputs):
        inputs = inputs.clone().requires_grad_()
        score = (inputs * self.weight).sigmoid().sum()
        return torch.autograd.grad(score, inputs)[0] * inputs.detach()

explainer = Explainer(torch.tensor([1.0, -2.0]))
given = torch.tensor([0.5, 0.25])
attribution = explainer.attribute(given)
""",
    "https://github.com/pytorch/captum",
)
def a_pass_in_a_method():
    inputs = leaf(0.5, 0.25)
    score = (inputs * torch.tensor([1.0, -2.0])).sigmoid().sum()
    return {
        "/attribute:score": each(score, {"/attribute:score": score, "/attribute:inputs#1": inputs}) | {"given": None}
    }
