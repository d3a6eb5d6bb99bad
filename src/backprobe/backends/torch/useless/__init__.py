"""Finds useless gradients in a PyTorch program, from shapes, numbers and the graph."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from backprobe.backends.patching import listening
from backprobe.backends.torch import own_modes
from backprobe.backends.torch.backward_call import BackwardCall
from backprobe.backends.torch.private import (
    DispatchMode,
    current_pass,
    dispatch_mode_at,
    dispatch_modes,
    pop_mode,
    push_mode,
)
from backprobe.backends.torch.trained_names import TrainedNames
from backprobe.backends.torch.useless.calls import CallLeaves, run_backward
from backprobe.backends.torch.useless.kept_numbers import source_of
from backprobe.backends.torch.useless.operations import Operations
from backprobe.backends.torch.useless.passes import Passes
from backprobe.backends.torch.useless.scaled_steps import ScaledSteps
from backprobe.backends.torch.useless.steps import TorchSteps
from backprobe.backends.useless import (
    CANCELS,
    STALE,
    TWICE,
    UNDONE,
    UNNORMALISED,
    UNUSED_UPDATE,
    RepeatedCall,
    UselessGradients,
    in_one_call,
    of_changes,
    of_operation,
    outer_product,
)
from backprobe.backends.useless.dropped import notes_on_dropped
from backprobe.backends.useless.ways import notes_on_leaves
from backprobe.record.reasons import Note
from backprobe.record.source import Source


class TorchUselessGradients(UselessGradients):
    """Finds useless gradients in the iterations of a PyTorch program."""

    is_on = False  # is the dispatch mode ``operations`` entered?

    def __init__(self) -> None:
        self._begin()
        self.handles: list[Any] = []
        self.listening = ExitStack()

    def _begin(self) -> None:
        self.operations, self.steps, self.scaled = Operations(), TorchSteps(), ScaledSteps()
        self.passes = Passes(self.operations.is_constant_in)

    def listen(self) -> None:
        if dispatch_modes() == 0:  # otherwise a mode of the program would observe backprobe's operations
            mode: Any = self.operations  # DispatchMode has no types
            mode.__enter__()
            own_modes.count += 1
            self.is_on = True
        self.scaled.listen()
        self.listening.enter_context(listening(Tensor, "tolist", self.operations.lists))
        self.handles = [
            register_optimizer_step_pre_hook(self.scaled.steps),
            *self.steps.listen(),
            register_optimizer_step_pre_hook(self._pause),
            register_optimizer_step_post_hook(self._go_on),
        ]

    def _pause(self, *_: Any) -> None:
        self.operations.is_paused = True

    def _go_on(self, optimizer: Any, *_: Any) -> None:
        self.operations.stepped(optimizer)
        self.operations.is_paused = self.operations.failed is not None

    def stop(self) -> None:
        try:
            self.scaled.stop()
        finally:  # an interrupt there must leave no mode behind
            self.listening.close()
            for handle in self.handles:
                handle.remove()
            self.handles.clear()
            if self.is_on:
                _take_off(self.operations)
                own_modes.count -= 1
                self.is_on = False
            self._begin()

    def of_call(self, call: RepeatedCall) -> Sequence[Note]:
        """Make this call once or twice, and return notes on its useless gradients."""
        found: Sequence[Note] = ()
        self.operations.keeps_pointwise = True
        try:
            self.listen()
            for _ in range(2):  # a large graph may have to be examined in a second run
                leaves = CallLeaves(call)
                run_backward(
                    call, leaves, lambda output: self.passes.begins([node for node in [output.grad_fn] if node])
                )
                is_enough = self.passes.are_whole
                found = self.found(leaves.tensors, leaves)
                if is_enough:
                    break
        finally:
            self.stop()
        return [in_one_call(note) for note in found]

    def begins(self, call: BackwardCall) -> None:
        """Called when the program is about to run ``backward()`` or ``autograd.grad``."""
        if not (call.is_nested or call.is_batched or call.is_transformed) and current_pass() < 0:
            self.passes.begins(call.nodes)
            self.scaled.begins(call)
            self.operations.begins(call.nodes, self.passes.passes[-1].leaves.values())

    def found(self, trained: Collection[Tensor], names: TrainedNames | CallLeaves) -> Sequence[Note]:
        """End the iteration, and return the notes on it. ``trained`` are the parameters that should be trained."""
        numbers = self.passes.numbers
        found = [
            *self._of_operations(numbers),
            *self._of_parameters(trained, names),
            *self.steps.notes(),
            *self.scaled.notes(),
            *self._of_changes(names),
        ]
        self.operations.begin()
        return found

    def _of_operations(self, numbers: Collection[int]) -> Iterator[Note]:
        # Yield notes on operations that the loss depends on, and on results that were dropped.
        seen, line = self.operations, self.operations.line
        for one in seen.shapes.found:
            if one.number in numbers and one.is_accident:
                yield outer_product(one.shapes, one.result, line(one.number))
        for number, applied in seen.distributions.twice.items():
            if number in numbers:
                yield of_operation(TWICE, line(number), applied=applied)
        for number in seen.distributions.unnormalised:
            if number in numbers:
                yield of_operation(UNNORMALISED, line(number))
        yield from notes_on_dropped(seen.dropped)

    def _of_parameters(self, trained: Collection[Tensor], names: TrainedNames | CallLeaves) -> Iterator[Note]:
        endings, line = self.passes.found(), self.operations.line
        constant = self.operations.is_constant
        leaves = [
            (
                one,
                [
                    replace(end, is_constant=end.is_constant and (end.code == CANCELS or constant(end.order)))
                    for end in endings.get(id(one), ())
                ],
            )
            for one in trained
        ]
        return notes_on_leaves(
            leaves,
            self.passes.is_zero,
            names.of,
            lambda end: end.place or line(end.order),
            self.passes.leaves.iterations,
        )

    def _of_changes(self, names: TrainedNames | CallLeaves) -> Iterator[Note]:
        numbers, line = self.operations.numbers, self.operations.line
        stale = [(one.leaf, line(one.number), one.is_cast) for one in numbers.stale.values()]
        for at, is_cast, leaves in _by_line((at, is_cast, leaf) for leaf, at, is_cast in stale):
            cast = {"cast": "yes"} if is_cast else {}
            yield of_changes(STALE, sorted(map(names.of, leaves)), at, **cast)
        for code, found in ((UNDONE, numbers.undone.values()), (UNUSED_UPDATE, numbers.unused_updates())):
            for at, _, leaves in _by_line((source_of(at), False, leaf) for leaf, at in found):
                yield of_changes(code, sorted(map(names.of, leaves)), at)


def _by_line(
    found: Iterable[tuple[Source | None, bool, Tensor]],
) -> list[tuple[Source | None, bool, list[Tensor]]]:
    lines: dict[tuple[Source | None, bool], list[Tensor]] = {}
    for at, which, leaf in found:
        lines.setdefault((at, which), []).append(leaf)
    return [(at, which, leaves) for (at, which), leaves in lines.items()]


def _take_off(mode: DispatchMode) -> None:
    # Remove the mode, even if the program has entered other modes on top of it and not left them.
    above = []
    while dispatch_mode_at(dispatch_modes() - 1) is not mode:
        above.append(pop_mode())
    mode.__exit__(None, None, None)
    for one in reversed(above):
        push_mode(one)
