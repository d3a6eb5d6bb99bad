"""The way back of gradients that come to nothing: exactly 0 at one operation, or cancelled.

Two iterations are needed. In the first, what comes to each leaf is measured alone. Where that is exactly 0, or far
below the others, the next iterations look at each node between the loss and these leaves.
"""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from weakref import ref

import torch
from torch import Tensor
from torch.autograd.graph import Node

from backprobe.backends.torch import graph
from backprobe.backends.torch.graph import LEAF, Key
from backprobe.backends.torch.tensors import ORDINARY
from backprobe.backends.useless import CANCELS, FAR_BELOW, FLAT, TIMES_ZERO

ROUNDING = 64
"""Contributions cancel if their sum is at most so many units of rounding of the sum of their norms.

In healthy trainings it is above 5e5: see docs/useless.md.
"""
MOST = 20_000
"""The nodes of the largest graph that is looked at."""
BY_CHANCE = "trained"
"""A reason for 0 of which nothing is said: a factor that is trained is 0 now, or the parts of one sum cancel."""


@dataclass
class Leaf:
    """What came to a leaf, over the iterations in which a pass came to it."""

    tensor: ref[Tensor]
    largest: float = 0.0  # of its numbers in this iteration, whatever their sign
    iterations: int = 0  # before this one in which a pass came to it
    was_zero: bool = True  # in all of these
    was_small: bool = True  # far below the others, in all of these

    @property
    def is_suspicious(self) -> bool:
        return self.iterations > 0 and (self.was_zero or self.was_small)


@dataclass
class Seen:
    """What one node was given and gave, as backward went through it."""

    came: bool = False  # was any of what it was given not 0?
    size: int = 0  # the elements of what it was given
    gave: dict[int, bool] = field(default_factory=dict)  # by the place of the edge: is it exactly 0?
    smaller: set[int] = field(default_factory=set)  # the places of the edges with fewer elements
    has_zero: bool = False  # does it multiply by a saved tensor that is 0 and is not trained?
    has_trained_zero: bool = False


@dataclass
class Sum:
    """The contributions that came to one place."""

    total: Tensor
    norms: float
    count: int = 1
    number: int = -1  # of the last node in the program's order that contributes

    def add(self, gradient: Tensor, number: int) -> None:
        self.number = max(self.number, number)
        if self.total.shape == gradient.shape:
            self.total = self.total + gradient
        self.norms += _norm(gradient)
        self.count += 1

    @property
    def cancels(self) -> bool:
        """Is what remains of several contributions but rounding?"""
        limit = ROUNDING * torch.finfo(self.total.dtype).eps * self.norms
        return self.count > 1 and self.norms > 0 and _norm(self.total) <= limit


@dataclass(frozen=True)
class Ending:
    """Where the gradients of some leaves come to nothing: the code of why, and the node."""

    code: str
    operation: str
    number: int


class Pass:
    """One call of ``backward()`` or ``autograd.grad``."""

    def __init__(self, roots: Sequence[Node]) -> None:
        self.roots = roots
        nodes = graph.all_nodes(roots)
        self.numbers = {node._sequence_nr() for node in nodes}
        self.leaves = {node: node.variable for node in nodes if node.name() == LEAF}  # type: ignore[attr-defined]  # as in graph.py
        self.nodes = nodes if len(nodes) <= MOST else []
        self.seen: dict[Node, Seen] = {}
        self.sums: dict[Key, Sum] = {}
        self.handles: list[Any] = []

    def listen(self, arrived: Callable[[Tensor, Tensor], None], leaves: Iterable[Tensor]) -> None:
        """Measure what comes to the leaves, and look at each node on the way to these."""
        for node, leaf in self.leaves.items():
            self.handles.append(node.register_prehook(partial(_take, arrived, leaf)))
        wanted = {id(leaf) for leaf in leaves}
        for node in self._leading({node for node, leaf in self.leaves.items() if id(leaf) in wanted}):
            if node.name() != LEAF:
                self.seen[node] = Seen()
                self.handles += [
                    node.register_prehook(partial(self._given, node)), node.register_hook(partial(self._gave, node))
                ]  # fmt: skip

    def _leading(self, ends: set[Node]) -> list[Node]:
        users: dict[Node, list[Node]] = defaultdict(list)
        for node in self.nodes if ends else ():
            for follower, _ in node.next_functions:
                if follower is not None:
                    users[follower].append(node)
        pending, found = [*ends], set(ends)
        while pending:
            new = [user for user in users[pending.pop()] if user not in found]
            found.update(new)
            pending += new
        return [node for node in self.nodes if node in found]

    def _given(self, node: Node, gradients: Sequence[Tensor | None]) -> None:
        # About to run: afterwards it has nothing saved any longer.
        seen = self.seen[node]
        plain = [one for one in gradients if one is not None and _is_plain(one)]
        seen.came = any(map(_largest, plain))
        seen.size = max((one.numel() for one in plain), default=0)
        if not seen.came:
            return
        for tensor in _factors(node):
            if tensor.numel() and not _largest(tensor):
                seen.has_trained_zero |= tensor.requires_grad
                seen.has_zero |= not tensor.requires_grad

    def _gave(self, node: Node, made: Sequence[Tensor | None], given: Sequence[Tensor | None]) -> None:
        seen = self.seen[node]
        for at, (gradient, (follower, place)) in enumerate(zip(made, node.next_functions, strict=False)):
            if gradient is None or follower is None or not _is_plain(gradient):
                continue
            seen.gave[at] = not _largest(gradient)
            if gradient.numel() < seen.size:
                seen.smaller.add(at)
            if follower.name() == LEAF or seen.gave[at] or not gradient.is_floating_point():
                continue
            key, own, number = (follower, place), gradient.detach(), node._sequence_nr()
            if key in self.sums:
                self.sums[key].add(own, number)
            else:
                self.sums[key] = Sum(own, _norm(own), number=number)

    def stop(self) -> None:
        """Take off all hooks."""
        for handle in self.handles:
            handle.remove()
        self.handles.clear()

    def endings(self) -> dict[int, set[Ending]]:
        """By the identity of a leaf: where what is on its way there comes to nothing, on each way; nothing where some
        of it arrives.
        """
        cancelled = {key for key, one in self.sums.items() if one.cancels}
        arriving = self._reached(cancelled)
        users: dict[Node, list[tuple[Node, int, int]]] = defaultdict(list)
        for node in self.seen:
            for at, (follower, place) in enumerate(node.next_functions):
                if follower is not None:
                    users[follower].append((node, at, place))
        found = {}
        for node, leaf in self.leaves.items():
            if node not in arriving and users[node]:
                found[id(leaf)] = {*self._endings(node, users, cancelled)}
        return found

    def _reached(self, cancelled: set[Key]) -> set[Node]:
        # The nodes to which something comes that is neither 0 nor rounding.
        found, pending = set(self.roots), [*self.roots]
        while pending:
            node = pending.pop()
            seen = self.seen.get(node)
            for at, (follower, place) in enumerate(node.next_functions):
                is_over = (follower, place) in cancelled or (seen is not None and seen.gave.get(at, False))
                if follower is not None and not is_over and follower not in found:
                    found.add(follower)
                    pending.append(follower)
        return found

    def _endings(
        self, leaf: Node, users: Mapping[Node, Sequence[tuple[Node, int, int]]], cancelled: set[Key]
    ) -> Iterator[Ending]:  # fmt: skip
        pending, visited = [leaf], {leaf}
        while pending:
            node = pending.pop()
            for user, at, place in users[node]:
                seen = self.seen[user]
                if (node, place) in cancelled:
                    yield Ending(CANCELS, _operation(node), self.sums[node, place].number)
                elif at in seen.gave and seen.gave[at] and seen.came:
                    yield Ending(_why(seen, at), _operation(user), user._sequence_nr())
                elif at in seen.gave and user not in visited:
                    visited.add(user)
                    pending.append(user)


def _factors(node: Node) -> Iterator[Tensor]:
    # What a node has saved of its operands, where no hook of the program unpacks it: not its own result.
    for name in dir(node):
        held = getattr(node, name) if name.startswith("_raw_saved_") else ()
        for raw in held if isinstance(held, tuple | list) else (held,):
            if getattr(raw, "unpack_hook", None) is not None or not isinstance(getattr(raw, "data", None), Tensor):
                return  # nothing of this node is unpacked
        if not held:
            continue
        with suppress(RuntimeError):  # of what was written since
            saved = getattr(node, name.replace("_raw", "", 1))
            for one in saved if isinstance(saved, tuple | list) else (saved,):
                if isinstance(one, Tensor) and one.grad_fn is not node and one.is_floating_point() and _is_plain(one):
                    yield one


def _operation(node: Node) -> str:
    # As the program may call it.
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", graph.operation(node)).lower()


def _why(seen: Seen, at: int) -> str:
    # Why does a node give exactly 0 at one of its edges?
    if seen.has_trained_zero:
        return BY_CHANCE
    if seen.has_zero:
        return TIMES_ZERO
    return BY_CHANCE if at in seen.smaller else FLAT


def _take(arrived: Callable[[Tensor, Tensor], None], leaf: Tensor, gradients: Sequence[Tensor | None]) -> None:
    if gradients[0] is not None:
        arrived(leaf, gradients[0])


class Passes:
    """The passes of all iterations, and the leaves that they came to."""

    def __init__(self) -> None:
        self.leaves: dict[int, Leaf] = {}  # by identity
        self.passes: list[Pass] = []  # of this iteration

    def begins(self, roots: Sequence[Node]) -> None:
        """Backward is about to run."""
        self.passes.append(one := Pass(roots))
        suspicious = [
            leaf for known in self.leaves.values() if known.is_suspicious and (leaf := known.tensor()) is not None
        ]
        one.listen(self._arrived, suspicious)

    def _arrived(self, leaf: Tensor, gradient: Tensor) -> None:
        known = self.leaves.get(id(leaf))
        if known is None or known.tensor() is not leaf:
            known = self.leaves[id(leaf)] = Leaf(ref(leaf), -1.0)
        measured = _largest(gradient) if _is_plain(gradient) else float("inf")
        known.largest = max(known.largest, measured)

    def found(self) -> dict[int, set[Ending]]:
        """The iteration is over. By identity of a leaf: where its gradients came to nothing, in every pass of it."""
        for one in self.passes:
            one.stop()
        came = {at: known for at, known in self.leaves.items() if known.largest >= 0}
        found: dict[int, set[Ending]] = {}
        for at, known in came.items():
            if known.is_suspicious:
                each = [one.endings().get(at, set()) for one in self.passes if at in map(id, one.leaves.values())]
                if all(each):
                    found[at] = {*each[0]}.union(*each)
        self._advance(came.values())
        self.passes.clear()
        return found

    @property
    def numbers(self) -> set[int]:
        """Those of the nodes that the passes of this iteration go through."""
        return {number for one in self.passes for number in one.numbers}

    def is_zero(self, leaf: Tensor) -> bool:
        """Was exactly 0 all that came to a leaf, in each iteration so far?"""
        known = self.leaves.get(id(leaf))
        return known is not None and known.tensor() is leaf and known.iterations > 0 and known.was_zero

    def _advance(self, came: Iterable[Leaf]) -> None:
        measured = [known.largest for known in came]
        limit = FAR_BELOW * statistics.median(measured) if measured else 0.0
        for known in came:
            known.was_zero &= known.largest == 0
            known.was_small &= known.largest <= limit
            known.iterations += 1
            known.largest = -1.0


def _is_plain(tensor: Tensor) -> bool:
    return type(tensor) in ORDINARY and tensor.layout is torch.strided and not (tensor.is_meta or tensor.is_nested)


def _largest(tensor: Tensor) -> float:
    # Of the numbers of a tensor, whatever their sign: 0 where it is 0 everywhere.
    with torch.no_grad():
        return float(torch.linalg.vector_norm(tensor.detach(), float("inf"))) if tensor.numel() else 0.0


def _norm(tensor: Tensor) -> float:
    with torch.no_grad():
        return float(torch.linalg.vector_norm(tensor.detach(), dtype=torch.float64))
