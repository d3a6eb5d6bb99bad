"""Memory in JAX: the values that ``jax.vjp`` and its callers keep for the backward pass, and the arrays that are alive.

Inside ``jax.jit``, the measured values are those that JAX passes to the compiler when the function is traced. XLA may
keep less.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import jax

from backprobe.backends.jax import private
from backprobe.backends.memory import Alive, MeasuredMemory, MemoryHearing, StepBytes, StorageBytes
from backprobe.backends.patching import listening
from backprobe.backends.temporarily import temporarily
from backprobe.backends.user_lines import users_line, users_line_of
from backprobe.record.source import Source

ARGUMENT = "argument"
"""Used instead of an operation's name for an array that was an argument of the function."""

Place = tuple[Any, ...]
PULLBACK = "keep what the pullback returns, and not the pullback"
ON_CPU = "keep one number of each, such as float(x.mean()), or the latest alone"


class JaxMemory(MemoryHearing):
    """Implements ``MemoryHearing`` for JAX."""

    hears_steps = False

    def __init__(self, model: Any) -> None:
        self.bytes, self.counts, self.listening = StepBytes(), StorageBytes(), ExitStack()
        self.made: dict[int, tuple[Any, Source | None, str]] = {}  # by the id of an array: its line and operation
        # by the id of an array: the step that created it, or None if it existed before the block
        self.arrays: dict[int, tuple[Any, int | None]] = {}
        self.pullbacks: list[tuple[Any, int, Sequence[Place], Source | None]] = []
        self.steps = 0
        self.is_inside = False

    def open(self) -> None:
        self._look_at_arrays(None)
        self.listening.enter_context(private.hearing_evaluations(self._ran, several=True))
        heard = {(jax, "vjp"), (jax, "linearize"), *([private.DIFFERENTIATING] if private.DIFFERENTIATING else [])}
        for owner, name in heard:
            self.listening.enter_context(listening(owner, name, self._differentiated))

    def close(self) -> None:
        self.bytes.end()
        self.listening.close()
        self._look_at_arrays(self.steps)

    def step(self) -> None:
        self.bytes.end()
        self._look_at_arrays(self.steps)
        self.steps += 1
        self.made = {key: known for key, known in self.made.items() if known[0]() is not None}
        if self.after_step is not None:
            self.after_step(self.steps)

    # Methods for observing the program.

    def _ran(self, primitive: Any, given: Sequence[Any], params: Mapping[str, Any], made: Any) -> None:
        line = users_line(sys._getframe(1))
        name = params.get("name") if str(primitive) in private.CALLS else None
        for one in made if isinstance(made, list | tuple) else (made,):
            if isinstance(one, jax.Array) and not isinstance(one, jax.core.Tracer):
                self.made[id(one)] = weakref.ref(one), line, str(name or primitive)

    def _differentiated(self, following: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if self.is_inside:  # memory of a nested derivative is counted for the outer one
            return following(*args, **kwargs)
        with temporarily(self, is_inside=True):
            found = following(*args, **kwargs)
        self._count(found[1], args[1:], users_line(sys._getframe(1)))
        return found

    def _count(self, pullback: Any, differentiated: Any, line: Source | None) -> None:
        known = {_place(leaf) for leaf in jax.tree.leaves(differentiated)}
        kept = {_place(leaf): leaf for leaf in jax.tree.leaves(pullback) if hasattr(leaf, "dtype")}
        places = [place for place in kept if place not in known]
        for place in places:
            source, operation = self._made(kept[place], line)
            self.bytes.add((source, "", operation), place, _size(kept[place]))
            self.counts.add(place, _size(kept[place]))
        self.pullbacks.append((weakref.ref(pullback), self.steps, places, line))
        weakref.finalize(pullback, self._let_go, places).atexit = False

    def _let_go(self, places: Iterable[Place]) -> None:
        for place in places:
            self.counts.remove(place)

    def _made(self, leaf: Any, line: Source | None) -> tuple[Source | None, str]:
        # Return the line and operation that made an array; for an argument, the line that differentiates the function.
        known = self.made.get(id(leaf))
        if known is not None and known[0]() is leaf:
            return known[1], known[2]
        traceback, operation = private.traced_by(leaf)
        source = None if traceback is None else users_line_of(traceback.as_python_traceback())
        return (line, ARGUMENT) if not operation or source is None else (source, operation)

    def _look_at_arrays(self, step: int | None) -> None:
        # Assign all arrays that are new since the last look to this step.
        before, self.arrays = self.arrays, {}
        for array in jax.live_arrays():
            known = before.get(id(array))
            is_known = known is not None and known[0]() is array
            self.arrays[id(array)] = known if known is not None and is_known else (weakref.ref(array), step)

    # Methods for computing the results.

    def measured(self) -> MeasuredMemory:
        return MeasuredMemory(self.steps, self.bytes.saved(), self.counts.most, _peak(), self._alive(), ())

    def _alive(self) -> list[Alive]:
        if self.steps < 3:
            return []
        found: list[Alive] = []
        inside: set[Place] = set()
        for reference, step, places, line in self.pullbacks:
            pullback = reference()
            if pullback is not None and step < self.steps - 1:
                held = {_place(leaf): _size(leaf) for leaf in jax.tree.leaves(pullback)}
                inside.update(held)
                size = sum(held[place] for place in places)
                words = {"called": "the pullbacks of", "without": "", "next": PULLBACK}
                found.append(Alive(pullback, frozenset([step]), size, False, line, **words))
        for reference, at in self.arrays.values():
            array = reference()
            if array is None or at is None or at >= self.steps - 1 or array.size < 2 or _place(array) in inside:
                continue  # a single number would not take less memory as a Python float
            _, line, _ = self.made.get(id(array), (None, None, ""))
            found.append(_alive(array, at, line))
        return found


def _alive(array: Any, step: int, line: Source | None) -> Alive:
    is_on_cpu = all(device.platform == "cpu" for device in array.devices())
    without, instead = ("", ON_CPU) if is_on_cpu else ("jax.device_get({})", "")
    size, steps = _size(array), frozenset([step])
    return Alive(array, steps, size, False, line, "arrays", "arrays of", without, instead)


def _place(leaf: Any) -> Place:
    # Return a key for the memory that holds the numbers, because arrays may share a buffer.
    if isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer):
        try:
            return "buffer", leaf.unsafe_buffer_pointer()
        # the array has several buffers, or holds random keys
        except (RuntimeError, ValueError, TypeError, NotImplementedError):
            return "array", id(leaf)
    return "traced", id(leaf)


def _size(leaf: Any) -> int:
    return int(getattr(leaf, "nbytes", 0))


def _peak() -> int | None:
    # Return the most bytes that the first device has used since the process started; None if the device does not count.
    known = jax.local_devices()[0].memory_stats()
    return None if not known else known.get("peak_bytes_in_use")
