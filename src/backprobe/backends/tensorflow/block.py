"""The block form's tape: it is open as long as the block, and then differentiates what the block has computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from types import CodeType
from typing import Any

import tensorflow as tf

from backprobe.backends.capabilities import Differentiator
from backprobe.backends.facts import Backward, Options, Outcome, Ran
from backprobe.backends.patching import listening
from backprobe.backends.protocol import BlockTape
from backprobe.backends.tensorflow import private
from backprobe.backends.tensorflow.backward import differentiate
from backprobe.backends.tensorflow.capture import Capture
from backprobe.backends.tensorflow.tape import TensorflowTape
from backprobe.backends.tensorflow.tensors import is_differentiable, is_eager
from backprobe.backends.tensorflow.user_tapes import UserTapes
from backprobe.record.entries import GradStatus
from backprobe.record.reasons import Reason

NOT_RUN = Reason("block_not_over")
GIVING = ("gradient", "jacobian", "batch_jacobian")
BACKWARD = tuple(getattr(tf.GradientTape, name).__code__ for name in GIVING)


class TensorflowBlockTape(TensorflowTape, BlockTape, Differentiator):
    """TensorFlow's ``BlockTape``, and the ``Differentiator`` of its blocks."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.recording = ExitStack()
        self.passed: Backward | None = None
        self.user_tapes = UserTapes(self.log, self.version)
        self.given: list[range] = []  # positions in the log at which a tape of the program's own ran backward

    def listen(self, began: Callable[[Sequence[Any]], Sequence[Any]]) -> None:
        self.recording.enter_context(self.recorded())
        for name, listener in {**self.user_tapes.listeners, **dict.fromkeys(GIVING, self._giving)}.items():
            self.recording.enter_context(listening(tf.GradientTape, name, listener))

    def _giving(self, following: Callable[..., Any], tape: Any, /, *args: Any, **kwargs: Any) -> Any:
        start, compiled = self.log.length + 1, dict(self.log.compiled)
        try:
            gradients = following(tape, *args, **kwargs)
            if tf.executing_eagerly():
                self.user_tapes.given(tape, args, kwargs, gradients)
            return gradients
        finally:
            self.given.append(range(start, self.log.length + 1))
            self.log.compiled = compiled

    def follow(self, tensors: Sequence[Any]) -> None:
        for tensor in tensors:
            if is_eager(tensor) and is_differentiable(tensor) and not self.log.carries(tensor):
                self.gradients.watch(tensor)
                self.log.root(tensor)

    def hides(self, code: CodeType) -> bool:
        """What is traced is computed later; what has a gradient of its own runs past the tape."""
        if not tf.executing_eagerly():
            return True
        if code is private.CONVERTING:
            self.log.compiled["what autograph converts"] = None  # as tf.map_fn has it do
        return code is private.CONVERTING or code in BACKWARD or code.co_filename == private.OWN_GRADIENTS

    def unseen(self) -> Sequence[str]:
        return tuple(self.log.compiled)

    def has_history(self, capture: Capture) -> bool:
        return capture.is_followed

    def made(self, tensor: Any) -> int:
        """A gradient that the program has taken itself is a value, and hardly what it is about."""
        position = self.log.made_at(self.identity(tensor))
        return 0 if any(position in given for given in self.given) else position

    def differentiate(self, ran: Ran) -> None:
        self.recording.close()
        self.settle(ran.captures)
        passed = differentiate(self.gradients, self.log, self.taps, self.options, ran)
        self.passed = replace(passed, none_given=self.user_tapes.none_given(ran.captures))

    @property
    def progress(self) -> int:
        return int(self.passed is not None)

    def backward(self, captures: Sequence[Capture]) -> Backward:
        return self.passed or Backward([_not_run(capture) for capture in captures], ())

    def release(self) -> None:
        self.recording.close()
        self.passed = None
        super().release()


def _not_run(capture: Capture) -> Outcome:
    status, why = (GradStatus.BACKWARD_NOT_RUN, NOT_RUN) if capture.is_followed else (capture.status, capture.why)
    return Outcome(status, why, capture.value)
