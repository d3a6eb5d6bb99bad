"""One call of a model as a guard keeps it: what it was given, what it began with, and how it is made again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch.nn.parameter import is_lazy

from backprobe.backends.guards import Found, PassedCall
from backprobe.backends.random_states import Kept
from backprobe.backends.torch.capture import version
from backprobe.backends.torch.models import is_compiled
from backprobe.backends.torch.nonfinite import unfit
from backprobe.backends.torch.recheck import random_states
from backprobe.backends.torch.structure import structure
from backprobe.backends.torch.tensors import copied, is_floating
from backprobe.record.containers import leaves, refilled
from backprobe.record.reasons import Reason

COMPILED = "OptimizedModule"
KINDS = ("cpu", "cuda")  # of devices, that autocast has a mode for


class GuardedModule:
    """A module that is called, with what its calls begin with. Buffers are copied when they were written to."""

    def __init__(self, module: Module, path: str) -> None:
        self.module, self.path = module, path
        known = structure(module)
        self.parts = known.modules
        self.parameters: list[tuple[str, Parameter]] = known.parameters
        self.copies: dict[int, tuple[Tensor, int, Tensor]] = {}  # by identity of the buffer: it, its version, a copy

    def buffers(self) -> list[tuple[Module, str, Tensor]]:
        """A copy of each buffer as it is now, with its module and name."""
        known, self.copies = self.copies, {}
        found = []
        for part in self.parts:
            for name, buffer in part._buffers.items():
                if buffer is not None and not is_lazy(buffer):
                    kept = known.get(id(buffer))
                    if kept is None or kept[1] != version(buffer):
                        kept = buffer, version(buffer), copied(buffer.detach())
                    self.copies[id(buffer)] = kept
                    found.append((part, name, kept[2]))
        return found

    def versions(self) -> list[int]:
        return [version(parameter) for _, parameter in self.parameters]


class State:
    """What a call begins with beside its arguments: random numbers, buffers, modes."""

    def __init__(self, of: GuardedModule) -> None:
        self.random = Kept(random_states(()))
        self.buffers = of.buffers()
        self.autocast = [(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in KINDS]
        self.training = [(part, part.training) for part in of.parts]
        self.has_history = torch.is_grad_enabled()

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Buffers are exchanged and not written to: the program's graphs may still need them."""
        buffers = [(part, name, part._buffers[name]) for part, name, _ in self.buffers if name in part._buffers]
        training = [(part, part.training) for part, _ in self.training]
        with ExitStack() as entered:
            entered.enter_context(torch.set_grad_enabled(self.has_history))
            for kind, is_enabled, dtype in self.autocast:
                entered.enter_context(torch.autocast(kind, dtype, is_enabled))
            entered.enter_context(self.random.restored())
            try:
                _set(training=self.training, buffers=[(part, name, copied(copy)) for part, name, copy in self.buffers])
                yield
            finally:
                _set(training=training, buffers=buffers)


def _set(training: Sequence[tuple[Module, bool]], buffers: Sequence[tuple[Module, str, Tensor | None]]) -> None:
    for part, mode in training:
        part.training = mode
    for part, name, buffer in buffers:
        part._buffers[name] = buffer


class Given:
    """A tensor that a call was given, without the history that it had. A dataclass would count as a container."""

    def __init__(self, tensor: Tensor) -> None:
        self.numbers, self.requires_grad, self.version = tensor.detach(), tensor.requires_grad, version(tensor)

    @classmethod
    def of(cls, leaf: Any) -> Any:
        return cls(leaf) if isinstance(leaf, Tensor) else leaf

    @staticmethod
    def tensor(leaf: Any) -> Any:
        return leaf.numbers.detach().requires_grad_(leaf.requires_grad) if isinstance(leaf, Given) else leaf


class TorchGuardedCall(PassedCall):
    """PyTorch's ``PassedCall``. It holds no node of a graph: the nodes hold it."""

    def __init__(self, of: GuardedModule, state: State, given: Any) -> None:
        self.of, self.module, self.path = of, of.module, of.path
        self.state, self.given = state, refilled(given, Given.of)
        self.weights = of.versions()
        self.gradients = {}
        self.handles: list[Any] = []

    def why_not_again(self) -> Reason | None:
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return Reason("processes_wait")
        if any(type(part).__name__ == COMPILED or is_compiled(part.forward) for part in self.of.parts):
            return Reason("call_compiled")
        if self.of.versions() != self.weights:
            return Reason("parameters_written")
        held = [leaf for _, leaf in leaves(self.given) if isinstance(leaf, Given)]
        return Reason("arguments_written") if any(version(leaf.numbers) != leaf.version for leaf in held) else None

    def arguments(self) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        args, kwargs = refilled(self.given, Given.tensor)
        return args, kwargs

    @contextmanager
    def restored(self) -> Iterator[None]:
        with self.state.restored():
            yield

    def arrived(self) -> Found:
        return unfit(self.gradients)

    def seeded(self, returned: Any) -> Any:
        outputs, gradients = self.outputs_and_gradients(dict(floating(returned)))
        return Seed.apply(gradients, *outputs)  # type: ignore[no-untyped-call]  # Function.apply has no type

    def take(self, path: str, gradient: Tensor) -> None:
        """A gradient has come to an output."""
        self.gradients[path] = gradient

    def forget(self) -> None:
        """Keep nothing any longer."""
        for handle in self.handles:
            handle.remove()
        self.handles.clear()
        self.gradients.clear()
        self.given = ((), {})


class Seed(torch.autograd.Function):
    """A zero whose backward begins with given gradients."""

    @staticmethod
    def forward(ctx: Any, gradients: Sequence[Tensor], *outputs: Tensor) -> Tensor:
        ctx.gradients = gradients
        return torch.zeros((), device=outputs[0].device)

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> Any:  # type: ignore[override]  # autograd calls it with one gradient
        return (None, *ctx.gradients)


def floating(returned: Any) -> list[tuple[str, Tensor]]:
    """The floating tensors in what a call returned, by their paths."""
    return [(path, leaf) for path, leaf in leaves(returned) if isinstance(leaf, Tensor) and is_floating(leaf)]
