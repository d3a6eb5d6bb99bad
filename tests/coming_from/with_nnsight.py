"""nnsight, whose blocks are intervened in while they run."""

import copy

import nnsight
from pairs import Pair
from small import given as small

TITLE, NAME = "nnsight", "nnsight"
OURS = """\
with bp.probe(model, {}) as rec:
    model(x).square().sum().backward()
"""


def given():
    known = small()
    return known | {"nnsight": nnsight, "net": nnsight.NNsight(copy.deepcopy(known["model"]))}


PAIRS = [
    Pair(
        "what a layer returned",
        """\
with net.trace(x):
    first = net.first.output.save()
first
""",
        OURS.format('"first"') + 'rec["first"].value\n',
    ),
    Pair(
        "the gradient of a layer's output",
        """\
with net.trace(x):
    out = net.first.output
    loss = net.output.square().sum()
    with loss.backward():
        grad = out.grad.save()
grad
""",
        OURS.format('"first"') + 'rec["first"].grad\n',
    ),
    Pair(
        "gradients of two layers",
        """\
with net.trace(x):
    first, second = net.first.output, net.second.output
    loss = net.output.square().sum()
    with loss.backward():
        grads = nnsight.save([second.grad, first.grad])
grads
""",
        OURS.format('"*"') + '[rec["second"].grad, rec["first"].grad]\n',
        "nnsight reads them in the order in which backward comes to them, ours in any",
    ),
    Pair(
        "a layer whose output is replaced",
        """\
with net.trace(x):
    net.first.output = net.first.output * 0
    out = net.output.save()
out
""",
        """\
bp.probe(model, replace={"first": lambda out: out * 0}, cotangent=torch.ones(5, 2))(x).result
""",
        "nnsight intervenes by any code, and on other machines",
    ),
    Pair(
        "what a layer is given",
        """\
with net.trace(x):
    given = net.second.input.save()
given
""",
        OURS.format('":hidden"') + 'rec[":hidden"].value\n',
        "ours has the name of the variable that the layer is given",
    ),
    Pair(
        "what an operation inside `forward` returned",
        """\
with net.trace(x):
    hidden = net.source.torch_tanh_0.output.save()
hidden
""",
        OURS.format('":hidden"') + 'rec[":hidden"].value\n',
    ),
    Pair(
        "every layer's output",
        """\
with net.trace(x) as tracer:
    cache = tracer.cache()
{name: cache[f"model.{name}"].output for name in ("first", "second")}
""",
        OURS.format('"*"') + '{name: rec[name].value for name in ("first", "second")}\n',
    ),
    Pair(
        "a layer's output of one input in the run of another",
        """\
with net.trace(2 * x):
    kept = net.first.output.save()
with net.trace(x):
    net.first.output = kept
    out = net.output.save()
out
""",
        """\
with bp.probe(model, "first") as rec:
    model(2 * x)
bp.probe(model, replace={"first": lambda out: rec["first"].value}, cotangent=torch.ones(5, 2))(x).result
""",
    ),
    Pair(
        "a gradient that is replaced on its way",
        """\
with net.trace(x):
    out = net.first.output
    loss = net.output.square().sum()
    with loss.backward():
        out.grad = out.grad * 0.5
net.first.weight.grad
""",
        """\
with bp.probe(model, replace_grad={"first": lambda grad: grad * 0.5}) as rec:
    model(x).square().sum().backward()
rec["first.weight"].grad
""",
    ),
    Pair(
        "the gradient of a weight",
        """\
with net.trace(x):
    net.output.square().sum().backward()
net.first.weight.grad
""",
        OURS.format('"first.weight"') + 'rec["first.weight"].grad\n',
    ),
]
