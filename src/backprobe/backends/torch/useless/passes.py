"""Finds the place in backward at which a gradient is lost: it is exactly 0 after one operation, or its parts cancel.

In a small graph, each node between the loss and the leaves is examined. In a larger one this begins with the second
iteration, and includes only leaves whose gradient was exactly 0 before, or far smaller than the others. In a graph of
more than ``MOST`` nodes, no node is examined.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any
from weakref import ref

import torch
from torch import Tensor
from torch.autograd.graph import Node

from backprobe.backends.torch import graph, saved_tensors
from backprobe.backends.torch.graph import LEAF, Key
from backprobe.backends.torch.private import DisableTorchDispatch
from backprobe.backends.torch.tensors import is_plain
from backprobe.backends.useless import CANCELS, FLAT, HOOKED, NOT_SENT, TIMES_ZERO, End
from backprobe.backends.useless.leaves import Leaves
from backprobe.backends.useless.ways import BY_CHANCE, FAINT, Sum, Ways, is_rounding
from backprobe.backends.user_lines import source_at

SQUARED = 1e15
"""Numbers up to this limit, and their inverses, can be squared in single precision."""
GIVEN = "WritableBackward"
"""The name of the node of ``calls.Writable``, which copies a leaf so that the program may write to the copy."""
MOST = 20_000
"""A graph with more nodes than this is not examined."""
SMALL, SMALL_NODES = 1_000_000, 2_000
"""A graph with at most this many elements in its leaves, and this many nodes, is examined fully in each iteration."""


@dataclass(frozen=True)
class Faint:
    """Nodes as their places in the graph and their names: those that pass on almost nothing of what they receive, and
    those that make a sum of it which is exactly 0.
    """

    nodes: Collection[tuple[int, str]] = ()
    sums: Collection[tuple[int, str]] = ()


NOTHING_FAINT = Faint()

DoesWithout = Callable[[int, int, int], bool]
"""Tells whether an operation's result does not depend on one of its tensors. The arguments are the number of the
operation's node, the index of the tensor, and the number of tensors.
"""


@dataclass
class SeenByBackward:
    """The gradients that one node received during backward, and what it passed on."""

    came: bool = False  # has the node received a number other than 0?
    size: int = 0  # the number of elements of the largest gradient that the node has received
    gave: dict[int, bool] = field(default_factory=dict)  # for each edge of the node: is the gradient 0?
    smaller: set[int] = field(default_factory=set)  # places of edges with fewer elements
    has_zero: bool = False  # has the node saved an input that is 0 everywhere and requires no gradient?
    has_trained_zero: bool = False
    norm: float = 0.0  # the norm of the gradient that arrived at the node
    is_tiny: bool = False  # is this norm so small that parts of the gradient may underflow?
    # for each edge, the share of the norm that the node passes on if it is called with random numbers
    gains: Mapping[int, float] = field(default_factory=dict)
    faint: set[int] = field(default_factory=set)  # places where almost nothing of the gradient was passed on
    # places where only rounding errors remain, because the operation removes exactly the gradient that arrived
    hidden: set[int] = field(default_factory=set)
    without: set[int] = field(default_factory=set)  # places of inputs that do not affect the result
    empty: set[int] = field(default_factory=set)  # places of sums that are exactly 0, by chance or always
    unsent: set[int] = field(default_factory=set)  # places that get exactly 0 even if random numbers come to the node
    was_faint: bool = False  # did it pass on almost nothing in the iteration before?
    got: bool = False  # has any gradient come to the node, maybe of 0?

    def is_over(self, at: int) -> bool | None:
        """Is the gradient that was passed on at this place 0, or only rounding? None if no gradient was passed on."""
        return self.gave[at] or at in self.hidden or at in self.without if at in self.gave else None


class ObservedPass(Ways[Key, Node]):
    """One call of ``backward()`` or ``autograd.grad``, whose nodes are observed by hooks."""

    def __init__(self, roots: Sequence[Node], does_without: DoesWithout, faint: Faint = NOTHING_FAINT) -> None:
        self.roots, self.does_without, self.before = roots, does_without, faint
        nodes = graph.all_nodes(roots)
        self.numbers = {node._sequence_nr() for node in nodes}
        self.leaves = {node: graph.leaves([node])[0] for node in nodes if node.name() == LEAF}
        self.nodes = nodes if len(nodes) <= MOST else []
        self.is_small = len(nodes) <= SMALL_NODES and sum(leaf.numel() for leaf in self.leaves.values()) <= SMALL
        self.seen: dict[Node, SeenByBackward] = {}
        uses = Counter(edge for node in self.nodes for edge in node.next_functions)
        self.outputs: dict[Node, list[Key]] = defaultdict(list)
        for edge in uses:
            if edge[0] is not None:
                self.outputs[edge[0]].append((edge[0], edge[1]))
        self.sums: dict[Any, Sum] = {
            edge: Sum(_norm, _unit, count, is_exact=edge[0].name() in (LEAF, GIVEN))
            for edge, count in uses.items()
            if count > 1 and edge[0] is not None
        }
        self.handles: list[Any] = []
        self.zero_leaves: set[Node] = set()  # nodes of leaves at which a gradient of 0 has arrived

    def listen(self, arrived: Callable[[Tensor, Tensor], None], leaves: Iterable[Tensor] | None) -> None:
        """Measure the gradients that arrive at leaves, and examine each node on a path to ``leaves``. None means all
        leaves.
        """
        for node, leaf in self.leaves.items():
            took = partial(_take, self._arrived(node, arrived), leaf)
            self.handles.append(node.register_prehook(self._guarded(took)))
        wanted = {*map(id, self.leaves.values() if leaves is None else leaves)}
        places = {node: (at, node.name()) for at, node in enumerate(self.nodes)}
        led = graph.leading_to({node for node, leaf in self.leaves.items() if id(leaf) in wanted}, self.nodes)
        for node in self.nodes:
            if node in led and node.name() != LEAF:
                self.seen[node] = SeenByBackward(was_faint=places[node] in self.before.nodes)
                is_open = self.seen[node].was_faint or places[node] in self.before.sums
                is_tried = is_open and not graph.is_custom(node)
                given, gave = partial(self._given, node, is_tried), partial(self._gave, node)
                self.handles += [node.register_prehook(self._guarded(given)), node.register_hook(self._guarded(gave))]

    def _arrived(self, node: Node, arrived: Callable[[Tensor, Tensor], None]) -> Callable[[Tensor, Tensor], None]:
        def came(leaf: Tensor, gradient: Tensor) -> None:
            if is_plain(gradient) and not _largest(gradient):
                self.zero_leaves.add(node)
            arrived(leaf, gradient)

        return came

    def _guarded(self, hook: Callable[..., None]) -> Callable[..., None]:
        # If a hook fails, the program's backward continues, and nothing more is reported about the pass.
        def guarded(*gradients: Any) -> None:
            try:
                if not self.is_spoiled:
                    hook(*gradients)
            except Exception:  # noqa: BLE001  # whatever a node of an unknown kind may raise
                self.is_spoiled = True

        return guarded

    is_spoiled = False

    def faint(self) -> Faint:
        """Return the nodes that are to be tried with random numbers in the next iteration, unless they are custom."""
        known = [((at, node.name()), self.seen[node]) for at, node in enumerate(self.nodes) if node in self.seen]
        return Faint({place for place, seen in known if seen.faint}, {place for place, seen in known if seen.empty})

    def _given(self, node: Node, is_tried: bool, gradients: Sequence[Tensor | None]) -> None:
        # Called when the node is about to run. Its saved tensors are read now, because they are freed after the node
        # has run.
        seen = self.seen[node]
        plain = [one for one in gradients if one is not None and is_plain(one)]
        seen.got = bool(plain)
        seen.came = any(map(_largest, plain))
        seen.size = max((one.numel() for one in plain), default=0)
        if not seen.came:
            return
        seen.norm = math.hypot(*map(_norm, plain))
        seen.is_tiny = any(_largest(one) <= _least(one) for one in plain if one.is_floating_point())
        if is_tried and not saved_tensors.is_hooked(node):
            seen.gains, seen.unsent = _tried(node, gradients)
        for tensor in _factors(node):
            if tensor.numel() and not _largest(tensor):
                seen.has_trained_zero |= tensor.requires_grad
                seen.has_zero |= not tensor.requires_grad

    def _gave(self, node: Node, made: Sequence[Tensor | None], given: Sequence[Tensor | None]) -> None:
        seen = self.seen[node]
        for at, (gradient, (follower, place)) in enumerate(zip(made, node.next_functions, strict=False)):
            if gradient is None or follower is None or not is_plain(gradient):
                continue
            seen.gave[at] = not _largest(gradient)
            size = _norm(gradient)
            if gradient.numel() < seen.size:
                seen.smaller.add(at)
                if seen.came and seen.gave[at]:
                    seen.empty.add(at)
            elif size <= FAINT * seen.norm:
                seen.faint.add(at)
            is_known = at in seen.gains and seen.was_faint and not seen.is_tiny
            if is_known and is_rounding(
                size, _unit(gradient), seen.gains[at] * _norm_behind(gradient, given, seen.norm)
            ):
                seen.hidden.add(at)
            is_open = seen.has_trained_zero if seen.gave[at] else at in seen.faint
            if is_open and seen.came and gradient.numel() and self._does_without(node, at):
                seen.without.add(at)
            one = self.sums.get((follower, place))
            if one is not None and one.is_exact and not any(_is_like(gradient, each) for each in given):
                # This is a sum over the batch, such as a bias has. Parts that cancel in it are not a mistake.
                del self.sums[follower, place]
            elif one is not None and not seen.gave[at] and gradient.is_floating_point():
                one.add(gradient.detach(), node._sequence_nr())
        for edge in node.next_functions:
            if edge in self.sums:
                self.sums[edge].end()

    def _does_without(self, node: Node, at: int) -> bool:
        return not graph.is_custom(node) and self.does_without(node._sequence_nr(), at, len(node.next_functions))

    def stop(self) -> None:
        """Remove all hooks."""
        for handle in self.handles:
            handle.remove()
        self.handles.clear()

    def endings(self) -> dict[int, set[End]]:
        """Return, by the id of each leaf at which the gradient has vanished, the places where it ends on the paths to
        the leaf.
        """
        arriving, users = self.reached((root, 0) for root in self.roots), self.users(self.seen)
        ended = {id(leaf): (node, 0) for node, leaf in self.leaves.items() if (node, 0) not in arriving}
        return {leaf: self.ends(key, users) for leaf, key in ended.items() if key in users}

    @property
    def cancelled(self) -> set[Key]:
        return {key for key, one in self.sums.items() if one.cancels}

    @cached_property
    def silenced(self) -> set[Key]:
        # The places at which a gradient of 0 arrived although the node before sent another. Read when the pass is over.
        # Places to which several nodes send gradients do not count, because the sum may be exactly 0.
        uses = Counter(edge for node in self.nodes for edge in node.next_functions)
        sent = {
            (follower, place)
            for node, seen in self.seen.items()
            for at, (follower, place) in enumerate(node.next_functions)
            if follower is not None and seen.gave.get(at) is False and uses[follower, place] == 1
        }
        return {key for key in sent if self._has_got_zero(key[0])}

    def _has_got_zero(self, node: Node) -> bool:
        if node in self.leaves:
            return node in self.zero_leaves
        seen = self.seen.get(node)
        return seen is not None and seen.got and not seen.came and len(self.outputs[node]) == 1

    def silencing(self, value: Key) -> End:
        leaf = self.leaves.get(value[0])
        hooks = [] if leaf is None else [*(leaf._backward_hooks or {}).values()]
        code = getattr(hooks[0], "__code__", None) if len(hooks) == 1 else None
        place = None if code is None else source_at(code.co_filename, code.co_firstlineno)
        return End(HOOKED, "hook", max(value[0]._sequence_nr(), 0) if leaf is None else -1, place)

    def maker(self, value: Key) -> Node:
        return value[0]

    def made(self, step: Node) -> list[Key]:
        return self.outputs[step]

    def operands(self, step: Node) -> dict[int, tuple[Key, bool | None]]:
        seen, edges = self.seen.get(step), enumerate(step.next_functions)
        return {
            at: ((follower, place), seen.is_over(at) if seen is not None else False)
            for at, (follower, place) in edges
            if follower is not None
        }

    def has_come(self, step: Node) -> bool:
        return self.seen[step].came

    def why(self, step: Node, at: int) -> str:
        return _why(self.seen[step], at)

    def end(self, code: str, step: Node) -> End:
        may_be = code == FLAT and not graph.is_custom(step)
        is_constant = may_be or (code == CANCELS and bool(self.seen[step].without))
        return End(code, _operation(step), step._sequence_nr(), is_constant=is_constant)

    def cancelling(self, value: Key) -> End:
        return End(CANCELS, _operation(value[0]), self.sums[value].last)


def _factors(node: Node) -> Iterator[Tensor]:
    # Yield the floating-point inputs that a node has saved. Its own result is left out, and so are tensors that a hook
    # of the program would unpack.
    for one in saved_tensors.tensors(node):
        if one.grad_fn is not node and one.is_floating_point() and is_plain(one):
            yield one


def _tried(node: Node, gradients: Sequence[Tensor | None]) -> tuple[Mapping[int, float], set[int]]:
    # Return the share of the norm that a node passes on for random numbers, and the places to which it passes on
    # exactly 0. Backward is linear in the gradient, so the node can simply be called again.
    with torch.no_grad(), DisableTorchDispatch():
        given = [None if one is None else _random(one) for one in gradients]
        size = math.hypot(*(_norm(one) for one in given if one is not None))
        call: Any = node
        made = call(*given)
        made = made if isinstance(made, tuple) else (made,)
        norms = {at: _norm(one) for at, one in enumerate(made) if isinstance(one, Tensor) and one.numel()}
        gains = {at: norm / size for at, norm in norms.items() if norm}
        return gains, {at for at in norms if at not in gains}


def _random(like: Tensor) -> Tensor:
    # Return random numbers from a separate generator, so that the program's random numbers are not affected.
    generator = torch.Generator(like.device).manual_seed(0)
    return torch.randn(like.shape, generator=generator, device=like.device).to(like.dtype)


def _operation(node: Node) -> str:
    # Return the name of the operation as a program may write it.
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", graph.operation(node)).lower()


def _why(seen: SeenByBackward, at: int) -> str:
    # Return the reason why a node passes on exactly 0, or only rounding errors, at one of its edges.
    if at in seen.without:
        return CANCELS
    if seen.has_trained_zero:
        return BY_CHANCE
    if at in seen.hidden:
        return CANCELS
    if seen.has_zero:
        return TIMES_ZERO  # a factor is 0, so the size of the other factor does not matter
    if at in seen.smaller and at in seen.unsent and not seen.is_tiny:
        return NOT_SENT
    return BY_CHANCE if at in seen.smaller or seen.is_tiny else FLAT


def _is_like(gradient: Tensor, given: Tensor | None) -> bool:
    return given is not None and gradient.shape == given.shape


def _take(arrived: Callable[[Tensor, Tensor], None], leaf: Tensor, gradients: Sequence[Tensor | None]) -> None:
    if gradients[0] is not None:
        arrived(leaf, gradients[0])


class Passes:
    """The backward passes of each iteration, and the leaves that they have reached in all iterations."""

    def __init__(self, does_without: DoesWithout) -> None:
        self.does_without = does_without
        self.leaves: Leaves[int] = Leaves()  # the key is the id of a leaf
        self.passes: list[ObservedPass] = []  # the passes of this iteration
        self.faint: dict[int, Faint] = {}  # by pass, as of the iteration before

    def begins(self, roots: Sequence[Node]) -> None:
        """Observe a backward pass that is about to start from these nodes."""
        faint = self.faint.get(len(self.passes), NOTHING_FAINT)
        self.passes.append(one := ObservedPass(roots, self.does_without, faint))
        suspicious = (known.held() for known in self.leaves.known.values() if known.is_suspicious)
        one.listen(self._arrived, None if one.is_small else [leaf for leaf in suspicious if leaf is not None])

    def _arrived(self, leaf: Tensor, gradient: Tensor) -> None:
        known = self.leaves.known.get(id(leaf))
        if known is not None and known.held() is not leaf:
            del self.leaves.known[id(leaf)]
        largest = _largest(gradient) if is_plain(gradient) else math.inf
        self.leaves.came(id(leaf), ref(leaf), largest, _unit(leaf))

    def found(self) -> dict[int, set[End]]:
        """End the iteration. For each leaf whose gradient vanished in every pass that leads to it, return the places
        where it vanished, by the leaf's id.
        """
        for one in self.passes:
            one.stop()
        came = self.leaves.reached()
        self.leaves.end_iteration()
        each = [({*map(id, one.leaves.values())}, {} if one.is_spoiled else one.endings()) for one in self.passes]
        self.faint = {at: one.faint() for at, one in enumerate(self.passes)}
        self.passes.clear()
        ends = {at: [endings.get(at, set()) for reached, endings in each if at in reached] for at in came}
        return {at: set().union(*those) for at, those in ends.items() if all(those)}

    @property
    def numbers(self) -> set[int]:
        """The numbers of the nodes that the passes of this iteration go through."""
        return {number for one in self.passes for number in one.numbers}

    @property
    def are_whole(self) -> bool:
        """Was every node of the passes of this iteration examined?"""
        return all(one.is_small for one in self.passes)

    def is_zero(self, leaf: Tensor) -> bool:
        """Was every gradient that arrived at this leaf exactly 0, in all iterations so far?"""
        known = self.leaves.known.get(id(leaf))
        return known is not None and known.held() is leaf and self.leaves.is_zero(id(leaf))


def _unit(tensor: Tensor) -> float:
    return torch.finfo(tensor.dtype).eps


def _least(tensor: Tensor) -> float:
    # Return the limit below which the product with the rounding unit is no longer a normal number.
    known = torch.finfo(tensor.dtype)
    return known.tiny / known.eps


def _largest(tensor: Tensor) -> float:
    # Return the largest magnitude in a tensor; 0 if the tensor is empty.
    if not tensor.numel():
        return 0.0
    with torch.no_grad(), DisableTorchDispatch():
        if tensor.is_complex():
            return float(torch.linalg.vector_norm(tensor, math.inf))
        return float(torch.stack(torch.aminmax(tensor)).abs().max())  # ten times faster than the norm


def _norm_behind(gradient: Tensor, given: Sequence[Tensor | None], norm: float) -> float:
    # Return the norm of the received gradient, without the elements at which exactly 0 is passed on, as by a ReLU.
    came = [one for one in given if one is not None]
    if len(came) != 1 or came[0].shape != gradient.shape or not is_plain(came[0]):
        return norm
    return _norm(came[0][gradient != 0])


def _norm(tensor: Tensor) -> float:
    # Return the norm. It is computed in the tensor's own precision if that is float32 or float64, which is ten times
    # faster. For other dtypes, or if squares may have underflowed or overflowed, it is computed in double precision.
    with torch.no_grad(), DisableTorchDispatch():
        if tensor.dtype in (torch.float32, torch.float64):
            found = float(torch.linalg.vector_norm(tensor))
            if 1 / SQUARED < found < SQUARED:
                return found
        return float(torch.linalg.vector_norm(tensor, dtype=torch.complex128 if tensor.is_complex() else torch.float64))
