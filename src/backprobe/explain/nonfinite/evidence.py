"""All that is known about NaN and Inf in one record: how bad each value and gradient is, and what depends on what.

Sources and consumers are those of ``sources.py``, which follow what lines mention as well as the edges of the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from backprobe.backends.tensors import Arrays
from backprobe.explain.nonfinite.sources import Sources
from backprobe.explain.nonfinite.states import State, number, of_grad, of_value
from backprobe.explain.nonfinite.text import at_line, finding, say
from backprobe.findings.report import Finding
from backprobe.record.entries import GradStatus, Record
from backprobe.record.nonfinite import BackwardOp
from backprobe.tracing.finiteness import judged

LONG = 8  # names of a chain


class Evidence:
    """One record, with the states of its values and gradients by position, and sentences about them."""

    def __init__(self, record: Record, arrays: Arrays) -> None:
        tensors = [entry for entry in record.entries if entry.status is not GradStatus.NOT_TENSOR]
        self.was_asked = all(entry.finiteness is not None for entry in tensors) and bool(tensors)
        self.record = record if self.was_asked else judged(record, arrays)  # without nonfinite=True, only now
        self.arrays, self.entries = arrays, self.record.entries
        self.values: Sequence[State] = tuple(map(of_value, self.entries))
        self.grads: Sequence[State] = tuple(map(of_grad, self.entries))
        self.sources = Sources.of(self.record)
        self.direct, self.consumers, self.parts = self.sources.direct, self.sources.consumers, self.sources.parts

    @cached_property
    def bad_values(self) -> set[int]:
        return {at for at, state in enumerate(self.values) if state.is_bad}

    @cached_property
    def bad_outputs(self) -> list[int]:
        return [at for at in self.record.outputs if self.values[at].is_bad]

    @cached_property
    def bad_grads(self) -> list[int]:
        return [at for at, state in enumerate(self.grads) if state.is_bad]

    @cached_property
    def bad_backward(self) -> list[int]:
        """The entries with a bad gradient, or in whose backward one was made."""
        return [at for at, state in enumerate(self.grads) if state.is_bad or self.made(at)]

    def worst_value(self, places: Iterable[int]) -> State:
        return max((self.values[at] for at in places), default=State.FINITE)

    def worst_grad(self, places: Iterable[int]) -> State:
        return max((self.grads[at] for at in places), default=State.FINITE)

    def made(self, at: int) -> tuple[BackwardOp, ...]:
        """The operations in the backward of an entry that made NaN or Inf."""
        finiteness = self.entries[at].finiteness
        return () if finiteness is None else finiteness.made or ()

    @cached_property
    def sees_operations(self) -> bool:
        """Did the framework let each operation of backward be seen?"""
        return any(entry.finiteness is not None and entry.finiteness.made is not None for entry in self.entries)

    # when

    @cached_property
    def began(self) -> Sequence[int]:
        """For each entry the first output that it goes into: backward came to it from there."""
        outputs, found = set(self.record.outputs), [len(self.entries)] * len(self.entries)
        for at in range(len(found) - 1, -1, -1):
            following = [found[consumer] for consumer in self.consumers[at] if consumer > at]
            found[at] = at if at in outputs else min(following, default=len(found))
        return found

    @cached_property
    def first_bad(self) -> int:
        """The first entry, or output that backward ran from, where something was bad; the number of entries if none."""
        return min([*(self.began[at] for at in self.bad_backward), *self.bad_values], default=len(self.entries))

    # numbers

    def numbers(self, at: int) -> Any:
        """The numbers of a value; None where they are not held."""
        held = self.entries[at].held_value
        return self.arrays.numbers(held) if self.arrays.is_tensor(held) else number(held)

    def grad_numbers(self, at: int) -> Any:
        """The numbers of a gradient; None where there is none."""
        grad = self.entries[at].grad_or_none
        return None if grad is None else self.arrays.numbers(grad)

    def is_number(self, at: int) -> bool:
        return self.entries[at].status is GradStatus.NOT_TENSOR

    # words

    def finding(self, at: int, code: str, **said: Any) -> Finding:
        """A finding at an entry's line."""
        entry = self.entries[at]
        return finding(code, entry.name, entry.source, name=repr(entry.name), **said)

    def names(self, places: Iterable[int]) -> list[str]:
        return [self.entries[at].name for at in places]

    def chain(self, path: Sequence[int]) -> tuple[str, ...]:
        """The names along a path; the middle of a long one is left out, and one name is none."""
        names = self.names(path)
        shown = [*names[: LONG - 2], "…", names[-1]] if len(names) > LONG else names
        return tuple(shown) if len(shown) > 1 else ()

    def name(self, at: int) -> str:
        return repr(self.entries[at].name)

    def by_op(self, at: int) -> str:
        """The name of an entry, and the operation that computes it."""
        op = self.entries[at].op
        return say("by_op", name=self.name(at), op=op) if op else self.name(at)

    def at_line(self, at: int) -> str:
        """The place of its line in brackets, or nothing."""
        return at_line(self.entries[at].source)

    def line(self, at: int) -> str:
        """A value, and the line that computes it."""
        source, named = self.entries[at].source, self.name(at) + self.at_line(at)
        return say("no_line", at=named) if source is None else f"{named}: {source.text.strip()}"

    def value(self, at: int) -> str:
        """What a value is: its shape, and how many numbers of it are NaN or Inf, or between which it lies."""
        entry, value = self.entries[at], self.name(at)
        value = value if entry.shape is None else say("of_shape", value=value, shape=entry.shape)
        count = None if entry.finiteness is None else entry.finiteness.value
        if count is not None and not count.is_finite:
            return say("holds", value=value, count=count)
        if self.values[at] is State.UNKNOWN:
            return say("not_known", value=value)
        if self.is_number(at):
            return say("is_number", value=value, number=entry.held_value)
        numbers = self.numbers(at)
        if numbers is None or numbers.dtype.kind == "c" or not numbers.size:
            return say("is_finite", value=value)
        low, high = f"{numbers.min():.6g}", f"{numbers.max():.6g}"
        return say("is_number" if low == high else "is_between", value=value, number=low, low=low, high=high)

    def gradient(self, at: int) -> str:
        """How many numbers of a gradient are NaN or Inf."""
        finiteness = self.entries[at].finiteness
        count = None if finiteness is None else finiteness.grad
        return say("gradient", name=self.name(at), count=say("no_gradient") if count is None else count)
