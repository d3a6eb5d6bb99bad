"""The operations of a backward pass that make NaN or Inf from finite gradients, or NaN from Inf."""

from __future__ import annotations

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
from backprobe.backends.torch.graph import LEAF, Key, all_nodes, by_edge, inputs, operation, owners
from backprobe.backends.torch.local_derivatives import local_derivative
from backprobe.backends.torch.nonfinite import BADNESS, FINITE, FinitenessLook
from backprobe.backends.torch.private import current_pass
from backprobe.record.nonfinite import BackwardOp, LocalDerivative

Look = tuple[int, int, int]
"""The number under which a gradient was judged, its address and its size."""


class Births:
    """Examines what each node of autograd's graph receives and returns while backward runs.

    The hooks hold this object and a number, and it holds the nodes until it is released. If a node receives gradients
    from a single other node, they were judged when that node returned them. If it passes a gradient on unchanged, as a
    view does, the result is known as well. Neither is read again.
    """

    def __init__(self, quiet: Callable[[], AbstractContextManager[Any]]) -> None:
        self.quiet = quiet
        self.counts: Callable[[], bool] = _always  # does the running pass count?
        self.numbers: dict[Node, int] = {}
        self.handles: list[Any] = []
        self.followers: list[list[tuple[int, int]]] = []  # by number: the places to which its gradients go
        self.givers: dict[tuple[int, int], int] = {}  # how many nodes pass gradients to a place
        self.passing: dict[tuple[int, int], Look] = {}  # what was passed to a place and has not arrived yet
        # (node, received, (place, returned)) as numbers of judged gradients
        self.seen: list[tuple[int, list[int], list[tuple[int, int]]]] = []
        self.local: dict[tuple[int, int], LocalDerivative] = {}  # by index in ``seen``, and place
        self.nodes: list[Node] = []  # by number
        self.passes: list[int] = []  # the engine's number of the pass, for each item of ``seen``
        self.judged = FinitenessLook()

    def listen(self, roots: Iterable[Node]) -> Sequence[Node]:
        """Examine the nodes that backward will run from these roots. Returns the nodes, and all that it reaches."""
        self.passing.clear()  # what an earlier pass left here lies elsewhere by now
        reached = all_nodes(roots)
        new = [node for node in reached if node not in self.numbers]
        for node in new:
            self.numbers[node] = len(self.numbers)
            self.nodes.append(node)
        for node in new:
            places = [(-1 if one is None else self.numbers[one], at) for one, at in node.next_functions]
            self.followers.append(places)
            for place in places:
                self.givers[place] = self.givers.get(place, 0) + 1
            if node.name() != LEAF:
                is_users = isinstance(node, BackwardCFunction)  # it may write into its arguments
                self.handles.append(node.register_hook(partial(self._take, self.numbers[node], is_users)))
        return reached

    def listen_to_one_pass(self, output: Tensor) -> None:
        """The same for the next pass only: passes that take local partials say nothing about gradients."""
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
            if any(at >= 0 for _, at in gave):  # otherwise nothing was born, whatever arrived
                looks = [self._look(*each)[0] for each in came]
                if all(at < 0 for at in looks):  # everything that arrived is finite
                    self._ask(self.nodes[number], given, made, gave)
                self.seen.append((number, looks, gave))
                self.passes.append(current_pass())

    def _ask(
        self, node: Node, given: Sequence[Tensor | None], made: Sequence[Tensor | None], gave: Sequence[tuple[int, int]]
    ) -> None:
        # Ask the node for its factor where it made NaN or Inf, now that its saved tensors still exist.
        for place, look in gave:
            found = local_derivative(node, given, made, place) if look >= 0 else None
            if found is not None:
                self.local[len(self.seen), place] = found

    def _look(self, gradient: Tensor, known: Look | None) -> Look:
        # Judge a gradient, unless it lies in the same memory as one that was already judged.
        if gradient.layout is not torch.strided or type(gradient) is not Tensor:
            address, size = 0, 0
        else:
            address, size = gradient.data_ptr(), gradient.numel()
            if known is not None and known[1:] == (address, size) and address:
                return known
        return self.judged.add(gradient), address, size

    def added_to(self, passed: Backward, captures: Sequence[Capture], of: Collection[int] | None = None) -> Backward:
        """The result of backward, with the operations that made NaN or Inf in passes of these numbers, or in all
        passes.
        """
        found = self._found(captures, of)
        outcomes = [replace(outcome, made=found.get(at, ())) for at, outcome in enumerate(passed.outcomes)]
        return replace(passed, outcomes=outcomes)

    def _found(self, captures: Sequence[Capture], of: Collection[int] | None) -> dict[int, tuple[BackwardOp, ...]]:
        # The operations that made NaN or Inf from something better, by the capture whose line they belong to, in order.
        if not self.judged:  # nothing is in doubt
            return {}
        told = self.judged.kinds()
        births = []
        for seen, (running, (number, came, gave)) in enumerate(zip(self.passes, self.seen, strict=True)):
            if of is not None and running not in of:
                continue
            given = max((told[at] for at in came), key=BADNESS.__getitem__, default=FINITE)
            births += [
                (number, place, given, told[at], self.local.get((seen, place)))
                for place, at in gave
                if BADNESS[told[at]] > BADNESS[given]
            ]
        if not births:
            return {}
        places = by_edge(captures)
        owned = owners(places)
        found: dict[int, list[BackwardOp]] = {}
        for number, place, given, made, local in births:
            node = self.nodes[number]
            owner = owned.get(node)
            if owner is not None:
                source = _first_recorded(node.next_functions[place], places)
                one = BackwardOp(operation(node), source, given, made, local)
                if one not in found.setdefault(owner, []):
                    found[owner].append(one)
        return {owner: tuple(ones) for owner, ones in found.items()}


def _always() -> bool:
    return True


def _first_recorded(edge: tuple[Node | None, int], places: Mapping[Key, Sequence[int]]) -> int | None:
    # The capture to which a gradient flows: at this edge, or the only one that it can reach next.
    node, number = edge
    if node is None:
        return None
    found = places.get((node, number), ())[:1] or inputs(GradientEdge(node, number), places)
    return found[0] if len(found) == 1 else None
