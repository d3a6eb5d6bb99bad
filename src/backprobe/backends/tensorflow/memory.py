"""Memory in TensorFlow: the tensors that gradient tapes keep for the operations that they record, and tensors that are
alive.

A tape does not reveal what it keeps. Each kind of operation is therefore recorded once by a separate tape, to find out
which of its inputs and outputs a tape keeps alive.
"""

from __future__ import annotations

import bisect
import gc
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import numpy
import tensorflow as tf

from backprobe.backends.memory import Alive, MeasuredMemory, MemoryHearing, StepBytes, StorageBytes
from backprobe.backends.patching import listening
from backprobe.backends.temporarily import temporarily
from backprobe.backends.tensorflow import private
from backprobe.backends.tensorflow.hearing import hearing_operations
from backprobe.backends.tensorflow.operation_log import COMPILED, READING
from backprobe.backends.user_lines import users_line
from backprobe.record.source import Source

Place = tuple[str, int]
MOST = 100_000  # the most tensors whose lines are still remembered after a step
ONE_TAPE = "with tf.GradientTape() as tape: in each step, or tape.reset() at its end"
TAPES = "del the tape after its gradients, or a tape that is not persistent, and keep what they are"
ON_CPU = "keep one number of each, such as float(tf.reduce_mean(x)), or the latest alone"


class Tape:
    """The known facts about one of the program's tapes: the line at which it was first entered, and the memory that it
    keeps, by step.
    """

    def __init__(self, line: Source | None, counts: StorageBytes) -> None:
        self.line, self.counts = line, counts
        self.sizes: dict[int, dict[Place, int]] = {}  # for each step, the kept memory and its size

    def add(self, step: int, place: Place, size: int) -> None:
        own = self.sizes.setdefault(step, {})
        if place not in own:
            own[place] = size
            self.counts.add(place, size)

    def let_go(self) -> None:
        """Release the memory, because the tape has computed its gradients, was reset, or no longer exists."""
        for own in self.sizes.values():
            for place in own:
                self.counts.remove(place)
        self.sizes = {}


class TensorflowMemory(MemoryHearing):
    """Implements ``MemoryHearing`` for TensorFlow."""

    def __init__(self, model: Any) -> None:
        self.bytes, self.counts, self.listening = StepBytes(), StorageBytes(), ExitStack()
        self.tapes: weakref.WeakKeyDictionary[Any, Tape] = weakref.WeakKeyDictionary()
        self.active: list[Any] = []
        # for each operation, the indices of the inputs and outputs that tapes keep
        self.kept: dict[tuple[str, int, int], tuple[list[int], list[int]]] = {}
        self.variables: set[Place] = set()  # the memory of Variables
        # numbers of tensors: at the start of the block and after each step, the number that the next new tensor would
        # get
        self.bounds: list[int] = []
        self.lines: dict[int, Source | None] = {}  # the line that made each tensor, by the tensor's number
        self.compiled: tuple[str, Sequence[Any], Source | None] | None = None  # a compiled function that has just run
        self.has_run = self.is_muted = self.is_hearing_steps = False

    def open(self) -> None:
        self.bounds = [private.next_identity()]
        enter = self.listening.enter_context
        enter(hearing_operations(self._ran, self._recorded))
        for name, heard in (
            (private.PUSH, self._pushed),
            (private.POP, self._popped),
            *((name, self._asked) for name in (*private.GIVING, "reset")),
        ):
            enter(listening(tf.GradientTape, name, heard))
        self._hear_steps()
        # listing logical devices would fix settings that a program may still want to change
        if tf.config.list_physical_devices("GPU"):
            tf.config.experimental.reset_memory_stats("GPU:0")

    def close(self) -> None:
        self.bytes.end()
        self.listening.close()

    def step(self) -> None:
        if not self.has_run:
            return  # another optimizer has already ended this step
        self.bytes.end()
        self.has_run = False
        self.bounds.append(private.next_identity())
        for old in [*self.lines][:-MOST]:
            del self.lines[old]
        if self.after_step is not None:
            self.after_step(len(self.bounds) - 1)

    # Methods for observing the program.

    def _hear_steps(self) -> None:
        # Observe optimizers once Keras has been imported, which a script may do late.
        updating = None if self.is_hearing_steps else private.updating_class()
        if updating is not None:
            self.listening.enter_context(listening(updating, private.UPDATING, self._updated))
            self.is_hearing_steps = True

    def _updated(self, following: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        found = following(*args, **kwargs)
        if tf.executing_eagerly():
            self.step()
        return found

    def _pushed(self, following: Callable[..., Any], tape: Any) -> Any:
        self._hear_steps()
        if private.is_new(tape) and tape in self.tapes:  # the tape was reset, or has computed its gradients
            self.tapes[tape].let_go()
        found = following(tape)
        if tape not in self.tapes:
            self.tapes[tape] = known = Tape(users_line(sys._getframe(1)), self.counts)
            weakref.finalize(tape, known.let_go).atexit = False
        self.active.append(tape)
        return found

    def _popped(self, following: Callable[..., Any], tape: Any) -> Any:
        self.active = [one for one in self.active if one is not tape]
        return following(tape)

    def _asked(self, following: Callable[..., Any], tape: Any, *args: Any, **kwargs: Any) -> Any:
        found = following(tape, *args, **kwargs)
        if private.is_new(tape) and tape in self.tapes:  # the tape has released all tensors
            self.tapes[tape].let_go()
        return found

    def _ran(self, kind: Any, inputs: Any, attrs: Any, outputs: Any, *_: Any, **__: Any) -> None:
        if self.is_muted or not all(type(one) is private.EagerTensor for one in outputs):
            return
        self.has_run, line, self.compiled = True, users_line(sys._getframe(1)), None
        for one in outputs:
            self.lines[private.identity_of(one)] = line
        kind = str(kind)
        if kind in READING:
            self.variables.update(map(_place, outputs))
        elif COMPILED.match(kind):
            self.compiled = kind, outputs, line
        elif self.active and private.is_followed_by_a_tape(*inputs):
            for tensor in self._kept(kind, attrs, inputs, outputs):
                self._keep(tensor, line, kind)

    def _recorded(self, name: str, outputs: Any, inputs: Sequence[Any], is_custom: bool) -> None:
        # Record the tensors that a tape keeps for a compiled function that has just run. They are passed to its
        # backward function.
        if self.compiled is None or self.compiled[0] != name or not private.is_followed_by_a_tape(*inputs):
            return
        self.variables.update(map(_place, private.read_from(inputs)))
        kind, made, line = self.compiled
        self.compiled = None
        for tensor in filter(private.has_derivatives, made):
            self._keep(tensor, line, kind.removeprefix("__forward_"))

    def _kept(self, kind: str, attrs: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> Iterator[Any]:
        # Yield the tensors that tapes keep for an operation.
        key = kind, len(inputs), len(outputs)
        if key not in self.kept:
            with temporarily(self, is_muted=True):
                self.kept[key] = private.kept_of(kind, attrs, inputs, outputs)
        for several, places in zip((inputs, outputs), self.kept[key], strict=True):
            yield from (several[at] for at in places if several[at].dtype not in (tf.resource, tf.variant, tf.string))

    def _keep(self, tensor: Any, line: Source | None, kind: str) -> None:
        place, size = _place(tensor), _size(tensor)
        if place in self.variables:
            return
        self.bytes.add((line, "", kind), place, size)
        for tape in self.active:
            self.tapes[tape].add(len(self.bounds) - 1, place, size)

    # Methods for computing the results.

    def measured(self) -> MeasuredMemory:
        device = None
        if tf.config.list_physical_devices("GPU"):
            device = int(tf.config.experimental.get_memory_info("GPU:0")["peak"])
        return MeasuredMemory(len(self.bounds) - 1, self.bytes.saved(), self.counts.most, device, self._alive(), ())

    def _alive(self) -> list[Alive]:
        # Return the tapes, and the tensors of several elements, that are still alive from steps before the last one.
        # Before the third step there are none.
        if len(self.bounds) < 4:
            return []
        last = len(self.bounds) - 2
        found = []
        for tape, known in self.tapes.items():
            steps = frozenset(step for step in known.sizes if step < last)
            if steps:
                kept = sum(dict(pair for step in steps for pair in known.sizes[step].items()).values())
                instead = {"without": "", "next": TAPES if len(steps) == 1 else ONE_TAPE}
                found.append(Alive(tape, steps, kept, False, known.line, called="what tapes recorded in", **instead))
        for one in [one for one in gc.get_objects() if type(one) is private.EagerTensor]:
            step = bisect.bisect_right(self.bounds, private.identity_of(one)) - 1
            if 0 <= step < last and one.shape.num_elements() > 1 and one.dtype not in (tf.resource, tf.variant):
                line = self.lines.get(private.identity_of(one))
                found.append(Alive(one, frozenset([step]), _size(one), False, line, **_words(one)))
        return found


def _words(tensor: Any) -> dict[str, str]:
    known = {"kind": "arrays", "called": "tensors of"}
    return known | ({"without": "", "next": ON_CPU} if "CPU" in tensor.device else {"without": "{}.numpy()"})


def _place(tensor: Any) -> Place:
    # Return a key for the memory of a tensor's numbers, because tensors may share it. On devices other than the CPU,
    # sharing is not known.
    if "CPU" in tensor.device:
        try:
            return "memory", numpy.asarray(memoryview(tensor)).__array_interface__["data"][0]
        except (ValueError, TypeError, BufferError, NotImplementedError):  # raised for a dtype without a buffer
            pass
    return "tensor", private.identity_of(tensor)


def _size(tensor: Any) -> int:
    return int(tensor.dtype.size * (tensor.shape.num_elements() or 0))
