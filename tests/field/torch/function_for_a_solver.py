# from: own
# ask: python
import torch
from torch.autograd.functional import jacobian, vjp

import backprobe as bp


def field(y):
    k = y.detach() * y * y
    return k


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)

    def forward(self, y):
        h = self.linear(y)
        return h.tanh()


net = Field()


def of_a_function(x):
    j = jacobian(field, x, create_graph=True)
    return j.sum()


def of_a_module(x):
    _, slope = vjp(net, x, torch.ones(2), create_graph=True)
    return slope.square().sum()


def of_a_partial(x):
    total = jacobian(lambda v: field(v).sum(), x, create_graph=True)
    return total.square().sum()


def of_nothing(x):
    y = torch.nn.functional.softplus(x)
    y.register_hook(lambda slope: slope)
    return y.sum()


x = torch.tensor([1.0, 2.0])
for run, name in ((of_a_function, "field"), (of_a_module, "Field.forward"), (of_a_partial, "of_a_partial.")):
    rec = bp.probe(run)(x)
    for said in (str(rec), str(bp.explain(rec))):
        assert f"is given {name}" in said and "was not followed" in said, said
assert "is given" not in str(bp.probe(of_nothing)(x))
