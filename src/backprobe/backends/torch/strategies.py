"""Four ways to get the gradients of captured values, which agree wherever the last three are right.

``edges``: one ``autograd.grad`` over the gradient edges. ``retain_grad``: ``retain_grad`` on each value, then one
``backward``. ``hooks``: a hook on each value, then one ``backward``. ``separate``: one ``autograd.grad`` a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge

from backprobe.backends.base import Options, Outcome
from backprobe.backends.torch import graph
from backprobe.backends.torch.capture import Capture, version
from backprobe.backends.torch.graph import Key, key
from backprobe.backends.torch.tensors import Geometry
from backprobe.errors import StrategyRefused, Unsupported
from backprobe.record import GradStatus, Lost

NOT_CONNECTED = "no path leads from it to the output"
Gradients = dict[int, Tensor]  # by position of the capture


class HookedGradients:
    """What the hooks of the strategy ``hooks`` saw, in the order in which they were called."""

    def __init__(self) -> None:
        self.order: list[Capture] = []
        self.gradients: dict[int, Tensor] = {}  # by identity of the capture

    def take(self, capture: Capture, gradient: Tensor) -> None:
        self.order.append(capture)
        self.gradients[id(capture)] = gradient

    def clear(self) -> None:
        self.order.clear()
        self.gradients.clear()


def differentiate(
    options: Options, hooked: HookedGradients, output: Tensor, cotangent: Tensor | None, captures: Sequence[Capture]
) -> tuple[list[Outcome], tuple[int, ...]]:
    """Run backward as the tape's strategy says; what each capture got, and the order in which backward visits them."""
    root = get_gradient_edge(output)
    _refuse_reentrant(output)
    recorded: dict[Key, list[int]] = {}
    for at, capture in enumerate(captures):
        if capture.edge is not None:
            recorded.setdefault(key(capture.edge), []).append(at)
    inputs = [graph.inputs(c.edge, recorded) if c.edge is not None else [] for c in captures]
    order = graph.backward_order(root, recorded)
    if options.strategy != "edges":
        _refuse_where_wrong(options.strategy, captures)
    gradients = STRATEGIES[options.strategy](options, hooked, output, cotangent, captures)
    if options.strategy == "hooks":
        places = {id(capture): position for position, capture in enumerate(captures)}
        order = list(dict.fromkeys(places[id(capture)] for capture in hooked.order if id(capture) in places))
    outcomes = [
        _outcome(capture, gradients.get(position), inputs[position]) for position, capture in enumerate(captures)
    ]
    visited = [position for position in order if outcomes[position].status is GradStatus.OK]
    return outcomes, tuple(dict.fromkeys(visited))


def _outcome(capture: Capture, gradient: Tensor | None, inputs: list[int]) -> Outcome:
    value = _value(capture)
    if capture.edge is None:
        return Outcome(capture.status, capture.reason, value, None, tuple(inputs))
    if capture.opaque:
        return Outcome(GradStatus.OPAQUE, capture.opaque, value, None, tuple(inputs))
    if gradient is None:
        return Outcome(GradStatus.NOT_CONNECTED, NOT_CONNECTED, value, None, tuple(inputs))
    return Outcome(GradStatus.OK, "", value, gradient, tuple(inputs))


def _value(capture: Capture) -> Any:
    if capture.snapshot is not None:
        return capture.snapshot
    if capture.alias is None:
        return Lost(capture.reason)
    if version(capture.tensor) != capture.version:
        return Lost("it was overwritten in place by a call that backprobe does not see into")
    return capture.alias


def _edges(
    options: Options, hooked: HookedGradients, output: Tensor, cotangent: Tensor | None, captures: Sequence[Capture]
) -> Gradients:
    """One pass over all edges. What flows around a view that was written is taken at the base's CopySlices node."""
    wanted: dict[Key, GradientEdge] = {key(c.edge): c.edge for c in captures if c.edge is not None}
    around: dict[Any, Tensor] = {}
    after_hooks: dict[Key, Tensor] = {}
    with ExitStack() as hooks:
        for capture in captures:
            for write in capture.writes:
                hooks.enter_context(_removing(write.node.register_hook(partial(_take, around, write.node, 0))))
                follower, number = write.node.next_functions[0]
                if follower is not None:  # the engine runs a node only on the way to something wanted
                    wanted.setdefault((follower, number), GradientEdge(follower, number))
            if capture.edge is not None and capture.edge.node.name() != graph.LEAF and capture.tensor._backward_hooks:
                # the engine hands out what arrives before the user's hooks on the tensor, retain_grad what they return
                number = capture.edge.output_nr
                take = partial(_take, after_hooks, key(capture.edge), number)
                hooks.enter_context(_removing(capture.edge.node.register_prehook(take)))
        found = torch.autograd.grad(
            [output], list(wanted.values()), [cotangent] if cotangent is not None else None,
            allow_unused=True, create_graph=options.create_graph,
        ) if wanted else ()  # fmt: skip
    by_key = dict(zip(wanted, found, strict=True)) | after_hooks
    gradients: Gradients = {}
    for at, capture in enumerate(captures):
        if capture.edge is None or capture.opaque:
            continue
        gradient: Tensor | None = by_key[key(capture.edge)]
        if gradient is not None and capture.geometry is not None:
            gradient = capture.geometry.restrict(gradient)
        for write in capture.writes:
            flowing = around.get(write.node)
            if flowing is not None and capture.tensor._base is not None:
                term = write.geometry.carry(flowing, Geometry.of(capture.tensor, capture.tensor._base))
                gradient = term if gradient is None else gradient + term
        if gradient is not None:
            gradients[at] = gradient
    return gradients


def _take(into: dict[Any, Tensor], under: Any, number: int, gradients: tuple[Tensor, ...], *_: Any) -> None:
    """A node's hook or prehook: note the gradient that passes at one of its inputs or outputs."""
    if gradients[number] is not None:
        into[under] = gradients[number]


@contextmanager
def _removing(handle: Any) -> Iterator[None]:
    try:
        yield
    finally:
        handle.remove()


def _separate(
    options: Options, hooked: HookedGradients, output: Tensor, cotangent: Tensor | None, captures: Sequence[Capture]
) -> Gradients:
    """As many passes as values: kept to show what that costs."""
    gradients: Gradients = {}
    for at, capture in enumerate(captures):
        if capture.edge is not None:
            (gradient,) = torch.autograd.grad(
                [output], [capture.edge], [cotangent] if cotangent is not None else None,
                allow_unused=True, retain_graph=True, create_graph=options.create_graph,
            )  # fmt: skip
            if gradient is not None:
                gradients[at] = gradient
    return gradients


def _retain_grad(
    options: Options, hooked: HookedGradients, output: Tensor, cotangent: Tensor | None, captures: Sequence[Capture]
) -> Gradients:
    with _untouched_grads(output):
        torch.autograd.backward([output], [cotangent], create_graph=options.create_graph)
        found = {at: c.tensor.grad for at, c in enumerate(captures) if c.edge is not None}
    return {at: gradient for at, gradient in found.items() if gradient is not None}


def _hooks(
    options: Options, hooked: HookedGradients, output: Tensor, cotangent: Tensor | None, captures: Sequence[Capture]
) -> Gradients:
    with _untouched_grads(output):
        torch.autograd.backward([output], [cotangent], create_graph=options.create_graph)
    return {at: hooked.gradients[id(c)] for at, c in enumerate(captures) if id(c) in hooked.gradients}


STRATEGIES = {"edges": _edges, "retain_grad": _retain_grad, "hooks": _hooks, "separate": _separate}


@contextmanager
def _untouched_grads(output: Tensor) -> Iterator[None]:
    """``backward()`` adds to the ``.grad`` of every leaf it reaches: put back what they held."""
    leaves = [node.variable for node in graph.nodes(output) if node.name() == graph.LEAF]  # type: ignore[attr-defined]
    held = [leaf.grad for leaf in leaves]
    for leaf in leaves:
        leaf.grad = None
    try:
        yield
    finally:
        for leaf, gradient in zip(leaves, held, strict=True):
            leaf.grad = gradient


def _refuse_where_wrong(strategy: str, captures: Sequence[Capture]) -> None:
    """Three of the strategies look at tensors, not at versions of them, and do not agree about the user's hooks."""
    differentiated = [c for c in captures if c.edge is not None]
    own_hooks = 1 if strategy == "hooks" else 0
    if any(c.version != version(c.tensor) or c.geometry for c in differentiated):
        found = "a value was written in place after it got its name"
    elif any(len(c.tensor._backward_hooks or ()) > own_hooks for c in differentiated):
        found = "a tensor carries a hook of yours"
    else:
        return
    raise StrategyRefused(
        f"strategy {strategy!r} would be silently wrong here",
        asked=f"strategy={strategy!r}",
        found=found,
        why="it reads the gradient of the tensor as it is at the end, not of the version that had the name",
        next='strategy="edges", the default, which is right here',
    )


def _refuse_reentrant(output: Tensor) -> None:
    if any(node.name() == "CheckpointFunctionBackward" for node in graph.nodes(output)):
        raise Unsupported(
            "a reentrant checkpoint hides what is computed inside it",
            found="torch.utils.checkpoint.checkpoint(..., use_reentrant=True) in the graph",
            why="it recomputes inside backward(), which autograd.grad is not allowed to run",
            next="use_reentrant=False",
        )
