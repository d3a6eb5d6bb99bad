"""Programs that read a gradient and get None, and what a report of each has to open with; and some that are well."""

from __future__ import annotations

from dataclasses import dataclass

READ, CAUSE = "# None", "# cause"


@dataclass(frozen=True)
class Read:
    """A script with a comment at the line that reads None, if any does, and at a line that is the cause.

    The report opens with both, and with patterns that it ``says``: what was read, why it is None, and what to type.
    ``gradient`` is the number that was asked for, where there is one. ``code`` is the exit status.
    """

    name: str
    text: str
    says: tuple[str, ...] = ()
    gradient: str = ""
    source: str = ""
    code: int = 1

    @property
    def lines(self) -> list[int]:
        return [at for at, line in enumerate(self.text.splitlines(), 1) if line.endswith((READ, CAUSE))]

    def __str__(self) -> str:
        return self.name


WHY = "https://discuss.pytorch.org/t/why-are-my-tensors-gradients-unexpectedly-none-or-not-none/111461"
NOT_A_LEAF = "not a leaf|computed from the leaf"

READS = (
    Read("an intermediate value", """\
import torch
x = torch.tensor(2.5, requires_grad=True)
u = x * 5
loss = u ** 2 / 2
loss.backward()
print(x.grad)
print(u.grad)  # None
""", (r"\bu\.grad\b", NOT_A_LEAF, r"u\.retain_grad\(\)"), "12.5", "https://discuss.pytorch.org/t/embarassingly-simple-question-about-autograd/59156"),
    Read("the values of a loop", """\
import torch
x = torch.tensor([3.0], requires_grad=True)
w = torch.tensor([2.5], requires_grad=True)
u = x * w
a = u.square()
a.backward()
for name, value in zip("xwu", (x, w, u)):
    print(name, value.grad)  # None
""", (r"\bu\b", NOT_A_LEAF, r"retain_grad\(\)"), "15", "https://github.com/rasbt/deeplearning-models"),
    Read("the loss itself", """\
import torch
x = torch.tensor([1.0, 2.0], requires_grad=True)
loss = (x * 3).sum()
loss.backward()
print(loss.grad)  # None
""", (r"\bloss\.grad\b", NOT_A_LEAF, r"loss\.retain_grad\(\)"), "1", "https://discuss.pytorch.org/t/loss-grad-is-constant-1/130964"),
    Read("an activation of a model", """\
import torch
model = torch.nn.Sequential(torch.nn.Linear(1, 1, bias=False), torch.nn.Linear(1, 1, bias=False))
for p in model.parameters():
    torch.nn.init.constant_(p, 3.5)
hidden = model[0](torch.ones(1))
out = model[1](hidden)
out.backward()
print(hidden.grad)  # None
""", (r"\bhidden\.grad\b", NOT_A_LEAF, r"hidden\.retain_grad\(\)"), "3.5", "https://discuss.pytorch.org/t/why-is-grad-none/55136"),
    Read("a factor behind requires_grad=True", """\
import torch
x = torch.full((4,), 0.5, requires_grad=True) * 0.1
loss = (x * 7.5).sum()
loss.backward()
print(x.grad)  # None
""", (r"\bx\.grad\b", NOT_A_LEAF, r"requires_grad_\(\)"), "7.5", WHY),
    Read("a leaf made double", """\
import torch
w = torch.ones(2, requires_grad=True).double()
loss = (w * 4.5).sum()
loss.backward()
print(w.grad)  # None
""", (r"\bw\.grad\b", NOT_A_LEAF, r"double\(\)"), "4.5", "https://docs.pytorch.org/docs/stable/generated/torch.Tensor.is_leaf.html"),
    Read("a leaf seen in another shape", """\
import torch
x = torch.arange(4.0, requires_grad=True).view(2, 2)
loss = (x * 6.5).sum()
loss.backward()
print(x.grad)  # None
""", (r"\bx\.grad\b", NOT_A_LEAF, r"view\("), "6.5", WHY),
    Read("a parameter that was moved", """\
import torch
factor = torch.nn.Parameter(torch.ones(3)).to(torch.float64)
loss = (factor * 2.5).sum()
loss.backward()
print(factor.grad)  # None
""", (r"\bfactor\.grad\b", NOT_A_LEAF, r"\.to\("), "2.5", "https://blog.csdn.net/weixin_43751558/article/details/124036310"),
    Read("a copy", """\
import torch
x = torch.tensor([1.0, 2.0], requires_grad=True)
y = x.clone()
loss = (y * 8.5).sum()
loss.backward()
print("where is it?", y.grad)  # None
""", (r"\by\.grad\b", NOT_A_LEAF, r"x\.grad|y\.retain_grad\(\)"), "8.5", "https://discuss.pytorch.org/t/what-is-the-purpose-of-is-leaf/87000"),
    Read("a view that a hook kept", """\
import torch
kept = {}

def keep(module, args, out):
    out.retain_grad()
    kept["hidden"] = out.view(-1)

layer = torch.nn.Linear(2, 2)
layer.register_forward_hook(keep)
out = layer(torch.ones(1, 2))
loss = (out * 5.5).sum()
loss.backward()
print(kept["hidden"].grad)  # None
""", ("view", r"\bout\b", NOT_A_LEAF), "5.5", "https://github.com/microsoft/nni/issues/5299"),
    Read("what requires no gradient", """\
import torch
x = torch.tensor([1.0, 2.0], requires_grad=True)
w = torch.tensor([3.0, 4.0])
loss = (x * w).sum()
loss.backward()
print(w.grad)  # None
""", (r"\bw\.grad\b", "requires no gradient|does not require", r"requires_grad"), source="https://gist.github.com/yunjey/3c5487e3c888203a71b4f51264539902"),
    Read("an image", """\
import torch
model = torch.nn.Linear(4, 2)
image = torch.rand(1, 4)
score = model(image)[0, 1]
score.backward()
saliency = image.grad  # None
""", (r"\bimage\.grad\b", "requires no gradient|does not require", r"requires_grad"), source=WHY),
    Read("a frozen parameter", """\
import torch
model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
for p in model[0].parameters():
    p.requires_grad_(False)
loss = model(torch.ones(3, 2)).sum()
loss.backward()
print(model[0].weight.grad)  # None
""", (r"weight", "requires no gradient|does not require|frozen", r"requires_grad"), source=WHY),
    Read("before any pass", """\
import torch
w = torch.tensor([1.0, 2.0], requires_grad=True)
loss = (w * 9.5).sum()
print(w.grad)  # None
loss.backward()
""", (r"\bw\.grad\b", "before", r"backward\(\)"), "9.5", "https://dev.to/hyperkai/requiresgradtrue-with-a-tensor-backward-and-retaingrad-in-pytorch-4kf7"),
    Read("after zero_grad", """\
import torch
w = torch.tensor([1.0, 2.0], requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
loss = (w * 9.5).sum()
loss.backward()
optimizer.step()
optimizer.zero_grad(set_to_none=True)  # cause
print(w.grad)  # None
""", (r"\bw\.grad\b", r"zero_grad", "before|set_to_none=False"), "9.5", "https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html"),
    Read("after it was set to None", """\
import torch
w = torch.tensor([1.0, 2.0], requires_grad=True)
loss = (w * 9.5).sum()
loss.backward()
w.grad = None  # cause
norm = w.grad  # None
""", (r"\bw\.grad\b", r"w\.grad = None"), "9.5"),
    Read("an input that a call of grad did not need", """\
import torch
w = torch.tensor([1.0, 2.0], requires_grad=True)
b = torch.tensor([0.5], requires_grad=True)
loss = (w * 3).sum()
dw, db = torch.autograd.grad(loss, (w, b), allow_unused=True)  # None
print(dw, db)
""", (r"\bb\b", "allow_unused", "no path|not used|is not connected"), source="https://github.com/meta-pytorch/captum/issues/1063"),
    Read("behind a detach", """\
import torch
x = torch.tensor([1.0, 2.0], requires_grad=True)
w = torch.tensor([3.0, 4.0], requires_grad=True)
u = (x * 2).detach()  # cause
loss = (u * w).sum()
loss.backward()
print(x.grad)  # None
""", (r"\bx\b", r"detach\(\)"), source=WHY),
    Read("what was computed without gradients", """\
import torch
x = torch.tensor([1.0, 2.0], requires_grad=True)
w = torch.tensor([3.0, 4.0], requires_grad=True)
with torch.no_grad():
    h = x * 2  # cause
loss = (h * w).sum()
loss.backward()
print(x.grad)  # None
""", (r"\bx\b", r"no_grad"), source=WHY),
    Read("a layer that was not used", """\
import torch
used, spare = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
loss = used(torch.ones(2)).sum()
loss.backward()
print(used.weight.grad, spare.weight.grad)  # None
""", ("spare", "not used|no path|not called|is not connected"), source=WHY),
    Read("a pass that was given its inputs", """\
import torch
x = torch.tensor([1.0, 2.0], requires_grad=True)
w = torch.tensor([3.0, 4.0], requires_grad=True)
loss = (x * w).sum()
loss.backward(inputs=[w])  # cause
print(x.grad)  # None
""", (r"\bx\.grad\b", "inputs="), source="https://github.com/pytorch/pytorch/issues/46373"),
    Read("a parameter that an update made anew", """\
import torch
w = torch.tensor([1.0, 2.0], requires_grad=True)
for step in range(2):
    loss = w.square().sum()
    loss.backward()
    w = w - 0.1 * w.grad  # None
""", (r"\bw\.grad\b", NOT_A_LEAF, r"no_grad\(\)"),
       source="https://discuss.pytorch.org/t/possible-bug-strange-behavior-of-backward/131535", code=3),
)  # fmt: skip  # noqa: E501

WELL = (
    Read(
        "a training that reads nothing",
        """\
import torch
torch.manual_seed(0)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.Adam(model.parameters())
for step in range(3):
    optimizer.zero_grad(set_to_none=True)
    loss = model(torch.randn(4, 2)).square().mean()
    loss.backward()
    optimizer.step()
""",
    ),
    Read(
        "gradients that are there",
        """\
import torch
x = torch.tensor([1.0, 2.0], requires_grad=True)
u = x * 2
u.retain_grad()
loss = u.square().sum()
loss.backward()
print(x.grad, u.grad)
""",
    ),
    Read(
        "a check of each parameter",
        """\
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh(), torch.nn.Linear(2, 1))
loss = model(torch.randn(4, 2)).square().mean()
loss.backward()
total = 0.0
for p in model.parameters():
    if p.grad is None:
        continue
    total += p.grad.norm().item()
""",
    ),
    Read(
        "gradients cleared by hand where there are any",
        """\
import torch
w = torch.tensor([1.0, 2.0], requires_grad=True)
for step in range(3):
    if w.grad is not None:
        w.grad.zero_()
    loss = w.square().sum()
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
""",
        source="https://discuss.pytorch.org/t/why-do-we-need-to-set-the-gradients-manually-to-zero-in-pytorch/4903",
    ),
    Read(
        "a library that looks for gradients itself",
        """\
import torch
torch.manual_seed(0)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
optimizer.step()
loss = model(torch.randn(4, 2)).square().mean()
loss.backward()
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
optimizer.step()
""",
    ),
    Read(
        "inputs that may be unused and are not",
        """\
import torch
w = torch.tensor([1.0, 2.0], requires_grad=True)
b = torch.tensor([0.5], requires_grad=True)
loss = (w * 3 + b).sum()
grads = torch.autograd.grad(loss, (w, b), allow_unused=True)
norm = sum(g.norm() for g in grads if g is not None)
""",
    ),
)
