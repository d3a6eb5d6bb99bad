"""Walks over autograd's graph: which recorded values flow into which others, and the order in which backward visits
them.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from torch import Tensor
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import GradientEdge, Node

from backprobe.backends.torch import saved_tensors
from backprobe.backends.torch.capture import Capture, gradient_edge
from backprobe.backends.torch.private import AccumulateGrad

Key = tuple[Node, int]
LEAF = "torch::autograd::AccumulateGrad"
BACKWARD = re.compile(r"(\w+?)Backward\d*")


def key(edge: GradientEdge) -> Key:
    return edge.node, edge.output_nr


def by_edge(captures: Sequence[Capture]) -> dict[Key, list[int]]:
    """Return the positions of the captures at each edge: first those of a whole tensor, then those of views that were
    written in place and share its edge.
    """
    found: dict[Key, list[int]] = {}
    views = []
    for at, capture in enumerate(captures):
        edge = capture.edge
        if capture.geometry is not None:
            views.append(at)
        elif edge is not None:
            found.setdefault((edge[0], edge[1]), []).append(at)
    for at in views:
        edge = captures[at].edge
        if edge is not None:
            found.setdefault(key(edge), []).append(at)
    return found


def inputs(edge: GradientEdge | None, recorded: Mapping[Key, Sequence[int]]) -> list[int]:
    """Return the positions of the recorded values that flow into an edge without passing another recorded one."""
    found: dict[int, None] = {}
    visited: set[Node] = set()
    pending = [] if edge is None else [edge.node]
    while pending:
        node = pending.pop()
        for follower, output in node.next_functions:
            if follower is None:
                continue
            known = recorded.get((follower, output))
            if known:
                found[known[0]] = None
            elif follower not in visited:
                visited.add(follower)
                pending.append(follower)
    return sorted(found)


def between(edge: GradientEdge, recorded: Mapping[Key, Sequence[int]]) -> set[Node]:
    """Return the edge's node, and the nodes that a gradient reaches from it without passing a recorded value."""
    visited = {edge.node}
    pending = [edge.node]
    while pending:
        for follower, output in pending.pop().next_functions:
            if follower is not None and follower not in visited and (follower, output) not in recorded:
                visited.add(follower)
                pending.append(follower)
    return visited


def all_inputs(
    edges: Sequence[GradientEdge | None], recorded: Mapping[Key, int], leaves: Mapping[int, int]
) -> list[tuple[int, ...]]:
    """Return ``inputs`` for many edges, including leaves, in a single loop, because a program may have thousands.

    ``recorded`` are positions by edge, ``leaves`` are positions by the id of the tensor.
    """
    get = recorded.get
    every: list[tuple[int, ...]] = []
    for edge in edges:
        if edge is None:
            every.append(())
            continue
        found: set[int] = set()
        visited: set[Node] = set()
        pending: list[Any] = [*edge[0].next_functions]
        for pair in pending:  # the list grows during the loop
            known = get(pair)
            if known is not None:
                found.add(known)
                continue
            follower = pair[0]
            if type(follower) is AccumulateGrad:
                if leaves and (known := leaves.get(id(follower.variable))) is not None:
                    found.add(known)
            elif follower is not None and follower not in visited:
                visited.add(follower)
                pending += follower.next_functions
        every.append(tuple(sorted(found)))
    return every


def owners(places: Mapping[Key, Sequence[int]]) -> Mapping[Node, int]:
    """Return the position of the capture to which each node belongs: the first capture in order of execution whose
    computation includes the node.
    """
    named = {node for node, _ in places}
    found: dict[Node, int] = {}
    for (node, _), (at, *_) in sorted(places.items(), key=lambda place: place[1][0]):
        found.setdefault(node, at)
        pending = [node]
        while pending:
            for follower, _ in pending.pop().next_functions:
                if follower is not None and follower not in named and follower not in found:
                    found[follower] = at
                    pending.append(follower)
    return found


def backward_order(root: GradientEdge, recorded: Mapping[Key, Sequence[int]]) -> list[int]:
    """Return the positions of the recorded values in the order in which the engine's queue reaches them.

    Among the nodes whose consumers have all run, the engine takes leaves first, and then the node that was created last
    in the forward pass (torch/csrc/autograd/engine.cpp, ``CompareNodeTaskTime``). This function reproduces that queue.
    """
    waiting = Counter(follower for node in all_nodes([root.node]) for follower, _ in node.next_functions)
    outputs: dict[Node, list[int]] = {}
    for node, output in recorded:
        outputs.setdefault(node, []).append(output)
    order: list[int] = []
    pushed = 0
    queue = [(0, 0, root.node)]
    while queue:
        _, _, node = heapq.heappop(queue)
        for output in sorted(outputs.get(node, ())):
            order += recorded[node, output]
        for follower, _ in node.next_functions:
            if follower is not None:
                waiting[follower] -= 1
                if not waiting[follower]:
                    pushed += 1
                    heapq.heappush(queue, (-follower._sequence_nr(), pushed, follower))
    return order


def roots(tensors: Iterable[Tensor]) -> list[Node]:
    """Return the nodes from which backward from these tensors starts."""
    return [edge.node for tensor in tensors if (edge := gradient_edge(tensor)) is not None]


def nodes(*tensors: Tensor) -> list[Node]:
    """Return every node that backward from these tensors may reach."""
    return all_nodes(roots(tensors))


def edges(*tensors: Tensor) -> set[Key]:
    """Return every edge to which backward from these tensors may bring a gradient."""
    own = {key(edge) for tensor in tensors if (edge := gradient_edge(tensor)) is not None}
    return own | {(n, at) for node in nodes(*tensors) for n, at in node.next_functions if n is not None}


def all_nodes(roots: Iterable[Node]) -> list[Node]:
    """Return every node that backward from these nodes may reach."""
    seen = dict.fromkeys(roots)
    pending = list(seen)
    while pending:
        for follower, _ in pending.pop().next_functions:
            if follower is not None and follower not in seen:
                seen[follower] = None
                pending.append(follower)
    return list(seen)


def walked(roots: Iterable[Node], is_passed: Callable[[Node], bool]) -> set[Node]:
    """Return the nodes that backward from these nodes may reach through nodes for which ``is_passed`` is true. The
    nodes that it would have to pass next are included.
    """
    pending, found = [*roots], set[Node]()
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            pending += [one for one, _ in node.next_functions if one is not None] if is_passed(node) else ()
    return found


def is_older(output: Tensor, start: int) -> bool:
    """Does backward go through nodes that were created before this count of nodes? The program may then run backward
    through them again.
    """
    return min([node._sequence_nr() for node in nodes(output)], default=start) < start


def leaves(found: Iterable[Node]) -> list[Tensor]:
    """Return the leaves to which some of these nodes add gradients."""
    return [node.variable for node in found if node.name() == LEAF]  # type: ignore[attr-defined]  # nodes of leaves have it, without a stub


def first_uses(roots: Iterable[Node]) -> tuple[dict[int, int], float]:
    """Return the sequence number of the first node that uses each leaf, by the leaf's id.

    Also return that of the first custom function, or infinity: its backward may use leaves that are not among its
    followers.
    """
    uses: dict[int, int] = {}
    found = all_nodes(roots)
    for node in found:
        for leaf in leaves(follower for follower, _ in node.next_functions if follower is not None):
            uses[id(leaf)] = min(uses.get(id(leaf), node._sequence_nr()), node._sequence_nr())
    return uses, min((node._sequence_nr() for node in found if is_custom(node)), default=math.inf)


def leading_to_lost(
    made: Iterable[Node], reached: Iterable[Node], lost: Iterable[Tensor], spared: Set[int] = frozenset()
) -> set[Node]:
    """Return those of ``made`` and of the nodes behind them that lead to a leaf not reached from ``reached``.

    ``lost`` are leaves at which no gradient arrived, although the graph may lead to them. A reentrant checkpoint may
    hide the path to such a leaf, so nodes that lead to one are returned too. A leaf that was frozen since does not
    count. Leaves in ``spared``, by id, count as reached.
    """
    known = set(map(id, leaves(all_nodes(reached))))
    known.difference_update(map(id, lost))
    known |= spared
    nodes = all_nodes(made)
    ends = {
        node
        for node in nodes
        if any(leaf.requires_grad and id(leaf) not in known for leaf in leaves([node]))
        or node.name() == "CheckpointFunctionBackward"
    }
    return leading_to(ends, nodes)


def leading_to(ends: set[Node], nodes: Iterable[Node]) -> set[Node]:
    """Return those of ``nodes`` that lead to one of the ends, and the ends themselves."""
    givers = givers_of(nodes) if ends else {}
    pending, found = [*ends], {*ends}
    while pending:
        new = [giver for giver in givers.get(pending.pop(), ()) if giver not in found]
        found.update(new)
        pending += new
    return found


def givers_of(nodes: Iterable[Node]) -> dict[Node, list[Node]]:
    """Return, for each node that receives gradients from some of ``nodes``, the nodes that pass gradients to it."""
    found: dict[Node, list[Node]] = {}
    for node in nodes:
        for follower, _ in node.next_functions:
            if follower is not None:
                found.setdefault(follower, []).append(node)
    return found


def saved(roots: Iterable[Node]) -> Iterator[Tensor]:
    """Yield the tensors saved by nodes that backward from these nodes may reach, except those that a hook of the
    program would unpack.
    """
    for node in all_nodes(roots):
        for name in saved_tensors.names(node):
            yield from (one for one in saved_tensors.data(node, name) if isinstance(one, Tensor))


def custom_functions(roots: Iterable[Node]) -> list[Node]:
    """Return the nodes of ``autograd.Function``s, in Python or C++, that backward from these nodes may reach."""
    return [node for node in all_nodes(roots) if is_custom(node)]


def is_custom(node: Node) -> bool:
    return isinstance(node, BackwardCFunction) or node.name().startswith("torch::autograd::CppNode")


def has_custom(tensors: Sequence[Tensor]) -> bool:
    """Was one of these tensors computed with a custom derivative that is not PyTorch's own?"""
    roots = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
    return any(not is_torchs(node) for node in custom_functions(roots))


def is_torchs(node: Node) -> bool:
    """Is a custom function one of PyTorch's own?

    Functions that ``torch.func`` wraps around a user's function do not count, because their origin is unknown. Custom
    operations of ``torch.library`` do not count either.
    """
    home = getattr(getattr(node, "_forward_cls", None), "__module__", "")
    return home.startswith("torch.") and not home.startswith(("torch._functorch", "torch._library"))


def operation(node: Node) -> str:
    """Return the name of an operation, or of the class of a custom function."""
    made_by = getattr(node, "_forward_cls", None)
    if made_by is not None:
        return str(made_by.__name__).removeprefix("GeneratedBackwardFor_")  # for an operation of torch.library
    named = BACKWARD.fullmatch(node.name())
    return named[1] if named else node.name().rpartition("::")[2]
