"""Gradients that the program asks its own tapes for, and why one is None: a tape sees only what runs in it."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import tensorflow as tf

from backprobe.backends.tensorflow import private
from backprobe.backends.tensorflow.capture import Capture
from backprobe.backends.tensorflow.operation_log import NEVER, OperationLog
from backprobe.backends.tensorflow.tensors import describe, identity, is_tensor, variable_of
from backprobe.backends.user_lines import users_line
from backprobe.record.entries import NoneGiven, WhyNone
from backprobe.record.graph import reached
from backprobe.record.source import Source


@dataclass
class Recorded:
    """What one tape has seen: the spans of the log in which it recorded, and what the program had it watch."""

    spans: list[tuple[float, float]] = field(default_factory=list)
    watched: set[int] = field(default_factory=set)

    def has(self, position: int) -> bool:
        return any(start < position <= end for start, end in self.spans)


@dataclass(frozen=True)
class Asked:
    """A gradient that was asked for and is None: with respect to what, where, and why."""

    number: int
    version: int
    label: str
    line: Source
    why: WhyNone
    outside: tuple[int, ...]  # the numbers of values on the way that were computed while the tape did not record


class UserTapes:
    """The tapes of one block, but for that of the probe."""

    def __init__(self, log: OperationLog, version: Callable[[Any], int]) -> None:
        self.log, self.version = log, version
        self.tapes: WeakKeyDictionary[Any, Recorded] = WeakKeyDictionary()
        self.asked: list[Asked] = []

    @property
    def listeners(self) -> dict[str, Callable[..., Any]]:
        """To the methods of tapes, which tell when they record, and what they watch."""
        return {private.PUSH: self._pushing, private.POP: self._popping, "watch": self._watching}

    def _of(self, tape: Any) -> Recorded:
        """What is known of a tape; one that records since before the block has all of it."""
        if tape not in self.tapes:
            self.tapes[tape] = Recorded([(-1, math.inf)] if private.records(tape) else [])
        return self.tapes[tape]

    def _pushing(self, following: Callable[..., Any], tape: Any) -> None:
        if private.is_new(tape):
            self.tapes[tape] = Recorded()
        known = self._of(tape)
        following(tape)
        known.spans.append((self.log.length, math.inf))

    def _popping(self, following: Callable[..., Any], tape: Any) -> None:
        known = self._of(tape)
        following(tape)
        if known.spans:
            known.spans[-1] = (known.spans[-1][0], self.log.length)

    def _watching(self, following: Callable[..., Any], tape: Any, tensor: Any) -> None:
        following(tape, tensor)
        self._of(tape).watched |= {identity(one) for one in tf.nest.flatten(tensor) if is_tensor(one)}

    def given(self, tape: Any, args: Sequence[Any], kwargs: Mapping[str, Any], gradients: Any) -> None:
        """A tape has given these; of each that is None is noted why."""
        target, sources = [*args, *(kwargs[name] for name in ("target", "sources", "source") if name in kwargs)][:2]
        came = zip(tf.nest.flatten(sources), tf.nest.flatten(gradients), strict=False)
        missing = [source for source, gradient in came if gradient is None and is_tensor(source)]
        line = users_line(sys._getframe(1)) if missing else None
        if line is None:
            return
        known = self._of(tape)
        targets = {identity(one) for one in tf.nest.flatten(target) if is_tensor(one)}
        way = _Way(self.log, known, targets, known.watched | private.watched_by(tape))
        for source in missing:
            why, outside = way.why(source, private.watches_variables(tape))
            version = self.version(source) if variable_of(source) is not None else 0
            self.asked.append(Asked(identity(source), version, _label(source), line, why, outside))

    def none_given(self, captures: Sequence[Capture]) -> tuple[NoneGiven, ...]:
        """The gradients that did not come, by positions of captures."""
        versions: dict[int, dict[int, int]] = {}
        for at, capture in enumerate(captures):
            versions.setdefault(capture.number, {}).setdefault(capture.version, at)
        return tuple([
            NoneGiven(_nearest(versions.get(asked.number, {}), asked.version), asked.label, asked.line, asked.why,
                     tuple([at for number in asked.outside for at in versions.get(number, {}).values()]))
            for asked in self.asked
        ])  # fmt: skip


class _Way:
    """The way from sources to targets as the log has it, and which parts of it a tape has seen."""

    def __init__(self, log: OperationLog, tape: Recorded, targets: set[int], watched: set[int]) -> None:
        self.log, self.tape, self.targets, self.watched = log, tape, targets, watched
        # what the targets were computed from
        self.before = {
            each: log.made.get(each, NEVER) for each in reached(targets, lambda one: log.made.get(one, NEVER)[1])
        }
        self.order = sorted(self.before, key=lambda number: self.before[number][0])

    def why(self, source: Any, watches_variables: bool) -> tuple[WhyNone, tuple[int, ...]]:
        """Why a tape gave None for a source; and what is on the way from it that the tape has not seen."""
        number, variable = identity(source), variable_of(source)
        is_watched = self._is_watched(number) if variable is None else variable.trainable and watches_variables
        if not is_watched and number not in self.watched:
            return WhyNone.NOT_WATCHED, ()
        computed = [each for each in self.targets if each in self.log.made or each in self.log.cut]
        if not computed or (variable is None and number not in self.log.followed):
            return WhyNone.UNKNOWN, ()
        if number not in self.before:
            return WhyNone.NO_WAY, ()
        on_way = self._from(number)
        seen = {each for each in on_way if self.tape.has(self.before[each][0])}
        used = {given for each in seen for given in self.before[each][1]} | self.targets
        last = [each for each in self.order if each in on_way - seen and each in used]
        return (WhyNone.OUTSIDE if last else WhyNone.UNKNOWN), tuple(last)

    def _from(self, number: int) -> set[int]:
        """What is computed from a source, on the way to the targets."""
        found = {number}
        for each in self.order:
            if not found.isdisjoint(self.before[each][1]):
                found.add(each)
        return found - {number}

    def _is_watched(self, number: int) -> bool:
        """Is a tensor watched, or computed before the eyes of the tape from what is?"""

        def seen(one: int) -> tuple[int, ...]:
            position, flowing = self.log.made.get(one, NEVER)
            return flowing if self.tape.has(position) else ()

        return not self.watched.isdisjoint(reached([number], seen))


def _label(value: Any) -> str:
    """What a value without a name is called."""
    variable = variable_of(value)
    if variable is not None:
        return str(getattr(value, "path", None) or variable.name.partition(":")[0])
    return f"a tensor of shape {describe(value).shape}"


def _nearest(versions: Mapping[int, int], version: int) -> int | None:
    """The capture of a version, or of the last one before it."""
    return versions[max((one for one in versions if one <= version), default=min(versions))] if versions else None
