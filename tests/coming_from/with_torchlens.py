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
    Pair(
        "the outputs of all layers in their order",
        """\
log = tl.trace(model, [x])
[log[label].out for label in ("linear_1_1", "tanh_1_2", "linear_2_3")]
""",
        OURS.format('["*", ":hidden"]') + '[rec[name].value for name in ("first", ":hidden", "second")]\n',
    ),
    Pair(
        "several layers and nothing else",
        """\
tl.extract(model, [x], {"first": "linear_1_1", "second": "linear_2_3"})
""",
        OURS.format('["first", "second"]') + '{name: rec[name].value for name in ("first", "second")}\n',
    ),
    Pair(
        "the gradient of a weight",
        GRADIENTS + 'log.params["first.weight"].grad\n',
        OURS.format('"first.weight"') + 'rec["first.weight"].grad\n',
    ),
    Pair(
        "the shape of a layer's output",
        """\
log = tl.trace(model, [x])
list(log["linear_1_1"].shape)
""",
        OURS.format('"first"') + 'list(rec["first"].value.shape)\n',
    ),
    Pair(
        "a layer that is set to zero",
        """\
log = tl.trace(model, [x], intervene=tl.when(tl.module("first"), tl.zero_ablate()))
log["output_1"].out
""",
        """\
bp.probe(model, replace={"first": lambda out: out * 0}, cotangent=torch.ones(5, 2))(x).result
""",
    ),
    Pair(
        "the output of a layer that was called twice",
        """\
log = tl.trace(nn.Sequential(model.first, nn.Tanh(), nn.Linear(4, 3), model.first), [x])
log["linear_1_1:2"].out
""",
        """\
both = nn.Sequential(model.first, nn.Tanh(), nn.Linear(4, 3), model.first)
with bp.probe(both, "0") as rec:
    both(x).square().sum().backward()
rec["0#1"].value
""",
    ),
]
