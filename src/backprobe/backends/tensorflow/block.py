"""The tape of the block form. It is open during the block, and then differentiates the values that the block
computed.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from types import CodeType, FrameType
from typing import Any

import tensorflow as tf

from backprobe.backends.capabilities import Differentiator
from backprobe.backends.facts import Around, Backward, Options, OwnPass, Ran, Root
from backprobe.backends.patching import listening
from backprobe.backends.protocol import BlockTape
from backprobe.backends.tensorflow import layers, private, run_once
from backprobe.backends.tensorflow.backward import differentiate
from backprobe.backends.tensorflow.capture import Capture
from backprobe.backends.tensorflow.parameter_updates import Updates
from backprobe.backends.tensorflow.session_block import SessionBlock
from backprobe.backends.tensorflow.taken_passes import TakenPasses
from backprobe.backends.tensorflow.tape import ProbeTape, TensorflowTape
from backprobe.backends.tensorflow.tensors import (
    identity,
    in_session,
    is_differentiable,
    is_eager,
    is_tensor,
    numbers_of,
    variable_of,
)
from backprobe.backends.tensorflow.useless import TensorflowUselessGradients
from backprobe.backends.tensorflow.user_tapes import UserTapes
from backprobe.backends.user_lines import callers, users_frames, users_line
from backprobe.record.entries import GradStatus
from backprobe.record.reasons import Reason
from backprobe.source.user_code import package

NOT_RUN = Reason("block_not_over")
GET_ITER = dis.opmap["GET_ITER"]


def _number(gradient: Any) -> int | None:
    # Return the number of an optimizer's input: of a tensor, of the rows of a sparse tensor, or of a Variable that
    # accumulates gradients. Return None if it has no numbers.
    held = numbers_of(gradient)
    return identity(held) if is_tensor(held) else None


def _asks_itself(frame: FrameType | None) -> bool:
    # Was a tape called by TensorFlow itself, rather than by the program or one of its libraries?
    packages = (package(one.f_code.co_filename) for one in callers(frame))
    return next((one for one in packages if one != "backprobe"), None) == "tensorflow"


def own_pass(root: Root, captures: Sequence[Capture]) -> OwnPass | None:
    """Return the facts about a pass that the program ran itself; None if backprobe ran it."""
    if root.meant is None:
        return None
    numbers = [identity(one) for one in root.targets]
    places = {capture.number: at for at, capture in reversed(list(enumerate(captures)))}
    return OwnPass(tuple([places[number] for number in numbers if number in places]), root.meant)


class TensorflowBlockTape(TensorflowTape, BlockTape, Differentiator):
    """Implements ``BlockTape`` and ``Differentiator`` for TensorFlow."""

    def __init__(self, options: Options) -> None:
        super().__init__(replace(options, partials=False))  # partials would replace the program's tensors
        self.recording = ExitStack()
        self.loops: dict[str, None] = {}  # functions whose loops over datasets are usually compiled
        self.passes: Sequence[Backward] = ()
        self.why_not = NOT_RUN
        self.user_tapes = UserTapes(self.log, self.version, self._watched)
        self.graphs = SessionBlock(lambda: self.counts, options.partials)
        self.taken = TakenPasses(self.log)
        # by number: captures computed from no watched value; they may get a gradient if a tape of the program watches
        # them later
        self.frozen: dict[int, Capture] = {}
        self.updates = Updates(self.log) if options.nonfinite and options.updates else None
        self.noted: Sequence[Reason] | None = None  # the notes of ``useless`` at the end of the block

    useless: TensorflowUselessGradients | None = None

    def listen(self, began: Callable[[Sequence[Any], bool], Sequence[Any]]) -> None:
        self.graphs.began = lambda outputs: began(outputs, True)
        self.recording.enter_context(self.recorded())
        if self.useless is not None:
            self.recording.enter_context(self.useless.observing(self.log))
        self.recording.enter_context(self.graphs.listening())
        self.recording.enter_context(listening(tf.data.Dataset, "__iter__", self._iterating))
        giving: dict[str, Callable[..., Any]] = {name: partial(self._giving, name) for name in private.GIVING}
        for name, listener in {**self.user_tapes.listeners, **giving}.items():
            self.recording.enter_context(listening(tf.GradientTape, name, listener))
        updating = private.updating_class()
        if updating is not None:
            self.recording.enter_context(listening(updating, private.UPDATING, self._updating))

    def _iterating(self, following: Callable[..., Any], dataset: Any) -> Any:
        # Record a ``for`` loop over a dataset that TensorFlow would compile if the ``tf.function`` were not run
        # eagerly.
        frame = next(users_frames(sys._getframe(1)), None)
        is_loop = frame is not None and frame.f_code.co_code[frame.f_lasti] == GET_ITER
        if frame is not None and is_loop and any(one.f_code in private.RUN_EAGERLY for one in callers(frame)):
            self.loops[frame.f_code.co_name] = None
        return following(dataset)

    # Methods for values of session graphs. They have numbers only inside sessions.

    def is_tensor(self, value: Any) -> bool:
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
        if in_session(tensor) is not None:
            return self.graphs.capture(tensor)
        capture = super().capture(tensor, around)
        if capture.status is GradStatus.FROZEN and not capture.is_variable:
            self.frozen[capture.number] = capture
        return capture

    def _watched(self, tape: Any, tensor: Any) -> None:
        # Called when a tape of the program starts to watch a tensor, which is differentiated from then on.
        if not isinstance(tape, ProbeTape) and variable_of(tensor) is None:
            self.follow([tensor])
            capture = self.frozen.pop(identity(tensor), None) if is_eager(tensor) and self.log.carries(tensor) else None
            if capture is not None:
                capture.status, capture.why = GradStatus.OK, None

    # Methods for events of the program.

    def _updating(self, following: Callable[..., Any], optimizer: Any, grads: Any, variables: Any, rate: Any) -> Any:
        # Called when an optimizer updates Variables. The values that it writes also depend on its own Variables, whose
        # history is not followed.
        if not tf.executing_eagerly():
            return following(optimizer, grads, variables, rate)
        pairs = [(one, by) for one, by in zip(variables, grads, strict=False) if is_tensor(one) and by is not None]
        before, began = [] if self.updates is None else self.updates.before(pairs), self.log.length
        with self.log.optimizer([(identity(one), _number(by)) for one, by in pairs]):
            update = partial(following, optimizer, grads, variables, rate)
            updated = update() if self.useless is None else self.useless.updating(pairs, optimizer, rate, update)
        if self.updates is not None:
            self.updates.after(before, began, optimizer, rate)
        return updated

    is_asked_again = True  # the program may differentiate several values
    is_giving = False  # is a tape of the program running backward?

    def _giving(self, name: str, following: Callable[..., Any], tape: Any, /, *args: Any, **kwargs: Any) -> Any:
        start, compiled = self.log.length + 1, dict(self.log.compiled)
        was_giving, self.is_giving = self.is_giving, True
        try:
            with nullcontext() if self.useless is None else self.useless.backward(), self._hearing():
                gradients = following(tape, *args, **kwargs)
            if was_giving and _asks_itself(sys._getframe(1)):
                pass  # the call came from tf.py_function, during its own backward pass
            elif tf.executing_eagerly():
                self.user_tapes.given(tape, args, kwargs, gradients)
            else:
                self.compiled_by = "keras" if layers.is_in_step_of_keras() else "the program"
        finally:
            self.log.derived.append(range(start, self.log.length + 1))
            self.taken.hear(
                name,
                args,
                kwargs,
                self.log.derived[-1],
                lambda: users_line(sys._getframe(1)),
                counts=not (was_giving or isinstance(tape, ProbeTape)),
            )
            self.log.compiled, self.is_giving = compiled, was_giving
        if self.useless is not None and not was_giving and not isinstance(tape, ProbeTape):
            self.taken.tell(self.useless, args, kwargs, gradients)
        is_whole = tf.executing_eagerly() and not self.user_tapes.is_recorded(tape, self.gradients)
        is_any = any(one is not None for one in tf.nest.flatten(gradients))
        if self.heard is not None and is_whole and is_any and not isinstance(tape, ProbeTape):
            self.heard(self.taken.given[-1].targets, gradients)
        return gradients

    def _hearing(self) -> AbstractContextManager[None]:
        # Observe operations that can be differentiated only once, if there are any.
        cuts = self.log.cuts
        return run_once.heard(partial(run_once.zeros_of, cuts)) if cuts.once else nullcontext()

    def targets(self) -> Sequence[Any]:
        return self.graphs.outputs() if self.graphs.runs else self.taken.targets()

    def targets_of(self, values: Sequence[Any]) -> Sequence[Any]:
        return self.taken.targets_of(values)

    def own_roots(self) -> Sequence[Root]:
        return self.taken.roots()

    def follow(self, tensors: Sequence[Any]) -> None:
        for tensor in tensors:
            if is_eager(tensor) and is_differentiable(tensor) and not self.log.carries(tensor):
                self.gradients.watch(tensor)
                self.log.root(tensor)

    def hides(self, code: CodeType) -> bool:
        """Traced code is run later, and code with a custom gradient bypasses the tape, so both stay unobserved."""
        if private.builds_function():
            return True
        if code in private.CONVERTING:
            self.log.compiled["what autograph converts"] = None  # for example, in tf.map_fn
        return code in private.CONVERTING or code in private.BACKWARD or code.co_filename == private.OWN_GRADIENTS

    def unseen(self) -> Sequence[str]:
        return tuple(self.log.compiled)

    def not_followed(self) -> Sequence[Reason]:
        by_keras = layers.compiled_by_keras()
        graph = [Reason("graph_not_followed")] if self.log.builds_graph and not self.graphs.runs else []
        graph += [Reason("dataset_loop", {"name": name}) for name in self.loops]
        return [
            *graph,
            *self.graphs.notes(),
            *self.taken.notes(),
            *self.user_tapes.zeros(),
            *self._useless(),
            *(
                Reason("keras_compiled" if name in by_keras else "compiled_not_followed", {"name": name})
                for name in self.unseen()
            ),
        ]

    def _useless(self) -> Sequence[Reason]:
        if self.noted is None and self.useless is not None:
            self.noted = self.useless.found(self.user_tapes.name)
        return self.noted or ()

    def has_history(self, capture: Capture) -> bool:
        return capture.is_followed

    def is_variable(self, capture: Capture) -> bool:
        return capture.is_variable and capture.is_followed

    def made(self, tensor: Any) -> int:
        """Return the position at which a tensor with a history was computed; 0 for other tensors. It is also 0 for
        gradients that the program computed itself, because they are rarely the value of interest.
        """
        position = self.log.made_at(self.identity(tensor))
        return 0 if self.taken.took(position) else position

    def differentiate(self, ran: Ran) -> None:
        self.recording.close()
        self.settle(ran.captures)
        passes = differentiate(self.gradients, self.log, self.taps, self.options, ran)
        self.passes = [
            replace(self._asked(passed, ran.captures), own=own_pass(root, ran.captures))
            for passed, root in zip(passes, ran.roots, strict=True)
        ]

    def _asked(self, passed: Backward, captures: Sequence[Capture]) -> Backward:
        # Add the gradients that the program requested from its own tapes, and the updates of its Variables.
        own, graphs = self.user_tapes, self.graphs
        updates = () if self.updates is None else self.updates.found(captures)
        return replace(
            passed,
            none_given=(*own.none_given(captures), *graphs.none_given(captures)),
            training=own.training(captures) or graphs.training(captures),
            updates=updates,
        )

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
        self.taken.given.clear()
        self.updates = None
        super().release()
