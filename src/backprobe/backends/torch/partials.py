"""Local partials on the real graph: what flows from one recorded value into the next, and no further.

While ``_stopped`` is entered, a prehook on the node of each recorded value lets no gradient pass on. The engine notes
what arrives at an edge before that node's prehooks run, so one pass from a value gives exactly what flows into its
direct inputs, and nothing through one of them into another.

All is reckoned by edge. Several captures may share one, a tensor and the views of it that were written in place; the
first of them stands for the edge.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node

from backprobe.backends.base import Link, Sums
from backprobe.backends.torch.capture import Capture
from backprobe.backends.torch.edges import Arrivals, removing
from backprobe.backends.torch.graph import LEAF, Key, key

LARGEST_BLOCK = 1_000_000  # elements of a Jacobian block that ``partials="full"`` still takes


@dataclass
class Partials:
    """The links into each capture, by position; whether they sum to the gradients; what was not taken."""

    links: dict[int, list[Link]] = field(default_factory=dict)
    sums: Sums | None = None
    notes: list[str] = field(default_factory=list)


def local_partials(
    captures: Sequence[Capture], recorded: Mapping[Key, Sequence[int]], inputs: Sequence[Sequence[int]],
    arrivals: Arrivals, seed: tuple[Key, Tensor], *, full: bool, create_graph: bool,
) -> Partials:  # fmt: skip
    """One pass from each recorded edge towards its direct inputs; ``seed`` is the output's edge and its cotangent."""
    found = Partials()
    flowing: dict[int, list[Tensor]] = {at: [seed[1]] for at in recorded.get(seed[0], [])[:1]}
    with _stopped(captures, recorded) as stop:
        for edge, positions in recorded.items():
            sources = inputs[positions[0]]
            if not sources:
                continue
            run = _Pass(captures[positions[0]], [captures[at] for at in sources], stop, create_graph)
            arrived = arrivals.at(edge)
            local = run.partials()
            flows = run.contributions(local, arrived)
            if full and not local:
                local, notes = run.blocks()
                found.notes += notes
            for at, flow in zip(sources, flows, strict=True):
                if flow is not None:
                    flowing.setdefault(at, []).append(flow)
            for position in positions:
                found.links[position] = [
                    _link(captures[position], at, captures[at], local.get(nth), flows[nth])
                    for nth, at in enumerate(sources)
                ]
    _lead_around(captures, recorded, arrivals, found.links)
    found.sums = _compare(captures, recorded, arrivals, flowing)
    return found


def _link(consumer: Capture, at: int, source: Capture, local: Tensor | None, flow: Tensor | None) -> Link:
    """The numbers of an edge as its two entries see them; none where the consumer is only a part of what flows on."""
    if consumer.opaque or consumer.geometry is not None:
        return Link(at)
    if source.geometry is None:
        return Link(at, local, flow)
    return Link(at, None, None if flow is None else source.geometry.restrict(flow))


def _lead_around(
    captures: Sequence[Capture], recorded: Mapping[Key, Sequence[int]], arrivals: Arrivals, links: dict[int, list[Link]]
) -> None:
    """The base's new version, too, contributes to the view that was written."""
    for at, capture in enumerate(captures):
        for write in capture.writes:
            term = arrivals.around_view(capture, write)
            for position in recorded.get((write.node, 0), [])[:1] if term is not None else []:
                links.setdefault(position, []).append(Link(at, None, term))


class _Stop:
    """Which edge lets its gradient flow on: the one that the running pass starts from."""

    def __init__(self) -> None:
        self.open: Key | None = None

    def hook(
        self, node: Node, numbers: frozenset[int], gradients: tuple[Tensor | None, ...]
    ) -> tuple[Tensor | None, ...]:
        # None and not zeros: zeros times an infinite derivative would be NaN
        return tuple(
            None if number in numbers and (node, number) != self.open else gradient
            for number, gradient in enumerate(gradients)
        )


@contextmanager
def _stopped(captures: Sequence[Capture], recorded: Mapping[Key, Sequence[int]]) -> Iterator[_Stop]:
    """No gradient flows on from a recorded edge, and the user's hooks on recorded tensors see nothing."""
    numbers: dict[Node, set[int]] = {}
    for node, number in recorded:
        if node.name() != LEAF:
            numbers.setdefault(node, set()).add(number)
    stop = _Stop()
    with ExitStack() as undo:
        for node, own in numbers.items():
            undo.enter_context(removing(node.register_prehook(partial(stop.hook, node, frozenset(own)))))
        for capture in captures:
            hooks = capture.tensor._backward_hooks
            if hooks:
                undo.callback(hooks.update, dict(hooks))
                hooks.clear()
        yield stop


class _Pass:
    """What flows from one value into its direct inputs."""

    def __init__(self, consumer: Capture, sources: Sequence[Capture], stop: _Stop, create_graph: bool) -> None:
        assert consumer.edge is not None
        assert consumer.alias is not None
        self.consumer, self.sources, self.stop, self.create_graph = consumer, sources, stop, create_graph
        self.edge, self.like = consumer.edge, consumer.alias
        self.edges: list[GradientEdge] = [source.edge for source in sources if source.edge is not None]

    def flow(self, seed: Tensor) -> list[Tensor | None]:
        self.stop.open = key(self.edge)
        found = torch.autograd.grad(
            [self.edge], self.edges, [seed], allow_unused=True, retain_graph=True, create_graph=self.create_graph
        )
        return [flow.to_dense() if flow is not None and flow.is_sparse else flow for flow in found]

    def partials(self) -> dict[int, Tensor]:
        """The local partial towards each source, where the value is one real number."""
        whole = self.consumer.geometry is None and not self.like.is_complex()
        if not whole or self.like.numel() != 1:
            return {}
        found = self.flow(torch.ones_like(self.like))
        return {nth: self._or_zero(nth, flow) for nth, flow in enumerate(found)}

    def contributions(self, local: Mapping[int, Tensor], arrived: Tensor | None) -> list[Tensor | None]:
        """The value's gradient times the local partials."""
        if arrived is None:
            return [None] * len(self.sources)
        if local:
            factor = arrived.reshape(())
            return [(local[nth] * factor).to(local[nth].dtype) for nth in range(len(self.sources))]
        return self.flow(arrived)

    def blocks(self) -> tuple[dict[int, Tensor], list[str]]:
        """The whole Jacobian block towards each source, one pass an element; what is too large for that."""
        size, notes = self.like.numel(), []
        wanted = []
        for nth, source in enumerate(self.sources):
            elements = size * math.prod(self._like(source).shape)
            if elements > LARGEST_BLOCK:
                notes.append(f"a Jacobian block of {elements:,} elements was not taken: the most is {LARGEST_BLOCK:,}")
            elif self.consumer.geometry is None and source.geometry is None and not self.like.is_complex():
                wanted.append(nth)
        if not wanted:
            return {}, notes
        rows: dict[int, list[Tensor]] = {nth: [] for nth in wanted}
        for element in range(size):
            seed = torch.zeros_like(self.like, memory_format=torch.contiguous_format)
            seed.view(-1)[element] = 1
            flows = self.flow(seed)
            for nth in wanted:
                rows[nth].append(self._or_zero(nth, flows[nth]))
        shape = tuple(self.like.shape)
        return {nth: torch.stack(own).reshape(shape + tuple(own[0].shape)) for nth, own in rows.items()}, notes

    def _or_zero(self, nth: int, flow: Tensor | None) -> Tensor:
        return torch.zeros_like(self._like(self.sources[nth])) if flow is None else flow

    def _like(self, source: Capture) -> Tensor:
        assert source.alias is not None
        return source.alias


def _compare(
    captures: Sequence[Capture], recorded: Mapping[Key, Sequence[int]], arrivals: Arrivals,
    flowing: Mapping[int, Sequence[Tensor]],
) -> Sums:  # fmt: skip
    """Do the contributions into each edge sum to what arrived there?

    Two sums of the same terms in different orders differ by rounding; half the digits of the dtype must agree.
    """
    judged, worst, largest, agree = 0, None, 0.0, True
    unjudged: list[int] = []
    for edge, positions in recorded.items():
        arrived = arrivals.arrived.get(edge)
        if arrived is None:
            continue
        if any(captures[at].tensor._backward_hooks for at in positions) or arrived.is_mkldnn:
            unjudged += positions
            continue
        judged += 1
        difference = _difference(arrived, flowing.get(positions[0], ()))
        agree = agree and difference <= math.sqrt(torch.finfo(arrived.dtype).eps)
        if difference > largest:
            worst, largest = positions[0], difference
    return Sums(judged, largest, worst, agree, tuple(unjudged))


def _difference(arrived: Tensor, flows: Sequence[Tensor]) -> float:
    """How far a gradient is from the sum of its parts, relative to the largest number among them."""
    wide = torch.complex128 if arrived.is_complex() else torch.float64
    parts = [part.detach().to_dense().to(wide) for part in (arrived, *flows)]
    total = sum((part.reshape(parts[0].shape) for part in parts[1:]), torch.zeros_like(parts[0]))
    same = (total == parts[0]) | (total.isnan() & parts[0].isnan())
    if bool(same.all()):
        return 0.0
    apart = (total - parts[0]).abs()[~same]
    scale = max(float(part.abs().nan_to_num(0.0, 0.0, 0.0).max()) for part in parts)
    return float(apart.max()) / scale if bool(apart.isfinite().all()) else math.inf
