"""The nodes of autograd's graph that a run created outside of the recorded calls."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterable

from torch import Tensor
from torch.autograd.graph import Node

from backprobe.backends.torch.graph import LEAF, is_custom, is_torchs, operation
from backprobe.backends.torch.private import nodes_made


def now() -> int:
    """Return the number that the next node of this thread will get. Nodes are numbered in order of creation."""
    return int(nodes_made())


class Coverage:
    """The numbers of the nodes that a run created, by how they arose. The nodes themselves are not kept alive."""

    def __init__(self) -> None:
        self.start = now()
        self.accounted: list[tuple[int, int]] = []  # ranges of node numbers: nodes that recorded calls created
        self.differentiated: set[int] = set()  # numbers of nodes that were differentiated with ``create_graph``
        self.derivatives: list[tuple[int, int]] = []  # ranges of node numbers: nodes of such derivatives
        self.differentiating = -1  # the first number of the newest of these ranges
        self.seen: dict[int, tuple[str, bool]] = {}  # by number: the operation; is its derivative handwritten?

    def account_for(self, since: int) -> None:
        """Register the nodes that were created since number ``since`` as part of a recorded call."""
        while self.accounted and self.accounted[-1][0] >= since:
            self.accounted.pop()
        self.accounted.append((since, now()))
        if since == self.differentiating:
            self.derivatives.append((since, now()))

    def look(self, tensors: Iterable[Tensor]) -> None:
        """Register all nodes of this run that lead to these tensors."""
        for number, node in self._leading_to(tensors, self.seen).items():
            self.seen[number] = operation(node), is_custom(node) and not is_torchs(node)

    def differentiate(self, outputs: Iterable[Tensor], inputs: Iterable[Tensor]) -> bool:
        """Register the nodes of this run that lead to the outputs as differentiated, except those that made the inputs,
        and those behind them.

        Nodes made from now on belong to a derivative. Returns whether a registered node belongs to a derivative
        already.
        """
        ends = {node._sequence_nr() for one in inputs if (node := one.grad_fn) is not None}
        seen = self._leading_to(outputs, ends)
        self.differentiated.update(seen)
        is_again = any(since <= number < until for number in seen for since, until in self.derivatives)
        self.differentiating = now()
        return is_again

    def _leading_to(self, tensors: Iterable[Tensor], ends: Container[int]) -> dict[int, Node]:
        # Return, by number, the nodes of this run that lead to these tensors and are no leaves. The nodes in ``ends``,
        # and those that lead only to them, are left out.
        found: dict[int, Node] = {}
        pending = [node for tensor in tensors if (node := tensor.grad_fn) is not None]
        while pending:
            node = pending.pop()
            number = node._sequence_nr()
            if number >= self.start and number not in found and number not in ends and node.name() != LEAF:
                found[number] = node
                pending += [follower for follower, _ in node.next_functions if follower is not None]
        return found

    def unaccounted(self) -> list[tuple[str, bool]]:
        """Return the operations of the nodes that no recorded call created, and whether their derivatives are
        handwritten.
        """
        return [self.seen[at] for at in sorted(self.seen) if not self._is_accounted_for(at)]

    def _is_accounted_for(self, number: int) -> bool:
        at = bisect_right(self.accounted, (number, float("inf"))) - 1
        return at >= 0 and number < self.accounted[at][1]
