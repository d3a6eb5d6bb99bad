"""The errors of PyTorch's that are about the graph: which values they are about, found in what the program left.

Reading the saved tensors of a node raises exactly where backward did: that the tensor was written since, or freed. A
node whose saved tensors have hooks (of a checkpoint) is not read, since that would run them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import Node

from backprobe.backends.facts import Failure
from backprobe.backends.torch.backward_passes import BACKWARD, GRAD, BackwardCall
from backprobe.backends.torch.capture import Capture, gradient_edge, version
from backprobe.backends.torch.graph import LEAF, Key, key
from backprobe.backends.torch.optimizer_steps import Step
from backprobe.record.source import Source

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
"""Messages of PyTorch 2.6 to 2.13, and the kind of failure that each means."""

Earlier = tuple[int, BackwardCall]
VERSIONS = re.compile(r"is at version (\d+); expected version (\d+)")
SHAPE = re.compile(r"\[torch\.(?:\w+\.)?(\w+)(?: \[([\d, ]*)\])?\]")


def failure(
    error: BaseException, captures: Sequence[Capture], written: Sequence[Tensor], earlier: Sequence[Earlier],
    steps: Iterable[Step],
) -> Failure | None:  # fmt: skip
    """What an error is about, by positions of captures; None where it is about nothing that is known here.

    ``written`` are the tensors that the running statement was about to write to, ``earlier`` the calls that have freed
    what they went through, each with the number of calls of ``backward()`` before it, ``steps`` those of optimizers'
    ``step()``.
    """
    kind = next((kind for words, kind in KINDS.items() if words in str(error)), None)
    if kind is None or not isinstance(error, RuntimeError):
        return None
    known = Known(captures)
    call = _call(error)
    roots = _tensors(call, "tensors", "outputs")
    if kind == "in_place":
        return _in_place(str(error), known, roots, steps)
    if kind == "freed":
        return _freed(known, roots, earlier)
    if kind == "not_in_graph":
        return _unused(known, roots, _tensors(call, "inputs"))
    if kind in ("leaf_written", "view_written"):
        return Failure(kind, values=known.positions(written[-1:]))
    if kind == "inference" and written:
        return Failure(kind, values=known.positions(written[-1:]))
    if kind == "inference":
        return Failure(kind, values=tuple(at for at, c in enumerate(captures) if c.tensor.is_inference()))
    return Failure(kind, values=known.positions(roots), root=roots[0] if roots else None)


class Known:
    """The captures of a program, found by their tensors, edges and nodes."""

    def __init__(self, captures: Sequence[Capture]) -> None:
        self.captures = captures
        self.edges: dict[Key, int] = {}
        for at, capture in enumerate(captures):
            edge = capture.edge or (gradient_edge(capture.tensor) if capture.leaf is not None else None)
            if edge is not None:
                self.edges.setdefault(key(edge), at)
        self.nodes: dict[Node, int] = {}
        for (node, _), at in self.edges.items():
            self.nodes.setdefault(node, at)

    def positions(self, tensors: Sequence[Tensor]) -> tuple[int, ...]:
        found = (self.position(tensor) for tensor in tensors)
        return tuple(at for at in found if at is not None)

    def position(self, tensor: Tensor) -> int | None:
        """The latest version of a tensor that has a name."""
        for at in range(len(self.captures) - 1, -1, -1):
            if self.captures[at].tensor is tensor:
                return at
        edge = gradient_edge(tensor) if tensor.requires_grad else None
        return None if edge is None else self.edges.get(key(edge))

    def owners(self, roots: Sequence[Node]) -> dict[Node, int]:
        """The named value that each node belongs to: the nearest one that is computed by it, alone or with others."""
        found: dict[Node, int] = {}
        pending = [(node, self.nodes.get(node)) for node in roots]
        for node, at in pending:
            if node in found:
                continue
            found[node] = own = self.nodes.get(node, -1 if at is None else at)
            pending += [(follower, own) for follower, _ in node.next_functions if follower is not None]
        return found


# in place


def _in_place(text: str, known: Known, roots: Sequence[Tensor], steps: Iterable[Step]) -> Failure:
    owners = known.owners(_nodes(roots))
    savers = [(node, name) for node in owners for name in broken(node, "modified by an inplace operation")]
    versions = VERSIONS.search(text)
    saved: dict[int, None] = {}
    writes: dict[int, None] = {}
    lines: tuple[Source, ...] = ()
    if versions is not None:
        now, expected = int(versions[1]), int(versions[2])
        around = {at for node, _ in savers for at in _around(node, owners[node], known)}
        candidates = [at for at, c in enumerate(known.captures) if _fits(c, now, expected, text)]
        near = [at for at in sorted(around) if _is_seen_through(known.captures[at], now, expected, text)]
        candidates = candidates or near
        for at in [at for at in candidates if at in around] or candidates:
            saved[at] = None
            writes |= dict.fromkeys(_writes(known.captures, at, expected, now))
        writes = writes or _only_writes(known.captures, expected, now)
        late = [at for at in sorted(around) if _is_late(known.captures[at], now, expected, text)]
        writes = writes or dict.fromkeys(late)
        if not writes:
            named = [known.captures[at].tensor for at in saved]
            lines = _stepping(steps, named, now, expected, text)
    saving: dict[int, list[str]] = {}
    for node, _ in savers:
        saving.setdefault(owners[node], []).append(node.name())
    found = tuple((at, ", ".join(dict.fromkeys(names))) for at, names in saving.items() if at >= 0)
    return Failure("in_place", values=tuple(saved), savers=found, writers=tuple(writes), lines=lines)


def _around(node: Node, owner: int, known: Known) -> set[int]:
    """The captures that a node may have saved, or views of them: what it computes, and what flows into it."""
    found, seen, pending = {owner} if owner >= 0 else set(), {node}, [node]
    for each in pending:
        for follower, at in each.next_functions:
            if follower is not None and (follower, at) in known.edges:
                found.add(known.edges[follower, at])
            elif follower is not None and follower not in seen:
                seen.add(follower)
                pending.append(follower)
    return found


def _fits(capture: Capture, now: int, expected: int, text: str) -> bool:
    """Is it what the message speaks of: now at that version, and captured when it was at the expected one?"""
    sizes = _sizes(text)
    fits = sizes is None or tuple(capture.tensor.shape) == sizes
    return fits and capture.version == expected and version(capture.tensor) == now


def _is_seen_through(capture: Capture, now: int, expected: int, text: str) -> bool:
    """May the message speak of a view of all of it, as of a weight that is transposed?"""
    return _is_seen_as(capture.tensor, text) and capture.version == expected and version(capture.tensor) == now


def _stepping(steps: Iterable[Step], saved: Sequence[Tensor], now: int, expected: int, text: str) -> tuple[Source, ...]:
    """The calls of optimizers that wrote to what was saved; where that has no name, to what may be it."""
    found: dict[Source, None] = {}
    for step in steps:
        near = [tensor for tensor, *_ in step.versions if version(tensor) == now and _is_seen_as(tensor, text)]
        if any(step.wrote(tensor, expected, now) for tensor in saved or near):
            found[step.at] = None
    return tuple(found)


def _is_late(capture: Capture, now: int, expected: int, text: str) -> bool:
    """Did what was saved get a name only when it had been written, as what a module has written to and gives?"""
    fits = _sizes(text) in (None, tuple(capture.tensor.shape))
    return fits and expected < capture.version <= now == version(capture.tensor)


def _is_seen_as(tensor: Tensor, text: str) -> bool:
    sizes = _sizes(text)
    return sizes is not None and tensor.numel() == math.prod(sizes)


def _sizes(text: str) -> tuple[int, ...] | None:
    """The shape of the tensor that a message speaks of."""
    shape = SHAPE.search(text)
    return None if shape is None or shape[2] is None else tuple(map(int, filter(None, shape[2].split(", "))))


def _only_writes(captures: Sequence[Capture], expected: int, now: int) -> dict[int, None]:
    """The writes to the only named memory that was at both versions, for a saved view that has no name.

    All views of one memory count its versions together.
    """
    fitting = {
        _memory(capture.tensor): at for at, capture in enumerate(captures)
        if capture.version == expected and version(capture.tensor) == now
    }  # fmt: skip
    if len(fitting) != 1:
        return {}
    (at,) = fitting.values()
    return dict.fromkeys(_writes(captures, at, expected, now))


def _writes(captures: Sequence[Capture], at: int, expected: int, now: int) -> list[int]:
    """The captures of the same memory that the writes between two versions gave."""
    memory = _memory(captures[at].tensor)
    return [
        other for other, capture in enumerate(captures)
        if expected < capture.version <= now and _memory(capture.tensor) == memory
    ]  # fmt: skip


def _memory(tensor: Tensor) -> int:
    if tensor.layout is not torch.strided or tensor.is_nested:
        return id(tensor)
    return int(tensor.untyped_storage()._cdata)


# a second backward


Path = tuple[()] | tuple[int, "Path"]
"""The named values that a way from the root goes through, the last one first."""


def _freed(known: Known, roots: Sequence[Tensor], calls: Sequence[Earlier]) -> Failure:
    """The values that an earlier call of backward has gone through or that lead to such, and what goes on from them.

    That a node is freed says nothing: the failing call frees what it runs through.
    """
    gone_through = _gone_through(calls)
    survivors: dict[int, None] = {}
    users: dict[int, None] = {}
    passed: Earlier | None = None
    seen: set[Node] = set()
    pending: list[tuple[Node, Path]] = [(node, ()) for node in _nodes(roots)]
    for node, path in pending:
        if node in seen:
            continue
        seen.add(node)
        at = known.nodes.get(node)
        freeing = gone_through.get(node) if node.name() != LEAF else None
        survivor = None
        if freeing is not None:
            passed = passed or freeing
            survivor, user = _survivor(known, at, path, freeing[0])
            users |= {} if user is None else {user: None}
        if survivor is not None:
            survivors[survivor] = None
        else:
            on = path if at is None or freeing is not None else (at, path)
            pending += [(follower, on) for follower, _ in node.next_functions if follower is not None]
    if passed is None:
        return Failure("freed", values=known.positions(roots), root=roots[0] if roots else None)
    number, earlier = passed[0], passed[1].at
    new = [at for node in seen if (at := known.nodes.get(node)) is not None and known.captures[at].calls > number]
    return Failure("freed", tuple(survivors), users=tuple(users), earlier=earlier, is_one_forward=not new)


def _survivor(known: Known, freed: int | None, path: Path, number: int) -> tuple[int | None, int | None]:
    """What is there since before a call of backward and is used after it, on a way to a node that it has freed.

    That may be another result of the operations that are freed, as the last state that an RNN returns beside its
    outputs. Where all on the way is as old, it is the freed value itself.
    """
    user, survivor = None, freed
    while path:
        at, path = path
        if known.captures[at].calls > number:
            return survivor, at
        user, survivor = (at if user is None else user), at
    return freed, user


def _gone_through(calls: Sequence[Earlier]) -> dict[Node, Earlier]:
    """The nodes that these calls have gone through and freed, each with the first that did."""
    found: dict[Node, Earlier] = {}
    for earlier in calls:
        pending = _nodes(earlier[1].roots)
        for node in pending:
            if node not in found:
                found[node] = earlier
                pending += [follower for follower, _ in node.next_functions if follower is not None]
    return found


# what was not used


def _unused(known: Known, roots: Sequence[Tensor], inputs: Sequence[Tensor]) -> Failure:
    reached = {key(edge) for root in roots if root.requires_grad and (edge := gradient_edge(root)) is not None}
    for node in known.owners(_nodes(roots)):
        reached |= {(follower, at) for follower, at in node.next_functions if follower is not None}
    edges = [(tensor, gradient_edge(tensor) if tensor.requires_grad else None) for tensor in inputs]
    unused = [tensor for tensor, edge in edges if edge is None or key(edge) not in reached]
    return Failure("not_in_graph", values=known.positions(unused))


# reading


def _nodes(roots: Sequence[Tensor]) -> list[Node]:
    edges = (gradient_edge(root) for root in roots if root.requires_grad)
    return [edge.node for edge in edges if edge is not None]


def broken(node: Node, words: str) -> Iterator[str]:
    """The saved tensors of a node that cannot be read any more, for this reason."""
    for name in dir(node):
        if name.startswith("_saved_") or name == "saved_tensors":
            try:
                raw = getattr(node, "_raw" + (name if name[0] == "_" else f"_{name}"), None)
                each = raw if isinstance(raw, tuple | list) else [raw]
                if raw is not None and all(getattr(one, "unpack_hook", None) is None for one in each):
                    getattr(node, name)
            except RuntimeError as error:
                if words in str(error):
                    yield name


def _call(error: BaseException) -> FrameType | None:
    """The call of ``backward`` or ``grad`` that raised."""
    found, step = None, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code in (BACKWARD, GRAD):
            found = step.tb_frame
        step = step.tb_next
    return found


def _tensors(call: FrameType | None, *names: str) -> list[Tensor]:
    """What a call was given under the first of these names that it has."""
    given: Any = next((call.f_locals[name] for name in names if name in call.f_locals), ()) if call is not None else ()
    return [given] if isinstance(given, Tensor) else [one for one in given or () if isinstance(one, Tensor)]
