"""One call of a model, as a guard keeps it: its arguments, its initial state, and how to repeat it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import FrameType, MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch.nn.parameter import is_lazy

from backprobe.backends.guards import PassedCall
from backprobe.backends.random_states import RandomNumbers
from backprobe.backends.torch.capture import version
from backprobe.backends.torch.models import is_compiled
from backprobe.backends.torch.nonfinite import unfit
from backprobe.backends.torch.recheck import random_states
from backprobe.backends.torch.state import autocasts
from backprobe.backends.torch.structure import structure
from backprobe.backends.torch.tensors import copied, is_floating
from backprobe.record.containers import leaves, refilled
from backprobe.record.reasons import Reason
from backprobe.source.frames import name_in

COMPILED = "OptimizedModule"


class GuardedModule:
    """A called module, and the state from which its calls start. Buffers are copied again after they were written to.

    Batch normalisation writes to its running statistics without a new version, so numbers of floating-point buffers are
    compared as well: https://github.com/pytorch/pytorch/issues/13402
    """

    def __init__(self, module: Module, path: str) -> None:
        self.module, self.path = module, path
        known = structure(module)
        self.parts, self.named = known.modules, known.parts
        self.parameters: list[tuple[str, Parameter]] = known.parameters
        # by the id of the buffer: the buffer, its version, a copy
        self.copies: dict[int, tuple[Tensor, int, Tensor]] = {}
        self.writes_arguments = False  # has the module written to its arguments?

    def buffers(self) -> list[tuple[Module, str, Tensor]]:
        """Return a copy of each initialized buffer in its current state, with its module and name."""
        known, self.copies = self.copies, {}
        found = []
        for part in self.parts:
            for name, buffer in part._buffers.items():
                if buffer is not None and not is_lazy(buffer):
                    kept = known.get(id(buffer))
                    if kept is None or kept[1] != version(buffer) or not _is_same(buffer, kept[2]):
                        kept = buffer, version(buffer), copied(buffer.detach())
                    self.copies[id(buffer)] = kept
                    found.append((part, name, kept[2]))
        return found

    def versions(self) -> list[int]:
        return [version(parameter) for _, parameter in self.parameters]


def _is_same(buffer: Tensor, copy: Tensor) -> bool:
    if not buffer.is_floating_point() or buffer.is_meta:
        return True
    return buffer.shape == copy.shape and torch.equal(buffer.detach(), copy)


class CallState:
    """The state from which a call starts besides its arguments: random numbers, buffers, modes."""

    def __init__(self, of: GuardedModule) -> None:
        self.random = RandomNumbers(random_states(()))
        self.buffers = of.buffers()
        self.autocast = autocasts()
        self.training = [(part, part.training) for part in of.parts]
        self.has_history = torch.is_grad_enabled()

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Within this context the state is that at the start of the call. Buffers are exchanged rather than written to,
        because the program's graphs may still need them.
        """
        with ExitStack() as entered:
            entered.enter_context(torch.set_grad_enabled(self.has_history))
            for kind, is_enabled, dtype in self.autocast:
                entered.enter_context(torch.autocast(kind, dtype, is_enabled))
            self.random.restore()
            for part, mode in self.training:
                part.training = mode
            for part, name, copy in self.buffers:
                part._buffers[name] = copied(copy)
            yield


class GivenTensor:
    """A tensor argument of a call, without its history. This is not a dataclass, because a dataclass would be treated
    as a container.
    """

    def __init__(self, tensor: Tensor) -> None:
        self.numbers, self.requires_grad, self.version = tensor.detach(), tensor.requires_grad, version(tensor)

    def is_written(self) -> bool:
        """Was the tensor written to since?"""
        return version(self.numbers) != self.version

    @classmethod
    def of(cls, leaf: Any) -> Any:
        return cls(leaf) if isinstance(leaf, Tensor) else leaf

    @classmethod
    def copy_of(cls, leaf: Any) -> Any:
        """Return a ``GivenTensor`` with a copy of the tensor, for a call that may write to it. Other values are
        returned themselves.
        """
        if not isinstance(leaf, Tensor):
            return leaf
        made = cls(copied(leaf.detach()))
        made.requires_grad = leaf.requires_grad
        return made

    @staticmethod
    def tensor(leaf: Any) -> Any:
        return leaf.numbers.detach().requires_grad_(leaf.requires_grad) if isinstance(leaf, GivenTensor) else leaf


class Before:
    """The arguments of a call and the versions of its parameters before it runs, kept for a capture.

    A hook before all forwards does not receive keywords, so they are read from the calling frame. Tensors are copied if
    an earlier call of the module has written to its arguments.
    """

    def __init__(self, of: GuardedModule, frame: FrameType) -> None:
        args, kwargs = name_in(frame, "args"), name_in(frame, "kwargs")
        is_known = type(args) is tuple and type(kwargs) is dict
        keep = GivenTensor.copy_of if of.writes_arguments else GivenTensor.of
        self.given = refilled((args, kwargs), keep) if is_known else None
        self.weights = of.versions()


class Seed(torch.autograd.Function):
    """Returns a zero whose backward starts with given gradients."""

    @staticmethod
    def forward(ctx: Any, gradients: Sequence[Tensor], *outputs: Tensor) -> Tensor:
        ctx.gradients = gradients
        return torch.zeros((), device=outputs[0].device)

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> Any:  # type: ignore[override]  # autograd calls it with one gradient
        return (None, *ctx.gradients)


def begun_with(gradients: Sequence[Tensor], outputs: Sequence[Tensor]) -> Any:
    """Return a zero whose backward starts at these outputs with these gradients."""
    return Seed.apply(gradients, *outputs)  # type: ignore[no-untyped-call]  # Function.apply has no type


def floating(returned: Any) -> dict[str, Tensor]:
    """Return the floating-point and complex tensors that a call returned, by path."""
    return {path: leaf for path, leaf in leaves(returned) if isinstance(leaf, Tensor) and is_floating(leaf)}


class TorchGuardedCall(PassedCall):
    """Implements ``PassedCall`` for PyTorch. It refers to no node of a graph; instead, nodes refer to it."""

    returned: Mapping[str, GivenTensor] = MappingProxyType({})
    """The outputs of the call, by path, if failing steps are captured."""

    fresh: Collection[str] = ()
    """The parameters that had no gradient when the running pass started, by their paths in the guarded model."""

    writes_parameters = False

    floating, unfit, begun_with = staticmethod(floating), staticmethod(unfit), staticmethod(begun_with)

    def __init__(self, of: GuardedModule, state: CallState, given: Any) -> None:
        self.of, self.module, self.path = of, of.module, of.path
        self.state, self.given = state, refilled(given, GivenTensor.of)
        self.weights = of.versions()
        self.gradients = {}
        self.handles: list[Any] = []

    def keep(self, before: Before, outputs: Mapping[str, Tensor]) -> None:
        """Keep the outputs of the call, and its arguments as they were before the call, for a capture. Also note
        whether the call has written to its arguments or parameters.
        """
        if before.given is not None:
            self.given = before.given
            written = [one for _, one in leaves(self.given) if isinstance(one, GivenTensor) and one.is_written()]
            self.of.writes_arguments |= bool(written)
        self.writes_parameters = before.weights != self.weights
        self.returned = {path: GivenTensor(tensor) for path, tensor in outputs.items()}

    def why_not_again(self) -> Reason | None:
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return Reason("processes_wait")
        if any(type(part).__name__ == COMPILED or is_compiled(part.forward) for part in self.of.parts):
            return Reason("call_compiled")
        if self.of.versions() != self.weights:
            return Reason("parameters_written")
        held = [leaf for _, leaf in leaves(self.given) if isinstance(leaf, GivenTensor)]
        return Reason("arguments_written") if any(leaf.is_written() for leaf in held) else None

    def arguments(self) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        args, kwargs = refilled(self.given, GivenTensor.tensor)
        return args, kwargs

    def restored(self) -> AbstractContextManager[None]:
        return self.state.restored()

    def forget(self) -> None:
        """Release the arguments, outputs, gradients and hooks."""
        for handle in self.handles:
            handle.remove()
        self.handles.clear()
        self.gradients.clear()
        self.given, self.returned = ((), {}), {}
