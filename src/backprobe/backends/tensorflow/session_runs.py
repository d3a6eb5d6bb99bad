"""The session runs in which the program fetches gradients, and the numbers of named tensors in those graphs.

Tensors that can be computed again without side effects are fetched in a separate run before the program's run. Fetching
them in the program's run would change the last bits of its results, because TensorFlow fuses operations that are not
fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy
import tensorflow as tf

from backprobe.backends.patching import listening
from backprobe.backends.temporarily import temporarily
from backprobe.backends.tensorflow import private
from backprobe.backends.tensorflow.graph_values import FREE, REFERENCES, fed_names, is_outside
from backprobe.backends.tensorflow.graph_walk import behind, taken_by
from backprobe.backends.tensorflow.session_gradients import GraphPass, tensors_in
from backprobe.record.graph import reached

READING = frozenset({"VarHandleOp", "ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VarIsInitializedOp"})
"""Operations that TensorFlow counts as stateful, but that only read."""

OF_ONE_RUN = ("TensorArray", "Stack")
"""Prefixes of operations whose state ends with the run, such as the state of a loop."""

GIVEN = ("fetches", "feed_dict", "options", "run_metadata")
IN_PROGRAM, BESIDE = "program", "beside"


@dataclass
class SessionRun:
    """The numbers of one run of the program, by the name of a tensor.

    ``changing`` has, for each tensor that a separate run could not provide, the operation that would give other
    numbers, or have a side effect, in a second run. Its keys are ``value NAME`` and ``grad PASS NAME``.
    """

    passes: Sequence[GraphPass]
    fed: frozenset[str]
    values: dict[str, Any] = field(default_factory=dict)
    grads: dict[int, dict[str, Any]] = field(default_factory=dict)  # by the number of the pass in ``passes``
    changing: dict[str, str] = field(default_factory=dict)
    feeds: dict[str, Any] = field(default_factory=dict)  # the fed values, if they are kept
    is_joined: bool = False  # were further tensors fetched in the program's own run?


@dataclass
class FetchPlan:
    """The tensors to fetch, with keys as in ``SessionRun.changing``.

    ``own`` are fetched in a separate run. ``unread`` are those of the separate run that need a Variable which the
    program's run does not read. ``joined`` are those that only the program's run can provide.
    """

    own: dict[str, Any] = field(default_factory=dict)
    unread: dict[str, Any] = field(default_factory=dict)
    joined: dict[str, Any] = field(default_factory=dict)


class Fetchable:
    """Decides which tensors of a graph can be fetched in addition to the operations that a run of the program
    executes.
    """

    def __init__(self, graph: Any, executed: Mapping[str, Any], fed: frozenset[str]) -> None:
        self.graph, self.executed, self.fed = graph, executed, fed

    @cached_property
    def changing(self) -> dict[Any, str]:
        """The operations that draw random numbers or write, and all operations after them, each with the operation
        responsible.
        """
        found: dict[Any, str] = {}
        for operation in self.graph.get_operations():
            if changes(operation):
                found |= dict.fromkeys(self._after([operation]) - found.keys(), operation.name)
        return found

    @cached_property
    def idle(self) -> Sequence[Any]:
        """The operations that the program's own run does not execute."""
        return [operation for operation in self.graph.get_operations() if operation.name not in self.executed]

    @cached_property
    def lacking(self) -> set[Any]:
        """The operations that need a fed value, or an operation with side effects, which the program's own run does not
        use.
        """
        needed = FREE - {"PlaceholderWithDefault"}
        return self._after([one for one in self.idle if changes(one) or one.type in needed])

    @cached_property
    def reading(self) -> set[Any]:
        """The operations that need a Variable which the program's run does not read. Such a Variable may have no value
        yet.
        """
        return self._after([*filter(is_read, self.idle)])

    @cached_property
    def takers(self) -> tuple[Mapping[str, Sequence[Any]], Mapping[Any, Sequence[Any]]]:
        after: dict[Any, list[Any]] = {}
        for operation in self.graph.get_operations():
            for before in operation.control_inputs:
                after.setdefault(before, []).append(operation)
        return taken_by(self.graph.get_operations()), after

    def _after(self, operations: Sequence[Any]) -> set[Any]:
        taken, after = self.takers

        def next_to(operation: Any) -> list[Any]:
            made = [
                taker
                for tensor in operation.outputs
                if tensor.name not in self.fed
                for taker in taken.get(tensor.name, ())
            ]
            return [*made, *after.get(operation, ())]

        return reached(operations, next_to)

    def is_there(self, tensor: Any) -> bool:
        """Can the tensor be fetched in the program's run, without needing further feeds or state?"""
        return is_outside(self.graph, tensor.op) and (tensor.name in self.fed or tensor.op not in self.lacking)

    def why_once(self, tensor: Any) -> str | None:
        """Return the operation because of which the tensor cannot be computed again; None if it can."""
        return None if tensor.name in self.fed else self.changing.get(tensor.op)

    def read(self, tensor: Any) -> Any:
        """Return the tensor from which a value can be fetched. For a Variable it is a read, if possible one that the
        run executes; None if there is no read outside of loops and branches.
        """
        if tensor.dtype.base_dtype != tf.resource and tensor.op.type not in REFERENCES:
            return tensor
        reads = [one for one in self.takers[0].get(tensor.name, ()) if one.type in ("ReadVariableOp", "Identity")]
        reads = [one for one in reads if is_outside(self.graph, one)]
        return next((one.outputs[0] for one in sorted(reads, key=lambda one: one.name not in self.executed)), None)


def is_read(operation: Any) -> bool:
    """Does a stateful operation only read its state?"""
    return operation.type in READING or operation.type in REFERENCES


def changes(operation: Any) -> bool:
    """Would a second run of the operation give other numbers, or have a side effect?"""
    is_writing = any(one.dtype != one.dtype.base_dtype for one in operation.inputs) and operation.type != "Identity"
    is_kept = operation.op_def.is_stateful and not operation.type.startswith(OF_ONE_RUN)
    return (is_kept and not is_read(operation)) or is_writing


class SessionRuns:
    """The session runs in this thread that one block observes."""

    def __init__(
        self,
        passes: Callable[[Any], Sequence[GraphPass]],
        named: Mapping[int, Any],
        may_join: Callable[[], bool],
        *,
        keeps_inputs: bool = False,
    ) -> None:
        self.passes_of, self.named, self.may_join, self.keeps_inputs = passes, named, may_join, keeps_inputs
        self.runs: list[SessionRun] = []
        self.began: Callable[[SessionRun], object] = self.runs.append
        self.is_own = False

    def listening(self) -> AbstractContextManager[None]:
        return listening(*private.RUNNING, self._running)

    def _running(self, following: Callable[..., Any], session: Any, /, *args: Any, **kwargs: Any) -> Any:
        given = dict(zip(GIVEN, args, strict=False)) | kwargs
        known = None if self.is_own or private.is_remote(session) else self._known(session.graph, given)
        if known is None:
            return following(session, *args, **kwargs)
        run, plan = known
        if self.keeps_inputs:
            run.feeds = _numbers(session.graph, given.get("feed_dict") or {})
        own = self._fetched(following, session, [{**plan.own, **plan.unread}, plan.own], given)
        if plan.joined and self.may_join():
            run.is_joined = True
            found = following(session, **{**given, "fetches": {IN_PROGRAM: given["fetches"], BESIDE: plan.joined}})
            result, own = found[IN_PROGRAM], own | found[BESIDE]
        else:
            result = following(session, *args, **kwargs)
            own |= _returned(session.graph, plan.joined, given["fetches"], result)
        self._keep(run, own)
        return result

    def _known(self, graph: Any, given: Mapping[str, Any]) -> tuple[SessionRun, FetchPlan] | None:
        # Return a run that computes gradients, and what can be fetched in addition; None for any other run.
        passes = self.passes_of(graph)
        if not passes:
            return None
        try:
            fed = frozenset(fed_names(graph, given.get("feed_dict") or {}))
            fetched = [
                graph.as_graph_element(one) for one in tf.nest.flatten(given.get("fetches"), expand_composites=True)
            ]
        except (TypeError, ValueError, KeyError):  # the program's own error, which its run raises
            return None
        executed = behind(graph, fetched, fed, control=True)
        # the calls of ``tf.gradients`` of which this run computes any gradient
        taken = [one for one in passes if any(each.op.name in executed for each in tensors_in(one.given))]
        return self._wanted(taken, Fetchable(graph, executed, fed)) if taken else None

    def _wanted(self, taken: Sequence[GraphPass], fetchable: Fetchable) -> tuple[SessionRun, FetchPlan]:
        run, plan = SessionRun(taken, fetchable.fed), FetchPlan()
        named = {one.name: one for one in self.named.values() if one.graph is fetchable.graph}
        named |= {one.name: one for call in taken for one in call.outputs}
        if self.keeps_inputs:
            named |= {one.name: one for one in map(_held, fetchable.graph.get_operations()) if one is not None}
        wanted = {f"value {name}": fetchable.read(one) for name, one in named.items()}
        wanted |= {
            f"grad {at} {name}": gradient
            for at, one in enumerate(taken)
            for name, gradient in one.found.items()
            if name in named
        }
        for key, tensor in wanted.items():
            parts = [] if tensor is None else tf.nest.flatten(tensor, expand_composites=True)
            if not parts or not all(map(fetchable.is_there, parts)):
                continue
            why = next(filter(None, map(fetchable.why_once, parts)), None)
            is_read = all(one.op not in fetchable.reading for one in parts)
            (plan.joined if why is not None else plan.own if is_read else plan.unread)[key] = tensor
            run.changing |= {} if why is None else {key: why}
        return run, plan

    def _fetched(
        self, following: Callable[..., Any], session: Any, plans: Sequence[Mapping[str, Any]], given: Mapping[str, Any]
    ) -> dict[str, Any]:
        # Return the numbers of the first plan that TensorFlow runs without an error; empty if there is none.
        for wanted in plans:
            with suppress(tf.errors.OpError), temporarily(self, is_own=True):
                found: dict[str, Any] = following(session, dict(wanted), feed_dict=given.get("feed_dict"))
                return found
        return {}

    def _keep(self, run: SessionRun, numbers: Mapping[str, Any]) -> None:
        for key, number in numbers.items():
            part, _, name = key.partition(" ")
            if part == "value":
                run.values[name] = numpy.asarray(number)
            else:
                at, _, name = name.partition(" ")
                run.grads.setdefault(int(at), {})[name] = _dense(number, run.values.get(name))
        self.runs.append(run)
        self.began(run)


def _held(operation: Any) -> Any:
    # Return the handle or reference of the Variable that an operation creates; None for any other operation.
    return operation.outputs[0] if operation.type == "VarHandleOp" or operation.type in REFERENCES else None


def _numbers(graph: Any, feeds: Mapping[Any, Any]) -> dict[str, Any]:
    # Return copies of the fed values, by the names of plain tensors. The program may overwrite its arrays later.
    plain = {graph.as_graph_element(key): value for key, value in feeds.items() if isinstance(key, str | tf.Tensor)}
    return {tensor.name: numpy.array(value, tensor.dtype.base_dtype.as_numpy_dtype) for tensor, value in plain.items()}


def _returned(graph: Any, wanted: Mapping[str, Any], fetches: Any, result: Any) -> dict[str, Any]:
    # Return those of these tensors that the program has fetched itself.
    if not wanted:
        return {}
    asked, given = tf.nest.flatten(fetches), tf.nest.flatten(result)
    if len(asked) != len(given):
        return {}
    numbers = {
        id(graph.as_graph_element(one)): number
        for one, number in zip(asked, given, strict=True)
        if not isinstance(one, tf.IndexedSlices)
    }
    return {key: numbers[id(tensor)] for key, tensor in wanted.items() if id(tensor) in numbers}


def _dense(gradient: Any, like: Any) -> Any:
    # Return a gradient as a new array. The rows of a sparse gradient are summed.
    rows = getattr(gradient, "indices", None)
    if rows is None:
        return numpy.asarray(gradient)
    shape = gradient.dense_shape if gradient.dense_shape is not None else like.shape
    dense = numpy.zeros(tuple(shape), gradient.values.dtype)
    numpy.add.at(dense, rows, gradient.values)
    return dense
