"""The gradients that the program computes with its own tapes, and why some are None: a tape records only what runs
inside it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import tensorflow as tf

from backprobe.backends.tensorflow import private
from backprobe.backends.tensorflow.backward import by_key
from backprobe.backends.tensorflow.capture import Capture
from backprobe.backends.tensorflow.cuts import Edge, Severed
from backprobe.backends.tensorflow.operation_log import NEVER, OperationLog
from backprobe.backends.tensorflow.tensors import describe, identity, is_differentiable, is_tensor, is_zero, variable_of
from backprobe.backends.tensorflow.trained_names import Owned, name_of, owned_by_layers
from backprobe.backends.user_lines import users_line
from backprobe.backends.zero_gradients import all_zero
from backprobe.record.graph import reached
from backprobe.record.none_gradients import CutOperation, NoneGiven, WhyNone
from backprobe.record.reasons import Reason
from backprobe.record.source import Source
from backprobe.record.training import ModuleRan, Training, Untrained

MOST = 8  # the most values that are reported as computed from one Variable

Why = tuple[WhyNone, tuple[int, ...], tuple[Severed, ...]]


@dataclass
class RecordedSpans:
    """The facts about one tape: the ranges of the log during which it recorded, and the tensors that the program let it
    watch.
    """

    spans: list[tuple[float, float]] = field(default_factory=list)
    watched: dict[int, int] = field(default_factory=dict)  # by number: the position in the log of the first watch
    newest: dict[int, int] = field(default_factory=dict)  # by number: the number that a new tensor would have got then

    def has(self, position: int) -> bool:
        return any(start < position <= end for start, end in self.spans)


@dataclass(frozen=True)
class AskedOfTape:
    """A gradient that the program requested and that is None or 0: the value, the line, and the reason. It also stands
    for a call that requested no gradient at all.
    """

    number: int
    version: int
    label: str
    line: Source
    why: WhyNone
    outside: tuple[int, ...]  # numbers of values on the path that were computed while the tape was not recording
    cuts: tuple[Severed, ...]
    targets: tuple[int, ...]
    dtype: str
    is_variable: bool


class UserTapes:
    """The tapes of one block, except the probe's."""

    def __init__(self, log: OperationLog, version: Callable[[Any], int], watched: Callable[[Any, Any], object]) -> None:
        self.log, self.version, self.watched = log, version, watched
        self.began = private.next_identity()
        self.tapes: WeakKeyDictionary[Any, RecordedSpans] = WeakKeyDictionary()
        self.asked: list[AskedOfTape] = []
        self.trained: dict[int, bool] = {}  # for each Variable whose gradient was computed: was any gradient not None?
        self.owned: dict[int, Owned] = {}  # the program's names of Variables, found when a gradient was None or 0
        self.zero: dict[int, Any] = {}  # Variables with a zero gradient, until any gradient is not 0
        self.has_moving = False  # has any Variable received a nonzero gradient?
        self.zero_at: Source | None = None

    @property
    def listeners(self) -> dict[str, Callable[..., Any]]:
        """The listeners to the methods of tapes that begin and end recording, and watch tensors."""
        return {private.PUSH: self._pushing, private.POP: self._popping, "watch": self._watching}

    def _of(self, tape: Any) -> RecordedSpans:
        # Return the facts about a tape. If it was recording before the block, it is assumed to have recorded everything
        # before.
        if tape not in self.tapes:
            self.tapes[tape] = RecordedSpans([(-1, math.inf)] if private.records(tape) else [])
        return self.tapes[tape]

    def is_recorded(self, tape: Any, own: Any) -> bool:
        """Does another tape of the program record this tape's gradients, as for a gradient penalty? ``own`` is the
        probe's tape.
        """
        others = [known.spans for one, known in self.tapes.items() if one is not tape and one is not own]
        return any(spans and spans[-1][1] == math.inf for spans in others)

    def _pushing(self, following: Callable[..., Any], tape: Any) -> None:
        if private.is_new(tape):
            self.tapes[tape] = RecordedSpans()
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
        known = self._of(tape)
        for one in filter(is_tensor, tf.nest.flatten(tensor)):
            if identity(one) not in known.watched:
                known.watched[identity(one)], known.newest[identity(one)] = self.log.length, private.next_identity()
                self.watched(tape, one)

    def given(self, tape: Any, args: Sequence[Any], kwargs: Mapping[str, Any], gradients: Any) -> None:
        """Called when a tape has returned these gradients. Records the reason for each None, and for each zero that an
        operation on the path explains, if the program's line is known.
        """
        target, sources = [*args, *(kwargs[name] for name in ("target", "sources", "source") if name in kwargs)][:2]
        is_filled = any(map(_is_filling, (*args[2:], *kwargs.values())))
        came = [*zip(tf.nest.flatten(sources), tf.nest.flatten(gradients), strict=False)]
        missing = [source for source, gradient in came if gradient is None and is_tensor(source)]
        self._count(came)
        with self.log.muted():
            may_be = [*came] if self.log.cuts.zero or is_filled else []
            zero = [source for source, gradient in may_be if is_tensor(source) and is_zero(gradient)]
        line = users_line(sys._getframe(1)) if missing or zero or not came else None
        if any(gradient is None for _, gradient in came) or zero:
            self.owned |= owned_by_layers()
        if line is None:
            return
        if not came:
            self.asked.append(AskedOfTape(0, 0, "", line, WhyNone.NOTHING, (), (), (), "", False))
        known = self._of(tape)
        targets = {identity(one) for one in tf.nest.flatten(target) if is_tensor(one)}
        way = _Way(
            self.log, known, targets, self.began, {**dict.fromkeys(private.watched_by(tape), 0), **known.watched}
        )
        whys = [(source, way.why(source, private.watches_variables(tape))) for source in missing]
        whys += [
            (source, (WhyNone.ZERO, (), cuts))
            for source in zero
            if (cuts := way.zeros(identity(source)) or way.cuts(identity(source)) * is_filled)
        ]
        for source, (why, outside, cuts) in whys:
            is_variable = variable_of(source) is not None
            self.asked.append(
                AskedOfTape(
                    identity(source),
                    self.version(source) if is_variable else 0,
                    self._label(source),
                    line,
                    why,
                    outside,
                    cuts,
                    tuple(targets),
                    str(describe(source).dtype),
                    is_variable,
                )
            )

    def _count(self, came: Sequence[tuple[Any, Any]]) -> None:
        for source, gradient in came:
            variable = variable_of(source)
            if variable is not None and variable.trainable:
                self.trained[identity(source)] = self.trained.get(identity(source), False) or gradient is not None
                if gradient is not None and not self.has_moving:
                    self._look_at(source, gradient)

    def _look_at(self, source: Any, gradient: Any) -> None:
        # Note a Variable that has got a gradient, and whether that gradient is 0. Zeros are reported only if all
        # gradients of a training are 0, so after the first nonzero gradient no further ones are examined.
        with self.log.muted():
            self.has_moving = not is_zero(gradient)
        self.zero[identity(source)] = source
        self.zero_at = self.zero_at or users_line(sys._getframe(1))

    def zeros(self) -> list[Reason]:
        """Return a note if the gradients of all Variables were exactly 0 in every call of the program's tapes, unless
        zeros are already reported at the line that causes them.
        """
        is_said = any(one.why is WhyNone.ZERO for one in self.asked)  # already reported at the line that causes it
        is_all = self.zero and not (self.has_moving or is_said) and self.zero.keys() == self.trained.keys()
        if not is_all:
            return []
        self.owned |= owned_by_layers()
        return [all_zero([*map(self._label, self.zero.values())], self.zero_at)]

    def _label(self, value: Any) -> str:
        is_variable = variable_of(value) is not None
        return name_of(value, self.owned) if is_variable else f"a tensor of shape {describe(value).shape}"

    def name(self, value: Any) -> str:
        """Return the name of a Variable, or the shape of a tensor in words."""
        if identity(value) not in self.owned:
            self.owned |= owned_by_layers()
        return self._label(value)

    def training(self, captures: Sequence[Capture]) -> Training | None:
        """Return the number of Variables whose gradients the program computed, and the facts about those that never had
        a gradient. Return None if it computed no gradient of a Variable.
        """
        lacking = [one for one in self.asked if one.number in self.trained and not self.trained[one.number]]
        each = {one.number: one for one in lacking}.values()
        if not self.trained:
            return None
        untrained = tuple([self._untrained(one, captures) for one in each])
        return Training(len(self.trained), stepped=True, untrained=untrained)

    def _untrained(self, one: AskedOfTape, captures: Sequence[Capture]) -> Untrained:
        name, module, kind, beside = self.owned.get(one.number, (one.label, "", "", ()))
        is_told = one.why is not WhyNone.NO_WAY or bool(one.cuts)
        if is_told or self.log.is_read(one.number):
            carriers = self._carriers(one.number, captures)
            own = next((at for at, capture in enumerate(captures) if capture.number == one.number), None)
            is_alone = own is not None and not (carriers or module)
            ran = ModuleRan.ASKED if is_told else ModuleRan.UNKNOWN if is_alone else ModuleRan.CALLED
            return Untrained(name, module, kind, ran, carriers=carriers, own=own)
        is_called = any(map(self.log.is_read, beside))
        return Untrained(name, module, kind, ModuleRan.NEVER_READ if is_called or not module else ModuleRan.NOT_CALLED)

    def _carriers(self, number: int, captures: Sequence[Capture]) -> tuple[int, ...]:
        # Return the positions of captures that are computed from a Variable without passing another capture, ``MOST``
        # at most.
        from_it = {
            at
            for at, capture in enumerate(captures)
            if capture.number != number and number in self.log.before([capture.number])
        }
        numbers = {captures[at].number: at for at in from_it}
        far = {
            at for at in from_it if any(numbers.get(each, at) != at for each in self.log.before([captures[at].number]))
        }
        return tuple(sorted(from_it - far))[:MOST]

    def none_given(self, captures: Sequence[Capture]) -> tuple[NoneGiven, ...]:
        """Return the gradients that were None, and those that an operation made 0, by positions of captures."""
        versions: dict[int, dict[int, int]] = {}
        for at, capture in enumerate(captures):
            versions.setdefault(capture.number, {}).setdefault(capture.version, at)
        recorded = by_key(captures)

        def cut(one: Severed, of: int) -> CutOperation | None:
            found = {at for number in one.inputs for at in self.log.nearest(number, recorded)}
            # keep only values that were computed from this source: others may flow into the operation too
            found = {at for at in found if of in self.log.before([captures[at].number])}
            line = one.source
            return None if line is None else CutOperation(one.operation, one.by, one.dtype, line, tuple(sorted(found)))

        def variables_behind(number: int) -> tuple[int, ...]:
            before = self.log.before([number])
            return tuple([at for at, one in enumerate(captures) if one.is_variable and one.number in before])

        def every(numbers: Sequence[int]) -> tuple[int, ...]:
            return tuple([at for number in numbers for at in versions.get(number, {}).values()])

        return tuple(
            [
                NoneGiven(
                    _nearest(versions.get(asked.number, {}), asked.version),
                    asked.label,
                    asked.line,
                    asked.why,
                    every(asked.outside),
                    tuple(filter(None, (cut(one, asked.number) for one in asked.cuts))),
                    every(asked.targets),
                    asked.dtype,
                    asked.is_variable,
                    variables=variables_behind(asked.number) if asked.why is WhyNone.NOT_WATCHED else (),
                )
                for asked in self.asked
            ]
        )


class _Way:
    # The path from sources to targets according to the log, and the parts of the path that a tape has recorded.
    def __init__(
        self, log: OperationLog, tape: RecordedSpans, targets: set[int], began: int, watched: Mapping[int, int]
    ) -> None:
        self.log, self.tape, self.targets, self.began, self.watched = log, tape, targets, began, watched
        self.before = {each: log.made.get(each, NEVER) for each in log.before(targets)}
        self.order = sorted(self.before, key=lambda number: self.before[number][0])

    def why(self, source: Any, watches_variables: bool) -> Why:
        # Return why a tape returned None for a source, the values on its path that the tape did not record in time, and
        # the operations that block the gradient or read its numbers out of TensorFlow.
        number, variable = identity(source), variable_of(source)
        if not is_differentiable(source if variable is None else variable):
            return WhyNone.NOT_FLOAT, (), ()
        is_watched = self._is_watched(number) if variable is None else variable.trainable and watches_variables
        if not is_watched and number not in self.watched:
            is_trainable = variable is None or variable.trainable
            return (WhyNone.NOT_WATCHED if is_trainable else WhyNone.NOT_TRAINABLE), (), ()
        cuts = self.cuts(number)
        if cuts:
            return WhyNone.CUT, (), cuts
        left = tuple(
            [
                one
                for one in self.log.cuts.left.values()
                if self.tape.has(one.position) and number in self.log.before(one.inputs)
            ]
        )
        computed = [each for each in self.targets if each in self.log.made or each in self.log.cut]
        is_after = bool(self.targets) and max(self.targets) < self.tape.newest.get(number, 0)
        if variable is None and is_after and not computed:
            return WhyNone.WATCHED_AFTER, (), left
        if variable is None and number not in self.log.followed:
            return WhyNone.UNKNOWN, (), left
        if not computed:
            is_new = bool(self.targets) and min(self.targets) > self.began
            return (WhyNone.CONSTANT if is_new else WhyNone.UNKNOWN), (), left
        if number not in self.before:
            return WhyNone.NO_WAY, (), left
        on_way, since = self._from(number), self.watched.get(number, 0)
        late = [each for each in self.order if each in on_way and self.before[each][0] <= since]
        if late and all(self.tape.has(self.before[each][0]) for each in on_way):
            return WhyNone.WATCHED_LATE, (late[0],), ()
        seen = {each for each in on_way if self.tape.has(self.before[each][0])}
        used = {given for each in seen for given in self.before[each][1]} | self.targets
        last = [each for each in self.order if each in on_way - seen and each in used]
        return (WhyNone.OUTSIDE if last else WhyNone.UNKNOWN), tuple(last), ()

    def cuts(self, number: int) -> tuple[Severed, ...]:
        """Return the operations on the path from a source to the targets that the tape recorded and that let no
        gradient through; empty if the gradient can flow on some path.
        """
        if number in self.before:
            return self._from_source(number, self._closing(number, self.log.cuts.closed))
        return self._from_source(number, self.log.cuts.severed_behind(self.targets))

    def zeros(self, number: int) -> tuple[Severed, ...]:
        # Return the operations with derivative 0 on the path from a source whose gradient is zero; empty if some path
        # avoids them.
        cuts = self.log.cuts
        found = self._from_source(number, self._closing(number, {**cuts.closed, **cuts.zero}))
        return found if any(severed in cuts.zero.values() for severed in found) else ()

    def _closing(self, number: int, closed: Mapping[Edge, Severed]) -> list[Severed]:
        # Return the operations at these edges, if the edges close all paths from a source to the targets; otherwise
        # empty.
        inputs = self.log.inputs
        behind = reached(self.targets, lambda each: [one for one in inputs(each) if (each, one) not in closed])
        edges = [(each, one) for each in sorted(behind) for one in inputs(each)]
        return [] if number in behind else [closed[edge] for edge in edges if edge in closed]

    def _from_source(self, number: int, cuts: Sequence[Severed]) -> tuple[Severed, ...]:
        # Return the cuts that the tape has recorded and to which the source leads.
        found = dict.fromkeys(severed for severed in cuts if self.tape.has(severed.position))
        return tuple(severed for severed in found if number in self.log.before(severed.inputs))

    def _from(self, number: int) -> set[int]:
        # Return the values that are computed from a source, on the path to the targets.
        found = {number}
        for each in self.order:
            if not found.isdisjoint(self.before[each][1]):
                found.add(each)
        return found - {number}

    def _is_watched(self, number: int) -> bool:
        # Is a tensor watched, or computed from a watched one while the tape recorded?
        def seen(one: int) -> tuple[int, ...]:
            position, flowing = self.log.made.get(one, NEVER)
            return flowing if self.tape.has(position) else ()

        return not self.watched.keys().isdisjoint(reached([number], seen))


def _is_filling(option: Any) -> bool:
    # Does this option of ``gradient`` return zeros for values that are not connected?
    return option is tf.UnconnectedGradients.ZERO or (isinstance(option, str) and option == "zero")


def _nearest(versions: Mapping[int, int], version: int) -> int | None:
    # Return the capture of a version, or of the last captured version before it, or else of the first one. Return None
    # if there are none.
    return versions[max((one for one in versions if one <= version), default=min(versions))] if versions else None
