"""Reports operations that make NaN from operands without NaN, or Inf from finite operands, as PyTorch's dispatcher runs
them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy
import torch
from torch import Tensor
from torch.autograd import Function
from torch.utils import deterministic

from backprobe.backends.heard_births import MOST, HeardBirth, lines_above
from backprobe.backends.torch.nonfinite import BADNESS, FINITE, FinitenessLook
from backprobe.backends.torch.private import DispatchMode, current_node, current_pass, tree_map

Given = Sequence[tuple[str, Tensor]]
FRAME = re.compile(r'^  File "(.*)", line (\d+), in ', re.MULTILINE)


class HearingBirths(DispatchMode):
    """Calls ``heard`` for each operation that makes NaN although no operand has NaN, or Inf from finite operands.

    Only ordinary tensors of at most ``MOST`` elements are examined: the operands, and the first result. A result in
    memory that the operation did not write does not count.
    """

    supports_higher_order_operators = True  # without this, PyTorch raises an error at ``torch.cond`` and the like

    def __init__(self, heard: Callable[[HeardBirth], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # PyTorch has no type for it
        self.heard = heard
        with self:
            torch.zeros(1) + 1  # PyTorch imports modules for modes when the first operation runs in one

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # If this were True, PyTorch would import its compiler only to exclude this mode. Nothing is compiled here.
        return False

    @classmethod
    def is_infra_mode(cls) -> bool:
        """May PyTorch's compiler ignore this mode? It refuses to compile ``torch.cond`` and the like under another."""
        return True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        words = kwargs or {}
        if getattr(func, "_schema", None) is None:
            return func(*args, **words)  # a higher-order operator
        given = [*_tensors(func, args, words)]
        if func._schema.is_mutable:
            given = [(name, one.detach().clone()) for name, one in given]
        result = func(*args, **words)
        made = _first(result)
        is_worse = _is_plain(made) and _badness(made) > max(map(_badness, (one for _, one in given)), default=0)
        if is_worse and (func._schema.is_mutable or _unwarned(partial(_is_written, func, args, words, made))):
            self.heard(_birth(func, given, made))
        return result


@contextmanager
def hearing_births(heard: Callable[[HeardBirth], None]) -> Iterator[None]:
    """Inside this context ``heard`` is called for the operations that ``HearingBirths`` describes. PyTorch's anomaly
    mode is enabled, because it records the lines of forward.
    """
    before = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
    torch.set_anomaly_enabled(True, False)
    try:
        with HearingBirths(heard):
            yield
    finally:
        torch.set_anomaly_enabled(*before)


class _Within(Function):
    # Runs a function inside a function of PyTorch. Warnings from C++ are then issued when this function ends, and not
    # when the function that the program called ends.
    @staticmethod
    def forward(ctx: Any, *given: Any) -> Any:
        return given[0]()


def _unwarned(run: Callable[[], bool]) -> bool:
    with catch_warnings():
        simplefilter("ignore")
        within: Any = _Within  # its apply() has no type
        return bool(within.apply(run))


def _tensors(func: Any, args: Sequence[Any], words: Mapping[str, Any]) -> Iterator[tuple[str, Tensor]]:
    # Yield the operands of an operation that are examined, by the names in its schema.
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
    judged = FinitenessLook()
    at = judged.add(tensor.detach())
    return BADNESS[judged.kinds()[at]]


def _is_written(func: Any, args: Sequence[Any], words: Mapping[str, Any], made: Tensor) -> bool:
    # Did the operation compute these nonfinite numbers? An operation such as ``empty`` may return memory as it was.
    # Most other operations can be run again with given output memory.
    if torch.Tag.nondeterministic_seeded in func.tags:
        return True  # a repetition would draw other random numbers
    names = (f"{func._overloadname}_out", "out")
    into = next((getattr(func.overloadpacket, name) for name in names if hasattr(func.overloadpacket, name)), None)
    # a generated overload with ``out`` calls the operation without it and copies the result, whether written or not
    if into is None or torch.Tag.generated in into.tags:
        return _is_of_operands(func, args, words, made)
    taken = {one.name for one in into._schema.arguments}
    place = torch.ones_like(made)
    try:
        into(*args, **{name: word for name, word in words.items() if name in taken}, out=place)
    except Exception:  # noqa: BLE001  # not every operation takes the arguments of the other
        return _is_of_operands(func, args, words, made)
    return _is_alike(place, made) if place.shape == made.shape else _is_of_operands(func, args, words, made)


def _is_of_operands(func: Any, args: Sequence[Any], words: Mapping[str, Any], made: Tensor) -> bool:
    # Does the result depend on the operands? PyTorch can fill uninitialized memory with NaN. If an operation does not
    # write its result, the result is then NaN everywhere for any operands.
    with _unwritten_memory_is_nan():
        if not _is_alike(_first(func(*args, **words)), made):
            return False
        if not made.isnan().all():
            return True
        moved = tree_map(_as_one, (args, dict(words)))
        try:
            return bool(_first(func(*moved[0], **moved[1])).isfinite().any())
        except Exception:  # noqa: BLE001  # not every operation takes ones, and memory that is left as it was raises nothing
            return True


def _as_one(given: Any) -> Any:
    if isinstance(given, float):
        return 1.0
    return given.new_ones(given.shape) if _is_plain(given) else given


@contextmanager
def _unwritten_memory_is_nan() -> Iterator[None]:
    memory: Any = deterministic  # ``Any``, because PyTorch adds the attribute as a property
    before = torch.get_deterministic_debug_mode(), memory.fill_uninitialized_memory
    try:
        torch.set_deterministic_debug_mode("warn")
        memory.fill_uninitialized_memory = True
        yield
    finally:
        torch.set_deterministic_debug_mode(before[0])
        memory.fill_uninitialized_memory = before[1]


def _is_alike(one: Tensor, other: Tensor) -> bool:
    return bool((one.isfinite() == other.isfinite()).all())


def _first(result: Any) -> Any:
    return result[0] if isinstance(result, tuple | list) and result else result


def _birth(func: Any, given: Given, made: Tensor) -> HeardBirth:
    lines, is_backward = lines_above(sys._getframe(2)), current_pass() != -1
    return HeardBirth(
        func._schema.name.rpartition("::")[2],
        [(name, _numbers(one)) for name, one in given],
        _numbers(made),
        lines,
        is_backward,
        _forward_lines() if is_backward else (),
    )


def _forward_lines() -> list[tuple[str, int]]:
    # Return the lines that called the operation whose derivative is running, as recorded by the anomaly mode.
    node = current_node()
    metadata: Any = {} if node is None else node.metadata
    written = "".join(metadata.get("traceback_", ()))
    return [(file, int(line)) for file, line in reversed(FRAME.findall(written))]


def _numbers(tensor: Tensor) -> Any:
    held = tensor.detach().cpu()
    return numpy.array((held.float() if held.dtype is torch.bfloat16 else held).numpy())
