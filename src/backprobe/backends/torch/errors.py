"""PyTorch's errors about the graph, and the values of the program that each error is about.

Reading the saved tensors of a node raises at the same nodes as backward, because a tensor was overwritten or freed. A
node whose saved tensors have hooks, such as that of a checkpoint, is not read, because reading would run the hooks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from traceback import walk_tb
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import GradientEdge, Node

from backprobe.backends.facts import Failure
from backprobe.backends.torch import graph, unused_parameters
from backprobe.backends.torch.backward_call import CALLS, BackwardCall
from backprobe.backends.torch.beyond_tables import beyond_table
from backprobe.backends.torch.capture import Capture, gradient_edge, memory, version, with_edges
from backprobe.backends.torch.graph import LEAF, by_edge, key
from backprobe.backends.torch.loss_scalers import not_updated
from backprobe.backends.torch.optimizer_steps import OptimizerStep
from backprobe.backends.torch.saved_tensors import as_they_were, broken
from backprobe.backends.user_lines import users_line_of
from backprobe.record.source import Source
from backprobe.source.user_code import package

KINDS = {
    "has been modified by an inplace operation": "in_place",
    "backward through the graph a second time": "freed",
    "does not require grad and does not have a grad_fn": "no_history",
    "can be implicitly created only for scalar outputs": "not_scalar",
    "appears to not have been used in the graph": "not_in_graph",
    "a leaf Variable that requires grad is being used in an in-place operation": "leaf_written",
    "a view of a leaf Variable that requires grad is being used in an in-place": "leaf_written",
    "is a view and is being modified inplace": "view_written",
    "A view was created in no_grad mode and is being modified inplace": "view_written",
    "Inference tensors cannot be saved for backward": "inference",
    "Inplace update to inference tensor": "inference",
    "dtype can require gradients": "integer_leaf",
    "of floating point and complex dtype can require gradients": "integer_leaf",
}
"""Parts of the messages of PyTorch since 2.6, and the kind of failure that each means."""

NO_RULE = re.compile(r"derivative for (?:aten::|')(\w+).* is not implemented")
"""PyTorch's message about an operation that has no derivative, which includes the operation's name."""
NOT_IMPLEMENTED = "NotImplemented"
FREED = "second time"
VERSIONS = re.compile(r"is at version (\d+); expected version (\d+)")
WRITTEN = "modified by an inplace operation"


def failure(
    error: BaseException,
    captures: Sequence[Capture],
    written: Sequence[Tensor],
    earlier: Sequence[BackwardCall],
    steps: Iterable[OptimizerStep],
    start: int = 0,
) -> Failure | str | None:
    """Return the facts behind an error, by positions of captures, or a note on it; None if neither is known.

    ``written`` are the tensors to which the running statement was about to write. ``earlier`` are the calls that have
    freed the graph through which they went. ``steps`` are calls of optimizers' ``step()``. ``start`` is the engine's
    count of nodes at the start of the recording.
    """
    if "Expected to have finished reduction" in str(error):
        return unused_parameters.of_reduction(error)
    if "marked as ready twice" in str(error):
        return unused_parameters.ready_twice(error)
    if (scaled := not_updated(error)) is not None:
        return scaled
    beyond = beyond_table(error, _frames(error))
    if beyond is not None:
        return beyond
    unruled = NO_RULE.search(str(error))
    if unruled is not None and isinstance(error, RuntimeError):
        return _without_rule(unruled[1], KnownCaptures(captures))
    kind = next((kind for words, kind in KINDS.items() if words in str(error)), None)
    if kind is None or not isinstance(error, RuntimeError):
        return None
    known = KnownCaptures(captures)
    call = _call(error)
    roots = _tensors(call, "tensors", "outputs")
    if kind == "in_place":
        return _in_place(str(error), known, roots, steps)
    freed = (_freed(known, roots, earlier) or _freed_before(known, roots, start)) if kind == "freed" else None
    if freed is not None:
        return replace(freed, lines=_line(error))
    if kind == "not_in_graph":
        # read ``inputs`` only if ``t_inputs`` is missing: it may be a generator that is exhausted by now
        return _unused(known, roots, _tensors(call, "t_inputs", "inputs"), error)
    if kind in ("leaf_written", "view_written") or (kind == "inference" and written):
        return _written(kind, error, known, written)
    if kind == "no_history" and _in_custom_backward(error):
        return Failure("no_history_in_backward", lines=_line(error))
    if kind == "inference":
        return Failure(kind, values=tuple(at for at, c in enumerate(captures) if c.tensor.is_inference()))
    return Failure(kind, values=known.positions(roots), root=roots[0] if roots else None)


class KnownCaptures:
    """The captures of a program, found by tensor, edge or node."""

    def __init__(self, captures: Sequence[Capture]) -> None:
        self.captures = captures
        self.edges = by_edge(with_edges(captures))
        self.nodes: dict[Node, int] = {}
        for (node, _), (at, *_) in self.edges.items():
            self.nodes.setdefault(node, at)

    def positions(self, tensors: Sequence[Tensor]) -> tuple[int, ...]:
        found = (self.position(tensor) for tensor in tensors)
        return tuple(at for at in found if at is not None)

    def position(self, tensor: Tensor) -> int | None:
        """Return the position of the latest named version of a tensor, or else of the first value with the same edge;
        None if there is neither.
        """
        for at in range(len(self.captures) - 1, -1, -1):
            if self.captures[at].tensor is tensor:
                return at
        edge = gradient_edge(tensor)
        return None if edge is None else next(iter(self.edges.get(key(edge), ())), None)


def _without_rule(operation: str, known: KnownCaptures) -> Failure | None:
    # Return the failure of an operation without a derivative, with the first named value that was computed by it,
    # directly or through unnamed values; None if there is no such value.
    names = (NOT_IMPLEMENTED, f"{operation.title().replace('_', '')}Backward")

    def is_it(node: Node) -> bool:
        return node.name().rpartition("::")[2].startswith(names)

    for start, at in sorted(known.nodes.items(), key=lambda one: one[1]):
        found = [start]
        for node in found:  # the list grows during the loop
            if is_it(node):
                return Failure("no_rule", (at,), text=operation)
            following = (one for one, _ in node.next_functions if one is not None and one not in known.nodes)
            found += [one for one in following if one not in found]
    return None


# Functions for errors about refused writes.


def _written(kind: str, error: BaseException, known: KnownCaptures, pending: Sequence[Tensor]) -> Failure:
    # Return the facts about a refused write. If PyTorch's own Python code raised, the tensor is a local of its
    # innermost function, else the last one to which the program's statement was about to write.
    #
    # Only tensors that PyTorch refuses to write count. Other tensors are just arguments of the same call.
    frames = _frames(error)
    inside = [frame for frame in frames if package(frame.f_code.co_filename) is not None]
    is_called = bool(frames) and frames[-1] in inside
    held = [one for one in frames[-1].f_locals.values() if isinstance(one, Tensor)] if is_called else pending[-1:]
    refused = [tensor for tensor in held if REFUSED[kind](tensor)]
    values = known.positions(refused[:1])
    base = refused[0]._base if kind == "leaf_written" and refused else None
    if base is not None and _start(base) != _start(refused[0]):
        kind = "leaf_view_written"
    modules = [frame.f_locals.get("self") for frame in inside] if is_called else []
    module = next((one for one in reversed(modules) if isinstance(one, torch.nn.Module)), None)
    said = "" if module is None or list(module.children()) else repr(module)
    hook = "BackwardHookFunction" in str(error)
    return Failure(kind, values=values, lines=_line(error), module=said, hook=hook)


def _is_leaf(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.is_leaf and tensor.requires_grad


REFUSED: Mapping[str, Callable[[Tensor], bool]] = {
    "leaf_written": lambda tensor: _is_leaf(tensor) or _is_leaf(tensor._base),
    "view_written": lambda tensor: tensor._is_view(),
    "inference": lambda tensor: tensor.is_inference(),
}
"""By the kind of error: does PyTorch refuse to write to this tensor?"""


def _in_custom_backward(error: BaseException) -> bool:
    # Did the error arise in the ``backward`` of an ``autograd.Function``, in a pass that keeps no history?
    frames = _frames(error)
    ran = next((frame for frame in frames if frame.f_code in CALLS), None)
    is_inside = any(frame.f_code is BackwardCFunction.apply.__code__ for frame in frames)
    return is_inside and ran is not None and not ran.f_locals.get("create_graph")


def _frames(error: BaseException) -> list[FrameType]:
    # Return the frames through which an error passed, innermost last.
    return [frame for frame, _ in walk_tb(error.__traceback__)]


def _line(error: BaseException) -> tuple[Source, ...]:
    # Return the innermost of the program's own lines through which an error passed, if there is one.
    found = users_line_of(error.__traceback__)
    return () if found is None else (found,)


# Functions for errors after in-place writes.


def _in_place(text: str, known: KnownCaptures, roots: Sequence[Tensor], steps: Iterable[OptimizerStep]) -> Failure:
    owners, captures = graph.owners(known.edges), known.captures
    unread = [(node, saved) for node in graph.nodes(*roots) for saved in broken(node, WRITTEN)]
    saving: dict[int, dict[str, None]] = {}
    for node, _ in unread:
        saving.setdefault(owners.get(node, -1), {})[node.name()] = None
    savers = tuple((at, ", ".join(names)) for at, names in saving.items() if at >= 0)
    found = Failure("in_place", savers=savers, carried=_carried(known, roots))
    said = VERSIONS.search(text)
    if said is None:
        return found
    now, before = map(int, said.groups())
    kept = [saved for _, saved in unread if saved is not None and version(saved) == now]
    # older releases do not show the saved tensors, so find those that could be read if they had their old version
    if not kept:
        written = [c.tensor for c in captures if c.version < version(c.tensor) == now]
        written += [tensor for step in steps for tensor, *_ in step.versions if version(tensor) == now]
        kept = [one for tensor in written for node, _ in unread for one in as_they_were(node, tensor, before)]
    if not kept:  # if that fails too, use the results of the saving operations, and the values that flow into them
        near = {at for node, _ in unread for at in graph.inputs(GradientEdge(node, 0), known.edges)} | saving.keys()
        kept = [captures[at].tensor for at in near if at >= 0 and before <= captures[at].version <= now]
        kept = kept or [tensor for step in steps for tensor, *_ in step.versions if version(tensor) == now]
    places, starts = {memory(tensor) for tensor in kept}, {_start(tensor) for tensor in kept}
    there = [at for at, c in enumerate(captures) if memory(c.tensor) in places and version(c.tensor) == now]
    same = [at for at in there if captures[at].version == before]
    values = [at for at in same if _start(captures[at].tensor) in starts] or same
    writers = [at for at in there if before < captures[at].version <= now]
    stepped = dict.fromkeys(step.at for step in steps if not writers and step.wrote(places, before, now))
    return replace(found, values=tuple(values), writers=tuple(writers), lines=tuple(stepped))


def _start(tensor: Tensor) -> tuple[int, int]:
    # Return a key that is equal for all views of a whole tensor, such as a transposed weight.
    return 0 if tensor.layout is not torch.strided else tensor.data_ptr(), tensor.numel()


def _carried(known: KnownCaptures, roots: Sequence[Tensor]) -> tuple[int, ...]:
    # Return the positions of values computed before the last call of backward, from which the roots were computed: on
    # each path from a root, the first such value.
    #
    # Only results of operations count, because parameters are kept from step to step anyway.
    captures = known.captures
    latest = max((capture.calls for capture in captures), default=0)
    found: dict[int, None] = {}
    seen: set[Node] = set()
    pending: list[tuple[Node, int | None]] = [(node, None) for node in graph.roots(roots)]
    for node, output in pending:
        at = known.nodes.get(node)
        if at is not None and captures[at].calls < latest:
            places = known.edges.get((node, output), [at]) if output is not None else [at]
            found[places[0]] = None
        elif node not in seen:
            seen.add(node)
            pending += [
                (follower, nr)
                for follower, nr in node.next_functions
                if follower is not None and follower.name() != LEAF
            ]
    return tuple(sorted(found))


# Functions for errors in a second backward pass.


Path = tuple[()] | tuple[int, "Path"]
"""The named values on a path from the root, as a linked list with the last one first."""


def _freed(known: KnownCaptures, roots: Sequence[Tensor], calls: Sequence[BackwardCall]) -> Failure | None:
    # Return the values through which an earlier call of backward went, or that lead to such values, and the values
    # computed from them; None if no earlier call went through the graph of the roots.
    #
    # A freed node alone proves nothing, because the failing call also frees the nodes through which it goes.
    gone_through = _gone_through(calls)
    survivors: dict[int, None] = {}
    users: dict[int, None] = {}
    passed: BackwardCall | None = None
    seen: set[Node] = set()
    pending: list[tuple[Node, Path]] = [(node, ()) for node in graph.roots(roots)]
    for node, path in pending:
        if node in seen:
            continue
        seen.add(node)
        at = known.nodes.get(node)
        freeing = gone_through.get(node) if node.name() != LEAF else None
        survivor = None
        if freeing is not None:
            passed = passed or freeing
            survivor, user = _survivor(known, at, path, freeing.before)
            users |= {} if user is None else {user: None}
        if survivor is not None:
            survivors[survivor] = None
        else:
            on = path if at is None or freeing is not None else (at, path)
            pending += [(follower, on) for follower, _ in node.next_functions if follower is not None]
    if passed is None:
        return None
    new = [
        at for node in seen if (at := known.nodes.get(node)) is not None and known.captures[at].calls > passed.before
    ]
    beside = [
        at
        for at in _carried(known, roots)
        if not gone_through.keys().isdisjoint(graph.nodes(known.captures[at].tensor))
    ]
    survivors |= dict.fromkeys(beside)  # other values kept for later steps, such as an LSTM's second state
    return Failure("freed", tuple(survivors), users=tuple(users), earlier=passed.at, is_one_forward=not new)


def _freed_before(known: KnownCaptures, roots: Sequence[Tensor], start: int) -> Failure | None:
    # Return the facts about nodes that were freed before the recording started; None if there are none. Called if no
    # recorded call went through the nodes behind these roots.
    #
    # The failing call also frees nodes, but it stops at a node that was freed before.
    survivors: dict[int, None] = {}
    users: dict[int, None] = {}
    seen: set[Node] = set()
    starts = graph.roots(roots)
    is_root = False  # was the graph of a root itself freed?
    pending: list[tuple[Node, int | None]] = [(node, None) for node in starts]
    for node, user in pending:
        if node in seen:
            continue
        seen.add(node)
        at = known.nodes.get(node)
        if node._sequence_nr() >= start:
            pending += [(one, user if at is None else at) for one, _ in node.next_functions if one is not None]
        elif any(list(broken(one, FREED)) for one in graph.all_nodes([node])):
            survivors |= {} if at is None else {at: None}
            users |= {} if user is None else {user: None}
            is_root |= node in starts
    if users:
        return Failure("freed", tuple(survivors), users=tuple(users), is_older=True)
    if is_root:
        return Failure("freed", known.positions(roots), root=roots[0], is_older=True)
    return None


def _survivor(known: KnownCaptures, freed: int | None, path: Path, number: int) -> tuple[int | None, int | None]:
    # Return the position of a value from before a call of backward that is used after it, on a path to a node that the
    # call freed, and that of the value on the path that was computed from it. Either may be None.
    #
    # It may be another result of the freed operations, such as the last state that an RNN returns besides its outputs.
    # If all values on the path are that old, return the freed value itself.
    user, survivor = None, freed
    while path:
        at, path = path
        if known.captures[at].calls > number:
            return survivor, at
        user, survivor = (at if user is None else user), at
    return freed, user


def _gone_through(calls: Sequence[BackwardCall]) -> dict[Node, BackwardCall]:
    # Return the nodes through which these calls went and that they freed, each with the first such call.
    return {node: earlier for earlier in reversed(calls) for node in graph.nodes(*earlier.roots)}


# Functions for errors about unused inputs.


def _unused(
    known: KnownCaptures, roots: Sequence[Tensor], inputs: Sequence[Tensor], error: BaseException
) -> Failure | None:
    reached = graph.edges(*roots)
    found = [(tensor, gradient_edge(tensor)) for tensor in inputs]
    unused = [tensor for tensor, edge in found if edge is None or key(edge) not in reached]
    values, outputs = known.positions(unused), known.positions(roots)
    text = "" if values else unused_parameters.named(unused, error)
    root = roots[0] if roots else None
    return Failure("not_in_graph", values=values, text=text, outputs=outputs, root=root) if values or text else None


# Functions that read facts from an error.


def _call(error: BaseException) -> FrameType | None:
    # Return the frame of the innermost call of ``backward`` or ``grad`` through which an error passed; None if there is
    # none.
    return next((frame for frame in reversed(_frames(error)) if frame.f_code in CALLS), None)


def _tensors(call: FrameType | None, *names: str) -> list[Tensor]:
    # Return the tensors that a call received, under the first of these argument names that it has.
    given: Any = next((call.f_locals[name] for name in names if name in call.f_locals), ()) if call is not None else ()
    return [given] if isinstance(given, Tensor) else [one for one in given or () if isinstance(one, Tensor)]
