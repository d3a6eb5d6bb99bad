"""Makes the arguments of a function differentiable. Inside the caller's containers, leaves are replaced for a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy
import torch
from torch import Tensor

from backprobe.backends.torch.tensors import is_floating
from backprobe.errors import NothingToDifferentiate
from backprobe.record.containers import exchanged, leaves


class _Alias(torch.autograd.Function):
    # Returns a tensor with the same memory and version counter, but with a history of its own. The probed function may
    # write to this tensor.
    #
    # PyTorch forbids writing to a leaf that requires a gradient, and to a view of such a leaf. The output of a Function
    # is neither. The derivative of this Function is the identity.
    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        return tensor.detach()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]  # autograd calls it with one gradient
        return gradient


def lift(arguments: Mapping[str, Any], wrt: frozenset[str] | None, undo: list[Callable[[], None]]) -> Mapping[str, Any]:
    """Return the arguments by parameter name; those that are differentiated now require a gradient.

    Containers stay the caller's own objects, and their leaves are replaced inside them. Functions that restore these
    leaves are added to ``undo``.

    If ``wrt`` is None and an argument already requires a gradient, the program's flags are kept. Otherwise every
    floating-point argument is differentiated, including Python and NumPy numbers. If ``wrt`` is given, only the
    arguments with these names are differentiated. Python integers are differentiated only if none of the arguments to
    differentiate is floating-point. Raises NothingToDifferentiate for an inference tensor.
    """
    every = [leaf for value in arguments.values() for _, leaf in leaves(value)]
    if wrt is None and any(isinstance(leaf, Tensor) and leaf.requires_grad for leaf in every):
        return arguments
    chosen = every if wrt is None else [leaf for name in wrt for _, leaf in leaves(arguments.get(name))]
    integers_too = not any(_is_floating(leaf) for leaf in chosen)
    made: dict[int, Tensor] = {}

    def differentiated(leaf: Any) -> Any:
        if isinstance(leaf, numpy.ndarray) and leaf.dtype.kind in "iub":
            return _on_memory(leaf)
        if not (_is_floating(leaf) or (integers_too and type(leaf) is int)):
            return leaf
        if isinstance(leaf, Tensor) and leaf.requires_grad:
            return leaf
        if isinstance(leaf, Tensor) or not isinstance(leaf, int | float | complex):
            if id(leaf) not in made:
                made[id(leaf)] = alias(leaf)
            return made[id(leaf)]
        return alias(leaf)  # two arguments may be the same Python object if they are equal numbers

    def held(leaf: Any) -> Any:
        return leaf.detach() if isinstance(leaf, Tensor) and leaf.requires_grad else leaf

    return {
        name: exchanged(value, differentiated if wrt is None or name in wrt else held, undo)
        for name, value in arguments.items()
    }


def _is_floating(leaf: Any) -> bool:
    if isinstance(leaf, Tensor):
        return is_floating(leaf)
    if isinstance(leaf, numpy.ndarray | numpy.generic):
        return leaf.dtype.kind in "fc"
    return isinstance(leaf, float | complex)


def alias(leaf: Any) -> Tensor:
    """Return a tensor that requires a gradient and to which the program may write. It shares the memory of a tensor,
    and that of an array if PyTorch can use it. Raises NothingToDifferentiate for an inference tensor.
    """
    if isinstance(leaf, Tensor):
        if leaf.is_inference():
            raise NothingToDifferentiate(
                "an inference tensor cannot be differentiated",
                found="an argument made under torch.inference_mode()",
                why="PyTorch keeps no version of it, and lets it require no gradient",
                next="x.clone()",
            )
        plain = leaf.detach()
        if plain.is_nested and plain.layout is torch.strided:
            return _alias_of_nested(plain)
    elif isinstance(leaf, numpy.ndarray | numpy.generic):
        plain = _on_memory(numpy.asarray(leaf))
    else:
        dtype = torch.get_default_dtype()
        plain = torch.tensor(leaf, dtype=dtype.to_complex() if isinstance(leaf, complex) else dtype)
    with torch.enable_grad():
        return _Alias.apply(plain.requires_grad_())  # type: ignore[no-any-return, no-untyped-call]  # Function.apply has no type


def _alias_of_nested(plain: Tensor) -> Tensor:
    # Return a writable tensor with the memory of a nested tensor. A Function cannot read the sizes of a nested tensor,
    # so a copy is made that has a history, and the copy's data is replaced by the original.
    with torch.enable_grad():
        copy = plain.detach().requires_grad_().clone()
    copy.data = plain
    return copy


def _on_memory(array: Any) -> Tensor:
    # Return a tensor on the array's own memory, so that writes reach the caller. If PyTorch cannot use this memory, use
    # a copy.
    usable = array.flags.writeable and array.dtype.isnative and all(step >= 0 for step in array.strides)
    return torch.from_numpy(array if usable else numpy.array(array, dtype=array.dtype.newbyteorder("=")))
