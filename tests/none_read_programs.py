"""Programs that read gradients, as people write them, and what is to be said of those that are None.

Each is the text of a program, and the name that each finding is about. What they say is in ``golden/explain.txt``.
"""

HEAD = """\
import torch
from torch import nn

torch.manual_seed(0)

def leaf(*numbers):
    return torch.tensor(numbers, requires_grad=True)

"""

TOY = """\
x, w, b = leaf(3.0), leaf(2.0), leaf(1.0)
u = x * w
v = u + b
a = torch.relu(v)
"""

NET = """\
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.rand(8, 3)
"""

PROGRAMS = {
    "the cell that prints None for u and v": (
        TOY + "a.backward()\nfor name, var in zip('xwbuv', (x, w, b, u, v)):\n    print('d_a_%s:' % name, var.grad)\n",
        ("u",),
    ),
    "a value that is not a leaf": (TOY + "a.backward()\nprint(u.grad)\n", ("u",)),
    "a comprehension": (TOY + "a.backward()\nprint([part.grad for part in (x, u, v)])\n", ("u",)),
    "two lines that read": (TOY + "a.backward()\nprint(u.grad)\nprint(f'{v.grad}')\n", ("u", "v")),
    "an item of a dict": (TOY + "parts = {'u': u}\na.backward()\nprint(parts['u'].grad)\n", ("u",)),
    "an attribute of an object of the program": (
        TOY + "class Holder:\n    pass\nheld = Holder()\nheld.part = u\na.backward()\nprint(held.part.grad)\n",
        ("u",),
    ),
    "a function that is given the value": (
        TOY + "def show(value):\n    print(value.grad)\n\na.backward()\nshow(u)\n",
        ("u",),
    ),
    "a name that is read again later": (TOY + "a.backward()\ngradient = u.grad\nprint(gradient)\n", ("u",)),
    "a list that is filled": (
        TOY + "found = []\na.backward()\nfor part in (x, u):\n    found.append(part.grad)\nprint(found)\n",
        ("u",),
    ),
    "a gradient of many numbers": (
        "x = torch.ones(100, requires_grad=True)\nu = x * 2\n(u * 3).sum().backward()\nprint(u.grad)\n",
        ("u",),
    ),
    "a leaf that is computed with at once": (
        "x = torch.rand(4, requires_grad=True) * 0.1\nloss = (x**2).sum()\nloss.backward()\nprint(x.grad)\n",
        ("x",),
    ),
    "a parameter that is converted at once": (
        "w = nn.Parameter(torch.ones(2)).double()\n(w**2).sum().backward()\nprint(w.grad)\n",
        ("w",),
    ),
    "a leaf that is converted under its own name": (
        "x = leaf(1.0, 2.0)\nx = x.double()\n(x**2).sum().backward()\nprint(x.grad)\n",
        ("x#1",),
    ),
    "a leaf that an update replaces": (
        "w = leaf(1.0)\n(w**2).sum().backward()\nw = w - 0.1 * w.grad\n(w**2).sum().backward()\nprint(w.grad)\n",
        ("w#1",),
    ),
    "a leaf that an update under no_grad replaces": (
        "w = leaf(1.0)\n(w**2).sum().backward()\nwith torch.no_grad():\n    w = w - 0.1 * w.grad\nprint(w.grad)\n",
        ("w#1",),
    ),
    "a new leaf in the place of the one that was used": (
        "w = leaf(1.0)\nloss = (w**2).sum()\nw = torch.zeros(1, requires_grad=True)\nloss.backward()\nprint(w.grad)\n",
        ("w#1",),
    ),
    "an item of a leaf": ("w = leaf(1.0, 2.0)\n(w**2).sum().backward()\nprint(w[0].grad, w.grad)\n", ("w",)),
    "what does not require a gradient": (
        "image, w = torch.ones(2), leaf(1.0, 2.0)\n(image * w).sum().backward()\nprint(image.grad)\n",
        ("image",),
    ),
    "what was detached": (
        "w = leaf(1.0, 2.0)\nd = (w * 2).detach()\n(d * w).sum().backward()\nprint(d.grad)\n",
        ("d",),
    ),
    "before any pass, in a loop": (
        "w = leaf(1.0, 2.0)\nfor step in range(3):\n    print(w.grad)\n    (w**2).sum().backward()\n",
        ("w",),
    ),
    "cleared by zero_grad": (
        "w = leaf(1.0, 2.0)\noptimizer = torch.optim.SGD([w], lr=0.1)\n(w**2).sum().backward()\noptimizer.zero_grad()\n"
        "print(w.grad)\n",
        ("w",),
    ),
    "cleared by hand, of a model's parameter": (
        NET + "loss = model(data).square().sum()\nloss.backward()\nmodel[0].weight.grad = None\n"
        "first = model[0].weight\nprint(first.grad)\n",
        ("first",),
    ),
    "retained when it was over": (
        "w = leaf(1.0, 2.0)\nu = w * 2\nu.sum().backward()\nu.retain_grad()\nprint(u.grad)\n",
        ("u",),
    ),
    "retained, and read too early": (
        "w = leaf(1.0, 2.0)\nu = w * 2\nu.retain_grad()\nprint(u.grad)\nu.sum().backward()\nprint(u.grad)\n",
        ("u",),
    ),
    "a leaf that no pass came to": (
        "w, spare = leaf(1.0), leaf(2.0)\nout = w * 2 + spare.detach()\nout.sum().backward()\nprint(spare.grad)\n",
        ("spare",),
    ),
    "a result that nothing uses": (
        "w = leaf(1.0)\nu, spare = w * 2, w * 3\nu.sum().backward()\nprint(spare.grad)\n",
        ("spare",),
    ),
    "a parameter of a layer that is not used": (
        NET + "spare = nn.Linear(2, 2)\nmodel(data).sum().backward()\nprint(spare.weight.grad)\n",
        ("",),
    ),
    "a pass that was given its inputs": (
        "x, w = leaf(1.0), leaf(2.0)\n(x * w).sum().backward(inputs=[w])\nprint(x.grad)\n",
        ("x",),
    ),
    "a message where there is none": (TOY + "a.backward()\nif u.grad is None:\n    print('where is it?')\n", ("u",)),
    "a view of what has its gradient": (TOY + "flat = u.view(-1)\na.backward()\nprint(flat.grad)\n", ("flat",)),
    "a layer by its number": (
        NET + "for p in model[0].parameters():\n    p.requires_grad_(False)\nmodel(data).sum().backward()\n"
        "print(model[0].weight.grad)\n",
        ("p#0",),
    ),
    "only gradients that are returned": (
        "w = leaf(1.0, 2.0)\nloss = (w**2).sum()\n(gradient,) = torch.autograd.grad(loss, w)\n"
        "print(gradient, w.grad)\n",
        ("w",),
    ),
    "autograd.grad, of what is not used": (
        "w, spare = leaf(1.0), leaf(2.0)\nloss = (w**2).sum()\n"
        "first, second = torch.autograd.grad(loss, (w, spare), allow_unused=True)\nprint(first, second)\n",
        ("spare",),
    ),
    "autograd.grad, printed at once": (
        "w, spare = leaf(1.0), leaf(2.0)\nprint(torch.autograd.grad((w**2).sum(), [spare, w], allow_unused=True)[0])\n",
        ("spare",),
    ),
    "in a training loop": (
        NET + "for epoch in range(3):\n    optimizer.zero_grad()\n    hidden = model[0](data)\n"
        "    loss = model[2](hidden.tanh()).square().mean()\n    loss.backward()\n    print(hidden.grad)\n"
        "    optimizer.step()\n",
        ("hidden#0",),
    ),
}
"""Programs, and the names that their findings are about; one without an entry has none."""

LOGGING = """\
def log(name, gradient=None):
    if gradient is not None:
        print(name, gradient.norm())

"""

SILENT = {
    "gradients that are there": TOY + "a.backward()\nprint(x.grad, w.grad, b.grad)\n",
    "retained": TOY + "u.retain_grad()\nv.retain_grad()\na.backward()\n"
    "for name, var in zip('xwbuv', (x, w, b, u, v)):\n    print(name, var.grad)\n",
    "nothing is read": TOY + "a.backward()\n",
    "compared with None": TOY + "a.backward()\nprint(u.grad is None, u.grad is not None, u.grad == None)\n",
    "asserted": TOY + "a.backward()\nassert u.grad is None\nassert not u.grad\n",
    "passed over": TOY + "a.backward()\nfor part in (x, u):\n    if part.grad is None:\n        continue\n"
    "    print(part.grad)\n",
    "a condition": TOY + "a.backward()\nprint(u.grad if u.grad is not None else 0)\nif u.grad:\n    print(u.grad)\n",
    "a name that is compared": TOY + "a.backward()\ngradient = u.grad\nif gradient is not None:\n    print(gradient)\n",
    "a walrus": TOY + "a.backward()\nif (gradient := u.grad) is not None:\n    print(gradient)\n",
    "a filter": TOY + "a.backward()\nprint([part.grad for part in (x, u) if part.grad is not None])\n",
    "a list that is filtered": TOY + "a.backward()\nfound = [part.grad for part in (x, u)]\n"
    "print([one for one in found if one is not None])\n",
    "a function that asks": LOGGING + TOY + "a.backward()\nlog('u', u.grad)\nlog('v', gradient=v.grad)\n",
    "a type that is asked for": TOY + "a.backward()\nprint(isinstance(u.grad, torch.Tensor))\n",
    "asked for, and never read": "w, spare = leaf(1.0), leaf(2.0)\n"
    "found = torch.autograd.grad((w**2).sum(), (w, spare), allow_unused=True)\n(w * spare).sum().backward()\n",
    "kept and put back": TOY + "kept = [part.grad for part in (x, w)]\na.backward()\n"
    "for part, gradient in zip((x, w), kept):\n    part.grad = gradient\n",
    "put there by hand": TOY + "a.backward()\nu.grad = torch.ones(1)\nprint(u.grad)\n",
    "an attribute of that name of another object": "class Settings:\n    grad = None\n"
    "print(Settings.grad, Settings().grad)\n" + TOY + "a.backward()\n",
    "autograd.grad, compared": "w, spare = leaf(1.0), leaf(2.0)\n"
    "found = torch.autograd.grad((w**2).sum(), (w, spare), allow_unused=True)\n"
    "print([torch.zeros(1) if one is None else one for one in found])\n(w * spare).sum().backward()\n",
    "autograd.grad, put into .grad": "w, spare = leaf(1.0), leaf(2.0)\n"
    "found = torch.autograd.grad((w**2).sum(), (w, spare), allow_unused=True)\n"
    "for part, gradient in zip((w, spare), found):\n    part.grad = gradient\n(w * spare).sum().backward()\n",
    "a training": NET + "for epoch in range(3):\n    optimizer.zero_grad()\n    loss = model(data).square().mean()\n"
    "    loss.backward()\n    nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n    optimizer.step()\n"
    "    print(sum(p.grad.norm() for p in model.parameters()))\n",
}
"""Programs of which nothing is to be said."""
