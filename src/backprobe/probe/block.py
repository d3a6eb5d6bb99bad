"""The block form: a probe around code that runs unchanged, including any ``backward()`` that it calls itself.

In PyTorch the program runs backward itself, and the block only observes. In TensorFlow the probe opens a tape for the
block. When the block ends, the probe runs backward from a variable of the block, unless the program itself took
gradients.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from threading import get_ident
from types import FrameType
from typing import Any

from backprobe.backends.capabilities import Differentiator
from backprobe.backends.facts import Ran, Root
from backprobe.backends.protocol import Backend, Blocks, BlockTape
from backprobe.backends.refusals import refuse, refuse_options
from backprobe.backends.tensors import Tensors
from backprobe.errors import BackprobeError, Unsupported
from backprobe.probe.block_options import refuse_options_of_block
from backprobe.probe.block_variables import outputs_of, why_not
from backprobe.probe.caught_errors import CaughtErrors
from backprobe.probe.error_notes import raised
from backprobe.probe.form import Form
from backprobe.probe.model import Modules, OfModel, Versions, models_of, names_in, unfit_buffers
from backprobe.probe.output import ProbedOutput
from backprobe.probe.replacements import missed_in, refuse_unknown_paths
from backprobe.probe.request import Request, name_of
from backprobe.record.containers import leaves
from backprobe.record.entries import Record
from backprobe.record.reasons import Reason
from backprobe.recording.block import BlockRecording
from backprobe.source.bytecode import names_loaded
from backprobe.source.derivative_calls import DerivativeCall, block_at, derivative_calls
from backprobe.source.frames import forget, name_in
from backprobe.tracing.finiteness import unfit, without_moved
from backprobe.tracing.frame_observer import FrameObserver
from backprobe.tracing.schema import Schema
from backprobe.tracing.transcribe import FinishedRun, over

OPEN: dict[int, int] = {}
"""The thread of each block that is recording now, by the ``id`` of the block."""


class BlockRun(Form):
    """Records one block, from its first line to its last."""

    tape: BlockTape
    schema: Schema
    has_own_options = False  # True for a notebook cell or command, whose options are their own
    takes_partials = False  # can partials be computed? This needs a notice before each differentiating call

    def __init__(self, probe: Request, backend: Backend, frame: FrameType) -> None:
        self.frame: FrameType | None = frame
        super().__init__(probe, backend)
        if not self.has_own_options:
            is_run_backward = isinstance(self.tape, Differentiator)
            refuse_options_of_block(probe, is_run_backward, self.takes_partials and not is_run_backward)
        self.outputs: list[int] = []  # the numbers of the values that are differentiated
        self.summed: dict[int, None] = {}  # the outputs from which the program ran ``backward()``
        self.versions: Versions = {}
        self.installed = ExitStack()
        self.process = os.getpid()
        self.caught = CaughtErrors()
        self.recording = BlockRecording(self._record, self._progress)

    def opened(self) -> BlockTape:
        refuse_options(self.backend, self.probe.options)
        return self.blocks.tape(self.probe.options)

    @property
    def blocks(self) -> Blocks:
        return self.backend.blocks or refuse(self.backend, "blocks", self.spelled(), self._derivatives())

    def _derivatives(self) -> list[DerivativeCall]:
        # Return the calls inside the block that differentiate. The list is empty if the source of the block cannot be
        # read.
        frame = self.frame
        found = None if frame is None else block_at(frame.f_code.co_filename, frame.f_lineno)
        return [] if found is None else derivative_calls([found], self.backend.name, self.backend.derivatives)

    def watching(self) -> AbstractContextManager[object]:
        """Return a context within which the program reports."""
        raise NotImplementedError

    def enter(self) -> BlockRecording:
        """Begin the block. If this fails, everything that was installed is removed again."""
        try:
            self.tape.listen(self._began)
            self.installed.enter_context(self.watching())
            OPEN[id(self)] = get_ident()
        except BaseException:
            self.release()
            raise
        return self.recording

    def exit(self, error: BaseException | None) -> None:
        """End the block. Raises NothingMatched, what ``differentiate`` raises, and the error of a replacement that the
        program caught.
        """
        if isinstance(error, SystemExit) and not error.code:
            error = None  # exit status 0: the program ended normally
        try:
            self.installed.close()
            self.closing()
            for unseen in self.tape.not_followed():
                self.trace.note(unseen.code, **unseen.fields)
            if error is not None and not isinstance(error, BackprobeError):
                known = self.add_notes(error)
                why = self._rebound(error, known) or raised(error, known)
                self.trace.note(why.code, **why.fields)
            for one in self.caught.notes(self.tape.cut_short(), error):
                self.trace.note(one.code, **one.fields)
            for missed in missed_in(self.replacing):
                self.trace.note(missed.code, **missed.fields)
            try:
                # Run backward from the block's result, unless ``outputs`` shows that the program itself has taken
                # gradients.
                if isinstance(self.tape, Differentiator) and not self.outputs:
                    # A forked child process has none of the framework's threads, and backward would wait for them
                    # forever.
                    if os.getpid() != self.process:
                        self.tape.give_up(Reason("block_forked"))
                    elif error is None or self.has_taken_gradients(self.tape):
                        self.differentiate(self.tape)
                    else:
                        self.tape.give_up(Reason("block_raised", {"error": type(error).__name__}))
            finally:
                self.trace.close()
                self.recording.settle(self._record())
            is_read = all(note.code != "block_not_read" for note in self.trace.notes)
            if error is None and is_read and not self.tape.unseen():
                self.refuse_missed(self.schema)
            if error is None and self.replacing is not None and self.replacing.failed is not None:
                raise self.replacing.failed  # raise it again, since the program caught it
        finally:
            self.release()

    def _rebound(self, error: BaseException, known: str) -> Reason | None:
        # Return the reason for an error caused by a name that was bound to something new, if ``known``, the notes on
        # the error, say so; otherwise None.
        if not known:
            return None
        from backprobe.explain.rebound import rebound_reason

        found = rebound_reason(error)
        return found if found is not None and found.fields["headline"] in known else None

    def what_is_known(self, error: BaseException) -> str | None:
        return self.caught.what_is_known(self, error)

    def has_taken_gradients(self, differentiator: Differentiator) -> bool:
        """Is it known which values to differentiate, although the program has raised an error?"""
        return False

    def differentiate(self, differentiator: Differentiator) -> None:
        """Run backward from the block's result. If that is impossible, only a note is added: a program that works
        without a block must not fail inside one. Raises errors about the probe's own arguments.
        """
        try:
            self.noting(partial(self._run_backward, differentiator))
        except Exception as error:
            why = why_not(error, self.probe, self.tape)
            if why is None:
                raise
            self.trace.note(why.code, **why.fields)
            differentiator.give_up(why)

    def _run_backward(self, differentiator: Differentiator) -> None:
        self.doing = "choosing the output of"
        outputs = self.to_differentiate(differentiator)
        numbers = [self._held(output, differentiator.gives) for output in outputs]
        self.outputs = numbers
        self.hold_unnamed()
        self.doing = "differentiating"
        captures = self.trace.captures(self.trace.schema(numbers))
        tensors = [self.trace.versions.tensors[number] for number in numbers]
        roots = [Root(tensor, output.cotangent) for tensor, output in zip(tensors, outputs, strict=True)]
        if self.probe.of is None and self.probe.cotangent is None:
            roots = self._of_program(differentiator, tensors) or (roots if len(tensors) == 1 else [Root(tensors)])
        differentiator.differentiate(Ran(None, roots, captures))

    def _of_program(self, differentiator: Differentiator, tensors: Sequence[Any]) -> list[Root]:
        # Return the roots of the passes that the program ran itself, if they began at exactly these tensors. Otherwise
        # return an empty list: several tensors, such as the losses of ``model.fit``, are then differentiated together.
        own = list(differentiator.own_roots())
        return own if {id(one) for root in own for one in root.targets} == set(map(id, tensors)) else []

    def to_differentiate(self, differentiator: Differentiator) -> list[ProbedOutput]:
        """Return the outputs to differentiate at the end of the block. Raises BadOutput or NothingToDifferentiate."""
        assert self.frame is not None
        return outputs_of(self.frame, differentiator, self.probe, self.trace, self.spelled(), self.backend.name)

    def _held(self, output: ProbedOutput, otherwise: str) -> int:
        if output.name is not None:
            return self.trace.hold_output(output.tensor, None, output.name)
        local, dot, leaf = (output.path or otherwise).lstrip(".").partition(".")
        return self.trace.hold(output.tensor, local, dot + leaf)

    def closing(self) -> None:
        """Called when the program stops reporting. Modules that never ran may still get names here."""

    def release(self) -> None:
        OPEN.pop(id(self), None)
        self.installed.close()
        super().release()
        self.outputs.clear()
        self.versions.clear()
        if self.frame is not None:
            forget(self.frame)
        self.frame = None

    def _began(self, tensors: Sequence[Any], beside: bool = False) -> list[Any]:
        # Called when the program takes gradients of these tensors. They become outputs, which have entries even if they
        # are not selected.
        #
        # ``beside`` means that the gradients are returned by a function such as ``grad()``, and not summed into the
        # leaves.
        numbers = [self.trace.hold(tensor, "grad()" if beside else "backward()", "") for tensor in tensors]
        self.summed |= {} if beside else dict.fromkeys(numbers)
        self.outputs[:] = dict.fromkeys([*self.outputs, *numbers])
        return [*map(self.trace.versions.captures.__getitem__, numbers)]

    def _record(self) -> FinishedRun | Record:
        # Return the run, as far as it was recorded.
        self.trace.repeats.settle()
        self.schema = self.trace.schema(self.outputs)
        with self.tape.quiet():
            passes = self.tape.backward(self.trace.captures(self.schema))
        live, keys = self.probe.options.create_graph, self.probe.keys
        if len(passes) < len(keys):  # backward did not run for some output
            passes = [*passes] * len(keys)
        return self.judged(over(self.trace, self.backend, self.schema, passes, live=live, code=self.code, keys=keys))

    def _progress(self) -> tuple[int, ...]:
        # Return a key that changes whenever the result of ``_record`` changes.
        return len(self.trace.events), len(self.outputs), self.tape.progress

    def subject(self) -> str:
        return "a block" if self.probe.target is None else f"a block around {name_of(self.probe.target)}"

    def spelled(self, pattern: str | None = None) -> str:
        return f"with {super().spelled(pattern)} as rec:"


class ModelBlock(OfModel, BlockRun):
    """A block around a model: its modules report whenever the program calls it."""

    fit: Collection[str] = ()  # with ``nonfinite``: the names of the parameters that were finite when the block began

    def watching(self) -> AbstractContextManager[object]:
        self.modules, self.unfit = (
            Modules(self, self.versions if self.probe.options.nonfinite else None),
            unfit_buffers(self),
        )
        self.code = self.modules.code
        models, target = models_of(self), self.probe.target
        self.call = models.call(target, (), {})
        # Use a new call object for this check, because facts about the modules may change later.
        if self.replacing is not None:
            refuse_unknown_paths(self.replacing, models.call(target, (), {}), models, target, in_block=True)
        observer, tape = self.modules.observer(), self.tape
        if isinstance(tape, Differentiator):
            observer = replace(observer, given=lambda inputs: tape.follow(_leaves(inputs)))
        observing = self.blocks.observing(self.call, observer)
        return self._looked_at_first(observing) if self.probe.options.nonfinite else observing

    @contextmanager
    def _looked_at_first(self, observing: AbstractContextManager[object]) -> Iterator[None]:
        # Observe the modules. When the block begins, also check the parameters for NaN and Inf.
        with observing:
            held = unfit({name: tensor for name, (tensor, _) in self.versions.items()}, self.backend.arrays)
            self.fit = self.versions.keys() - held.keys()
            yield

    def judged(self, run: FinishedRun) -> FinishedRun | Record:
        found = super().judged(run)
        if isinstance(found, FinishedRun):
            return found
        moved = [
            name for name, (tensor, version) in self.versions.items() if self.trace.versions.version(tensor) != version
        ]
        return without_moved(found, self.fit, moved)

    def closing(self) -> None:
        self.modules.name_unseen(self.call, self.tape.unseen())

    def known_names(self) -> Sequence[str]:
        return names_in(models_of(self).call(self.probe.target, (), {}))


class PlainBlock(BlockRun):
    """Records a block without a model: the block's variables, and the locals of the functions that it calls."""

    looked_into = None
    takes_partials = True
    observer_type = FrameObserver

    def file(self) -> str | None:
        assert self.frame is not None
        return self.frame.f_code.co_filename

    @contextmanager
    def watching(self) -> Iterator[None]:
        assert self.frame is not None
        if self.selection.asks_operations:
            self._refuse_operations()
        read = self.read()
        if isinstance(self.tape, Differentiator):
            self.tape.follow(_leaves(list(read.values())))
        observer = self.observer_type(self.trace, self.tape)
        observer.failed = partial(self.caught.see, self)
        self.begin(observer, self.frame, read)
        try:
            yield
        finally:
            observer.stop()

    def read(self) -> dict[str, Any]:
        """Return the variables that the block may read and that hold tensors now."""
        assert self.frame is not None
        return tensors_read(self.frame, self.tape)

    def begin(self, observer: FrameObserver, frame: FrameType, read: dict[str, Any]) -> None:
        """Begin the block at this frame. ``read`` are the existing values that the block may read."""
        observer.start(frame, read)

    def _refuse_operations(self) -> None:
        asked = next(p.text for p in self.selection.positive if p.asks_operations)
        raise Unsupported(
            "operations without a name cannot be seen in a block",
            asked=self.spelled(asked),
            why="a block runs unmodified and is observed from outside: only named values are seen",
            next="put the block into a function f and write rec = bp.probe(f, ...)(x), or give the operation a name",
        )

    def spelled(self, pattern: str | None = None) -> str:
        return f"with bp.probe({'' if pattern is None else f'select={pattern!r}'}) as rec:"


def tensors_read(frame: FrameType, tape: Tensors) -> dict[str, Any]:
    """Return the names that a frame's code reads and that hold tensors now, with their values."""
    held = {name: name_in(frame, name) for name in names_loaded(frame.f_code)}
    return {name: value for name, value in held.items() if any(tape.is_tensor(leaf) for leaf in _leaves(value))}


def _leaves(value: Any) -> list[Any]:
    return [leaf for _, leaf in leaves(value)]
