"""Observes the operations that PyTorch dispatches: notes the line that made each node of the graph, and examines shapes
and numbers of operands that the program may not have intended.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import Node
from torch.optim import Optimizer

from backprobe.backends.call_sites import Instruction
from backprobe.backends.result_uses import dropping
from backprobe.backends.torch.private import DispatchMode, current_pass, innermost_transform
from backprobe.backends.torch.tensors import is_plain
from backprobe.backends.torch.unaccounted_nodes import now
from backprobe.backends.torch.useless.applied import Applied
from backprobe.backends.torch.useless.distributions import Distributions
from backprobe.backends.torch.useless.kept_numbers import KeptNumbers
from backprobe.backends.torch.useless.scaled_steps import at_end
from backprobe.backends.torch.useless.shapes import Shapes
from backprobe.backends.user_lines import source_at, users_frames
from backprobe.record.source import Source

MOST = 200_000
"""If lines are stored for more nodes than this, they are forgotten when an iteration begins."""


class Operations(DispatchMode):  # type: ignore[no-untyped-call]  # it has no types
    """Examines operations when they run, without changing what they compute. Operations inside backward passes, steps
    of optimizers and transforms are not examined.
    """

    supports_higher_order_operators = True  # without this, PyTorch raises an error at ``torch.cond`` and the like

    def __init__(self) -> None:
        made: Any = super().__init__  # ``__init__`` has no types
        made()
        self.lines: dict[int, tuple[str, int]] = {}  # the line that made a node, by the node's number
        self.pointwise: dict[Any, bool] = {}
        self.calls: dict[int, Applied] = {}  # by node number; pointwise ones only with ``keeps_pointwise``
        self.keeps_pointwise = False
        self.is_paused = False
        self.failed: Exception | None = None
        self.numbers = KeptNumbers()
        self.begin()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # If this were True, PyTorch would import its compiler, which takes a second or two, although nothing is
        # compiled here.
        return False

    @classmethod
    def is_infra_mode(cls) -> bool:
        """May PyTorch's compiler ignore this mode? It refuses to compile ``torch.cond`` and the like under another."""
        return True

    def begin(self) -> None:
        """Begin an iteration."""
        self.shapes, self.distributions = Shapes(), Distributions()
        self.dropped: dict[Instruction, None] = {}  # instructions that discard the result of an operation
        self.calls.clear()
        if len(self.lines) > MOST:
            self.lines.clear()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        try:
            result = function(*args, **kwargs)
        except RuntimeError:
            if not any(map(_is_number, args)):
                raise
            result = function(*_with_tensors(function, args), **kwargs)
        if getattr(function, "_schema", None) is None:
            return result  # of a higher-order operator
        if self.is_paused or current_pass() >= 0 or innermost_transform() is not None:
            return result
        try:
            given = [*_tensors(args), *_tensors(kwargs.values())]
            if self.numbers.held and all(map(is_plain, given)):
                self.numbers.look(function, given, result, sys._getframe(1))
            if torch.is_grad_enabled():
                self._look(function, args, kwargs, given, result)
        except Exception as error:  # noqa: BLE001  # the program continues, and nothing more of it is examined
            self.failed, self.is_paused = error, True
        return result

    def _look(
        self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], given: Sequence[Tensor], result: Any
    ) -> None:
        number, calling = now() - 1, sys._getframe(2)
        if number not in self.lines:
            frame = next(users_frames(calling), None)
            if frame is not None:
                self.lines[number] = frame.f_code.co_filename, frame.f_lineno
        made = result[0] if isinstance(result, tuple) and result else result
        if not is_plain(made):
            return
        if not all(map(is_plain, given)):
            return
        self.numbers.node(number, given, made, calling)
        is_pointwise = self.pointwise.get(function)
        if is_pointwise is None:
            is_pointwise = self.pointwise[function] = torch.Tag.pointwise in function.tags
        if number not in self.calls and kwargs == {} and (self.keeps_pointwise or not is_pointwise):
            self.calls[number] = Applied(function, args, given, made)
        if calling.f_lasti in dropping(calling.f_code) and _makes_another(function, given, made):
            self.dropped[calling.f_code, calling.f_lasti] = None
        self.shapes.look(is_pointwise, given, made, number)
        if not is_pointwise:
            self.distributions.look(given, made, number)

    def begins(self, roots: Sequence[Node], leaves: Iterable[Tensor]) -> None:
        """Called when a backward pass is about to start."""
        self._guarded(lambda: self.numbers.begins(roots, leaves))
        if roots:
            at_end(roots[0], self.numbers.ended)

    def stepped(self, optimizer: Optimizer) -> None:
        """Called when an optimizer has stepped."""
        self._guarded(lambda: self.numbers.stepped(optimizer))

    def lists(self, following: Callable[..., Any], *args: Any) -> Any:
        """Called in place of ``Tensor.tolist``, which runs no operation."""
        self._guarded(lambda: self.numbers.read(args[0]))
        return following(*args)

    def _guarded(self, look: Callable[[], None]) -> None:
        if self.failed is None:
            try:
                look()
            except Exception as error:  # noqa: BLE001  # the program continues, and nothing more of it is examined
                self.failed, self.is_paused = error, True

    def line(self, number: int) -> Source | None:
        """Return the line of the program that created a node, or None if it is not known."""
        known = self.lines.get(number)
        return None if known is None else source_at(*known)

    def is_constant(self, number: int) -> bool:
        """Does the operation of a node return the same result for any numbers, such as softmax of single elements?"""
        known = self.calls.get(number)
        with self._pausing():
            return known is not None and known.is_constant()

    def is_constant_in(self, number: int, nth: int, count: int) -> bool:
        """Does the operation of a node return the same result for any numbers in the nth of its ``count`` tensors?"""
        known = self.calls.get(number)
        with self._pausing():
            return known is not None and len(known.kinds) == count and known.is_constant_in(nth)

    @contextmanager
    def _pausing(self) -> Iterator[None]:
        was_paused, self.is_paused = self.is_paused, True
        try:
            yield
        finally:
            self.is_paused = was_paused


def _tensors(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from (one for one in value if isinstance(one, Tensor))


def _makes_another(function: Any, given: Sequence[Tensor], made: Tensor) -> bool:
    # Does the operation make a tensor with a history in new memory, without writing to other tensors?
    is_new = not function._schema.is_mutable and made.data_ptr() not in map(Tensor.data_ptr, given)
    return is_new and any(one.requires_grad for one in given)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float, bool, complex)


def _with_tensors(function: Any, args: Sequence[Any]) -> list[Any]:
    # Return the arguments. A number is replaced by a tensor where the operation takes only a tensor.
    #
    # PyTorch passes to a mode the number from which a tensor was made, but the operation may not accept this number.
    kinds = [one.type.kind() for one in function._schema.arguments]
    return [
        torch.tensor(value) if kind == "TensorType" and _is_number(value) else value
        for kind, value in zip(kinds, args, strict=False)
    ]
