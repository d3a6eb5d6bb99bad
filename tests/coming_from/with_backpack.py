"""BackPACK's extensions of a backward pass."""

from backpack import backpack, extend
from backpack.extensions import HMP, BatchGrad, BatchL2Grad, DiagGGNExact, DiagHessian, SumGradSquared, Variance
from pairs import Pair
from small import given as small
from torch import nn

TITLE, NAME = "BackPACK", "backpack-for-pytorch"


class Measured(nn.Module):
    """The model with its loss, as bp.per_sample takes it."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, y):
        loss = nn.functional.mse_loss(self.model(x), y)
        return loss


def given():
    known = small()
    layers = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    return known | {
        "model": layers,
        "measured": Measured(layers),
        "loss_of": nn.MSELoss(),
        "y": known["torch"].ones(5, 2),
        "backpack": backpack,
        "extend": extend,
        "BatchGrad": BatchGrad,
        "BatchL2Grad": BatchL2Grad,
        "Variance": Variance,
        "DiagHessian": DiagHessian,
        "DiagGGNExact": DiagGGNExact,
        "HMP": HMP,
        "SumGradSquared": SumGradSquared,
    }


EXTENDED = """\
model, loss_of = extend(model), extend(loss_of)
loss = loss_of(model(x), y)
with backpack({}()):
    loss.backward()
"""
PAIRS = [
    Pair(
        "the gradient that each sample brings",
        EXTENDED.format("BatchGrad") + "model[0].weight.grad_batch\n",
        """\
samples = bp.per_sample(measured, "model.0.weight")(x, y)
samples["model.0.weight"]
""",
        "ours takes any module, BackPACK those that it has rules for",
    ),
    Pair(
        "their squared norms",
        EXTENDED.format("BatchL2Grad") + "model[2].bias.batch_l2\n",
        """\
samples = bp.per_sample(measured, "model.2.bias")(x, y)
samples.norms("model.2.bias")["model.2.bias"] ** 2
""",
    ),
    Pair(
        "the variance of the gradient over the batch",
        EXTENDED.format("Variance") + "model[0].bias.variance\n",
        """\
samples = bp.per_sample(measured, "model.0.bias")(x, y)
samples["model.0.bias"].var(0, unbiased=False)
""",
        "of shares of the mean: 1/5 of the gradient of each sample",
    ),
    Pair(
        "the diagonal of the Hessian of a bias",
        EXTENDED.format("DiagHessian") + "model[2].bias.diag_h\n",
        """\
product = lambda v: bp.hvp(measured, "model.2.bias", v)(x, y)
torch.stack([product(unit)[at] for at, unit in enumerate(torch.eye(2))])
""",
        "BackPACK's is one pass for all parameters; `bp.curvature` has eigenvalues",
    ),
    Pair(
        "the second moment of the gradient over the batch",
        EXTENDED.format("SumGradSquared") + "model[0].weight.sum_grad_squared\n",
        """\
samples = bp.per_sample(measured, "model.0.weight")(x, y)
(samples["model.0.weight"] ** 2).sum(0)
""",
    ),
    Pair(
        "the diagonal of the Gauss-Newton matrix of a bias",
        EXTENDED.format("DiagGGNExact") + "model[2].bias.diag_ggn_exact\n",
        """\
product = lambda v: bp.hvp(measured, "model.2.bias", v)(x, y)
torch.stack([product(unit)[at] for at, unit in enumerate(torch.eye(2))])
""",
        "in the last layer it is the Hessian; in the others ours has no Gauss-Newton matrix",
    ),
    Pair(
        "products of the Hessian of a layer with a vector",
        EXTENDED.format("HMP") + "model[2].weight.hmp(torch.ones(1, 2, 4))[0]\n",
        """\
bp.hvp(measured, "model.2.weight", torch.ones(2, 4))(x, y)
""",
    ),
    Pair(
        "the gradient that backward leaves beside all this",
        EXTENDED.format("BatchGrad") + "model[0].weight.grad\n",
        """\
with bp.probe(measured, "model.0.weight") as rec:
    measured(x, y).backward()
rec["model.0.weight"].grad
""",
        "ours need not extend the model",
    ),
    Pair(
        "the sample whose gradient is greatest",
        EXTENDED.format("BatchL2Grad") + "int(model[0].weight.batch_l2.argmax())\n",
        """\
samples = bp.per_sample(measured, "model.0.weight")(x, y)
int(samples.norms("model.0.weight")["model.0.weight"].argmax())
""",
    ),
    Pair(
        "several quantities of one backward pass",
        """\
model, loss_of = extend(model), extend(loss_of)
loss = loss_of(model(x), y)
with backpack(BatchGrad(), Variance()):
    loss.backward()
[model[2].bias.grad_batch, model[2].bias.variance]
""",
        """\
samples = bp.per_sample(measured, "model.2.bias")(x, y)
[samples["model.2.bias"], samples["model.2.bias"].var(0, unbiased=False)]
""",
    ),
]
