"""Bridges in PyTorch: an ``autograd.Function`` whose result has the numbers of one argument and the history of both."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from backprobe.backends.bridging import BridgedPass, Bridges, Gates, filled, opened
from backprobe.backends.patching import listening
from backprobe.backends.torch.graph import all_nodes, leaves
from backprobe.backends.torch.private import FILES, is_wrapped
from backprobe.backends.user_lines import users_frames

GATES = Gates()


class Bridge(torch.autograd.Function):
    """Returns a copy of the first argument, to which it passes the gradient back. The second argument also gets a
    gradient, unless the gates are closed.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(value: Tensor, source: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.source = inputs[1].shape, inputs[1].dtype, inputs[1].device

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None]:
        (gradient,) = gradients
        if not GATES.is_open:
            return gradient, None
        shape, dtype, device = ctx.source
        weighted = torch.nan_to_num(_real(gradient)) * _factors(gradient.shape, gradient.device)
        return gradient, (_factors(shape, device) * weighted.sum().to(device)).to(dtype)


def bridged(value: Any, source: Any) -> Any | None:
    """Return the value with the history of other values added: see ``Bridges.bridged``."""
    sources = [one for one in opened(source, _is_tensor) if _may_have_history(one) and _is_differentiable(one)]

    def one(leaf: Any) -> Any | None:
        if not _is_tensor(leaf) or isinstance(leaf, Parameter) or not _is_differentiable(leaf):
            return None
        made: Any = leaf
        with torch.inference_mode(False), torch.enable_grad():
            made = leaf.clone() if leaf.is_inference() else leaf
            for each in sources:
                made = _bridge(made, each)
        if type(leaf) is not Tensor:
            made = made.as_subclass(type(leaf))
            vars(made).update(vars(leaf))
        return made

    return filled(value, one) if sources else None


_bridge: Callable[[Tensor, Tensor], Tensor] = Bridge.apply


class TorchBridges(Bridges):
    """Implements ``Bridges`` for PyTorch."""

    def __init__(self) -> None:
        self.known: list[Tensor] = []  # the tensors whose history was added to values

    def bridged(self, value: Any, source: Any) -> Any | None:
        made = bridged(value, source)
        if made is not None:
            self.known += opened(source, _is_tensor)
        return made

    def sources(self, held: Any, *, of_models: bool = True) -> list[Any]:
        return [
            one
            for found in opened(held, lambda one: isinstance(one, Tensor | Module))
            for one in ([found] if isinstance(found, Tensor) else found.parameters() if of_models else ())
            if one.requires_grad
        ]

    def connected(self, held: Any) -> list[Any]:
        return self.sources(held)

    def is_off(self) -> bool:
        return not torch.is_grad_enabled()

    def moved(self, value: Any, by: float, undo: list[Callable[[], None]]) -> Any:
        def one(leaf: Any) -> Any | None:
            if isinstance(leaf, Module):
                for parameter in leaf.parameters():
                    undo.append(_put_back(parameter, parameter.detach().clone()))
                    parameter.data.copy_(_elsewhere(parameter.detach(), by))
                return None
            if not _is_tensor(leaf) or not _is_differentiable(leaf) or not leaf.requires_grad:
                return None
            return leaf + (_elsewhere(leaf.detach(), by) - leaf.detach())

        made = filled(value, one)
        return value if made is None else made

    def shift(self, sources: Sequence[Any], by: float) -> None:
        for one in {id(leaf): leaf for source in sources for leaf in _leaves(source)}.values():
            one.data.copy_(_elsewhere(one.detach(), by))

    def kept(self, value: Any) -> Any:
        def one(leaf: Any) -> Any | None:
            if _is_tensor(leaf):
                return None if leaf.is_leaf else leaf.clone()
            return leaf.copy() if type(leaf).__module__ == "numpy" and hasattr(leaf, "copy") else None

        made = filled(value, one)
        return value if made is None else made

    def begin(self) -> None:
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)
        # each process has a seed of its own, which its generators keep until the program seeds them
        for generator in (torch.default_generator, *torch.cuda.default_generators):
            generator.manual_seed(generator.initial_seed())

    @property
    def writers(self) -> Sequence[tuple[Any, str]]:
        return [FILES]

    @contextmanager
    def passes(
        self, heard: Callable[[BridgedPass], None], watched: Callable[[FrameType], Sequence[Any]]
    ) -> Iterator[None]:
        thread, running = threading.get_ident(), list[Any]()

        def run(following: Callable[..., Any], outputs: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
            if running or threading.get_ident() != thread:
                return following(outputs, *args, **kwargs)
            running.append(outputs)
            try:
                frame = next(users_frames(sys._getframe(1)))
                found = self._compared(following, outputs, *args, frame=frame, watched=watched(frame))
                with GATES.closed():
                    gradients, _, create, *more = args
                    result = following(outputs, gradients, True, create, *more, **kwargs)
            finally:
                running.pop()
            heard(found)
            return result

        with listening(torch.autograd, "_engine_run_backward", run):
            yield

    def _compared(
        self,
        following: Callable[..., Any],
        outputs: Sequence[Tensor],
        gradients: Any,
        keep: bool,
        create: bool,
        inputs: Sequence[Any] = (),
        *_: Any,
        frame: FrameType,
        watched: Sequence[Any],
    ) -> BridgedPass:
        # Compute the gradients at the leaves behind the bridges and the watched tensors (or at those among ``inputs``,
        # if given), once with the bridges and once without them.
        from_here = [one for one in watched if _is_tensor(one) and one.requires_grad]
        reached = [*{id(one): one for source in (*self.known, *from_here) for one in _leaves(source)}.values()]
        asked = {id(one) for one in inputs or ()}
        behind = [one for one in reached if not asked or id(one) in asked]

        def given() -> list[bool | None]:
            if not behind:
                return []
            found = following(
                outputs, gradients, True, False, tuple(behind), allow_unreachable=True, accumulate_grad=False
            )
            return [None if one is None else bool(one.count_nonzero()) for one in found]

        arrived = [*map(bool, given())]
        with GATES.closed():
            lacking = [came is None for came in given()]
        return BridgedPass(_number(outputs), behind, arrived, lacking, frame)


def _leaves(source: Tensor) -> list[Tensor]:
    return [source] if source.grad_fn is None else leaves(all_nodes([source.grad_fn]))


def _number(outputs: Sequence[Tensor]) -> float | None:
    first = outputs[0]
    return float(first.detach().sum().real) if isinstance(first, Tensor) and first.numel() else None


def _put_back(parameter: Tensor, before: Tensor) -> Callable[[], None]:
    def put_back() -> None:
        parameter.data.copy_(before)

    return put_back


def _elsewhere(tensor: Tensor, by: float) -> Tensor:
    return (tensor * by + (0.4 * _factors(tensor.shape, tensor.device)).to(tensor.dtype)).to(tensor.dtype)


def _factors(shape: Sequence[int], device: torch.device) -> Tensor:
    # Return numbers of this shape, from 0.5 to 2.5, that hardly ever repeat.
    count = torch.Size(shape).numel()
    return (1.5 + torch.cos(torch.arange(count, device=device, dtype=torch.float32) * 0.7)).reshape(shape)


def _real(tensor: Tensor) -> Tensor:
    return (tensor.real + tensor.imag if tensor.is_complex() else tensor).float()


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def _may_have_history(tensor: Tensor) -> bool:
    # ``requires_grad`` is not reliable inside a transform of torch.func.
    return tensor.requires_grad or is_wrapped(tensor)


def _is_differentiable(tensor: Tensor) -> bool:
    return (tensor.is_floating_point() or tensor.is_complex()) and tensor.layout is torch.strided
