"""Passes as training uses them: learning to learn, attacks, attributions, and steps made by hand."""

import torch
import torch.nn.functional as F

from passes.program import Collection, each, leaf

program = Collection()

ZEROED = "https://discuss.pytorch.org/t/why-do-we-need-to-set-the-gradients-manually-to-zero-in-pytorch/4903"

MAML = """
import torch
torch.manual_seed(0)
theta = torch.randn(2, requires_grad=True)
support, query = torch.randn(4, 2), torch.randn(4, 2)
support_loss = (support @ theta - 1).square().mean()
(g,) = torch.autograd.grad(support_loss, theta, create_graph=CREATE)
fast = theta - 0.1 * g
query_loss = (query @ fast - 1).square().mean()
query_loss.backward()
"""


def adapted(create_graph):
    torch.manual_seed(0)
    theta, support, query = torch.randn(2, requires_grad=True), torch.randn(4, 2), torch.randn(4, 2)
    support_loss = (support @ theta - 1).square().mean()
    (g,) = torch.autograd.grad(support_loss, theta, retain_graph=True, create_graph=create_graph)
    fast = theta - 0.1 * g
    query_loss = (query @ fast - 1).square().mean()
    inner = each(support_loss, theta=theta, support_loss=support_loss) | {"fast": None}
    return inner, each(query_loss, theta=theta, fast=fast, query_loss=query_loss), query_loss, g


@program(MAML.replace("CREATE", "True"), "http://www.wonderwice.com/iteryne/concepts/", backward="query_loss")
def maml():
    inner, outer, query_loss, g = adapted(create_graph=True)
    return {"support_loss": inner, "query_loss": outer | each(query_loss, g=g)}


@program(MAML.replace("CREATE", "False"), "http://www.wonderwice.com/iteryne/concepts/", backward="query_loss")
def first_order_maml():
    inner, outer, *_ = adapted(create_graph=False)
    return {"support_loss": inner, "query_loss": outer | {"g": None}}


@program(
    """
import torch

def adapt(weights, x, y, lr=0.1):
    loss = (x @ weights[0] + weights[1] - y).square().mean()
    grads = torch.autograd.grad(loss, weights, create_graph=True)
    return [w - lr * g for w, g in zip(weights, grads)]

torch.manual_seed(1)
x, y = torch.randn(4, 2), torch.randn(4)
weights = [torch.randn(2, requires_grad=True), torch.zeros(1, requires_grad=True)]
fast = adapt(weights, x, y)
meta = (x @ fast[0] + fast[1] - y).square().mean()
meta_grads = torch.autograd.grad(meta, weights)
""",
    "https://discuss.pytorch.org/t/another-way-to-implement-maml-model-agnostic-meta-learning/164439",
)
def an_inner_step_in_a_function():
    torch.manual_seed(1)
    x, y = torch.randn(4, 2), torch.randn(4)
    weights = [torch.randn(2, requires_grad=True), torch.zeros(1, requires_grad=True)]
    loss = (x @ weights[0] + weights[1] - y).square().mean()
    grads = torch.autograd.grad(loss, weights, create_graph=True)
    fast = [w - 0.1 * g for w, g in zip(weights, grads, strict=True)]
    meta = (x @ fast[0] + fast[1] - y).square().mean()
    leaves, adapted = {f"weights.{k}": w for k, w in enumerate(weights)}, {f"fast.{k}": w for k, w in enumerate(fast)}
    return {"/adapt:loss": each(loss, leaves | adapted), "meta": each(meta, leaves | adapted)}


@program(
    """
import torch
lr = torch.tensor(0.1, requires_grad=True)
w = torch.tensor([1.0, -2.0], requires_grad=True)
inner = w.pow(4).sum()
(g,) = torch.autograd.grad(inner, w, create_graph=True)
stepped = w - lr * g
outer = stepped.square().sum()
(d_lr,) = torch.autograd.grad(outer, lr)
""",
    "https://github.com/facebookresearch/higher",
)
def a_learning_rate_that_is_learned():
    lr, w = torch.tensor(0.1, requires_grad=True), leaf(1.0, -2.0)
    inner = w.pow(4).sum()
    (g,) = torch.autograd.grad(inner, w, create_graph=True)
    stepped = w - lr * g
    return {
        "inner": each(inner, w=w) | {"lr": None},
        "outer": each(stepped.square().sum(), lr=lr, stepped=stepped) | {"w": None, "g": None},
    }


@program(
    """
import torch
import torch.nn.functional as F
torch.manual_seed(2)
weight = torch.randn(3, 4)
image = torch.rand(1, 4, requires_grad=True)
label = torch.tensor([1])
logits = image @ weight.T
cost = F.cross_entropy(logits, label)
grad = torch.autograd.grad(cost, image, retain_graph=False, create_graph=False)[0]
adversarial = torch.clamp(image + 0.03 * grad.sign(), 0, 1).detach()
""",
    "https://github.com/Harry24k/adversarial-attacks-pytorch",
)
def fgsm():
    torch.manual_seed(2)
    weight, image = torch.randn(3, 4), torch.rand(1, 4, requires_grad=True)
    logits = image @ weight.T
    cost = F.cross_entropy(logits, torch.tensor([1]))
    return {"cost": each(cost, image=image, logits=logits) | {"weight": None, "adversarial": None}}


@program(
    """
import torch
torch.manual_seed(3)
weight = torch.randn(4)
clean = torch.rand(4)
x_adv = clean.clone()
for step in range(2):
    x_adv.requires_grad_(True)
    hinge = (1 - (x_adv * weight).sum()).relu()
    (g,) = torch.autograd.grad(hinge, x_adv)
    x_adv = x_adv.detach() + 0.1 * g.sign()
    x_adv = torch.min(torch.max(x_adv, clean - 0.15), clean + 0.15)
""",
    "https://github.com/Harry24k/adversarial-attacks-pytorch",
    loops=True,
)
def pgd():
    torch.manual_seed(3)
    weight, clean, answer = torch.randn(4), torch.rand(4), {}
    x = clean.clone()
    for step in range(2):
        x.requires_grad_(True)
        hinge = (1 - (x * weight).sum()).relu()
        answer[f"hinge#{step}"] = each(hinge, {f"x_adv#{2 * step}": x, f"hinge#{step}": hinge}) | {"weight": None}
        x = x.detach() + 0.1 * answer[f"hinge#{step}"][f"x_adv#{2 * step}"].sign()
        x = torch.min(torch.max(x, clean - 0.15), clean + 0.15)
    return answer


@program(
    """
import torch
torch.manual_seed(4)
weight = torch.randn(3)
image, baseline = torch.rand(3), torch.zeros(3)
alphas = torch.linspace(0.25, 1.0, 4).reshape(-1, 1)
path = (baseline + alphas * (image - baseline)).requires_grad_()
scores = torch.sigmoid(path @ weight)
grads = torch.autograd.grad(torch.unbind(scores), path)[0]
attribution = (image - baseline) * grads.mean(0)
""",
    "https://github.com/pytorch/captum",
)
def integrated_gradients():
    torch.manual_seed(4)
    weight, image = torch.randn(3), torch.rand(3)
    path = (torch.linspace(0.25, 1.0, 4).reshape(-1, 1) * image).requires_grad_()
    scores = torch.sigmoid(path @ weight)
    key = " + ".join(["grad()"] * 4)
    return {key: each(scores.sum(), path=path, scores=scores) | {"image": None, "attribution": None}}


@program(
    """
import torch
import torch.nn as nn
torch.manual_seed(5)
conv, head = nn.Conv2d(1, 2, 3), nn.Linear(2, 3)
image = torch.rand(1, 1, 4, 4)
maps = conv(image).relu()
logits = head(maps.mean(dim=(2, 3)))
target = logits[0, 1]
(grads,) = torch.autograd.grad(target, maps)
cam = (grads.mean(dim=(2, 3), keepdim=True) * maps).sum(1).relu()
""",
    "https://github.com/jacobgil/pytorch-grad-cam",
)
def grad_cam():
    torch.manual_seed(5)
    conv, head = torch.nn.Conv2d(1, 2, 3), torch.nn.Linear(2, 3)
    maps = conv(torch.rand(1, 1, 4, 4)).relu()
    logits = head(maps.mean(dim=(2, 3)))
    target = logits[0, 1]
    return {"target": each(target, maps=maps, logits=logits, target=target) | {"image": None, "cam": None}}


@program(
    """
import torch
torch.manual_seed(6)
weight = torch.randn(3, 4)
inputs = torch.rand(2, 4, requires_grad=True)
outputs = torch.log_softmax(inputs @ weight.T, dim=1)
chosen = outputs.gather(1, torch.tensor([[0], [2]]))
saliency = torch.autograd.grad(chosen, inputs, torch.ones_like(chosen))[0].abs()
""",
    "https://github.com/pytorch/captum",
)
def saliency():
    torch.manual_seed(6)
    weight, inputs = torch.randn(3, 4), torch.rand(2, 4, requires_grad=True)
    outputs = torch.log_softmax(inputs @ weight.T, dim=1)
    chosen = outputs.gather(1, torch.tensor([[0], [2]]))
    ones = torch.ones(2, 1)
    return {"chosen": each(chosen, inputs=inputs, outputs=outputs, chosen=chosen, cotangent=ones) | {"saliency": None}}


@program(
    """
import torch
import torch.nn as nn
torch.manual_seed(7)
model = nn.Linear(2, 1)
params = list(model.parameters())
optimizer = torch.optim.SGD(params, lr=0.1)
x, y = torch.randn(4, 2), torch.randn(4, 1)
prediction = model(x)
loss = (prediction - y).square().mean()
grads = torch.autograd.grad(loss, params)
for p, g in zip(params, grads):
    p.grad = g
optimizer.step()
""",
    "https://github.com/pytorch/pytorch/issues/4179",
)
def a_step_with_gradients_that_were_assigned():
    torch.manual_seed(7)
    model, x, y = torch.nn.Linear(2, 1), torch.randn(4, 2), torch.randn(4, 1)
    prediction = model(x)
    loss = (prediction - y).square().mean()
    return {"loss": each(loss, {"params#0.0": model.weight, "params#0.1": model.bias}, prediction=prediction)}


def micro_batch(number):
    """The gradients of the first losses, summed."""
    w, data = leaf(2.0, 3.0), torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    outs = [(row * w).sum() for row in data[:number]]
    total = sum((out - 1).square() / 3 for out in outs)
    return each(total, {f"out#{k}": out for k, out in enumerate(outs)}, w=w)


@program(
    """
import torch
w = torch.tensor([2.0, 3.0], requires_grad=True)
data = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
for row in data:
    out = (row * w).sum()
    loss = (out - 1).square() / 3
    loss.backward()
""",
    ZEROED,
    loops=True,
    turn=lambda: micro_batch(1),
)
def micro_batches():
    return {"loss#0 + loss#1 + loss#2": micro_batch(3)}


@program(
    """
import torch
w = torch.tensor([1.0, 2.0], requires_grad=True)
data = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
total = 0
for row in data:
    loss = (row * w).sum().exp()
    (g,) = torch.autograd.grad(loss, w)
    total = total + g
""",
    "https://github.com/cybertronai/autograd-hacks",
    loops=True,
)
def gradients_of_each_sample():
    w = leaf(1.0, 2.0)
    return {f"loss#{k}": each((row * w).sum().exp(), w=w) for k, row in enumerate(torch.eye(2))}


@program(
    """
import torch
torch.manual_seed(8)
shared = torch.randn(2, requires_grad=True)
x = torch.randn(3, 2)
features = x * shared
task1 = features.square().mean()
task2 = features.abs().mean()
norms = []
for task in (task1, task2):
    (g,) = torch.autograd.grad(task, shared, retain_graph=True, create_graph=True)
    norms.append(g.norm())
balance = (norms[0] - norms[1]).abs()
loss = task1 + task2 + balance
loss.backward()
""",
    "https://github.com/hosseinshn/GradNorm/issues/3",
    loops=True,
    backward="loss",
)
def gradnorm():
    torch.manual_seed(8)
    shared, x = torch.randn(2, requires_grad=True), torch.randn(3, 2)
    features = x * shared
    task1, task2 = features.square().mean(), features.abs().mean()
    slopes = [torch.autograd.grad(task, shared, create_graph=True)[0] for task in (task1, task2)]
    loss = task1 + task2 + (slopes[0].norm() - slopes[1].norm()).abs()
    values = {"shared": shared, "features": features, "task1": task1, "task2": task2}
    between = {f"g#{k}": slope for k, slope in enumerate(slopes)}
    return {"task1": each(task1, values), "task2": each(task2, values), "loss": each(loss, values | between)}


@program(
    """
import torch
torch.manual_seed(9)
generator = torch.randn(2, requires_grad=True)
critic = torch.randn(2, requires_grad=True)
noise, real = torch.randn(3, 2), torch.randn(3, 2)
fake = noise * generator
d_loss = (fake.detach() @ critic).mean() - (real @ critic).mean()
(d_critic,) = torch.autograd.grad(d_loss, critic)
g_loss = -(fake @ critic).mean()
(d_generator,) = torch.autograd.grad(g_loss, generator)
""",
    "https://docs.pytorch.org/tutorials/beginner/dcgan_faces_tutorial.html",
)
def two_players():
    torch.manual_seed(9)
    generator, critic = torch.randn(2, requires_grad=True), torch.randn(2, requires_grad=True)
    noise, real = torch.randn(3, 2), torch.randn(3, 2)
    fake = noise * generator
    d_loss = (fake.detach() @ critic).mean() - (real @ critic).mean()
    g_loss = -(fake @ critic).mean()
    return {
        "d_loss": each(d_loss, critic=critic, fake=fake, generator=generator),
        "g_loss": each(g_loss, fake=fake, generator=generator) | {"critic": None},
    }


@program(
    """
import torch
log_alpha = torch.tensor([0.2, -0.3], requires_grad=True)
w = torch.tensor([1.0, 0.5], requires_grad=True)
train = (w * torch.tensor([2.0, 1.0]) - 1).square().sum() + (log_alpha.exp() * w.square()).sum()
(g,) = torch.autograd.grad(train, w, create_graph=True)
val = (w - 0.3).square().sum()
(v,) = torch.autograd.grad(val, w)
(mixed,) = torch.autograd.grad(g, log_alpha, grad_outputs=v)
hypergradient = -mixed
""",
    "https://github.com/lrjconan/RBP",
)
def a_hypergradient():
    log_alpha, w = leaf(0.2, -0.3), leaf(1.0, 0.5)
    train = (w * torch.tensor([2.0, 1.0]) - 1).square().sum() + (log_alpha.exp() * w.square()).sum()
    (g,) = torch.autograd.grad(train, w, create_graph=True)
    val = (w - 0.3).square().sum()
    v = each(val, w=w)["w"]
    return {
        "train": each(train, w=w, train=train) | {"log_alpha": None},
        "val": each(val, w=w, log_alpha=log_alpha),
        "g": each(g, log_alpha=log_alpha, g=g, cotangent=v) | {"w": None, "val": None},
    }
