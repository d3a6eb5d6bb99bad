"""The block form: a probe around code that runs as it is written, with its own ``backward()`` where it has one.

PyTorch's programs run backward themselves, and the block only observes. In TensorFlow the probe's own tape is open as
long as the block, and differentiates one of its variables when the block ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import Any

from backprobe.backends.capabilities import Differentiator
from backprobe.backends.facts import Ran
from backprobe.backends.protocol import Backend, Blocks, BlockTape
from backprobe.backends.refusals import refuse, refuse_options
from backprobe.backends.tensors import Tensors
from backprobe.errors import BackprobeError, Unsupported
from backprobe.probe.block_options import refuse_options_of_block
from backprobe.probe.block_variables import computed_in, output_of
from backprobe.probe.form import Form
from backprobe.probe.model import OUTPUTS_AND_OWN, Modules, Versions, models_of, names_in, unfit_buffers
from backprobe.probe.request import Request, name_of
from backprobe.record.containers import leaves
from backprobe.record.entries import Record
from backprobe.recording import BlockRecording
from backprobe.source.bytecode import names_loaded
from backprobe.source.frames import name_in
from backprobe.tracing.finiteness import without_moved
from backprobe.tracing.frame_observer import FrameObserver
from backprobe.tracing.schema import Schema
from backprobe.tracing.transcribe import Run, over


class BlockRun(Form):
    """One block, from its first line to its last."""

    tape: BlockTape
    schema: Schema

    def __init__(self, probe: Request, backend: Backend, frame: FrameType) -> None:
        self.frame: FrameType | None = frame
        super().__init__(probe, backend)
        refuse_options_of_block(probe, isinstance(self.tape, Differentiator))
        self.outputs: dict[int, None] = {}  # the numbers of what the program runs backward from
        self.versions: Versions = {}
        self.installed = ExitStack()
        self.recording = BlockRecording(self._record, self._progress)

    def opened(self) -> BlockTape:
        refuse_options(self.backend, self.probe.options)
        return self.blocks.tape(self.probe.options)

    @property
    def blocks(self) -> Blocks:
        return self.backend.blocks or refuse(self.backend, "blocks", self.spelled())

    def watching(self) -> AbstractContextManager[object]:
        """A context within which the program reports."""
        raise NotImplementedError

    def enter(self) -> BlockRecording:
        """Begin the block. If that fails, nothing is left behind."""
        try:
            self.tape.listen(self._began)
            self.installed.enter_context(self.watching())
        except BaseException:
            self._release()
            raise
        return self.recording

    def exit(self, error: BaseException | None) -> None:
        """End the block. Raises NothingMatched, and whatever choosing an output and differentiating it raise."""
        try:
            self.installed.close()
            self.closing()
            for name in self.tape.unseen():
                self.trace.note("compiled_not_followed", name=name)
            if error is not None and not isinstance(error, BackprobeError):
                self.add_notes(error)
            try:
                if error is None and isinstance(self.tape, Differentiator):
                    self.noting(partial(self._differentiate, self.tape))
            finally:
                self.trace.close()
                self.recording.settle(self._record())
            if error is None:
                self.refuse_missed(self.schema)
        finally:
            self._release()

    def _differentiate(self, differentiator: Differentiator) -> None:
        """Run backward from a variable of the block."""
        assert self.frame is not None
        self.doing = "choosing the output of"
        computed = computed_in(self.frame, self.tape, differentiator)
        output = output_of(self.frame, computed, self.probe, self.tape, self.spelled())
        local, dot, leaf = (output.path or "").lstrip(".").partition(".")
        number = self.trace.hold(output.tensor, local, dot + leaf)
        self.outputs[number] = None
        self.hold_unnamed()
        self.doing = "differentiating"
        captures = self.trace.captures(self.trace.schema([number]))
        differentiator.differentiate(Ran(None, self.trace.versions.tensors[number], output.cotangent, captures))

    def closing(self) -> None:
        """The program no longer reports; modules that never ran may still get a name."""

    def _release(self) -> None:
        self.installed.close()
        self.trace.release()
        self.tape.release()
        self.outputs.clear()
        self.versions.clear()
        self.frame = None

    def _began(self, tensors: Sequence[Any]) -> list[Any]:
        """The program runs backward from these tensors: as outputs they have entries whatever is selected."""
        numbers = [self.trace.hold(tensor, "backward()", "") for tensor in tensors]
        self.outputs.update(dict.fromkeys(numbers))
        return [self.trace.versions.captures[number] for number in numbers]

    def _record(self) -> Run | Record:
        """What is known so far."""
        self.trace.repeats.settle()
        self.schema = self.trace.schema(self.outputs)
        with self.tape.quiet():
            passed = self.tape.backward(self.trace.captures(self.schema))
        live = self.probe.options.create_graph
        return self.judged(over(self.trace, self.backend, self.schema, passed, live=live))

    def _progress(self) -> tuple[int, ...]:
        """Changes when ``_record`` does."""
        return len(self.trace.events), len(self.outputs), self.tape.progress

    def subject(self) -> str:
        return "a block" if self.probe.target is None else f"a block around {name_of(self.probe.target)}"

    def spelled(self, pattern: str | None = None) -> str:
        return f"with {super().spelled(pattern)} as rec:"


class ModelBlock(BlockRun):
    """A block around a model: its modules report whenever the program calls it."""

    in_function = False
    looked_into = OUTPUTS_AND_OWN

    def starts_at(self) -> Any:
        return models_of(self).call(self.probe.target, (), {}).forward

    def watching(self) -> AbstractContextManager[object]:
        self.modules, self.unfit = (
            Modules(self, self.versions if self.probe.options.nonfinite else None),
            unfit_buffers(self),
        )
        observer, tape = self.modules.observer(), self.tape
        if isinstance(tape, Differentiator):
            observer = replace(observer, given=lambda inputs: tape.follow(_leaves(inputs)))
        return self.blocks.observing(self.probe.target, observer)

    def judged(self, run: Run) -> Run | Record:
        found = super().judged(run)
        if isinstance(found, Run):
            return found
        moved = [
            name for name, (tensor, version) in self.versions.items() if self.trace.versions.version(tensor) != version
        ]
        return without_moved(found, moved)

    def closing(self) -> None:
        self.modules.name_unseen(models_of(self).call(self.probe.target, (), {}), self.tape.unseen())

    def known_names(self) -> Sequence[str]:
        return names_in(models_of(self).call(self.probe.target, (), {}))


class PlainBlock(BlockRun):
    """A block without a model: its variables, and the locals of the functions it calls."""

    looked_into = None

    def file(self) -> str | None:
        assert self.frame is not None
        return self.frame.f_code.co_filename

    @contextmanager
    def watching(self) -> Iterator[None]:
        assert self.frame is not None
        if self.selection.asks_operations:
            self._refuse_operations()
        read = tensors_read(self.frame, self.tape)
        if isinstance(self.tape, Differentiator):
            self.tape.follow(_leaves(list(read.values())))
        observer = FrameObserver(self.trace, self.tape)
        observer.start(self.frame, read)
        try:
            yield
        finally:
            observer.stop()

    def _refuse_operations(self) -> None:
        asked = next(p.text for p in self.selection.positive if p.asks_operations)
        raise Unsupported(
            "operations without a name cannot be seen in a block", asked=self.spelled(asked),
            why="a block runs unmodified and is observed from outside: only named values are seen",
            next="put the block into a function f and write rec = bp.probe(f, ...)(x), or give the operation a name",
        )  # fmt: skip

    def spelled(self, pattern: str | None = None) -> str:
        return f"with bp.probe({'' if pattern is None else f'select={pattern!r}'}) as rec:"


def tensors_read(frame: FrameType, tape: Tensors) -> dict[str, Any]:
    """The names that a frame's code reads, and that hold tensors now."""
    held = {name: name_in(frame, name) for name in names_loaded(frame.f_code)}
    return {name: value for name, value in held.items() if any(tape.is_tensor(leaf) for leaf in _leaves(value))}


def _leaves(value: Any) -> list[Any]:
    return [leaf for _, leaf in leaves(value)]
