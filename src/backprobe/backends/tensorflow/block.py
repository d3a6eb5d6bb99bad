"""The block form's tape: it is open as long as the block, and then differentiates what the block has computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

import tensorflow as tf

from backprobe.backends.capabilities import Differentiator
from backprobe.backends.facts import Around, Backward, Options, Ran
from backprobe.backends.patching import listening
from backprobe.backends.protocol import BlockTape
from backprobe.backends.tensorflow import layers, private
from backprobe.backends.tensorflow.backward import differentiate
from backprobe.backends.tensorflow.capture import Capture
from backprobe.backends.tensorflow.parameter_updates import Updates
from backprobe.backends.tensorflow.session_block import SessionBlock
from backprobe.backends.tensorflow.tape import ProbeTape, TensorflowTape
from backprobe.backends.tensorflow.tensors import (
    identity,
    in_session,
    is_differentiable,
    is_eager,
    is_tensor,
    variable_of,
)
from backprobe.backends.tensorflow.user_tapes import UserTapes
from backprobe.record.reasons import Reason


@dataclass(frozen=True)
class Given:
    """A backward pass of a tape of the program's own: from which tensors, its positions in the log, and whether all
    that it was asked for are gradients of Variables.
    """

    targets: Sequence[Any]
    positions: range
    is_of_variables: bool


SOURCES = ("sources", "source")  # what methods of tapes call that which they are asked for gradients of
NOT_RUN = Reason("block_not_over")


def _number(gradient: Any) -> int | None:
    """The number of what an optimizer is given: a tensor, the rows of a sparse one, or a Variable that sums several."""
    held = getattr(gradient, "values", gradient)
    return identity(held) if is_tensor(held) else None


class TensorflowBlockTape(TensorflowTape, BlockTape, Differentiator):
    """TensorFlow's ``BlockTape``, and the ``Differentiator`` of its blocks."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.recording = ExitStack()
        self.passes: Sequence[Backward] = ()
        self.why_not = NOT_RUN
        self.user_tapes = UserTapes(self.log, self.version)
        self.given: list[Given] = []
        self.updates = Updates(self.log) if options.nonfinite and options.updates else None

    def listen(self, began: Callable[[Sequence[Any], bool], Sequence[Any]]) -> None:
        self.graphs = SessionBlock(lambda outputs: began(outputs, True), lambda: self.counts)
        self.recording.enter_context(self.recorded())
        self.recording.enter_context(self.graphs.listening())
        for name, listener in {**self.user_tapes.listeners, **dict.fromkeys(private.GIVING, self._giving)}.items():
            self.recording.enter_context(listening(tf.GradientTape, name, listener))
        updating = private.updating_class()
        if updating is not None:
            self.recording.enter_context(listening(updating, private.UPDATING, self._updating))

    # the values of graphs, which have numbers in sessions

    def is_tensor(self, value: Any) -> bool:  # type: ignore[override]  # there it is a function
        return is_tensor(value) or in_session(value) is not None

    @property
    def partly_tensors(self) -> tuple[type, ...]:
        return *super().partly_tensors, private.SymbolicTensor

    def is_differentiated(self, value: Any) -> bool:
        if in_session(value) is not None:
            return self.is_floating(value)
        return super().is_differentiated(value)

    def version(self, tensor: Any) -> int:
        return 0 if in_session(tensor) is not None else super().version(tensor)

    def capture(self, tensor: Any, around: Callable[[], Around]) -> Capture:
        return super().capture(tensor, around) if in_session(tensor) is None else self.graphs.capture(tensor)

    # what the program does

    def _updating(self, following: Callable[..., Any], optimizer: Any, grads: Any, variables: Any, rate: Any) -> Any:
        """Of what an optimizer writes, part comes from Variables of its own, past which nothing is followed."""
        if not tf.executing_eagerly():
            return following(optimizer, grads, variables, rate)
        pairs = [(one, by) for one, by in zip(variables, grads, strict=False) if is_tensor(one) and by is not None]
        before, began = [] if self.updates is None else self.updates.before(pairs), self.log.length
        with self.log.optimizer([(identity(one), _number(by)) for one, by in pairs]):
            updated = following(optimizer, grads, variables, rate)
        if self.updates is not None:
            self.updates.after(before, began, optimizer, rate)
        return updated

    def _giving(self, following: Callable[..., Any], tape: Any, /, *args: Any, **kwargs: Any) -> Any:
        start, compiled = self.log.length + 1, dict(self.log.compiled)
        try:
            gradients = following(tape, *args, **kwargs)
            if tf.executing_eagerly():
                self.user_tapes.given(tape, args, kwargs, gradients)
            else:
                self.compiled_by = "keras" if layers.is_in_step_of_keras() else "the program"
        finally:
            self.log.derived.append(range(start, self.log.length + 1))
            targets = [] if isinstance(tape, ProbeTape) else self._differentiated(args, kwargs)
            sources = tf.nest.flatten([*args[1:2], *(kwargs[name] for name in SOURCES if name in kwargs)])
            of_variables = all(variable_of(one) is not None for one in sources)
            self.given.append(Given(targets, range(start, self.log.length + 1), of_variables))
            self.log.compiled = compiled
        is_whole = tf.executing_eagerly() and not self.user_tapes.is_recorded(tape, self.gradients)
        is_any = any(one is not None for one in tf.nest.flatten(gradients))
        if self.heard is not None and is_whole and is_any and not isinstance(tape, ProbeTape):
            self.heard(self.given[-1].targets, gradients)
        return gradients

    def _differentiated(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        targets = tf.nest.flatten([*args[:1], *(kwargs[name] for name in ("target",) if name in kwargs)])
        return [one for one in targets if is_eager(one) and is_differentiable(one) and self.log.carries(one)]

    def targets(self) -> Sequence[Any]:
        """A gradient penalty asks for a gradient that goes into a loss: then the loss alone is meant."""
        if self.graphs.runs:
            return self.graphs.outputs()
        found = {id(target): target for given in self.given for target in given.targets}
        positions = {self.log.position(number) for number in self.log.before(map(self.identity, found.values()))}
        inner = {id(target) for given in self.given if not positions.isdisjoint(given.positions)
                 for target in given.targets}  # fmt: skip
        return [target for known, target in found.items() if known not in inner]

    def targets_of(self, values: Sequence[Any]) -> Sequence[Any]:
        held, own = set(map(self.identity, values)), set(map(self.identity, self.targets()))
        if not held & own or self._is_penalized(self.identity(values[-1])):
            return ()
        asked = ([one for one in given.targets if self.identity(one) in own] for given in reversed(self.given))
        return next(targets for targets in asked if held.intersection(map(self.identity, targets)))

    def _is_penalized(self, number: int) -> bool:
        """Is a value computed from gradients that the program took, and more than how large those of Variables are?"""
        log = self.log
        others, own = log.back_to_gradients([number])
        positions = set(map(log.position, own))
        used = [given for given in self.given if not positions.isdisjoint(given.positions)]
        is_norm = all(given.is_of_variables for given in used) and not others
        return bool(used) and not is_norm

    def follow(self, tensors: Sequence[Any]) -> None:
        for tensor in tensors:
            if is_eager(tensor) and is_differentiable(tensor) and not self.log.carries(tensor):
                self.gradients.watch(tensor)
                self.log.root(tensor)

    def hides(self, code: CodeType) -> bool:
        """What is traced is computed later; what has a gradient of its own runs past the tape."""
        if private.builds_function():
            return True
        if code in private.CONVERTING:
            self.log.compiled["what autograph converts"] = None  # as tf.map_fn has it do
        return code in private.CONVERTING or code in private.BACKWARD or code.co_filename == private.OWN_GRADIENTS

    def unseen(self) -> Sequence[str]:
        return tuple(self.log.compiled)

    def not_followed(self) -> Sequence[Reason]:
        by_keras = layers.compiled_by_keras()
        graph = [Reason("graph_not_followed")] if self.log.builds_graph and not self.graphs.runs else []
        return [*graph, *self.graphs.notes(), *(
            Reason("keras_compiled" if name in by_keras else "compiled_not_followed", {"name": name})
            for name in self.unseen()
        )]  # fmt: skip

    def has_history(self, capture: Capture) -> bool:
        return capture.is_followed

    def made(self, tensor: Any) -> int:
        """A gradient that the program has taken itself is a value, and hardly what it is about."""
        position = self.log.made_at(self.identity(tensor))
        return 0 if any(position in given.positions for given in self.given) else position

    def differentiate(self, ran: Ran) -> None:
        self.recording.close()
        self.settle(ran.captures)
        passes = differentiate(self.gradients, self.log, self.taps, self.options, ran)
        self.passes = [self._asked(passed, ran.captures) for passed in passes]

    def _asked(self, passed: Backward, captures: Sequence[Capture]) -> Backward:
        """With the gradients that the program asked its own tapes for, and what became of its Variables."""
        own, graphs = self.user_tapes, self.graphs
        updates = () if self.updates is None else self.updates.found(captures)
        return replace(
            passed, none_given=(*own.none_given(captures), *graphs.none_given(captures)),
            training=own.training(captures) or graphs.training(captures), updates=updates,
        )  # fmt: skip

    def give_up(self, why: Reason) -> None:
        self.recording.close()
        self.why_not = why

    def unfinished(self, captures: Sequence[Capture]) -> Backward:
        return self._asked(super().unfinished(captures), captures)

    @property
    def progress(self) -> int:
        return int(bool(self.passes) or self.why_not is not NOT_RUN) + len(self.graphs.runs)

    def backward(self, captures: Sequence[Capture]) -> Sequence[Backward]:
        if self.graphs.runs:
            return self.graphs.passes(captures, self.unfinished(captures))
        return self.passes or [self.unfinished(captures)]

    def release(self) -> None:
        self.recording.close()
        self.passes = ()
        self.given.clear()
        self.updates = None
        super().release()
