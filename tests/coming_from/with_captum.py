"""Captum's attributions of layers and neurons."""

from captum.attr import (
    InputXGradient,
    IntegratedGradients,
    LayerActivation,
    LayerGradientXActivation,
    NeuronGradient,
    Saliency,
)
from pairs import Pair
from small import given as small

TITLE, NAME = "Captum", "captum"


def given():
    return small() | {
        "InputXGradient": InputXGradient,
        "IntegratedGradients": IntegratedGradients,
        "LayerActivation": LayerActivation,
        "LayerGradientXActivation": LayerGradientXActivation,
        "NeuronGradient": NeuronGradient,
        "Saliency": Saliency,
    }


PAIRS = [
    Pair(
        "saliency",
        """\
Saliency(model).attribute(x.requires_grad_(), target=1)
""",
        """\
rec = bp.probe(lambda x: model(x)[:, 1].sum())(x)
rec["x"].grad.abs()
""",
    ),
    Pair(
        "input times gradient",
        """\
InputXGradient(model).attribute(x.requires_grad_(), target=1)
""",
        """\
rec = bp.probe(lambda x: model(x)[:, 1].sum())(x)
x * rec["x"].grad
""",
    ),
    Pair(
        "a layer's activation",
        """\
LayerActivation(model, model.first).attribute(x)
""",
        """\
rec = bp.probe(model, "first", cotangent=torch.ones(5, 2))(x)
rec["first"].value
""",
    ),
    Pair(
        "a layer's gradient times its activation",
        """\
LayerGradientXActivation(model, model.first).attribute(x, target=1)
""",
        """\
with bp.probe(model, "first") as rec:
    model(x)[:, 1].sum().backward()
rec["first"].grad * rec["first"].value
""",
    ),
    Pair(
        "the gradient of one neuron",
        """\
NeuronGradient(model, model.first).attribute(x.requires_grad_(), neuron_selector=2)
""",
        """\
rec = bp.probe(lambda x: model.first(x)[:, 2].sum())(x)
rec["x"].grad
""",
    ),
    Pair(
        "integrated gradients",
        """\
IntegratedGradients(model).attribute(x, target=1, n_steps=50, method="riemann_right")
""",
        """\
rec = bp.probe(lambda path: model(path.flatten(0, 1))[:, 1].sum())(
    torch.stack([x * step / 50 for step in range(1, 51)])
)
x * rec["path"].grad.mean(0)
""",
        "Captum has other rules of integration, baselines, and measures of quality",
    ),
]
