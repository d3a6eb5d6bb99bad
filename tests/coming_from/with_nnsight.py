"""nnsight, whose blocks are intervened in while they run."""

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
    return known | {"nnsight": nnsight, "net": nnsight.NNsight(known["model"])}


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
]
