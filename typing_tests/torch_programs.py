"""Functions, models and blocks of PyTorch."""

from typing import Any, assert_type

import torch
from torch import Tensor, nn

import backprobe as bp


def loss(x: Tensor, w: Tensor, scale: float = 1.0) -> Tensor:
    u = x * w
    return (u * scale).sum()


def both(x: Tensor) -> tuple[Tensor, int]:
    return x * 2, 3


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 1)

    def forward(self, x: Tensor, *, bias: bool = True) -> Tensor:
        result: Tensor = self.linear(x)
        return result


class Wide(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"loss": x.sum()}


x, w = torch.ones(3), torch.ones(3)

# a function: its arguments, what it returns, and its tensors
rec = bp.probe(loss)(x, w, scale=2.0)
assert_type(rec, bp.Recording[Tensor, Tensor])
assert_type(rec.result, Tensor)
assert_type(rec["u"], bp.Entry[Tensor])
assert_type(rec["u"].value, Tensor)
assert_type(rec["u"].grad, Tensor)
assert_type(rec["u"].grad_or_none, Tensor | None)
assert_type(rec["u"].grad.T @ w, Tensor)
assert_type(rec["u"].status, bp.GradStatus)
assert_type(rec.grads(), dict[str, Tensor])
assert_type([entry.grad for entry in rec.values()], list[Tensor])
assert_type({name: entry.value for name, entry in rec.items()}, dict[str, Tensor])
assert_type(rec.select("u*"), dict[str, bp.Entry[Tensor]])
assert_type(rec.outputs[0].original, Tensor)
assert_type(bp.probe(loss, of=["a", "b"])(x, w).total()["u"].grads["a"], Tensor)
assert_type(bp.probe(loss, ["u"], wrt="x", strategy="hooks", values="copy", backend="torch")(x, w).result, Tensor)
assert_type(bp.probe(loss, partials="full", create_graph=True, nonfinite=True)(x, w)["u"].partials["x"], Tensor)

# one that returns more than a tensor
pair = bp.probe(both, of=0)(x)
assert_type(pair.result, tuple[Tensor, int])
assert_type(pair["x"].grad, Any)

# a lambda has no types, and takes numbers
bp.probe(lambda x: x * 2)(3.0)["x"].grad.sum()

# a model: the arguments of its forward
seen = bp.probe(Net())(x, bias=False)
assert_type(seen.result, Tensor)
assert_type(seen["linear"].grad, Tensor)
assert_type(bp.probe(Wide(), of="loss")(x).result, dict[str, Tensor])
assert_type(bp.probe(nn.Linear(3, 1), "weight")(x).result, Tensor)


def of_any_model(model: nn.Module) -> None:
    assert_type(bp.probe(model)(x, labels=w).result, Any)


# a block, around a model or alone
def in_a_block() -> Tensor:
    with bp.probe() as rec:
        u = x * 2
        torch.autograd.backward(u.sum())
    with bp.probe(select=["u"], nonfinite=True) as other:
        pass
    with bp.probe(Net(), "linear") as around:
        torch.autograd.backward(Net()(x))
    assert_type(other["u"].grad, Any)
    for one in (rec, other, around):
        shown(one)
    with bp.probe():
        return rec["u"].grad_or_none or u  # no path leads past the block


def shown(rec: bp.Recording) -> str:
    return str(rec)


def result_of(rec: bp.Recording[Tensor]) -> Tensor:
    return rec.result


def size(entry: bp.Entry[Tensor]) -> int:
    return entry.value.numel()


print(shown(rec), result_of(rec), size(rec["u"]), shown(pair), bp.explain(rec), bp.health(rec))

# a probe that is kept
probe: bp.Probe[[Tensor], tuple[Tensor, int]] = bp.probe(both, of=0)
assert_type(probe(x).result, tuple[Tensor, int])
assert_type(bp.load("folder")["u"].value, Any)
