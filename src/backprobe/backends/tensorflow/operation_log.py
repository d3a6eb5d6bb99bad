"""The operations that ran, and the values from which each result carries a gradient, by number, so that no tensor is
kept alive.

A gradient tape knows which value flows into which, but does not reveal it. TensorFlow reports each operation when it
runs, and this file applies to it the rules by which tapes record. The result of an operation carries a gradient if one
of its inputs does, unless recording is stopped, the operation is ``tf.stop_gradient`` or a function that TensorFlow
cannot differentiate, or the result has a dtype without derivatives.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from itertools import accumulate
from operator import itemgetter
from typing import Any

import tensorflow as tf

from backprobe.backends.temporarily import temporarily
from backprobe.backends.tensorflow import run_once
from backprobe.backends.tensorflow.cuts import Edge, LoggedCuts, Severed, in_checkpoint, is_cast, users_place
from backprobe.backends.tensorflow.hearing import OwnGradient, hearing_operations
from backprobe.backends.tensorflow.private import (
    dtype_number,
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
from backprobe.backends.tensorflow.variable_uses import Uses, Written
from backprobe.backends.user_lines import Place
from backprobe.record.entries import GradStatus
from backprobe.record.graph import reached
from backprobe.record.none_gradients import CutBy

RESOURCE = tf.resource.as_datatype_enum
CARRYING = NUMBERS_DIFFERENTIABLE | {tf.variant.as_datatype_enum}
"""The numbers of the dtypes whose values can carry a gradient."""
READING = frozenset({"ReadVariableOp"})
ASSIGNING = frozenset({"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"})
WRITING = re.compile("Assign(Add|Sub)?VariableOp|ResourceScatter|ResourceStridedSliceAssign")
"""Operations by which a program writes to a whole Variable or to a part of it."""
NEITHER = frozenset({"VarIsInitializedOp", "VariableShape", "DestroyResourceOp", "VarHandleOp"})
COMPILED = re.compile(r"__(?:inference|forward)_(.+)_\d+")
"""TensorFlow's name for an operation that runs a whole ``tf.function``."""
GATHERING = frozenset({"ResourceGather", "ResourceGatherNd"})
DRAWN = ("Random", "Multinomial", "ParameterizedTruncated", "TruncatedNormal")
"""Prefixes of operations that draw random numbers from a stateful generator."""

NEVER: tuple[int, tuple[int, ...]] = (0, ())
"""The position and inputs of a value that existed before the run."""

Key = tuple[int, int]
"""The number of a tensor with version 0, or the number of a Variable's handle with the Variable's version."""


class OperationLog:
    """The operations of one run, in the order in which they ran."""

    def __init__(self) -> None:
        self.length = 0
        self.followed: set[int] = set()
        self.made: dict[int, tuple[int, tuple[int, ...]]] = {}  # position, and the inputs that carry a gradient
        self.cut: dict[int, GradStatus] = {}  # values from watched values that carry no gradient, and why
        self.variables: dict[int, Uses] = {}
        self.cuts = LoggedCuts()
        self.derived: list[range] = []  # positions at which a tape of the program ran backward
        # Variables that tapes do not watch: the dtype of each, and the line that read it
        self.unfollowed: dict[int, tuple[str, Place | None]] = {}
        self.compiled: dict[str, None] = {}  # functions that ran as a whole
        self.is_muted = self.is_written = False  # ``is_written``: was a Variable overwritten?
        self.is_without_derivatives = False
        self.builds_graph = False  # is a graph for sessions being built, and not that of a function?
        self.unset: set[int] = set()  # Variables that were created in the run and have no value yet
        self.updating: dict[int, tuple[int, ...]] = {}  # while an optimizer runs: its input for each Variable
        self.updated_at: Place | None = None  # while an optimizer runs: the line that called it

    def muted(self) -> AbstractContextManager[None]:
        """Operations inside this context are not part of the program, and are not logged."""
        return temporarily(self, is_muted=True)

    def without_derivatives(self) -> AbstractContextManager[None]:
        """Operations inside this context have no derivatives in TensorFlow."""
        return temporarily(self, is_without_derivatives=True)

    def root(self, tensor: Any) -> None:
        """Record that the tape watches this tensor."""
        self.length += 1
        self.followed.add(identity_of(tensor))
        self.made[identity_of(tensor)] = (self.length, ())

    def carries(self, tensor: Any) -> bool:
        return identity_of(tensor) in self.followed

    # Methods for events that TensorFlow reports.

    def operation(
        self, kind: Any, inputs: Sequence[Any], attrs: Any, outputs: Any, op_name: Any = None, graph: Any = None
    ) -> None:
        """Called when an operation has run in this thread. With a graph, the operation is only being traced."""
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
        elif name == "StopGradient":  # TensorFlow runs this operation with recording stopped
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
        if flowing and WRITING.match(name):  # also the write that creates a Variable, during which recording is stopped
            self._write(name, flowing, inputs)

    def _write(self, name: str, flowing: tuple[int, ...], inputs: Sequence[Any]) -> None:
        # Record a write. A gradient does not flow from the Variable to the written values, so they are recorded as cut
        # off. Cuts before the written values now precede the Variable, too.
        handle, *given = map(identity_of, inputs)
        self.cuts.passed(given, [handle])
        written = tuple(number for number in flowing if number != handle)
        gradient = self.updating.get(handle)  # the optimizer's input for this Variable alone
        place = self.updated_at if gradient is not None else users_place() if written else None
        if written:
            self.cuts.cut(name, CutBy.ASSIGNED, "", written, self.length, handle, place)
        if place is not None and handle in self.variables:
            uses, adds = self.variables[handle], gradient is not None or name != "AssignVariableOp"
            uses.written[len(uses.writes)] = Written(written if gradient is None else gradient, place, adds)

    def recorded(
        self, name: str, outputs: Sequence[Any], inputs: Sequence[Any], is_by_hand: bool
    ) -> OwnGradient | None:
        """Called when outputs get a custom gradient function, which replaces the gradients of the operations that
        computed them. Returns a listener for the gradient function, or None. Only functions from ``tf.custom_gradient``
        are observed, between eager values, if an input carries a gradient.
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
        """Called when the numbers of this tensor are read out of TensorFlow."""
        number = identity_of(tensor)
        if number in self.followed and not self.is_muted:
            self.length += 1
            self.cuts.leave(number, self.length)

    def beside(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run a function that ``tf.numpy_function`` calls with arrays. Its results never have a history.

        The function may read tensors that were not passed to it, such as those of a model. These reads are recorded as
        well.
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
        # Record the edges for which a gradient function returned None, or zeros although it received other numbers,
        # which ``is_any`` says.
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
                if name == "ReadVariableOp":  # an integer Variable is not computed from differentiated values
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
        # Note that a tape watches this Variable from its first read, unless recording is stopped.
        number = identity_of(given)
        if number not in self.followed and dtype_number(given) == RESOURCE and is_followed_by_a_tape(given):
            self.followed.add(number)
        return number

    def _use(self, name: str, handle: Any, outputs: Any) -> None:
        # Record that an operation received a Variable. An operation with an unknown name is taken for a compiled
        # function.
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
            self.unset.remove(number)  # this is the initial value, before which there was none
        elif name.startswith(("Assign", "Resource")):
            self.write(uses)
        elif name not in NEITHER:
            uses.otherwise.append((self.length, tuple(map(identity_of, outputs or ()))))
            uses.is_in_doubt = True

    def _hold(self, uses: Uses, handle: Any, part: Any) -> None:
        # Keep the whole value of a Variable of which only parts are gathered, because it may be overwritten later.
        version = uses.version_at(self.length)
        if version not in uses.gathered:
            with self.muted():
                whole = unrecorded(lambda given: tf.raw_ops.ReadVariableOp(resource=given, dtype=part.dtype), handle)
            uses.gathered[version] = self.length, whole

    def write(self, uses: Uses) -> None:
        """Record a write to the Variable that ``uses`` belong to."""
        uses.writes.append(self.length)
        self.is_written = True

    def optimizer(self, pairs: Iterable[tuple[int, int | None]]) -> AbstractContextManager[None]:
        """Inside this context an optimizer updates Variables. ``pairs`` are the numbers of Variables and gradients."""
        updating = {one: (given,) if given in self.followed else () for one, given in pairs}
        return temporarily(self, updating=updating, updated_at=users_place())

    # Methods for reading the log.

    def written(self, number: int, version: int, last: int) -> tuple[set[int], Place, bool] | None:
        """Return the values that were written to a Variable between two versions, the line of the last write, and
        whether the old value is part of the new one. Return None if this is not completely known.
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
        """Return these values, and the values from which they were computed along paths that carry a gradient."""
        return reached(numbers, self.inputs)

    def back_to_gradients(self, numbers: Iterable[int]) -> tuple[set[int], set[int]]:
        """Go back from these values, but not beyond gradients that the program computed itself. Return the values that
        were not computed from such gradients alone, and these gradients.
        """
        own = self._derived()
        found = reached(numbers, lambda number: () if number in own else self.inputs(number))
        others = {number for number in found - own if not self.inputs(number)}
        for number in sorted(found - own - others, key=self.position):
            if not others.isdisjoint(self.inputs(number)):
                others.add(number)
        return others, found & own

    def of_gradients(self) -> set[int]:
        """Return the gradients that the program computed itself, and the values computed from them without any other
        value that carries a gradient.
        """
        found = self._derived()
        for number, (_, flowing) in sorted(self.made.items(), key=itemgetter(1)) if found else ():
            if flowing and found.issuperset(flowing):
                found.add(number)
        return found

    def _derived(self) -> set[int]:
        # Return the values that were computed while a tape of the program ran backward.
        ends = dict[int, int]()
        for one in self.derived:  # ranges of inner tapes may lie inside others
            ends[one.start] = max(one.stop, ends.get(one.start, 0))
        starts = sorted(ends)
        stops = [*accumulate((ends[start] for start in starts), max)]
        places = ((number, position, bisect_right(starts, position)) for number, (position, _) in self.made.items())
        return {number for number, position, at in places if at and position < stops[at - 1]}

    def inputs(self, number: int) -> tuple[int, ...]:
        """Return the inputs of a value that carry a gradient."""
        return self.made.get(number, NEVER)[1]

    def nearest(self, number: int, recorded: Mapping[Key, int]) -> list[int]:
        """Return the position of this value's last recorded version. If none is recorded, return the positions of the
        recorded values that flow into it without passing another recorded one.
        """
        own = [at for (each, _), at in recorded.items() if each == number]
        return own[-1:] or self.sources(number, recorded)

    def position(self, number: int) -> int:
        """Return the position at which a value was computed or a Variable first read; 0 if it existed before."""
        if number in self.variables:
            return min((position for position, _ in self.variables[number].reads), default=0)
        return self.made.get(number, NEVER)[0]

    def is_read(self, number: int) -> bool:
        """Was the Variable read?"""
        uses = self.variables.get(number)
        return uses is not None and bool(uses.reads or uses.otherwise or uses.is_read_unseen)

    def made_at(self, number: int) -> int:
        """Return the position of a value that was computed from values with a gradient; 0 for any other value."""
        position, flowing = self.made.get(number, NEVER)
        return position if flowing else 0

    def sources(self, number: int, recorded: Mapping[Key, int]) -> list[int]:
        """Return the positions of the recorded values that flow into a value without passing another recorded one."""
        found = reached([(number, -1)], lambda key: () if key in recorded else self._inputs(key[0]))
        return sorted(recorded[key] for key in found & recorded.keys())

    def _inputs(self, number: int) -> list[Key]:
        # Return the inputs of a value that carry a gradient, with the version that each Variable had when the value was
        # computed.
        position, flowing = self.made.get(number, NEVER)
        if not self.is_written:
            return [(source, 0) for source in flowing]
        uses = [(source, self.variables.get(source)) for source in flowing]
        return [(source, 0 if used is None else used.version_at(position)) for source, used in uses]


@lru_cache(4096)
def _named(kind: Any) -> tuple[str, str | None]:
    # Return the name of an operation, and the name of the compiled function that it calls, or None.
    name = kind.decode() if isinstance(kind, bytes) else str(kind)
    compiled = COMPILED.fullmatch(name)
    return name, compiled[1] if compiled else None


@contextmanager
def hearing_draws() -> Iterator[list[str]]:
    """Yield a list that collects the names of operations that draw random numbers inside this context."""
    drawn: list[str] = []

    def operation(kind: Any, *rest: Any, **named: Any) -> None:
        name = kind.decode() if isinstance(kind, bytes) else str(kind)
        drawn.extend([name] if name.startswith(DRAWN) else [])

    with hearing_operations(operation):
        yield drawn
