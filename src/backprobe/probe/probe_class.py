"""The class ``Probe``: a call records its target, and a block records what runs inside, in the appropriate form."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import Any, NoReturn

from backprobe.backends.discover import find_backend, find_program, is_model
from backprobe.backends.refusals import refuse
from backprobe.backends.user_lines import callers
from backprobe.errors import BadOption, Unsupported
from backprobe.markup import facts, shown
from backprobe.probe.block import BlockRun, ModelBlock, PlainBlock
from backprobe.probe.disconnected import recorded
from backprobe.probe.function import FunctionRun
from backprobe.probe.graph import GraphRun
from backprobe.probe.model import ModelRun
from backprobe.probe.replacements import OPTIONS, check_replacing
from backprobe.probe.request import Request, name_of, refuse_class, refuse_uncallable, typed_as
from backprobe.probe.rerun import Rerun, versions
from backprobe.record.brief import kind
from backprobe.record.containers import leaves
from backprobe.record.entries import Record
from backprobe.record.typed import Generic, P, R, T
from backprobe.recording import Recording
from backprobe.recording.block import BlockRecording
from backprobe.source.bytecode import names_loaded
from backprobe.source.frames import name_in
from backprobe.source.tracebacks import FRAMES_OF_PROGRAM
from backprobe.source.user_code import package


@dataclass(frozen=True)
class Probe(Request, Generic[P, R, T]):
    """A function or model ready to be recorded: call it with its arguments, or open a block with it."""

    def __post_init__(self) -> None:
        """Check the options. Raises BadOption, and BadName for a name of a replacement that ends in ``#-1``."""
        super().__post_init__()
        for option in OPTIONS:
            check_replacing(option, getattr(self, option))

    open_blocks: dict[int, list[BlockRun]] = field(default_factory=dict, repr=False, compare=False)  # by thread

    def __repr__(self) -> str:
        return f"<Probe of {', '.join([self._about(), *(f'{name}={value}' for name, value in self._asked())])}>"

    def _repr_html_(self) -> str:
        return shown(facts(f"Probe of {self._about()}", self._asked()))

    def _about(self) -> str:
        return name_of(self.target) if self.target is not None else "a block"

    def _asked(self) -> list[tuple[str, str]]:
        asked = ((option, getattr(self, option)) for option in ("select", "of", *OPTIONS))
        return [(name, repr(value)) for name, value in asked if value is not None]

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Recording[R, T]:
        """Run the target once with these arguments, and backward once from each output. Returns the ``Recording``."""
        with FRAMES_OF_PROGRAM:
            return self._recorded(args, kwargs)

    def _recorded(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Recording[Any, Any]:
        program = find_program(self.backend, self.target, self.session)
        if program is not None:
            self._refuse_replacing("a graph", "its values were fixed when it was made")
            return GraphRun(self, program).record(args, kwargs)
        if self.session is not None:
            raise BadOption(
                "session runs the tensors of a TensorFlow graph",
                asked=f"bp.probe({typed_as(self.target)}, session=...)",
                found=kind(self.target),
                next=f"bp.probe({typed_as(self.target)})",
            )
        refuse_uncallable(self.target, "probe")
        values = [leaf for value in (*args, *kwargs.values()) for _, leaf in leaves(value)]
        backend = find_backend(self.backend, [self.target, *values])
        backend.refuse(self.target, f"bp.probe({typed_as(self.target)})")
        for value in values:
            backend.refuse_argument(value, f"bp.probe({typed_as(self.target)})")
        kind_of_run = ModelRun if is_model(backend, self.target) else FunctionRun
        modes = backend.state.modes()
        began = time.perf_counter()

        def anew(request: Request) -> Record:
            return recorded(kind_of_run(request, backend), args, kwargs)[0].record

        recording, cut = recorded(kind_of_run(self, backend), args, kwargs)
        took, written = time.perf_counter() - began, versions(backend, values)
        is_looked_into = cut is not None
        recording._rerun = Rerun(self, backend, args, kwargs, anew, took, written, modes, is_looked_into)
        if cut is not None:
            cut.recording = recording
            raise cut
        return recording

    def __getitem__(self, name: str) -> NoReturn:
        """Raise BadOption, because only the recording that a call returns contains values."""
        if self.target is not None:
            refuse_uncallable(self.target, "probe")
        about = "" if self.target is None else name_of(self.target)
        spelled = f"bp.probe({about})"
        raise BadOption(
            "this probe has not recorded anything: it has not been called",
            asked=f"{spelled}[{name!r}]",
            next=f"rec = {spelled}(x), and then rec[{name!r}]" if about else "with bp.probe() as rec:",
        )

    def __enter__(self) -> BlockRecording:
        """Begin a block. Returns its recording, which is complete when the block has ended."""
        run = self._block(users_frame(sys._getframe(1)))
        recording = run.enter()
        self.open_blocks.setdefault(threading.get_ident(), []).append(run)
        return recording

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the block. After that, the recording contains the values and gradients."""
        opened = self.open_blocks.get(threading.get_ident())
        frame = users_frame(sys._getframe(1))
        if not opened:
            raise BadOption(
                "this probe has no open block",
                asked="probe.__exit__(...)",
                found="a block that was never entered, or entered in another thread",
                next="with bp.probe() as rec:",
            )
        # With generators and tasks, the block that is ending may not be the one opened last.
        run = ([run for run in opened if run.frame is frame] or opened)[-1]
        opened.remove(run)
        run.exit(error)

    def _refuse_replacing(self, target: str, why: str) -> None:
        for option in OPTIONS:
            if getattr(self, option):
                raise Unsupported(
                    f"{option} is not available in {target}",
                    asked=f"bp.probe(..., {option}=...)",
                    why=why,
                    next=f"rec = bp.probe(f, {option}=...)(x), with the program in a function f",
                )

    def _block(self, frame: FrameType) -> BlockRun:
        if self.target is None:
            self._refuse_replacing("a block without a model", "it runs unmodified, and is observed from outside")
            held = [leaf for name in names_loaded(frame.f_code) for _, leaf in leaves(name_in(frame, name))]
            found = find_backend(self.backend, [*held, frame], mixed=False, spelled="with bp.probe({}) as rec:")
            return PlainBlock(self, found, frame)
        refuse_class(self.target, "probe", in_block=True)
        asked = f"with bp.probe({typed_as(self.target)})"
        is_plain = isinstance(self.target, str | int | float)
        backend = None if is_plain else find_backend(self.backend, [self.target])
        if backend is not None:
            (backend.blocks or refuse(backend, "blocks", asked)).refuse(self.target, asked)
        if backend is None or not is_model(backend, self.target):
            raise BadOption(
                "`with bp.probe(...)` takes a model, or nothing",
                asked=asked,
                found=kind(self.target),
                next="with bp.probe() as rec: around what calls it, or rec = bp.probe(f)(x)",
            )
        return ModelBlock(self, backend, frame)


def users_frame(frame: FrameType | None) -> FrameType:
    """Return the frame that contains the ``with`` statement, even if ``contextlib`` entered the block for it."""
    return next(one for one in callers(frame) if package(one.f_code.co_filename) not in ("", "backprobe"))
