"""Records a running program block by block. A block usually ends with a loop iteration that ran backward.

One block around a whole training run would hold every value that it ever computes. So a block is opened in the function
that is running. It ends when that function returns, or when ``backward()`` has run in it and a function of the program
begins another iteration of a loop. Loops in functions that are called after backward, for example to freeze parameters,
do not count, unless these functions run backward themselves. The next block begins where the program continues.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from itertools import takewhile
from operator import itemgetter
from types import CodeType, FrameType
from typing import Any

from backprobe.backends.capabilities import Differentiator, Recompute
from backprobe.backends.discover import BACKENDS, is_imported, load_backend
from backprobe.backends.protocol import Backend
from backprobe.backends.user_lines import callers
from backprobe.errors import NoSource, NothingToDifferentiate
from backprobe.probe.block import PlainBlock
from backprobe.probe.elsewhere import Elsewhere
from backprobe.probe.form import home
from backprobe.probe.output import ProbedOutput
from backprobe.probe.request import Request
from backprobe.source.by_code import by_code
from backprobe.source.bytecode import comprehension_heads, comprehension_jumps, events, opcode
from backprobe.source.locate import is_module
from backprobe.source.main_module import as_main, compiled
from backprobe.source.user_code import is_of_program, package
from backprobe.tracing.values import Value

MANY = 1000
"""The most values in a block that is not ended, for example because no ``backward()`` can reach any of them, as in an
evaluation.
"""
Opened = Callable[[Request, Backend, FrameType], "LoopPart"]
"""Creates a block that begins at the current line of a frame."""
Over = Callable[["LoopPart", BaseException | None], bool]
"""Called with each block that has ended, and with the error that ended it, if any. Returns whether to stop
recording.
"""
Frameworks = Callable[[], Iterable[str]]
"""Returns the frameworks that the program may use, the likeliest first."""


class Stopped(SystemExit):
    """Raised in the program when nothing more needs to be recorded."""


class LoopPart(PlainBlock):
    """One of the blocks in which a training loop is recorded. Only the program itself runs backward in it."""

    iterations = 0  # the number of iterations with backward in the finished block
    so_far = (0, 0)  # the numbers of passes and captures after the first iteration
    passed: Callable[[FrameType], None]
    """Called after backward ran, with the frame that called backward."""

    @property
    def passes(self) -> int:
        """The number of outputs that the program has differentiated so far."""
        return len(self.tape.targets()) if isinstance(self.tape, Differentiator) else len(self.outputs)

    @property
    def backward_passes(self) -> int:
        """The number of passes that have added their gradients to the leaves; with a framework's own tape, of all
        passes.
        """
        return self.passes if isinstance(self.tape, Differentiator) else len(self.summed)

    @property
    def has_replaced_a_leaf(self) -> bool:
        """Is a name that was bound to a leaf, or to a Variable of TensorFlow, now bound to something else, as after
        ``w = w - lr * w.grad``?

        Only values computed after the loss count. Variables computed before the loss may belong to two loops that use
        the same name.
        """
        loss = max(self._losses(), default=-1)
        return any(
            self._is_leaf(held[0]) and not self._is_leaf(held[-1])
            for held in self._bound()
            if (held[-1].number or 0) > loss
        )

    @property
    def has_more_to_come(self) -> bool:
        """Has the program computed a graph from which it has not yet taken gradients, and that is still in use?

        Examples are an inner loop whose final state is used by a later ``backward()``, and a loop that computes the
        rows of a Jacobian one after another. False once ``backward()`` has run in the block.
        """
        tape = self.tape
        return not self.summed and tape.leads_on([self._capture(held[-1]) for held in self._bound()])

    def _bound(self) -> list[list[Value]]:
        # Return, for each name, the tensors to which it was bound, in order.
        named: dict[tuple[Any, str, str], list[tuple[int, Value]]] = {}
        for value in self.trace.read().naming.made:
            for scope, local, count, leaf in value.names if value.number is not None else ():
                where = scope if local.isidentifier() else None  # other functions may bind the same attribute
                named.setdefault((where, local, leaf), []).append((count, value))
        return [[value for _, value in sorted(each, key=itemgetter(0))] for each in named.values()]

    def _losses(self) -> Iterable[int]:
        # Return the numbers of the outputs that the program has differentiated so far.
        tape, captures = self.tape, self.trace.versions.captures
        if not isinstance(tape, Differentiator):
            return self.outputs
        targets = tape.targets()
        return [at for at, capture in enumerate(captures) if any(capture.source is one for one in targets)]

    def _capture(self, value: Value) -> Any:
        assert value.number is not None
        return self.trace.versions.captures[value.number]

    def _is_leaf(self, value: Value) -> bool:
        capture = self._capture(value)
        if isinstance(self.tape, Differentiator):
            return self.tape.is_variable(capture)
        return self.tape.is_differentiated(capture.tensor) and not self.tape.has_history(capture)

    def has_taken_gradients(self, differentiator: Differentiator) -> bool:
        return bool(differentiator.targets())

    def to_differentiate(self, differentiator: Differentiator) -> list[ProbedOutput]:
        found = [ProbedOutput(tensor, None, None) for tensor in differentiator.targets()]
        if not found:
            raise NothingToDifferentiate("the program took no gradient", asked="a gradient", next="tape.gradient(...)")
        return found


class TrainingLoop:
    """Opens and closes blocks while the program runs in this thread."""

    def __init__(
        self,
        probe: Request,
        file: str,
        over: Over,
        opened: Opened = LoopPart,
        frameworks: Frameworks = lambda: BACKENDS,
    ) -> None:
        self.probe, self.over, self.opened, self.frameworks = probe, over, opened, frameworks
        self.home = home(file)
        self.block: LoopPart | None = None
        self.tracer: Any = None  # the tracer of the open block
        # the function of the program that a library's loop has called, and that has run backward in the open block
        self.step: FrameType | None = None
        self.count = 0  # the number of blocks opened so far
        self.before: Any = None  # the thread's earlier trace function
        # The frame in which recording started, and the trace function that this frame had before.
        self.frame: FrameType | None = None
        self.traced: Any = None
        self.is_stopped = False
        self.process = os.getpid()
        self.elsewhere = Elsewhere()
        # called each time for a backend that has no blocks
        self.without_blocks: Callable[[Backend], None] = lambda backend: None

    def start(self, frame: FrameType | None = None) -> None:
        """Start to record, at the next function call or at the current line of ``frame``. Recording ends if another
        tracer is set.
        """
        self.before = sys.gettrace()
        sys.settrace(self._entered)
        if frame is not None:
            self.frame, self.traced = frame, frame.f_trace
            frame.f_trace = _FrameTracer(self)
            self.open(frame)

    def run(self, arguments: Sequence[str], spec: ModuleSpec | None = None) -> None:
        """Run a script, the first of the arguments, as ``__main__``, and record from its first function call on."""
        with as_main(arguments, spec) as main:
            code = compiled(str(main.__file__))
            with self.elsewhere.heard():
                try:
                    self.start()
                    exec(code, vars(main))
                finally:
                    self.stop()

    def stop(self, error: BaseException | None = None) -> None:
        """Stop recording, at the end of the program or earlier."""
        try:
            self.close(error)
        finally:
            sys.settrace(self.before)
            if self.frame is not None:
                self.frame.f_trace, self.frame = self.traced, None

    def close(self, error: BaseException | None) -> None:
        """End the open block, with the error that ended it, if any."""
        block, self.block, self.step = self.block, None, None
        if block is not None:
            block.exit(error)
            self.is_stopped = self.over(block, error) or self.is_stopped

    def open(self, frame: FrameType) -> bool:
        """Begin a block in a frame, if a framework with blocks is imported and the source of the frame can be read.
        Returns whether it began.
        """
        framework = next((one for one in self.frameworks() if is_imported(one)), None)
        if framework is None or not _can_hold(frame.f_code):
            return False
        backend = load_backend(framework)
        if backend.blocks is None:
            self.without_blocks(backend)
            return False
        block = self.opened(self.probe, backend, frame)
        block.passed = self.passed
        block.enter()
        self.block, self.tracer, self.count = block, sys.gettrace(), self.count + 1
        return True

    @property
    def passes(self) -> tuple[int, int]:
        """The number of the open block, and the number of tensors from which the program has run backward in this
        block.
        """
        return (0, 0) if self.block is None else (self.count, self.block.passes)

    @property
    def reads(self) -> int:
        """The number of gradients that the program has read in the open block."""
        kept = None if self.block is None else self.block.tape.kept_gradients
        return 0 if kept is None else kept.count

    def is_of_training(self, entered: tuple[int, int], is_behind: bool = False) -> bool:
        """May a loop of the program that now begins another iteration end the block?

        It may not if the loop is in a function that is called after ``backward()`` and runs no backward itself, for
        example to freeze parameters. A loop after ``backward()`` that prints gradients may not end the block either,
        unless it computes many values.
        """
        block = self.block
        is_after = block is not None and (is_behind or (entered[1] > 0 and entered == self.passes))
        return not is_after or (block is not None and len(block.trace.versions.captures) > MANY)

    def begin_iteration(self) -> None:
        """Called when a loop of the program begins another iteration. Ends the open block if it is complete."""
        if self.block is not None and self.is_over(self.block):
            self.close(None)

    def passed(self, calling: FrameType) -> None:
        """Called when the program has run backward. If a library called backward, for example in ``fit``, the block
        ends here, because the loop is not in the program's code. If the library called a function of the program that
        runs backward, such as a ``train_step``, the block ends with that function. Raises Stopped.
        """
        block = self.block
        if block is None or not _is_of_library(calling, block.frame):
            return
        self.step = _step_of_program(calling, block.frame)
        if self.step is None:
            self.end_step()

    def end_step(self) -> None:
        """End the block after a step of a library's training loop, and begin the next. Raises Stopped."""
        assert self.block is not None
        frame = self.block.frame
        self.close(None)
        if self.is_stopped:
            raise Stopped
        assert frame is not None
        self.open(frame)

    def is_over(self, block: LoopPart) -> bool:
        """Is the open block complete, now that another iteration begins?"""
        captures, tape = block.trace.versions.captures, block.tape
        is_backward = isinstance(tape, Recompute) and tape.repeated() is not None
        if is_backward or sys.gettrace() != self.tracer:
            return False  # backward is running, or a block that the program itself opened
        if block.passes:
            return not ((len(captures) <= MANY and block.has_more_to_come) or self._goes_on(block))
        return len(captures) > MANY and not any(map(tape.has_history, captures))

    def _goes_on(self, block: LoopPart) -> bool:
        # Should the next iteration be recorded in the same block? If the program has replaced a leaf, that iteration
        # shows the effect.
        passes, captures = block.passes, len(block.trace.versions.captures)
        if not block.iterations:
            block.iterations, block.so_far = 1, (passes, captures)
            return not self.probe.options.nonfinite and block.has_replaced_a_leaf
        is_new = passes > block.so_far[0]
        block.iterations += is_new
        return not is_new and captures <= block.so_far[1] + MANY

    def _entered(self, frame: FrameType, event: str, arg: Any) -> Any:
        # A forked process, such as a worker of a data loader, inherits the tracer and the open block, but does not use
        # them.
        if os.getpid() != self.process:
            self._forked()
            return None
        return _FrameTracer(self) if is_of_program(frame.f_code.co_filename, self.home) else None

    def _forked(self) -> None:
        block, self.block = self.block, None
        if block is not None:
            block.installed.close()
        sys.settrace(None)


class _FrameTracer:
    # The trace function of one frame of the program.
    def __init__(self, loop: TrainingLoop) -> None:
        self.loop = loop
        self.at = self.line = -1
        self.passes = self.seen = loop.passes  # passes of the open block: when this frame was entered, and now
        self.passed_at = -1  # the line of this frame in which backward() last ran, here or in a called function
        self.had_read = 0  # the number of gradients read before that call of backward()
        self.error: BaseException | None = None

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        loop = self.loop
        if event == "line":
            is_jump = self._is_jump(frame)
            # a loop on one line had no event at its head before its first iteration
            at = frame.f_lasti if is_jump and frame.f_lineno == self.line else self.at
            self.at, self.line = frame.f_lasti, frame.f_lineno
            if loop.passes != self.seen:
                self.seen, self.passed_at, self.had_read = loop.passes, at, loop.reads
            if is_jump and loop.is_of_training(self.passes, self._is_behind(frame, at)):
                loop.begin_iteration()
            if loop.is_stopped:
                raise Stopped
            if loop.block is None and loop.open(frame):
                return frame.f_trace
        elif event == "exception":
            # the traceback is set only in the frame that catches the error
            self.error = arg[1].with_traceback(arg[2])
        elif event == "return" and loop.block is not None and loop.block.frame is frame:
            loop.close(None if _returns(frame) else self.error)
        elif event == "return" and loop.step is frame and loop.block is not None and _returns(frame):
            loop.end_step()
        return self

    def _is_jump(self, frame: FrameType) -> bool:
        # Does this line run again? Python reports a line twice in a row only where a loop on this line continues; a
        # comprehension on one line is part of a statement.
        if frame.f_lineno != self.line:
            return frame.f_lasti < self.at
        is_comprehension = frame.f_code.co_name.startswith("<") and not is_module(frame.f_code)
        # Python 3.12 reports the beginning of the loop, and Python 3.13 the jump to it.
        ours = comprehension_heads(frame.f_code) | comprehension_jumps(frame.f_code)
        return not is_comprehension and frame.f_lasti not in ours

    def _is_behind(self, frame: FrameType, end: int) -> bool:
        # Does the loop that ends at this instruction come after a backward(), which it does not contain? True only for
        # a loop that reads gradients, and for a comprehension, which is not a function of its own since Python 3.12.
        head, has_passed = frame.f_lasti, self.seen[1] > 0 and self.passed_at >= 0
        if not has_passed or head <= self.passed_at <= end:
            return False
        return self.loop.reads > self.had_read or head in comprehension_heads(frame.f_code)


def _returns(frame: FrameType) -> bool:
    # Does the frame return or yield? Otherwise an error is passing through it, perhaps inside a ``with`` statement.
    return opcode(frame).startswith(("RETURN", "YIELD", "SUSPEND"))


LOOPING = ("keras",)
"""Libraries whose own training loops differentiate."""


def _is_of_library(calling: FrameType, until: FrameType | None) -> bool:
    # Does a frame between these two belong to a library that has its own training loop?
    between = takewhile(lambda frame: frame is not until, callers(calling))
    return any(package(frame.f_code.co_filename) in LOOPING for frame in between)


def _step_of_program(calling: FrameType, until: FrameType | None) -> FrameType | None:
    # Return the outermost frame of the program between these two, without those that call the library.
    between = [*takewhile(lambda frame: frame is not until, callers(calling))]
    inner = takewhile(lambda frame: package(frame.f_code.co_filename) not in LOOPING, between)
    return next((one for one in reversed([*inner]) if package(one.f_code.co_filename) is None), None)


@by_code(4096)
def _can_hold(code: CodeType) -> bool:
    # Can this code contain a block? Not a comprehension, a class body, or code without source.
    is_function = bool(code.co_flags & inspect.CO_OPTIMIZED) and not code.co_name.startswith("<")
    with suppress(NoSource):
        return (is_function or is_module(code)) and bool(events(code, code, code.co_filename))
    return False
