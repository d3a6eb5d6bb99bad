"""Finds useless gradients in a TensorFlow program, from shapes, numbers and the operations that ran."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import tensorflow as tf

from backprobe.backends.temporarily import temporarily
from backprobe.backends.tensorflow.operation_log import OperationLog
from backprobe.backends.tensorflow.tensors import identity, is_eager, is_tensor
from backprobe.backends.tensorflow.useless.operations import Operations
from backprobe.backends.tensorflow.useless.passes import Passes
from backprobe.backends.tensorflow.useless.spots import Spot, source_of
from backprobe.backends.tensorflow.useless.steps import TensorflowSteps
from backprobe.backends.useless import TWICE, UNNORMALISED, UselessGradients, of_operation, outer_product
from backprobe.backends.useless.dropped import notes_on_dropped
from backprobe.backends.useless.ways import notes_on_leaves
from backprobe.record.reasons import Note


class TensorflowUselessGradients(UselessGradients):
    """Finds useless gradients in the iterations of a TensorFlow program."""

    def __init__(self) -> None:
        self.operations, self.passes, self.steps = Operations(), Passes(), TensorflowSteps()

    def listen(self) -> None:
        """Do nothing, because each block reports its operations: see ``observing``."""

    def stop(self) -> None:
        self.operations, self.passes, self.steps = Operations(), Passes(), TensorflowSteps()

    @property
    def is_undecided(self) -> bool:
        return self.steps.are_undecided

    @contextmanager
    def observing(self, log: OperationLog) -> Iterator[None]:
        """Inside this context one iteration runs, and its operations are logged."""
        self.operations.begin(log, self.passes.suspicious())
        with self.operations.listening():
            yield

    def backward(self) -> AbstractContextManager[None]:
        """Inside this context a tape of the program runs backward."""
        return temporarily(self.operations, is_backward=True)

    def gave(self, targets: Sequence[tuple[Any, Any]], sources: Any, gradients: Any) -> None:
        """Called when a tape of the program has returned gradients of these targets, each paired with its initial
        gradient.
        """
        operations = self.operations
        with operations.looking():
            begun = {identity(one): tf.ones_like(one) if seed is None else seed for one, seed in targets}
            pairs = [*zip(tf.nest.flatten(sources), tf.nest.flatten(gradients), strict=False)]
            self.passes.gave(begun, [(one, by) for one, by in pairs if is_tensor(one)], operations)

    def updating(self, pairs: Sequence[tuple[Any, Any]], optimizer: Any, rate: Any, update: Callable[[], Any]) -> Any:
        """Run ``update``, in which an optimizer updates Variables with these gradients, and record whether the
        Variables change.
        """
        sampled = []
        with self.operations.looking():
            sampled = self.steps.before([(one, by) for one, by in pairs if is_eager(by)])
        with temporarily(self.operations, is_off=True):
            updated = update()
        with self.operations.looking():
            self.steps.after(optimizer, sampled, rate)
        return updated

    def found(self, label: Callable[[Any], str]) -> Sequence[Note]:
        """Return the notes on the iteration, which has ended. ``label`` returns the name of a Variable."""
        loss = self.operations.log.before(self.passes.targets)
        return [*self._of_operations(loss), *self._of_parameters(label), *self.steps.notes()]

    def _of_operations(self, loss: Collection[int]) -> Iterator[Note]:
        # Yield notes on operations that the loss depends on. A note is not repeated for the same line, because a loop
        # repeats its operations.
        seen, said = self.operations, set[tuple[str, Spot | None]]()

        def is_new(number: int, code: str, place: Spot | None) -> bool:
            if number not in loss or (code, place) in said:
                return False
            said.add((code, place))
            return True

        for one in seen.shapes.found:
            if one.is_accident and is_new(one.number, "", one.place):
                yield outer_product(one.shapes, one.result, source_of(one.place))
        for number, (applied, place) in seen.distributions.twice.items():
            if is_new(number, TWICE, place):
                yield of_operation(TWICE, source_of(place), applied=applied)
        for number, (share, place) in seen.distributions.outside.items():
            if is_new(number, UNNORMALISED, place):
                yield of_operation(UNNORMALISED, source_of(place), share=f"{100 * share:.0f}")
        for place in dict.fromkeys(seen.picks.losses([*self.passes.targets])):
            yield of_operation(UNNORMALISED, source_of(place))
        yield from notes_on_dropped(seen.dropped.values())

    def _of_parameters(self, label: Callable[[Any], str]) -> Iterator[Note]:
        found, known = self.passes.found(), self.passes.leaves
        return notes_on_leaves(
            found.items(),
            known.is_zero,
            lambda one: label(known.known[one].held),
            lambda end: source_of(end.place),
            known.iterations,
        )
