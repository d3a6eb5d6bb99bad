"""The block form: a probe around code of the user's own, which calls the model and ``backward()`` itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import FrameType
from typing import Any

from backprobe.backends.base import Backend, BlockTape, Tensors
from backprobe.errors import BackprobeError, BadOption, Unsupported
from backprobe.forms.model import Modules, names_in
from backprobe.forms.run import Request, Run, name_of
from backprobe.forms.watching import Watching
from backprobe.record import Record
from backprobe.recording import BlockRecording
from backprobe.scope import Value
from backprobe.source.events import names_loaded
from backprobe.source.follow import package
from backprobe.source.frames import name_in
from backprobe.structure import leaves
from backprobe.transcript import kept, transcribe


class BlockRun(Run):
    """One block, from its first line to its last."""

    tape: BlockTape

    def __init__(self, probe: Request, backend: Backend) -> None:
        _refuse_options(probe)
        super().__init__(probe, backend)
        self.outputs: dict[Value, None] = {}
        self.installed = ExitStack()
        self.recording = BlockRecording(self._record, self._progress)

    def opened(self) -> BlockTape:
        return self.backend.open_block(self.probe.options)

    def watching(self) -> AbstractContextManager[None]:
        """What makes the program report until it is left."""
        raise NotImplementedError

    def enter(self) -> BlockRecording:
        """The block begins. Whatever happens, nothing is left behind."""
        try:
            self.tape.listen(self._began)
            self.installed.enter_context(self.watching())
        except BaseException:
            self._release()
            raise
        return self.recording

    def exit(self, error: BaseException | None) -> None:
        """The block is over. Raises NothingMatched where nothing else was raised."""
        try:
            self.installed.close()
            self.closing()
            self.trace.close()
            if error is not None and not isinstance(error, BackprobeError):
                self.add_notes(error)
            record = self._record()
            self.recording.settle(record)
            if error is None:
                self.refuse_missed(record.names)
        finally:
            self._release()

    def closing(self) -> None:
        """The program reports nothing any more; what it never did may still get a name."""

    def _release(self) -> None:
        self.installed.close()
        self.trace.release()
        self.tape.release()
        self.outputs.clear()

    def _began(self, tensors: Sequence[Any]) -> list[Any]:
        """The program runs backward from these: they are outputs, and have an entry whatever is selected."""
        values = [self.trace.hold(tensor, "backward()", "") for tensor in tensors]
        self.outputs.update(dict.fromkeys(values))
        return [value.capture for value in values]

    def _record(self) -> Record:
        """What is known so far."""
        self.trace.repeats.settle()
        outputs = list(self.outputs)
        captured = [value for value in kept(self.trace, outputs) if value.capture is not None]
        with self.tape.quiet():
            passed = self.tape.backward([value.capture for value in captured])
        return transcribe(self.trace, self.backend, captured, passed, outputs)

    def _progress(self) -> tuple[int, ...]:
        """Changes when ``_record`` does."""
        return sum(len(value.names) for value in self.trace.values), len(self.outputs), self.tape.progress

    def subject(self) -> str:
        return "a block" if self.probe.target is None else f"a block around {name_of(self.probe.target)}"

    def spelled(self, pattern: str | None = None) -> str:
        return f"with {super().spelled(pattern)} as rec:"


class ModelBlock(BlockRun):
    """A block around a model: its modules report whenever the program calls it."""

    in_function = False

    def starts_at(self) -> Any:
        return self.backend.call(self.probe.target, (), {}).forward

    def watching(self) -> AbstractContextManager[None]:
        self.modules = Modules(self)
        return self.backend.observing(self.probe.target, self.modules.observer())

    def closing(self) -> None:
        self.modules.name_idle(self.backend.call(self.probe.target, (), {}).module_paths())

    def known_names(self) -> Sequence[str]:
        return names_in(self.backend.call(self.probe.target, (), {}))


class PlainBlock(BlockRun):
    """A block by itself: its variables, and those of the user's functions that it calls."""

    def __init__(self, probe: Request, backend: Backend, frame: FrameType) -> None:
        super().__init__(probe, backend)
        self.trace.home = package(frame.f_code.co_filename)
        self.frame: FrameType | None = frame

    def watching(self) -> AbstractContextManager[None]:
        frame, self.frame = self.frame, None
        assert frame is not None
        if self.selection.asks_operations:
            self._refuse_operations()
        return self._watching(frame)

    @contextmanager
    def _watching(self, frame: FrameType) -> Iterator[None]:
        watching = Watching(self.trace, self.tape)
        watching.start(frame, self.trace.root, tensors_read(frame, self.tape))
        try:
            yield
        finally:
            watching.stop()

    def _refuse_operations(self) -> None:
        asked = next(p.text for p in self.selection.positive if p.asks_operations)
        raise Unsupported(
            "operations without a name cannot be seen in a block", asked=self.spelled(asked),
            why="a block runs as it is written, and is watched from outside: only what gets a name is seen",
            next="put the block into a function f and write rec = bp.probe(f, ...)(x), or give the operation a name",
        )  # fmt: skip

    def spelled(self, pattern: str | None = None) -> str:
        return f"with bp.probe({'' if pattern is None else f'select={pattern!r}'}) as rec:"


def users_frame(frame: FrameType | None) -> FrameType:
    """The frame that a ``with`` statement stands in: ``contextlib`` may have entered it."""
    while frame is not None and package(frame.f_code.co_filename) in ("", "backprobe"):
        frame = frame.f_back
    assert frame is not None
    return frame


def tensors_read(frame: FrameType, tape: Tensors) -> dict[str, Any]:
    """The names that a frame's code reads, and that hold tensors now."""
    held = {name: name_in(frame, name) for name in names_loaded(frame.f_code)}
    return {name: value for name, value in held.items() if any(tape.is_tensor(leaf) for _, leaf in leaves(value))}


def _refuse_options(probe: Request) -> None:
    """In a block the program itself runs backward: what says how is not the probe's to take."""
    options, target = probe.options, "" if probe.target is None else name_of(probe.target)
    taken = {
        "of": (probe.of is not None, "loss.backward() in the block says of what"),
        "wrt": (probe.wrt is not None, "x.requires_grad_() before the block"),
        "cotangent": (probe.cotangent is not None, "y.backward(cotangent) in the block"),
        "strategy": (options.strategy != "edges", f"with bp.probe({target}) as rec:"),
        "partials": (bool(options.partials), "rec = bp.probe(f, partials=True)(x), with the block in a function f"),
    }
    for option, (is_given, instead) in taken.items():
        if is_given:
            raise BadOption(
                f"{option} is not for blocks", asked=f"with bp.probe({target}, {option}=...)",
                why="the program runs forward and backward itself, the block only looks on", next=instead,
            )  # fmt: skip
