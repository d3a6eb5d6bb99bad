"""The way back of gradients that come to nothing: exactly 0 at one operation, or cancelled.

Each node between the loss and the leaves is looked at. Of a large graph this is done from the second iteration on,
and for those leaves alone to which exactly 0 came before, or far less than to the others.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any
from weakref import ref

import torch
from torch import Tensor
from torch.autograd.graph import Node

from backprobe.backends.torch import graph
from backprobe.backends.torch.graph import LEAF, Key
from backprobe.backends.torch.tensors import ORDINARY
from backprobe.backends.useless import CANCELS, FAR_BELOW, FLAT, TIMES_ZERO

FAINT = 1e-3
"""A node that gives less than this share of what it is given is tried in the next iteration."""
ROUNDING = 64
"""Contributions cancel if their sum is at most so many units of rounding of the sum of their norms.

In healthy trainings it is above 5e5: see docs/useless.md.
"""
NOTHING = -1.0
"""The largest number of a leaf that no pass of an iteration has come to yet."""
MOST = 20_000
"""The nodes of the largest graph that is looked at."""
SMALL, SMALL_NODES = 1_000_000, 2_000
"""The elements of the leaves and the nodes of a graph that is looked at whole in each iteration, also the first."""
BY_CHANCE = "trained"
"""A reason for 0 of which nothing is said: a factor that is trained is 0 now, or the parts of one sum cancel."""


@dataclass
class Leaf:
    """What came to a leaf, over the iterations in which a pass came to it."""

    tensor: ref[Tensor]
    largest: float = NOTHING  # of its numbers in this iteration, whatever their sign
    iterations: int = 0  # before this one, in which a pass came to it
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
    norm: float = 0.0  # of what it was given
    is_tiny: bool = False  # is that so little that a part of it may be 0 in this dtype?
    gains: Mapping[int, float] = field(default_factory=dict)  # by place, of random numbers: see ``_tried``
    faint: set[int] = field(default_factory=set)  # the places where it gave next to nothing of what it was given
    hidden: set[int] = field(default_factory=set)  # those where that is rounding: it takes away just what comes

    def is_over(self, at: int) -> bool:
        """Is what it gave at this place 0, or rounding?"""
        return self.gave.get(at, False) or at in self.hidden


@dataclass
class Sum:
    """The contributions to one place, of which there are several; what they sum to is kept until the last has come."""

    left: int  # how many may come yet
    total: Tensor | None = None
    norms: float = 0.0
    count: int = 0
    number: int = -1  # of the last node in the program's order that contributes
    cancels: bool = False  # is what remains of them but rounding?

    def add(self, gradient: Tensor, number: int) -> None:
        self.total = gradient if self.total is None else self.total + gradient
        self.norms += _norm(gradient)
        self.count += 1
        self.number = max(self.number, number)

    def end(self) -> None:
        """One of those that may come is over."""
        self.left -= 1
        if not self.left and self.total is not None:
            limit = ROUNDING * torch.finfo(self.total.dtype).eps * self.norms
            self.cancels = self.count > 1 and _norm(self.total) <= limit
            self.total = None


@dataclass(frozen=True)
class Ending:
    """Where the gradients of some leaves come to nothing: the code of why, and the node."""

    code: str
    operation: str
    number: int


class Pass:
    """One call of ``backward()`` or ``autograd.grad``."""

    def __init__(self, roots: Sequence[Node], faint: Collection[tuple[int, str]] = ()) -> None:
        self.roots, self.tried = roots, faint
        nodes = graph.all_nodes(roots)
        self.numbers = {node._sequence_nr() for node in nodes}
        self.leaves = {node: graph.leaves([node])[0] for node in nodes if node.name() == LEAF}
        self.nodes = nodes if len(nodes) <= MOST else []
        self.is_small = len(nodes) <= SMALL_NODES and sum(leaf.numel() for leaf in self.leaves.values()) <= SMALL
        self.seen: dict[Node, Seen] = {}
        uses = Counter(edge for node in self.nodes for edge in node.next_functions)
        self.sums: dict[Any, Sum] = {
            edge: Sum(count) for edge, count in uses.items()
            if count > 1 and edge[0] is not None and edge[0].name() != LEAF
        }  # fmt: skip
        self.handles: list[Any] = []

    def listen(self, arrived: Callable[[Tensor, Tensor], None], leaves: Iterable[Tensor] | None) -> None:
        """Measure what comes to the leaves, and look at each node on the way to these; to all if it is None."""
        for node, leaf in self.leaves.items():
            self.handles.append(node.register_prehook(self._guarded(partial(_take, arrived, leaf))))
        wanted = self.reached if leaves is None else {id(leaf) for leaf in leaves}
        places = {node: (at, node.name()) for at, node in enumerate(self.nodes)}
        for node in self._leading({node for node, leaf in self.leaves.items() if id(leaf) in wanted}):
            if node.name() != LEAF:
                self.seen[node] = Seen()
                is_tried = places[node] in self.tried and not graph.is_custom(node)
                given, gave = partial(self._given, node, is_tried), partial(self._gave, node)
                self.handles += [node.register_prehook(self._guarded(given)), node.register_hook(self._guarded(gave))]

    def _guarded(self, hook: Callable[..., None]) -> Callable[..., None]:
        # The program's backward goes on whatever becomes of a hook; then no more is said of the pass.
        def guarded(*gradients: Any) -> None:
            try:
                if not self.is_spoiled:
                    hook(*gradients)
            except Exception:  # noqa: BLE001  # whatever a node of an unknown kind may raise
                self.is_spoiled = True

        return guarded

    is_spoiled = False

    def faint(self) -> set[tuple[int, str]]:
        """The places of the nodes in the graph that give next to nothing of what they are given, with their names."""
        return {(at, node.name()) for at, node in enumerate(self.nodes) if node in self.seen and self.seen[node].faint}

    @cached_property
    def reached(self) -> set[int]:
        """The leaves, by identity."""
        return {id(leaf) for leaf in self.leaves.values()}

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

    def _given(self, node: Node, is_tried: bool, gradients: Sequence[Tensor | None]) -> None:
        # About to run: afterwards it has nothing saved any longer.
        seen = self.seen[node]
        plain = [one for one in gradients if one is not None and _is_plain(one)]
        seen.came = any(map(_largest, plain))
        seen.size = max((one.numel() for one in plain), default=0)
        if not seen.came:
            return
        seen.norm = math.hypot(*map(_norm, plain))
        seen.is_tiny = any(_largest(one) <= _least(one) for one in plain if one.is_floating_point())
        if is_tried and not any(_is_hooked(one) for _, raw in _saved(node) for one in raw):
            seen.gains = _tried(node, gradients)
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
            size = _norm(gradient)
            if gradient.numel() < seen.size:
                seen.smaller.add(at)
            elif size <= FAINT * seen.norm:
                seen.faint.add(at)
            is_known = at in seen.gains and not seen.is_tiny
            if is_known and size <= ROUNDING * torch.finfo(gradient.dtype).eps * seen.gains[at] * seen.norm:
                seen.hidden.add(at)
            one = self.sums.get((follower, place))
            if one is not None and not seen.gave[at] and gradient.is_floating_point():
                one.add(gradient.detach(), node._sequence_nr())
        for edge in node.next_functions:
            if edge in self.sums:
                self.sums[edge].end()

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
                is_over = (follower, place) in cancelled or (seen is not None and seen.is_over(at))
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
                elif seen.is_over(at) and seen.came:
                    yield Ending(_why(seen, at), _operation(user), user._sequence_nr())
                elif at in seen.gave and user not in visited:
                    visited.add(user)
                    pending.append(user)


def _saved(node: Node) -> Iterator[tuple[str, Sequence[Any]]]:
    # What a node has saved, by the name of the attribute, packed as it is.
    for name in dir(node):
        if name.startswith("_raw_saved_"):
            held = getattr(node, name)
            yield name, held if isinstance(held, tuple | list) else (held,)


def _is_hooked(saved: Any) -> bool:
    # Does a hook unpack it, as a checkpoint's, which does that once?
    return getattr(saved, "unpack_hook", None) is not None


def _factors(node: Node) -> Iterator[Tensor]:
    # What a node has saved of its operands, where no hook of the program unpacks it: not its own result.
    for name, raw in _saved(node):
        if not raw or any(map(_is_hooked, raw)):
            continue
        with suppress(RuntimeError):  # of what was written since
            saved = getattr(node, name.replace("_raw", "", 1), raw and [one.data for one in raw])
            for one in saved if isinstance(saved, tuple | list) else (saved,):
                if isinstance(one, Tensor) and one.grad_fn is not node and one.is_floating_point() and _is_plain(one):
                    yield one


def _tried(node: Node, gradients: Sequence[Tensor | None]) -> Mapping[int, float]:
    # An experiment: how large is what a node gives of random numbers, as a share of these? It is linear in them.
    with torch.no_grad(), torch._C._DisableTorchDispatch():
        given = [None if one is None else _random(one) for one in gradients]
        size = math.hypot(*(_norm(one) for one in given if one is not None))
        call: Any = node
        made = call(*given)
        made = made if isinstance(made, tuple) else (made,)
        return {at: gain for at, one in enumerate(made) if isinstance(one, Tensor) and (gain := _norm(one) / size)}


def _random(like: Tensor) -> Tensor:
    # From a generator of its own: the program's random numbers stay as they are.
    generator = torch.Generator(like.device).manual_seed(0)
    return torch.randn(like.shape, generator=generator, device=like.device).to(like.dtype)


def _operation(node: Node) -> str:
    # As the program may call it.
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", graph.operation(node)).lower()


def _why(seen: Seen, at: int) -> str:
    # Why does a node give exactly 0 at one of its edges?
    if seen.has_trained_zero:
        return BY_CHANCE
    if at in seen.hidden:
        return CANCELS
    if seen.has_zero:
        return TIMES_ZERO  # however small the other factor is
    return BY_CHANCE if at in seen.smaller or seen.is_tiny else FLAT


def _take(arrived: Callable[[Tensor, Tensor], None], leaf: Tensor, gradients: Sequence[Tensor | None]) -> None:
    if gradients[0] is not None:
        arrived(leaf, gradients[0])


class Passes:
    """The passes of all iterations, and the leaves that they came to."""

    def __init__(self) -> None:
        self.leaves: dict[int, Leaf] = {}  # by identity
        self.passes: list[Pass] = []  # of this iteration
        self.iterations = 0  # so far that had a pass
        self.faint: dict[int, set[tuple[int, str]]] = {}  # of the passes of the last iteration, by their order

    def begins(self, roots: Sequence[Node]) -> None:
        """Backward is about to run."""
        faint = self.faint.get(len(self.passes), ())
        self.passes.append(one := Pass(roots, faint))
        suspicious = (known.tensor() for known in self.leaves.values() if known.is_suspicious)
        one.listen(self._arrived, None if one.is_small else [leaf for leaf in suspicious if leaf is not None])

    def _arrived(self, leaf: Tensor, gradient: Tensor) -> None:
        known = self.leaves.get(id(leaf))
        if known is None or known.tensor() is not leaf:
            known = self.leaves[id(leaf)] = Leaf(ref(leaf))
        known.largest = max(known.largest, _largest(gradient) if _is_plain(gradient) else math.inf)

    def found(self) -> dict[int, set[Ending]]:
        """The iteration is over. By identity of a leaf: where its gradients came to nothing, in every pass of it."""
        for one in self.passes:
            one.stop()
        self.iterations += bool(self.passes)
        came = {at for at, known in self.leaves.items() if known.largest >= 0}
        self._advance()
        each = [(one.reached, {} if one.is_spoiled else one.endings()) for one in self.passes]
        self.faint = {at: one.faint() for at, one in enumerate(self.passes)}
        self.passes.clear()
        ends = {at: [endings.get(at, set()) for reached, endings in each if at in reached] for at in came}
        return {at: set().union(*those) for at, those in ends.items() if all(those)}

    @property
    def numbers(self) -> set[int]:
        """Those of the nodes that the passes of this iteration go through."""
        return {number for one in self.passes for number in one.numbers}

    def is_zero(self, leaf: Tensor) -> bool:
        """Was exactly 0 all that came to a leaf, in each iteration so far?"""
        known = self.leaves.get(id(leaf))
        return known is not None and known.tensor() is leaf and known.iterations == self.iterations and known.was_zero

    def _advance(self) -> None:
        came = [known for known in self.leaves.values() if known.largest >= 0]
        limit = FAR_BELOW * max([known.largest for known in came], default=0.0)
        for known in came:
            known.was_zero &= known.largest == 0
            known.was_small &= known.largest <= limit
            known.iterations += 1
            known.largest = NOTHING


def _least(tensor: Tensor) -> float:
    # Below this, a number times the unit of rounding is no normal number any longer.
    known = torch.finfo(tensor.dtype)
    return known.tiny / known.eps


def _is_plain(tensor: Tensor) -> bool:
    return type(tensor) in ORDINARY and tensor.layout is torch.strided and not (tensor.is_meta or tensor.is_nested)


def _largest(tensor: Tensor) -> float:
    # Of the numbers of a tensor, whatever their sign: 0 where it is 0 everywhere.
    with torch.no_grad(), torch._C._DisableTorchDispatch():
        return float(torch.linalg.vector_norm(tensor, math.inf)) if tensor.numel() else 0.0


def _norm(tensor: Tensor) -> float:
    with torch.no_grad(), torch._C._DisableTorchDispatch():
        return float(torch.linalg.vector_norm(tensor, dtype=torch.complex128 if tensor.is_complex() else torch.float64))
