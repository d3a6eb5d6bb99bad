"""Finds useless gradients of a single call, by making the call as a script would and running backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.parameter import is_lazy

from backprobe.backends.facts import Options
from backprobe.backends.held_values import held_by
from backprobe.backends.pure_calls import contents
from backprobe.backends.torch.tape import TorchTape
from backprobe.backends.torch.tensors import is_floating
from backprobe.backends.useless import RepeatedCall
from backprobe.record.containers import leaves, refilled
from backprobe.record.names import quote
from backprobe.source.user_code import innermost


class Writable(torch.autograd.Function):
    """Returns a copy of a leaf to which the program may write in place, because PyTorch does not allow writing to a
    leaf.
    """

    @staticmethod
    def forward(ctx: Any, leaf: Tensor) -> Tensor:
        return leaf.detach().clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]  # autograd calls it with one gradient
        return gradient


class CallLeaves:
    """The differentiated leaves of one call and their names. The leaves are created as a script would create them."""

    def __init__(self, call: RepeatedCall) -> None:
        self.call, self.names = call, dict[int, str]()
        self.tensors: list[Tensor] = []
        self.is_model = isinstance(call.target, Module)
        given = [leaf for _, leaf in leaves((tuple(call.args), dict(call.kwargs)))]
        self.has_flags = self.is_model or any(isinstance(leaf, Tensor) and leaf.requires_grad for leaf in given)
        for name, parameter in _parameters(call.target):
            self._add(parameter, name)

    def arguments(self) -> dict[str, Any]:
        """Return new arguments. Each number or floating-point tensor that is differentiated becomes a new leaf, and the
        call gets a copy of it to which it may write.
        """
        return {name: self._argument(name, one) for name, one in self.call.arguments().items()}

    def of(self, leaf: Tensor) -> str:
        """Return the program's name for a leaf, or a text with its shape if it has none."""
        return self.names.get(id(leaf), f"a parameter of shape {tuple(leaf.shape)}")

    def _argument(self, name: str, value: Any) -> Any:
        paths = iter(leaves(value))
        return refilled(value, lambda leaf: self._leaf(f"{name}{next(paths)[0]}", name, leaf))

    def _leaf(self, path: str, name: str, leaf: Any) -> Any:
        if isinstance(leaf, numpy.ndarray | numpy.generic) and leaf.dtype.kind in "iubfc" and not self.is_model:
            leaf = torch.tensor(numpy.asarray(leaf))
        is_number = isinstance(leaf, float | complex) and not self.is_model
        if not (is_number or (isinstance(leaf, Tensor) and is_floating(leaf))):
            return leaf
        wrt = self.call.wrt
        is_asked = name in wrt if wrt is not None else getattr(leaf, "requires_grad", False) or not self.has_flags
        made = torch.tensor(leaf) if is_number else leaf.detach().clone()
        if not is_asked:
            return leaf if is_number else made
        return Writable.apply(self._add(made.requires_grad_(), path))  # type: ignore[no-untyped-call]  # it has no type

    def _add(self, leaf: Tensor, name: str) -> Tensor:
        if leaf.requires_grad and not is_lazy(leaf) and id(leaf) not in self.names:
            self.names[id(leaf)] = name
            self.tensors.append(leaf)
        return leaf


def _parameters(target: Any) -> Iterator[tuple[str, Tensor]]:
    # Yield the parameters of a model, or of the models that a function uses, and other leaves that the function uses,
    # named as in a recording.
    if isinstance(target, Module):
        yield from ((".".join(map(quote, path.split("."))), one) for path, one in target.named_parameters())
        return
    for name, value in _variables(target):
        if isinstance(value, Module):
            yield from ((f"{name}.{path}", one) for path, one in value.named_parameters())
        elif isinstance(value, Tensor) and value.is_leaf:
            yield name, value
    for one in held_by(target):
        if isinstance(one, Module):
            yield from one.named_parameters()


def _variables(target: Any) -> Iterator[tuple[str, Any]]:
    # Yield the values that a function closes over or refers to by name.
    function = innermost(target)
    if function is None:
        return
    yield from zip(function.__code__.co_freevars, map(contents, function.__closure__ or ()), strict=True)
    known = function.__globals__
    yield from ((name, known[name]) for name in function.__code__.co_names if name in known)


def run_backward(call: RepeatedCall, leaves: CallLeaves, begins: Callable[[Tensor], None]) -> None:
    """Make the call, and run backward from its output. ``begins`` is called with the output before backward."""
    with torch.enable_grad():
        output, cotangent = call.output(call.make(leaves.arguments()), TorchTape(Options()))
        begins(output)
        torch.autograd.backward(output, cotangent)
