"""Operations that make NaN or Inf of less, each as PyTorch's dispatcher runs it: also within functions of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from backprobe.backends.heard_births import MOST, HeardBirth, lines_above
from backprobe.backends.torch.backward_passes import current_pass
from backprobe.backends.torch.nonfinite import BADNESS, FINITE, Judged

AGAIN = 2
"""How often an operation runs once more: memory that was never written, as by ``empty``, holds other numbers then."""

Given = Sequence[tuple[str, Tensor]]


class HearingBirths(TorchDispatchMode):
    """Tells a function of each of them."""

    def __init__(self, heard: Callable[[HeardBirth], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # PyTorch has no type for it
        self.heard = heard
        with self:
            torch.zeros(1) + 1  # PyTorch imports what modes need with the first operation in one

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # PyTorch would import its compiler, to keep it out of here. What is heard runs uncompiled.
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        words = kwargs or {}
        given = [*_tensors(func, args, words)]
        if func._schema.is_mutable:
            given = [(name, one.detach().clone()) for name, one in given]
        result = func(*args, **words)
        made = result[0] if isinstance(result, tuple | list) and result else result
        is_worse = _is_plain(made) and _badness(made) > max(map(_badness, (one for _, one in given)), default=0)
        if is_worse and (func._schema.is_mutable or _is_made_again(func, args, words, made)):
            self.heard(_birth(func, given, made))
        return result


def _tensors(func: Any, args: Sequence[Any], words: Mapping[str, Any]) -> Iterator[tuple[str, Tensor]]:
    # What an operation is given that has numbers, by the names of its schema.
    names = [one.name for one in func._schema.arguments]
    for name, value in (*zip(names, args, strict=False), *words.items()):
        for one in value if isinstance(value, list | tuple) else (value,):
            if isinstance(one, Tensor) and _is_plain(one, "fiu"):
                yield name, one


def _is_plain(value: Any, kinds: str = "f") -> bool:
    if type(value) not in (Tensor, torch.nn.Parameter) or value.layout is not torch.strided or value.numel() > MOST:
        return False
    return not value.is_meta and (value.is_floating_point() or ("i" in kinds and value.dtype not in (torch.bool,)))


def _badness(tensor: Tensor) -> int:
    if not tensor.is_floating_point():
        return BADNESS[FINITE]
    judged = Judged()
    at = judged.add(tensor.detach())
    return BADNESS[judged.kinds()[at]]


def _is_made_again(func: Any, args: Sequence[Any], words: Mapping[str, Any], made: Tensor) -> bool:
    # Does it give NaN and Inf at these places whenever it runs? All results are held, so that each has its own memory:
    # that of finite numbers which have just been let go.
    if torch.Tag.nondeterministic_seeded in func.tags:
        return True  # it would draw other numbers
    kept = []
    for _ in range(AGAIN):
        torch.ones_like(made)
        other = func(*args, **words)
        kept.append(other[0] if isinstance(other, tuple | list) else other)
    return all(bool((one.isfinite() == made.isfinite()).all()) for one in kept)


def _birth(func: Any, given: Given, made: Tensor) -> HeardBirth:
    lines = lines_above(sys._getframe(2))
    return HeardBirth(func._schema.name.rpartition("::")[2], [(name, _numbers(one)) for name, one in given],
                      _numbers(made), lines, current_pass() != -1)  # fmt: skip


def _numbers(tensor: Tensor) -> Any:
    held = tensor.detach().cpu()
    return numpy.array((held.float() if held.dtype is torch.bfloat16 else held).numpy())
