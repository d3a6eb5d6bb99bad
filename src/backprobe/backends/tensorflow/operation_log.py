"""The operations that ran, and the values that they carried a gradient from: by number, so no tensor is kept alive.

A gradient tape knows what flows into what, and does not say. TensorFlow reports each operation as it runs; from that,
the rules that tapes follow are applied here: an operation passes on what one of its inputs carries, unless recording
is stopped, it is ``tf.stop_gradient``, or its output has a dtype without derivatives.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from operator import itemgetter
from typing import Any

import tensorflow as tf

from backprobe.backends.tensorflow import run_once
from backprobe.backends.tensorflow.cuts import Edge, LoggedCuts, Place, Severed, in_checkpoint, is_cast, users_place
from backprobe.backends.tensorflow.private import (
    OwnGradient,
    dtype_number,
    hearing_operations,
    identity_of,
    is_followed_by_a_tape,
    is_stopped,
    unrecorded,
)
from backprobe.backends.tensorflow.tensors import (
    NUMBERS_DIFFERENTIABLE,
    dtype_name,
    is_other_than_zero,
    is_zero,
)
from backprobe.record.entries import GradStatus
from backprobe.record.graph import reached
from backprobe.record.none_gradients import CutBy

RESOURCE = tf.resource.as_datatype_enum
CARRYING = NUMBERS_DIFFERENTIABLE | {tf.variant.as_datatype_enum}
"""The numbers of dtypes whose values can carry a gradient."""
READING = frozenset({"ReadVariableOp"})
ASSIGNING = frozenset({"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"})
WRITING = re.compile("Assign(Add|Sub)?VariableOp|ResourceScatter|ResourceStridedSliceAssign")
"""Operations by which a program writes into all of a Variable, or into a part."""
NEITHER = frozenset({"VarIsInitializedOp", "VariableShape", "DestroyResourceOp", "VarHandleOp"})
COMPILED = re.compile(r"__(?:inference|forward)_(.+)_\d+")
"""How TensorFlow calls an operation that is a whole ``tf.function``."""
GATHERING = frozenset({"ResourceGather", "ResourceGatherNd"})
DRAWN = ("Random", "Multinomial", "ParameterizedTruncated", "TruncatedNormal")
"""Operations whose numbers go on where the last one stopped, by how their name starts."""

NEVER: tuple[int, tuple[int, ...]] = (0, ())
"""When and of what a value was made that was there before."""

Key = tuple[int, int]
"""The number of a tensor, or of a Variable's handle; and the version, which is 0 for a tensor."""


@dataclass(frozen=True)
class Written:
    """What one version of a Variable was made of: the numbers of the values that were written, and by which line."""

    given: tuple[int, ...]
    place: Place
    adds: bool  # is what it held before in it as well?


@dataclass
class Uses:
    """What was done with one Variable: when it was written and read; the reads share its memory."""

    writes: list[int] = field(default_factory=list)  # by position in the log
    reads: list[tuple[int, Any]] = field(default_factory=list)
    otherwise: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    """When parts of it were gathered, or a function had it, and the numbers of what was made of it."""
    gathered: dict[int, tuple[int, Any]] = field(default_factory=dict)  # by version: when first, and all of it
    is_in_doubt: bool = False  # a compiled function had it, and may have written
    written: dict[int, Written] = field(default_factory=dict)  # by the version that a write made
    is_read_unseen: bool = False  # while no tape recorded, as for tf.stop_gradient of the Variable itself

    def version_at(self, position: int) -> int:
        return bisect_left(self.writes, position)

    def reads_of(self, version: int) -> list[Any]:
        return [tensor for position, tensor in self.reads if self.version_at(position) == version]

    def sources(self, variable: Any, version: int, leading: Container[int]) -> list[Any] | None:
        """What the gradients of one version of this Variable are those of, where these numbers lead to the output;
        None where they are in one sum with those of another: there is one gradient of all that was not read plainly.
        """
        plain = {self.version_at(position) for position, tensor in self.reads if identity_of(tensor) in leading}
        others = {
            self.version_at(position) for position, made in self.otherwise if any(number in leading for number in made)
        }
        if version not in others:
            return self.reads_of(version)
        return [variable] if plain | others == {version} else None

    def versions(self) -> list[tuple[int, int, Any]]:
        """Each version that was read in the open: where in the log that was first, and what was read."""
        first = dict(self.gathered)
        for position, tensor in self.reads:
            first.setdefault(self.version_at(position), (position, tensor))
        return [(version, *read) for version, read in first.items()]


class OperationLog:
    """The operations of one run in the order in which they ran."""

    def __init__(self) -> None:
        self.length = 0
        self.followed: set[int] = set()
        self.made: dict[int, tuple[int, tuple[int, ...]]] = {}  # position, and the inputs that carry a gradient
        self.cut: dict[int, GradStatus] = {}  # values computed from followed ones, and why they carry nothing
        self.variables: dict[int, Uses] = {}
        self.cuts = LoggedCuts()
        self.derived: list[range] = []  # positions at which a tape of the program's own ran backward
        self.unfollowed: dict[int, tuple[str, Place | None]] = {}  # Variables that a tape does not follow: their dtype
        self.compiled: dict[str, None] = {}  # the functions that ran as a whole
        self.is_muted = self.is_written = False  # has any Variable been written?
        self.is_without_derivatives = False
        self.builds_graph = False  # for sessions, beside those of functions
        self.unset: set[int] = set()  # Variables that were made in the run, and have no value yet
        self.updating: dict[int, tuple[int, ...]] = {}  # what an optimizer was given for each Variable, while it runs
        self.updated_at: Place | None = None  # by which line

    @contextmanager
    def muted(self) -> Iterator[None]:
        """What runs within this context is not part of the program."""
        before, self.is_muted = self.is_muted, True
        try:
            yield
        finally:
            self.is_muted = before

    @contextmanager
    def without_derivatives(self) -> Iterator[None]:
        """What runs within this context has none in TensorFlow."""
        self.is_without_derivatives = True
        try:
            yield
        finally:
            self.is_without_derivatives = False

    def root(self, tensor: Any) -> None:
        """This tensor is watched by the tape."""
        self.length += 1
        self.followed.add(identity_of(tensor))
        self.made[identity_of(tensor)] = (self.length, ())

    def carries(self, tensor: Any) -> bool:
        return identity_of(tensor) in self.followed

    # what TensorFlow tells

    def operation(
        self, kind: Any, inputs: Sequence[Any], attrs: Any, outputs: Any, op_name: Any = None, graph: Any = None
    ) -> None:
        """An operation of this thread has run; one with a graph is only being traced."""
        if graph is not None or self.is_muted:
            self.builds_graph |= graph is not None and not (self.is_muted or graph.building_function)
            return
        name, compiled = _named(kind)
        if compiled is not None:
            self.compiled[compiled] = None
        self.length += 1
        is_of_variable = RESOURCE in map(dtype_number, inputs)
        if is_of_variable:
            for given in inputs:
                if dtype_number(given) == RESOURCE:
                    self._use(name, given, outputs)
        elif name == "VarHandleOp":
            self.unset.update(map(identity_of, outputs))
        followed = self.followed
        flowing = tuple([number for number in map(identity_of, inputs) if number in followed])
        if self.cuts.behind:
            self.cuts.passed(map(identity_of, inputs), map(identity_of, outputs or ()))
        if not flowing:
            self._pass_cut(inputs, outputs or ())
        elif name == "StopGradient":  # which TensorFlow runs with recording stopped
            self._cut(name, CutBy.STOP_GRADIENT, flowing, outputs)
        elif self.is_without_derivatives:
            self._cut(compiled or name, CutBy.NO_DERIVATIVE, flowing, outputs or ())
        elif is_stopped() and in_checkpoint():
            self.cut.update(dict.fromkeys(map(identity_of, outputs or ()), GradStatus.OPAQUE))
        elif is_stopped():
            self._cut(name, CutBy.STOPPED, flowing, outputs or ())
        else:
            self._flow(name, flowing, outputs or ())
            if not is_of_variable and run_once.runs_once(name):
                run_once.note(self.cuts, name, flowing, self.length, outputs or ())
        if flowing and WRITING.match(name):  # also while a Variable is made, with recording stopped
            self._write(name, flowing, inputs)

    def _write(self, name: str, flowing: tuple[int, ...], inputs: Sequence[Any]) -> None:
        # A Variable is written: what it is given is cut off, and what is behind that is behind the Variable.
        handle, *given = map(identity_of, inputs)
        self.cuts.passed(given, [handle])
        written = tuple(number for number in flowing if number != handle)
        gradient = self.updating.get(handle)  # alone: replicas' gradients are summed in one function of all
        place = self.updated_at if gradient is not None else users_place() if written else None
        if written:
            self.cuts.cut(name, CutBy.ASSIGNED, "", written, self.length, handle, place)
        if place is not None and handle in self.variables:
            uses, adds = self.variables[handle], gradient is not None or name != "AssignVariableOp"
            uses.written[len(uses.writes)] = Written(written if gradient is None else gradient, place, adds)

    def recorded(
        self, name: str, outputs: Sequence[Any], inputs: Sequence[Any], is_by_hand: bool
    ) -> OwnGradient | None:
        """A function of their own differentiates these outputs with respect to these inputs, whatever computed them.
        It gives what hears of that, if the program wrote it.
        """
        if self.is_muted or is_stopped():
            return None
        eager = [given for given in inputs if not tf.is_symbolic_tensor(given)]
        for given in eager:
            self._note_handle(given)
        flowing = tuple(number for given in eager if (number := identity_of(given)) in self.followed)
        made = [output for output in outputs if not tf.is_symbolic_tensor(output)]
        if flowing and made:
            self.length += 1
            self._flow(name, flowing, made)
            for used in filter(None, map(self.variables.get, flowing)):
                used.otherwise.append((self.length, tuple(map(identity_of, made))))
        if not (is_by_hand and flowing) or len(made) != len(outputs) or len(eager) != len(inputs):
            return None
        where = self.length, users_place()
        edges = [[(identity_of(output), identity_of(given)) for output in made] for given in eager]

        def heard(given: Sequence[Any], gradients: Any) -> None:
            with self.muted():
                is_any = any(map(is_other_than_zero, given))
                self._own_gradients(name, edges, where, is_any, tf.nest.flatten(gradients))

        return heard

    def left(self, tensor: Any) -> None:
        """The numbers of this tensor are taken out of TensorFlow."""
        number = identity_of(tensor)
        if number in self.followed and not self.is_muted:
            self.length += 1
            self.cuts.leave(number, self.length)

    def beside(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """A function that ``tf.numpy_function`` calls on arrays runs; what it makes has no history, whatever it reads.

        It may read tensors that it is not given, such as those of a model: their numbers leave TensorFlow in it.
        """
        before, place = self.length, users_place()
        made = call(*args, **kwargs)
        if tf.executing_eagerly() and not self.is_muted:
            lines = [one for one in self.cuts.left.values() if one.position > before]
            given = set(map(identity_of, filter(tf.is_tensor, tf.nest.flatten([args, kwargs]))))
            flowing = [*given.intersection(self.followed), *(number for line in lines for number in line.inputs)]
            self.length += 1
            for number in map(identity_of, filter(tf.is_tensor, tf.nest.flatten(made)) if flowing else ()):
                self.cut[number] = GradStatus.DETACHED
                self.cuts.cut("tf.numpy_function", CutBy.LEFT, "", tuple(flowing), self.length, number, place)
        return made

    def _own_gradients(
        self,
        name: str,
        edges: Sequence[Sequence[Edge]],
        where: tuple[int, Place | None],
        is_any: bool,
        gradients: Sequence[Any],
    ) -> None:
        # A gradient function of the program's own gave these for its inputs, of what was not all zero (``is_any``).
        position, place = where
        for own, gradient in zip(edges, gradients, strict=False):
            by = CutBy.OWN_NONE if gradient is None else CutBy.OWN_ZERO
            found = self.cuts.closed if gradient is None else self.cuts.zero
            if own and own[0][1] in self.followed and (gradient is None or (is_any and is_zero(gradient))):
                severed = Severed(name, by, "", (own[0][1],), position, place)
                found.update(dict.fromkeys(own, severed))

    def _flow(self, name: str, flowing: tuple[int, ...], outputs: Sequence[Any]) -> None:
        for output in outputs:
            number = identity_of(output)
            if dtype_number(output) in CARRYING:
                self.followed.add(number)
                self.made[number] = (self.length, flowing)
                self.cuts.flow(name, flowing, self.length, number)
                if self.cut:
                    self.cut.pop(number, None)
            else:
                self._cut(name, CutBy.CAST if is_cast(name) else CutBy.DTYPE, flowing, [output])
                if name == "ReadVariableOp":  # an integer Variable is not computed from what is differentiated
                    self.cut.pop(number)

    def _cut(self, name: str, by: CutBy, flowing: tuple[int, ...], outputs: Sequence[Any]) -> None:
        for output in outputs:
            number = identity_of(output)
            self.cut[number] = GradStatus.NO_GRAD if by is CutBy.STOPPED else GradStatus.DETACHED
            self.cuts.cut(name, by, dtype_name(dtype_number(output)), flowing, self.length, number)

    def _pass_cut(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        if self.cut:
            why = next((self.cut[n] for given in inputs if (n := identity_of(given)) in self.cut), None)
            if why is not None:
                self.cut.update(dict.fromkeys(map(identity_of, outputs), why))

    def _note_handle(self, given: Any) -> int:
        # A tape follows a Variable from when it is first read, unless it is stopped, as inside a compiled function.
        number = identity_of(given)
        if number not in self.followed and dtype_number(given) == RESOURCE and is_followed_by_a_tape(given):
            self.followed.add(number)
        return number

    def _use(self, name: str, handle: Any, outputs: Any) -> None:
        # An operation was given a Variable. One that this does not know is a compiled function.
        number = self._note_handle(handle)
        uses = self.variables.get(number)
        if uses is None:
            uses = self.variables[number] = Uses()
        if name in READING:
            uses.is_read_unseen |= is_stopped()
            if number in self.followed and not is_stopped():
                uses.reads.append((self.length, outputs[0]))
            dtype = dtype_number(outputs[0])
            is_followed = number in self.followed and dtype in CARRYING
            if not is_followed and number not in self.unfollowed and not is_stopped():
                self.unfollowed[number] = dtype_name(dtype), users_place()
        elif name in GATHERING:
            uses.otherwise.append((self.length, tuple(map(identity_of, outputs))))
            self._hold(uses, handle, outputs[0])
        elif number in self.unset and name in ASSIGNING:
            self.unset.remove(number)  # its initial value: there is nothing before it
        elif name.startswith(("Assign", "Resource")):
            self.write(uses)
        elif name not in NEITHER:
            uses.otherwise.append((self.length, tuple(map(identity_of, outputs or ()))))
            uses.is_in_doubt = True

    def _hold(self, uses: Uses, handle: Any, part: Any) -> None:
        # Of a Variable that parts are gathered of, keep what all of it was, before it is written.
        version = uses.version_at(self.length)
        if version not in uses.gathered:
            with self.muted():
                whole = unrecorded(lambda given: tf.raw_ops.ReadVariableOp(resource=given, dtype=part.dtype), handle)
            uses.gathered[version] = self.length, whole

    def write(self, uses: Uses) -> None:
        """The Variable of these uses has been written."""
        uses.writes.append(self.length)
        self.is_written = True

    @contextmanager
    def optimizer(self, pairs: Iterable[tuple[int, int | None]]) -> Iterator[None]:
        """Within this context an optimizer updates Variables: of these it was given these gradients, all by number."""
        before = self.updating, self.updated_at
        self.updating = {one: (given,) if given in self.followed else () for one, given in pairs}
        self.updated_at = users_place()
        try:
            yield
        finally:
            self.updating, self.updated_at = before

    # what follows from it

    def written(self, number: int, version: int, last: int) -> tuple[set[int], Place, bool] | None:
        """What was written into a Variable since it had another version, the line that wrote last, and whether what it
        held then is in it; None where not all of it is known.
        """
        uses, found = self.variables[number], set[int]()
        writes = [uses.written.get(one) for one in range(version, last, -1)]
        for write in writes:
            if write is None:
                return None
            found.update(write.given)
            if not write.adds:
                break
        assert writes[0] is not None
        return found, writes[0].place, all(write is not None and write.adds for write in writes)

    def before(self, numbers: Iterable[int]) -> set[int]:
        """The values that these were computed from, and these."""
        return reached(numbers, self.inputs)

    def numbers_before(self, numbers: Iterable[int]) -> set[int]:
        """The same, but for gradients that the program took itself, and what only these were computed from."""
        return self.back_to_gradients(numbers)[0]

    def back_to_gradients(self, numbers: Iterable[int]) -> tuple[set[int], set[int]]:
        """The values that these were computed from, and these, but for gradients that the program took itself and what
        only these were computed from; and such gradients.
        """
        own = self._derived()
        found = reached(numbers, lambda number: () if number in own else self.inputs(number))
        others = {number for number in found - own if not self.inputs(number)}
        for number in sorted(found - own - others, key=self.position):
            if not others.isdisjoint(self.inputs(number)):
                others.add(number)
        return others, found & own

    def of_gradients(self) -> set[int]:
        """The gradients that the program took itself, and what is computed from these alone."""
        found = self._derived()
        for number, (_, flowing) in sorted(self.made.items(), key=itemgetter(1)) if found else ():
            if flowing and found.issuperset(flowing):
                found.add(number)
        return found

    def _derived(self) -> set[int]:
        # What was computed while a tape of the program's own ran backward.
        ends = dict[int, int]()
        for one in self.derived:  # of which those of inner tapes may lie in others
            ends[one.start] = max(one.stop, ends.get(one.start, 0))
        starts = sorted(ends)
        stops = [*accumulate((ends[start] for start in starts), max)]
        places = ((number, position, bisect_right(starts, position)) for number, (position, _) in self.made.items())
        return {number for number, position, at in places if at and position < stops[at - 1]}

    def inputs(self, number: int) -> tuple[int, ...]:
        """The values that carry a gradient, and that this one was computed from."""
        return self.made.get(number, NEVER)[1]

    def nearest(self, number: int, recorded: Mapping[Key, int]) -> list[int]:
        """The recorded value that this is, or those that flow into it with no other recorded one between."""
        own = [at for (each, _), at in recorded.items() if each == number]
        return own[-1:] or self.sources(number, recorded)

    def position(self, number: int) -> int:
        """When a value was made, or a Variable first read; 0 for what was there before."""
        if number in self.variables:
            return min((position for position, _ in self.variables[number].reads), default=0)
        return self.made.get(number, NEVER)[0]

    def is_read(self, number: int) -> bool:
        """Was a Variable read?"""
        uses = self.variables.get(number)
        return uses is not None and bool(uses.reads or uses.otherwise or uses.is_read_unseen)

    def made_at(self, number: int) -> int:
        """The position of what was computed from values that carry a gradient; 0 for any other."""
        position, flowing = self.made.get(number, NEVER)
        return position if flowing else 0

    def sources(self, number: int, recorded: Mapping[Key, int]) -> list[int]:
        """The recorded values that flow into a value with no other recorded one between."""
        pending: list[Key] = [(number, -1)]
        found, seen = [], set(pending)
        for key in pending:  # which grows
            for source in self._inputs(key[0]):
                if source not in seen:
                    seen.add(source)
                    if source in recorded:
                        found.append(recorded[source])
                    else:
                        pending.append(source)
        return sorted(found)

    def _inputs(self, number: int) -> list[Key]:
        # What a value was computed from, each Variable at its version then.
        position, flowing = self.made.get(number, NEVER)
        if not self.is_written:
            return [(source, 0) for source in flowing]
        uses = [(source, self.variables.get(source)) for source in flowing]
        return [(source, 0 if used is None else used.version_at(position)) for source, used in uses]


@lru_cache(4096)
def _named(kind: Any) -> tuple[str, str | None]:
    # The name of an operation; and for a call of a compiled function, the name of the function, else None.
    name = kind.decode() if isinstance(kind, bytes) else str(kind)
    compiled = COMPILED.fullmatch(name)
    return name, compiled[1] if compiled else None


@contextmanager
def hearing_draws() -> Iterator[list[str]]:
    """The operations that draw random numbers within this context, by name."""
    drawn: list[str] = []

    def operation(kind: Any, *rest: Any, **named: Any) -> None:
        name = kind.decode() if isinstance(kind, bytes) else str(kind)
        drawn.extend([name] if name.startswith(DRAWN) else [])

    with hearing_operations(operation, lambda *flow: None):
        yield drawn
