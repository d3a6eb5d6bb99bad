"""Finds the operations of a backward pass that make NaN or Inf from finite gradients, or NaN from Inf."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

from backprobe.backends.facts import Backward
from backprobe.backends.torch.capture import Capture
from backprobe.backends.torch.decompositions import decomposes
from backprobe.backends.torch.graph import LEAF, Key, all_nodes, by_edge, inputs, operation, owners
from backprobe.backends.torch.local_derivatives import local_derivative
from backprobe.backends.torch.nonfinite import BADNESS, FINITE, FinitenessLook
from backprobe.backends.torch.private import current_pass
from backprobe.record.nonfinite import BackwardOp, LocalDerivative

Look = tuple[int, int, int]
"""The number of an examined gradient, under which the result is read later; and the gradient's address and size."""


class Births:
    """Examines the gradients that nodes of autograd's graph, except those of leaves, receive and return while backward
    runs.

    The hooks refer to this object and a number, and the object holds the nodes until it is released. Two kinds of
    gradients are usually not read again: those that a node receives from a single other node, because they were
    examined when that node returned them, and those that a node passes on unchanged, such as a view does.
    """

    def __init__(self, quiet: Callable[[], AbstractContextManager[Any]]) -> None:
        self.quiet = quiet
        self.counts: Callable[[], bool] = lambda: True  # does the running pass count?
        self.numbers: dict[Node, int] = {}
        self.handles: list[Any] = []
        self.followers: list[list[tuple[int, int]]] = []  # for each node, the places to which its gradients go
        self.givers = Counter[tuple[int, int]]()  # the number of nodes that pass gradients to a place
        self.passing: dict[tuple[int, int], Look] = {}  # gradients that were passed to a place and have not arrived yet
        # Each item: the engine's number of a pass, the number of a node, the numbers of the gradients that it received,
        # and for each gradient that it returned, the position in its result and the gradient's number. The numbers of
        # gradients are those under which their results are read.
        self.seen: list[tuple[int, int, list[int], list[tuple[int, int]]]] = []
        self.local: dict[tuple[int, int], LocalDerivative] = {}  # by index in ``seen``, and position in the result
        self.decomposing: set[int] = set()  # indices in ``seen`` of operations that decompose a matrix
        self.nodes: list[Node] = []  # the index of a node is its number
        self.judged = FinitenessLook()

    def listen(self, roots: Iterable[Node]) -> Sequence[Node]:
        """Examine the nodes that backward will run from these roots. Returns all nodes that these roots reach."""
        self.passing.clear()  # addresses from an earlier pass may be reused by now
        reached = all_nodes(roots)
        new = [node for node in reached if node not in self.numbers]
        for node in new:
            self.numbers[node] = len(self.numbers)
            self.nodes.append(node)
        for node in new:
            places = [(-1 if one is None else self.numbers[one], at) for one, at in node.next_functions]
            self.followers.append(places)
            self.givers.update(places)
            if node.name() != LEAF:
                is_users = isinstance(node, BackwardCFunction)  # a custom backward may write to its arguments
                self.handles.append(node.register_hook(partial(self._take, self.numbers[node], is_users)))
        return reached

    def listen_to_one_pass(self, output: Tensor) -> None:
        """Examine the nodes in the next pass only. Later passes compute local partials, and their results are not
        gradients.
        """
        first: list[int] = []

        def is_first() -> bool:
            running = current_pass()
            if not first:
                first.append(running)
            return running == first[0]

        self.counts = is_first
        self.listen([get_gradient_edge(output).node])

    def _take(self, number: int, is_users: bool, made: Sequence[Tensor | None], given: Sequence[Tensor | None]) -> None:
        if not self.counts():
            return
        pairs = [(gradient, self.passing.pop((number, at), None)) for at, gradient in enumerate(given)]
        came = [(gradient, look) for gradient, look in pairs if gradient is not None]
        gave, places = list[tuple[int, int]](), self.followers[number]
        with self.quiet():
            same = came[0][1] if len(came) == 1 and not is_users else None
            for at, gradient in enumerate(made):
                if gradient is not None:
                    look = self._look(gradient, same)
                    gave.append((at, look[0]))
                    if self.givers[places[at]] == 1:
                        self.passing[places[at]] = look
            if any(at >= 0 for _, at in gave):  # otherwise no NaN or Inf is suspected in them
                looks = [self._look(*each)[0] for each in came]
                if all(at < 0 for at in looks):  # no NaN or Inf is suspected in what arrived
                    self._ask(self.nodes[number], given, made, gave)
                self.seen.append((current_pass(), number, looks, gave))

    def _ask(
        self, node: Node, given: Sequence[Tensor | None], made: Sequence[Tensor | None], gave: Sequence[tuple[int, int]]
    ) -> None:
        # Note whether the node decomposes a matrix, and compute the factor at which it made NaN or Inf, if possible.
        # This is done while its saved tensors still exist.
        if any(look >= 0 for _, look in gave) and decomposes(node):
            self.decomposing.add(len(self.seen))
        for place, look in gave:
            found = local_derivative(node, given, made, place) if look >= 0 else None
            if found is not None:
                self.local[len(self.seen), place] = found

    def _look(self, gradient: Tensor, known: Look | None) -> Look:
        # Examine a gradient, unless it has the same memory as one that was already examined.
        if gradient.layout is not torch.strided or type(gradient) is not Tensor:
            address, size = 0, 0
        else:
            address, size = gradient.data_ptr(), gradient.numel()
            if known is not None and known[1:] == (address, size) and address:
                return known
        return self.judged.add(gradient), address, size

    def added_to(self, passed: Backward, captures: Sequence[Capture], of: Collection[int] | None = None) -> Backward:
        """Return the result of backward, with the operations that made NaN or Inf in the passes whose numbers are in
        ``of``, or in all passes if it is None.
        """
        found = self._found(captures, of)
        outcomes = [replace(outcome, made=found.get(at, ())) for at, outcome in enumerate(passed.outcomes)]
        return replace(passed, outcomes=outcomes)

    def _found(self, captures: Sequence[Capture], of: Collection[int] | None) -> dict[int, tuple[BackwardOp, ...]]:
        # Return the operations that made NaN from gradients without NaN, or Inf from finite ones, in order. The keys
        # are the positions of the captures whose lines the operations belong to.
        if not self.judged:  # no NaN or Inf was suspected in any gradient
            return {}
        told = self.judged.kinds()
        births = []
        for seen, (running, number, came, gave) in enumerate(self.seen):
            if of is not None and running not in of:
                continue
            given = max((told[at] for at in came), key=BADNESS.__getitem__, default=FINITE)
            births += [
                (number, place, given, told[at], self.local.get((seen, place)), seen in self.decomposing)
                for place, at in gave
                if BADNESS[told[at]] > BADNESS[given]
            ]
        if not births:
            return {}
        places = by_edge(captures)
        owned = owners(places)
        found: dict[int, list[BackwardOp]] = {}
        for number, place, given, made, local, is_of_matrix in births:
            node = self.nodes[number]
            owner = owned.get(node)
            if owner is not None:
                source = _first_recorded(node.next_functions[place], places)
                one = BackwardOp(operation(node), source, given, made, local, is_of_matrix)
                if one not in found.setdefault(owner, []):
                    found[owner].append(one)
        return {owner: tuple(ones) for owner, ones in found.items()}


def _first_recorded(edge: tuple[Node | None, int], places: Mapping[Key, Sequence[int]]) -> int | None:
    # Return the position of the capture to which a gradient flows: the one at this edge, or the next one. None if there
    # is no next one, or if there are several.
    node, number = edge
    if node is None:
        return None
    found = places.get((node, number), ())[:1] or inputs(GradientEdge(node, number), places)
    return found[0] if len(found) == 1 else None
