"""TorchLens, which records every operation."""

import torchlens
from pairs import Pair
from small import given as small

TITLE, NAME = "TorchLens", "torchlens"
GRADIENTS = """\
log = tl.trace(model, [x], capture=tl.options.CaptureOptions(save_grads=True))
log.log_backward(log["output_1"].out.square().sum())
"""
OURS = """\
with bp.probe(model, {}) as rec:
    model(x).square().sum().backward()
"""


def given():
    return small() | {"tl": torchlens}


PAIRS = [
    Pair(
        "what a layer returned",
        """\
log = tl.trace(model, [x])
log["linear_1_1"].out
""",
        OURS.format('"first"') + 'rec["first"].value\n',
    ),
    Pair(
        "what an operation inside `forward` returned",
        """\
log = tl.trace(model, [x])
log["tanh_1_2"].out
""",
        OURS.format('":hidden"') + 'rec[":hidden"].value\n',
        "TorchLens counts operations; ours has the variable's name",
    ),
    Pair(
        "the gradient of a layer's output",
        GRADIENTS + 'log.modules["first"].grads[0]\n',
        OURS.format('"first"') + 'rec["first"].grad\n',
    ),
    Pair(
        "the gradient of what an operation returned",
        GRADIENTS + 'log["tanh_1_2"].grad\n',
        OURS.format('":hidden"') + 'rec[":hidden"].grad\n',
    ),
]
