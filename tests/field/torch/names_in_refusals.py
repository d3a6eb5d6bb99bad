# from: own
# ask: python
# What an error proposes can be typed: it has the names of the program, not those of classes.
import torch
from torch import nn

import backprobe as bp


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 1)

    def forward(self, x):
        y = self.first(x)
        return y


@torch.jit.script
def act(x):
    return (x * 2).sin()


def message(call):
    try:
        call()
    except bp.BackprobeError as error:
        return str(error)
    raise AssertionError(call)


def replaced():
    with bp.probe(net, replace={"nothing": torch.ones(1)}):
        net(torch.ones(1, 2))


net = Net()
said = message(lambda: bp.probe(act)(torch.ones(2)))
assert "ScriptFunction(" not in said and "act(" in said, said
said = message(replaced)
assert "bp.probe(model" in said and "bp.probe(Net" not in said, said
said = message(lambda: bp.probe(net, replace={"nothing": torch.ones(1)})(torch.ones(1, 2)))
assert "bp.probe(Net" not in said, said
