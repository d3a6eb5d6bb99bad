"""Captum's attributions of layers and neurons."""

from captum.attr import (
    InputXGradient,
    IntegratedGradients,
    LayerActivation,
    LayerFeatureAblation,
    LayerGradientXActivation,
    LayerIntegratedGradients,
    NeuronGradient,
    NoiseTunnel,
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
        "LayerFeatureAblation": LayerFeatureAblation,
        "LayerIntegratedGradients": LayerIntegratedGradients,
        "NoiseTunnel": NoiseTunnel,
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
    Pair(
        "a layer's integrated gradients",
        """\
LayerIntegratedGradients(model, model.first).attribute(x, target=1, n_steps=50, method="riemann_right")
""",
        """\
start, end = model.first(torch.zeros_like(x)), model.first(x)
path = torch.stack([start + (end - start) * step / 50 for step in range(1, 51)]).detach()
rec = bp.probe(lambda path: model.second(torch.tanh(path)).flatten(0, 1)[:, 1].sum())(path)
(end - start) * rec["path"].grad.mean(0)
""",
        "Captum needs no hand-written rest of the model; `bp.attribute` compares two runs at each value and edge",
    ),
    Pair(
        "an ablated layer: how the output changes",
        """\
LayerFeatureAblation(model, model.first).attribute(x, target=1)
""",
        """\
out = model(x)[:, 1]
columns = []
for unit in range(4):
    silenced = lambda value: value * (torch.arange(4) != unit)
    columns.append(out - bp.probe(model, replace={"first": silenced}, cotangent=torch.ones(5, 2))(x).result[:, 1])
torch.stack(columns, 1)
""",
        "Captum's is shorter: it knows what one unit is; `bp.sweep` replaces whole values",
    ),
    Pair(
        "the mean over noise of a saliency",
        """\
torch.manual_seed(0)
noisy = NoiseTunnel(Saliency(model))
noisy.attribute(x.requires_grad_(), target=1, abs=False, nt_samples=4, nt_type="smoothgrad", stdevs=0.1)
""",
        """\
torch.manual_seed(0)
many = torch.normal(x.repeat_interleave(4, 0), 0.1)
rec = bp.probe(lambda many: model(many)[:, 1].sum())(many)
rec["many"].grad.reshape(5, 4, 3).mean(1)
""",
    ),
    Pair(
        "the gradient of a layer with respect to a sum of outputs",
        """\
layer_grads = LayerGradientXActivation(model, model.first, multiply_by_inputs=False)
layer_grads.attribute(x, target=0) + layer_grads.attribute(x, target=1)
""",
        """\
with bp.probe(model, "first") as rec:
    model(x).sum().backward()
rec["first"].grad
""",
    ),
]
