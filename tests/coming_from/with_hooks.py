"""Hooks of PyTorch."""

from pairs import Pair
from small import given  # noqa: F401

TITLE, NAME = "Hooks", "torch"
PAIRS = [
    Pair(
        "the gradient of a layer's output",
        """\
kept = {}
handle = model.first.register_full_backward_hook(lambda module, given, out: kept.update(first=out[0]))
model(x).square().sum().backward()
handle.remove()
kept["first"]
""",
        """\
with bp.probe(model) as rec:
    model(x).square().sum().backward()
rec["first"].grad
""",
    ),
    Pair(
        "what a layer returned",
        """\
kept = {}
handle = model.first.register_forward_hook(lambda module, args, out: kept.update(first=out.detach()))
model(x)
handle.remove()
kept["first"]
""",
        """\
with bp.probe(model) as rec:
    model(x).square().sum().backward()
rec["first"].value
""",
    ),
    Pair(
        "the gradients of all layers' outputs",
        """\
kept, handles = {}, []
for name, module in model.named_children():
    hook = lambda module, given, out, name=name: kept.update({name: out[0]})
    handles.append(module.register_full_backward_hook(hook))
model(x).square().sum().backward()
for handle in handles:
    handle.remove()
kept
""",
        """\
with bp.probe(model, "*") as rec:
    model(x).square().sum().backward()
{name: rec[name].grad for name in ("second", "first")}
""",
    ),
    Pair(
        "the gradient of a variable inside `forward`",
        """\
kept = {}
tanh = torch.tanh
torch.tanh = lambda x: kept.setdefault("hidden", tanh(x))  # or edit the model
out = model(x)
torch.tanh = tanh
kept["hidden"].retain_grad()
out.square().sum().backward()
kept["hidden"].grad
""",
        """\
with bp.probe(model, ":hidden") as rec:
    model(x).square().sum().backward()
rec[":hidden"].grad
""",
        "a hook sees modules alone",
    ),
    Pair(
        "the gradient of the input",
        """\
x.requires_grad_()
model(x).square().sum().backward()
x.grad
""",
        """\
rec = bp.probe(lambda x: model(x).square().sum())(x)
rec["x"].grad
""",
    ),
    Pair(
        "a layer whose output is replaced",
        """\
handle = model.first.register_forward_hook(lambda module, args, out: out * 0)
out = model(x)
handle.remove()
out
""",
        """\
bp.probe(model, replace={"first": lambda out: out * 0}, cotangent=torch.ones(5, 2))(x).result
""",
    ),
    Pair(
        "the gradients of both calls of one layer",
        """\
kept = []
handle = model.first.register_full_backward_hook(lambda module, given, out: kept.insert(0, out[0]))
(model(x).sum() + 3 * model(2 * x).sum()).backward()
handle.remove()
kept
""",
        """\
with bp.probe(model, "first") as rec:
    (model(x).sum() + 3 * model(2 * x).sum()).backward()
[rec["first#0"].grad, rec["first#1"].grad]
""",
        "backward comes to the last call first",
    ),
    Pair(
        "norms of the parameters' gradients",
        """\
model(x).square().sum().backward()
{name: p.grad.norm() for name, p in model.named_parameters()}
""",
        """\
with bp.probe(model) as rec:
    model(x).square().sum().backward()
{name: rec[name].grad.norm() for name, _ in model.named_parameters()}
""",
        "ours is no shorter",
    ),
    Pair(
        "which layer first has NaN",
        """\
bad = []
handles = [
    module.register_forward_hook(lambda module, args, out, name=name: bad.append(name) if out.isnan().any() else None)
    for name, module in model.named_children()
]
nn.init.constant_(model.second.weight, float("nan"))
model(x)
for handle in handles:
    handle.remove()
bad[0]
""",
        """\
nn.init.constant_(model.second.weight, float("nan"))
with bp.probe(model, "*", nonfinite=True) as rec:
    model(x).square().sum().backward()
next(name for name, entry in rec.items() if entry.value.isnan().any() and "." not in name)
""",
        "`bp.explain(rec)` says why, and at which line",
    ),
    Pair(
        "the gradient of a layer's weight in each of three steps",
        """\
kept = []
for _ in range(3):
    optimizer.zero_grad()
    model(x).square().sum().backward()
    kept.append(model.first.weight.grad.square().mean().sqrt())
    optimizer.step()
kept
""",
        """\
with bp.watch(model, f"{folder}/run", optimizer=optimizer):
    for _ in range(3):
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()
run = bp.open_run(f"{folder}/run")
[run.at(step)["first.weight"]["grad.rms"] for step in range(3)]
""",
        "and every other layer, on disk",
    ),
]
