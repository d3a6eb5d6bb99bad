"""Local partials on the real graph: the derivative of one recorded value with respect to the values directly before it.

Inside ``stopped``, no gradient passes a recorded edge, except edges of leaves and the edge at which the pass starts.
A prehook on the node replaces the gradients of these edges by None. If the node has other outputs that are not
recorded, their gradients pass. The engine records the gradient that arrives at an edge before the prehooks of that node
run. A pass from one value therefore yields exactly the contributions to its direct inputs, and nothing that passes
through one of them into another.

Everything is organised by edge. Several captures may share an edge: a tensor, and views of it that were written in
place. The first capture represents the edge.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node

from backprobe.backends.immutable import GradientSum, compared, largest, too_large
from backprobe.backends.outcomes import with_flow
from backprobe.backends.torch import graph
from backprobe.backends.torch.capture import Capture
from backprobe.backends.torch.gradient_hooks import Arrivals
from backprobe.backends.torch.graph import LEAF, Key, key
from backprobe.backends.torch.tensors import is_distributed, numbers
from backprobe.record.inputs import Edge, PathSums
from backprobe.record.quoted_errors import said_by
from backprobe.record.reasons import Reason


@dataclass
class Partials:
    """The edges into each capture, by position; whether they sum to the gradients; and notes on what was left out."""

    links: dict[int, list[Edge]] = field(default_factory=dict)
    sums: PathSums | None = None
    notes: list[tuple[int, Reason]] = field(default_factory=list)


@dataclass
class Flows:
    """The contributions that flow into captures, by position, and how exactly they can add up to gradients.

    ``unknown`` are captures whose gradient has further parts, which were not computed. ``coarse`` is the epsilon of the
    coarsest dtype that flows into a capture, and ``residue`` the rounding error that is left where contributions
    cancel.
    """

    flowing: dict[int, list[Tensor]]
    unknown: set[int] = field(default_factory=set)
    coarse: dict[int, float] = field(default_factory=dict)
    residue: dict[int, float] = field(default_factory=dict)

    def come_from(self, consumer: Capture, arrived: Tensor | None, sources: Iterable[int]) -> None:
        """Register how exactly the contributions of a consumer with this gradient are computed."""
        epsilon = rounding(consumer)
        left = 0.0 if arrived is None else epsilon * largest(numbers(arrived))
        for at in sources:
            self.coarse[at] = max(self.coarse.get(at, 0.0), epsilon)
            self.residue[at] = max(self.residue.get(at, 0.0), left)


def local_partials(
    captures: Sequence[Capture],
    recorded: Mapping[Key, Sequence[int]],
    inputs: Sequence[Sequence[int]],
    arrivals: Arrivals,
    seed: tuple[Key, Tensor],
    *,
    full: bool,
    create_graph: bool,
    kept: Callable[[int, Any], Any] | None = None,
) -> Partials:
    """Run passes from each recorded edge back to its direct inputs. ``seed`` is the output's edge with its cotangent.

    If ``kept`` is given, what it returns for a contribution is stored instead of the contribution and the partial, and
    path sums are not compared.
    """
    found = Partials()
    into = Flows({at: [seed[1]] for at in recorded.get(seed[0], [])[:1]})
    with stopped(captures, recorded) as stop:
        for edge, positions in recorded.items():
            sources = inputs[positions[0]]
            if not sources:
                continue
            run = PartialsPass(captures[positions[0]], [captures[at] for at in sources], stop, create_graph)
            if run.is_nested:
                into.unknown.update(sources)
                found.links.update({at: [Edge(source) for source in sources] for at in positions})
                continue
            arrived = arrivals.at(edge)
            into.come_from(captures[positions[0]], arrived, sources)
            try:
                local = run.partials(full)
            except RuntimeError as error:
                if arrived is not None:
                    raise
                # expected: the program may free or overwrite values that do not lead to its output
                local, run.notes = {}, [Reason("partials_missing", {"error": said_by(error)})]
            found.notes += [(positions[0], note) for note in run.notes]
            flows = run.contributions(local, arrived)
            for at, flow in zip(sources, flows, strict=True):
                if flow is not None and kept is None:
                    into.flowing.setdefault(at, []).append(flow)
            for position in positions:
                links = [
                    link(captures[position], at, captures[at], local.get(nth), flows[nth])
                    for nth, at in enumerate(sources)
                ]
                found.links[position] = [*with_flow(links, kept)]
    _lead_around(captures, recorded, arrivals, found.links, kept)
    if kept is None:
        found.sums = compare(captures, recorded, arrivals, into)
    return found


def rounding(capture: Capture) -> float:
    assert capture.alias is not None
    return torch.finfo(capture.alias.dtype).eps


def link(consumer: Capture, at: int, source: Capture, local: Tensor | None, flow: Tensor | None) -> Edge:
    """Return an edge with its partial and contribution. Both are None if the consumer is only a part of the tensor at
    its edge, or if a gradient of one of the two is opaque. A source that is such a part has no partial.
    """
    if consumer.opaque or source.opaque or consumer.geometry is not None:
        return Edge(at)
    if source.geometry is None:
        return Edge(at, local, flow)
    return Edge(at, None, None if flow is None else source.geometry.restrict(flow))


def _lead_around(
    captures: Sequence[Capture],
    recorded: Mapping[Key, Sequence[int]],
    arrivals: Arrivals,
    links: dict[int, list[Edge]],
    kept: Callable[[int, Any], Any] | None,
) -> None:
    # Add the edge between the base after a write through a view, and the view: the base also contributes to the view's
    # gradient.
    for at, capture in enumerate(captures):
        for write in capture.writes if not capture.opaque else ():
            term = arrivals.around_view(capture, write)
            for position in recorded.get((write.node, 0), [])[:1] if term is not None else []:
                links.setdefault(position, []).extend(with_flow([Edge(at, None, term)], kept))


class Stop:
    """Holds the one recorded edge, apart from leaves, that a gradient may pass: the one at which the pass starts."""

    def __init__(self) -> None:
        self.open: Key | None = None

    def hook(
        self, node: Node, numbers: frozenset[int], gradients: tuple[Tensor | None, ...]
    ) -> tuple[Tensor | None, ...]:
        # None instead of zeros, because zero times an infinite derivative would be NaN
        return tuple(
            None if number in numbers and (node, number) != self.open else gradient
            for number, gradient in enumerate(gradients)
        )

    def end(
        self, passed_on: tuple[Tensor | None, ...], gradients: tuple[Tensor | None, ...]
    ) -> tuple[Tensor | None, ...] | None:
        """Let a Function pass on None if it received only None. It would get zeros instead, and may return anything for
        zeros.
        """
        return None if any(gradient is not None for gradient in gradients) else (None,) * len(passed_on)


@contextmanager
def stopped(captures: Sequence[Capture], recorded: Mapping[Key, Sequence[int]]) -> Iterator[Stop]:
    """Inside this context no gradient passes a recorded edge, except the open one and those of leaves. The
    user's hooks on captured tensors are not called, and retained gradients are restored afterwards.
    """
    numbers: dict[Node, set[int]] = {}
    for node, number in recorded:
        if node.name() != LEAF:
            numbers.setdefault(node, set()).add(number)
    stop = Stop()
    with ExitStack() as undo:
        for node, own in numbers.items():
            undo.callback(node.register_prehook(partial(stop.hook, node, frozenset(own))).remove)
        for node in graph.custom_functions(node for node, _ in recorded):
            undo.callback(node.register_hook(stop.end).remove)
        undo.enter_context(silent(captures))
        yield stop


@contextmanager
def silent(captures: Sequence[Capture]) -> Iterator[list[int]]:
    """Inside this context no hook on these tensors is called. Afterwards, their retained gradients are as before.
    Yields the positions of tensors with hooks of the user.
    """
    found = [at for at, capture in enumerate(captures) if _is_hooked(capture)]
    with ExitStack() as undo:
        for tensor in (capture.tensor for capture in captures):
            hooks = tensor._backward_hooks
            if hooks:
                undo.callback(hooks.update, dict(hooks))
                hooks.clear()
            if tensor.retains_grad:  # every pass adds to the retained gradient
                undo.callback(setattr, tensor, "grad", tensor.grad)
        yield found


class PartialsPass:
    """Computes the contributions of one value to its direct inputs."""

    def __init__(self, consumer: Capture, sources: Sequence[Capture], stop: Stop, create_graph: bool) -> None:
        assert consumer.edge is not None
        assert consumer.alias is not None
        self.consumer, self.sources, self.stop, self.create_graph = consumer, sources, stop, create_graph
        self.edge, self.like = consumer.edge, consumer.alias
        self.edges: list[GradientEdge] = [source.edge for source in sources if source.edge is not None]
        self.likes = [source.alias for source in sources if source.alias is not None]
        self.notes: list[Reason] = []

    @property
    def is_nested(self) -> bool:
        """Is one of the tensors nested? ``torch.autograd.grad`` cannot start at the edge of a nested tensor, because
        PyTorch needs a single shape there.
        """
        return any(alias.is_nested for alias in (self.like, *self.likes))

    def flow(self, seed: Tensor) -> list[Tensor]:
        """Return the gradient that arrives at each source; zeros if nothing arrives."""
        self.stop.open = key(self.edge)
        found = torch.autograd.grad(
            [self.edge], self.edges, [seed], allow_unused=True, retain_graph=True, create_graph=self.create_graph
        )
        flows = [self._zeros(nth) if flow is None else flow for nth, flow in enumerate(found)]
        return [flow if flow.layout is torch.strided else flow.to_dense() for flow in flows]

    def partials(self, full: bool) -> dict[int, Tensor]:
        """Return the local partial with respect to each source, if the value is a single real number; for several
        numbers, full blocks if requested. Nothing is returned for other values, such as complex ones.
        """
        if self.consumer.geometry is not None or self.like.is_complex() or self.like.layout is not torch.strided:
            return {}
        if self.like.numel() != 1:
            return self.blocks() if full else {}
        return dict(enumerate(self.flow(torch.ones_like(self.like))))

    def contributions(self, local: Mapping[int, Tensor], arrived: Tensor | None) -> list[Tensor | None]:
        """Return the value's gradient times the local partials, or None for each source if no gradient arrived. For
        single numbers it is a product, otherwise the result of autograd.

        If the product is not finite, autograd's result is used, because autograd omits terms that it knows to be zero,
        for which zero times infinity would give NaN. If the two differ by more than rounding, the product is used. Then
        the backward of some operation is not linear, and the path sums will show this.
        """
        if arrived is None:
            return [None] * len(self.sources)
        products: dict[int, Product] = {}
        if not arrived.is_meta:
            plain, eps = arrived.to_dense() if arrived.is_sparse else arrived, rounding(self.consumer)
            products = {nth: product(plain, block, self._shape(nth), eps) for nth, block in local.items()}
        if self.like.numel() == 1 and len(products) == len(self.sources):
            found = [products[nth][0] for nth in range(len(self.sources))]
            if all(bool(flow.isfinite().all()) for flow in found):
                return list(found)
        return [_settled(flow, products.get(nth)) for nth, flow in enumerate(self.flow(arrived))]

    def blocks(self) -> dict[int, Tensor]:
        """Return the full Jacobian block with respect to each source, by one pass per element. A block that is too
        large is replaced by a note, and a source that is a view with the edge of its base gets none.
        """
        size, wanted = self.like.numel(), []
        for nth, source in enumerate(self.sources):
            note = too_large(size * math.prod(self._shape(nth)))
            if note is not None:
                self.notes.append(note)
            elif source.geometry is None:
                wanted.append(nth)
        rows: dict[int, list[Tensor]] = {nth: [] for nth in wanted}
        for element in range(size if wanted else 0):
            seed = torch.zeros_like(self.like, memory_format=torch.contiguous_format)
            seed.view(-1)[element] = 1
            flows = self.flow(seed)
            for nth in wanted:
                rows[nth].append(flows[nth])
        shape = tuple(self.like.shape)
        return {
            nth: torch.stack(own).reshape(shape + self._shape(nth)) if own else self._zeros(nth, shape)
            for nth, own in rows.items()
        }

    def _zeros(self, nth: int, shape: tuple[int, ...] = ()) -> Tensor:
        return self.likes[nth].new_zeros(shape + self._shape(nth), layout=torch.strided)

    def _shape(self, nth: int) -> tuple[int, ...]:
        # Return the shape of the gradient at a source's edge. If the source is a view, it is the base's shape.
        geometry = self.sources[nth].geometry
        return tuple(self.likes[nth].shape) if geometry is None else geometry.base_size


Product = tuple[Tensor, Tensor]
"""A gradient times a Jacobian block, and the rounding error to expect in this product and in autograd's result."""


def product(gradient: Tensor, block: Tensor, shape: tuple[int, ...], eps: float) -> Product:
    """Return the product and its rounding. The block's shape is the value's shape (empty for a single number) followed
    by ``shape``.
    """
    row, rows = gradient.reshape(1, -1).to(block.dtype), block.reshape(gradient.numel(), math.prod(shape))
    kind = torch.finfo(block.dtype)
    rounding = row.abs() @ (rows.abs() * math.sqrt(max(kind.eps, eps)) + kind.tiny)
    return (row @ rows).reshape(shape), rounding.reshape(shape)


def _settled(flow: Tensor, product: Product | None) -> Tensor:
    if product is None:
        return flow
    apart = (flow - product[0]).abs() > product[1]
    return product[0] if bool(apart.any()) and bool(product[0].isfinite().all()) else flow


def _is_hooked(capture: Capture) -> bool:
    # Does the tensor have hooks of the user? An observed leaf also has a hook of backprobe, which does not count.
    return len(capture.tensor._backward_hooks or ()) > (capture.leaf is not None)


def _is_odd(arrived: Tensor) -> bool:
    # Is the gradient a tensor whose numbers cannot simply be summed?
    return arrived.is_mkldnn or arrived.is_meta or arrived.is_nested or is_distributed(arrived)


def compare(
    captures: Sequence[Capture], recorded: Mapping[Key, Sequence[int]], arrivals: Arrivals, into: Flows
) -> PathSums:
    """Compare the gradient that arrived at each edge with the sum of contributions into the edge.

    Edges at which nothing arrived, or whose captures are all opaque, have no gradient to compare. Edges with hooks of
    the user or with unknown contributions, and gradients whose numbers cannot be summed, are left unjudged.
    """
    sums: list[GradientSum] = []
    unjudged: list[int] = []
    for edge, positions in recorded.items():
        arrived, first = arrivals.arrived.get(edge), positions[0]
        if arrived is None or all(captures[at].opaque for at in positions):
            continue
        hooked = any(_is_hooked(captures[at]) for at in positions)
        if hooked or first in into.unknown or _is_odd(arrived):
            unjudged += positions
            continue
        parts = [numbers(flow).reshape(arrived.shape) for flow in into.flowing.get(first, ())]
        kind = torch.finfo(arrived.dtype)
        rounding = max(kind.eps, into.coarse.get(first, 0.0))
        sums.append(GradientSum(first, numbers(arrived), parts, rounding, into.residue.get(first, 0.0), kind.tiny))
    return compared(sums, unjudged)
