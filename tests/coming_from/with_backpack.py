"""BackPACK's extensions of a backward pass."""

from backpack import backpack, extend
from backpack.extensions import BatchGrad, BatchL2Grad, DiagHessian, Variance
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
]
