"""Mistakes with PyTorch that the checkers tell."""

import torch
from torch import Tensor, nn

import backprobe as bp


def loss(x: Tensor, w: Tensor) -> Tensor:
    return (x * w).sum()


class Net(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


x = w = torch.ones(3)

# options
bp.probe(loss, strategy="edgse")  # type: ignore[call-overload]
bp.probe(loss, values="coppy")  # type: ignore[call-overload]
bp.probe(loss, partials="whole")  # type: ignore[call-overload]
bp.probe(loss, backend="pytorch")  # type: ignore[call-overload]
bp.probe(loss, strateg="edges")  # type: ignore[call-overload]
bp.probe(loss, create_graph="yes")  # type: ignore[call-overload]
bp.probe(loss, 3)  # type: ignore[call-overload]
bp.probe(3)  # type: ignore[call-overload]
bp.probe(strategy="edgse")  # type: ignore[call-overload]

# arguments of what is probed
bp.probe(loss)(x)  # type: ignore[call-arg]
bp.probe(loss)(x, w, x)  # type: ignore[call-arg]
bp.probe(loss)(x, weight=w)  # type: ignore[call-arg]
bp.probe(loss)(x, "w")  # type: ignore[arg-type]
bp.probe(Net())(x, w)  # type: ignore[call-arg]
bp.probe(Net())("x")  # type: ignore[arg-type]

# what comes back
number: int = bp.probe(loss)(x, w).result  # type: ignore[assignment]
text: str = bp.probe(loss)(x, w)["u"].grad  # type: ignore[assignment]
bp.probe(loss)(x, w)["u"].grad.nume()  # type: ignore[attr-defined]
bp.probe(loss)(x, w)["u"].gard  # type: ignore[attr-defined]
bp.probe(loss)(x, w).reslt  # type: ignore[attr-defined]
bp.probe(loss).result  # type: ignore[attr-defined]
with bp.probe() as rec:
    pass
rec["u"].gard  # type: ignore[attr-defined]
bp.probe()(x)  # type: ignore[operator]

# names
bp.prob(loss)  # type: ignore[attr-defined]
bp.Check  # type: ignore[attr-defined]
