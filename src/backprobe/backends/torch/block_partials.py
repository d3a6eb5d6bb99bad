"""Local partials in a block, computed just before each of the program's own backward passes, because a pass may free
the graph.

The contribution along an edge is the partial times the gradient of the program's pass, which is not known yet. So the
contribution is known only if the value into which the edge leads is a single number, or if ``partials="full"``
requested whole blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge

from backprobe.backends.facts import Backward
from backprobe.backends.random_states import put_back
from backprobe.backends.torch import graph, tensors
from backprobe.backends.torch.backward_call import BackwardCall
from backprobe.backends.torch.capture import Capture, with_edges
from backprobe.backends.torch.gradient_hooks import Arrivals
from backprobe.backends.torch.graph import Key, by_edge, key
from backprobe.backends.torch.partials import Flows, PartialsPass, compare, link, product, rounding, stopped
from backprobe.backends.torch.recheck import random_states
from backprobe.record.inputs import Edge, PathSums
from backprobe.record.quoted_errors import said_by
from backprobe.record.reasons import Reason

WAIT = Reason("partials_wait")


@dataclass
class Local:
    """The partials of one value, by the edges of its direct inputs, and notes on the value."""

    blocks: dict[Key, Tensor] = field(default_factory=dict)
    notes: list[Reason] = field(default_factory=list)


class BlockPartials:
    """The partials of one block."""

    def __init__(self, *, full: bool) -> None:
        self.full = full
        self.captures: list[Capture] = []
        self.known: dict[Key, Local] = {}

    def take(self, is_shared: bool) -> None:
        """Compute the partials of values named since the last call, because the program is about to run backward.

        ``is_shared`` says that several processes work together.
        """
        captures = with_edges([capture for capture in self.captures if capture.is_followed])
        recorded = by_edge(captures)
        new = [positions[0] for edge, positions in recorded.items() if edge not in self.known]
        with put_back(random_states(())), stopped(captures, recorded) as stop:
            for at in new:
                edge = captures[at].edge
                assert edge is not None
                sources = [captures[one] for one in graph.inputs(edge, recorded)]
                if is_shared and may_wait(edge, [captures[at], *sources], recorded):
                    self.known[key(edge)] = Local({}, [WAIT] if sources else [])
                    continue
                self.known[key(edge)] = (
                    self._of(PartialsPass(captures[at], sources, stop, False)) if sources else Local()
                )

    def _of(self, run: PartialsPass) -> Local:
        if run.is_nested:
            return Local()
        try:
            found = run.partials(self.full)
        except RuntimeError as error:  # for example, an earlier pass has freed this part
            return Local({}, [Reason("partials_missing", {"error": said_by(error)})])
        blocks = {key(run.edges[nth]): block for nth, block in found.items()}
        return Local(blocks, run.notes)

    def links(
        self,
        captures: Sequence[Capture],
        inputs: Sequence[Sequence[int]],
        grads: Sequence[Any],
        begun: Mapping[int, Tensor],
    ) -> Links:
        """Return the edges into these captures with their partials and contributions, given the gradients that a pass
        brought.

        ``begun`` are the cotangents with which the pass started.
        """
        into = Flows({at: [seed] for at, seed in begun.items()})
        found = Links(with_edges(captures), dict(enumerate(grads)), into)
        into.unknown.update([at for at, one in enumerate(captures) if one.geometry is not None or one.writes])
        for at, sources in enumerate(inputs):
            edge = found.captures[at].edge
            if edge is not None and sources:
                found.add(at, sources, self.known.get(key(edge), Local()))
        return found


def may_wait(edge: GradientEdge, captures: Sequence[Capture], recorded: Mapping[Key, Sequence[int]]) -> bool:
    """Might a backward pass from this edge need other processes?

    PyTorch's own operations on tensors of this process do not communicate. A ``DTensor`` may communicate, and so may a
    custom backward in Python, which communicating operations have.
    """
    is_distributed = any(tensors.is_distributed(capture.tensor) for capture in captures)
    return is_distributed or any(map(graph.is_custom, graph.between(edge, recorded)))


@dataclass
class Links:
    """The edges into captures, by position, and the contributions to each capture."""

    captures: Sequence[Capture]
    grads: Mapping[int, Tensor | None]
    into: Flows
    edges: dict[int, list[Edge]] = field(default_factory=dict)
    notes: list[tuple[int, Reason]] = field(default_factory=list)

    def add(self, at: int, sources: Sequence[int], local: Local) -> None:
        consumer, arrived = self.captures[at], self.grads[at]
        self.notes += [(at, note) for note in local.notes]
        own = []
        for one in sources:
            source, edge = self.captures[one], self.captures[one].edge
            block = None if edge is None else local.blocks.get(key(edge))
            flow = None
            if block is not None and arrived is not None and fits(block, arrived, source):
                flow = product(arrived, block, tuple(source.tensor.shape), rounding(consumer))[0]
                self.into.flowing.setdefault(one, []).append(flow)
                self.into.come_from(consumer, arrived, [one])
            elif arrived is not None:
                self.into.unknown.add(one)
            own.append(link(consumer, one, source, block, flow))
        self.edges[at] = own

    def added_to(self, passed: Backward) -> Backward:
        """Return the result of a pass, with these edges added."""
        pairs = enumerate(passed.outcomes)
        outcomes = [replace(one, inputs=tuple(self.edges[at])) if at in self.edges else one for at, one in pairs]
        return replace(passed, outcomes=outcomes, sums=self.sums(), notes=(*passed.notes, *self.notes))

    def sums(self) -> PathSums | None:
        """Compare the gradient of each value with the sum of the contributions into it."""
        arrived = {key(one.edge): self.grads[at] for at, one in enumerate(self.captures) if one.edge is not None}
        recorded = by_edge(self.captures)
        return compare(self.captures, recorded, Arrivals(arrived, {}, {}), self.into)


def fits(block: Tensor, arrived: Tensor, source: Capture) -> bool:
    """Has this Jacobian block one number for each pair of an element of the gradient and one of the source, and does it
    belong to the source itself instead of the base of a view?
    """
    return source.geometry is None and block.numel() == arrived.numel() * source.tensor.numel()


def seeds(captures: Sequence[Capture], begun_at: Sequence[int], calls: Sequence[BackwardCall]) -> dict[int, Tensor]:
    """Return the cotangents with which the calls for one output started, by the positions of their captures; ones if
    none was passed.

    The cotangents of several calls of ``backward()`` are summed. Several calls of ``grad()`` start with the same ones.
    """
    if len(calls) > 1 and not calls[0].is_grad:
        edges = with_edges([captures[at] for at in begun_at])
        places = {key(one.edge): at for one, at in zip(edges, begun_at, strict=True) if one.edge is not None}
        pairs = [
            (places.get(key(get_gradient_edge(root))), seed)
            for call in calls
            for root, seed in zip(call.roots, call.cotangents, strict=False)
        ]
    else:
        pairs = [*zip(begun_at, calls[0].cotangents if calls else (), strict=False)]
    found: dict[int, Tensor] = {}
    for at, seed in pairs:
        if at is not None:
            begun = torch.ones_like(captures[at].tensor) if seed is None else seed
            found[at] = found[at] + begun if at in found else begun
    return found
