"""Four strategies for the gradients of captured values. They give equal gradients. If one of the last three would not,
it is refused.

``edges``: one ``autograd.grad`` over the gradient edges. ``retain_grad``: ``retain_grad`` on each value, then one
``backward``. ``hooks``: a hook on each value, then one ``backward``. ``separate``: one ``autograd.grad`` per value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import Node, get_gradient_edge

from backprobe.backends.facts import Backward, Options, Outcome
from backprobe.backends.torch import custom_functions, graph
from backprobe.backends.torch.capture import Capture, gradient_edge, version
from backprobe.backends.torch.custom_functions import Givers
from backprobe.backends.torch.gradient_hooks import arrive
from backprobe.backends.torch.graph import LEAF, by_edge, key
from backprobe.backends.torch.partials import Partials, local_partials
from backprobe.backends.torch.replaced_values import users_hooks
from backprobe.backends.torch.tensors import describe, is_there
from backprobe.errors import StrategyRefused, Unsupported
from backprobe.record.entries import GradStatus
from backprobe.record.held import Lost
from backprobe.record.inputs import Edge
from backprobe.record.reasons import Reason
from backprobe.record.source import Source

NO_PATH = Reason("no_path")
HOOKED = Reason("hooked")


Missing = tuple[GradStatus, Reason, Source | None]
"""For a value that has a history but no gradient: the status, the reason, and the line that caused it, if known."""

Hooked = dict[Capture, Tensor]
"""The gradients that the hooks of the strategy ``hooks`` received, in the order of the calls."""


def differentiate(
    options: Options,
    hooked: Hooked,
    output: Tensor,
    cotangent: Tensor | None,
    captures: Sequence[Capture],
    flow: Callable[[int, Any], Any] | None = None,
) -> Backward:
    """Run backward with the strategy in ``options``; if partials are requested, always with ``edges``.

    Returns the outcome of each capture, and the order in which backward reaches those with a gradient. Raises
    StrategyRefused if the strategy would be wrong here, and Unsupported if the graph has a reentrant checkpoint.
    """
    root = get_gradient_edge(output)
    _refuse_reentrant(output)
    recorded = by_edge(captures)
    inputs = [graph.inputs(capture.edge, recorded) for capture in captures]
    order = graph.backward_order(root, recorded)
    found = Partials(dict(enumerate(map(edges, inputs))))
    if options.partials or options.strategy == "edges":
        arrivals = arrive(options, output, cotangent, captures)
        gradients = arrivals.gradients(captures)
        if options.partials:
            seed = (key(root), torch.ones_like(output) if cotangent is None else cotangent)
            found = local_partials(
                captures,
                recorded,
                inputs,
                arrivals,
                seed,
                full=options.partials == "full",
                create_graph=options.create_graph,
                kept=flow,
            )
    else:
        _refuse_where_wrong(options.strategy, captures)
        by_hand = _separate if options.strategy == "separate" else _backward
        given = by_hand(options, hooked, output, cotangent, captures)
        gradients = {at: gradient for at, gradient in given.items() if gradient is not None}
    if options.strategy == "hooks":
        places = {capture: position for position, capture in enumerate(captures)}
        order = [places[capture] for capture in hooked if capture in places]
    outcomes = [
        outcome(capture, gradients.get(at), found.links.get(at, ()), options.create_graph)
        for at, capture in enumerate(captures)
    ]
    outcomes = list(with_leaves(captures, dict(enumerate(outcomes)), [root.node]).values())
    visited = [position for position in order if outcomes[position].status is GradStatus.OK]
    there = [at for at, outcome in enumerate(outcomes) if outcome.status is GradStatus.OK]
    notes = (*found.notes, *hooks_noted(captures, there, 1 if options.strategy == "hooks" else 0))
    if custom_functions.are_users():
        begun = [at for at in there if not inputs[at]]
        givers = Givers([root.node])
        unrecorded = ((order[0], one) for one in givers.unrecorded()) if order else ()
        notes = (*notes, *_zeros(captures, begun, gradients, givers), *unrecorded)
    return Backward(outcomes, tuple(dict.fromkeys(visited)), found.sums, notes)


def edges(sources: Sequence[int]) -> list[Edge]:
    return [Edge(source) for source in sources]


def with_leaves(
    captures: Sequence[Capture],
    outcomes: Mapping[int, Outcome],
    reached: Sequence[Node],
    spared: Set[int] = frozenset(),
) -> dict[int, Outcome]:
    """Add facts to the outcomes of values that are not connected: whether backward from ``reached`` reached all leaves
    from which the value was computed, and which custom functions returned None on the paths to the value.

    Leaves that were frozen after use do not count. Neither do leaves whose ids are in ``spared``.
    """
    missing = [at for at, found in outcomes.items() if found.status is GradStatus.NOT_CONNECTED]
    if missing and custom_functions.are_users():
        outcomes = {**outcomes, **_silent(captures, outcomes, Givers(reached))}
    made = {at: edge.node for at in missing if (edge := captures[at].edge) is not None and not outcomes[at].is_leaf}
    leaves = [(at, captures[at].tensor) for at in missing if outcomes[at].is_leaf]
    unmeant = {at for at, leaf in leaves if not leaf.requires_grad or id(leaf) in spared}
    told = {at: replace(found, leaves_reached=True) if at in unmeant else found for at, found in outcomes.items()}
    if made:
        # Leaves that were named only after a ``backward()`` are left out, because their hooks missed that pass.
        unused = [leaf for at, leaf in leaves if not captures[at].calls]
        lost = graph.leading_to_lost(made.values(), reached, unused, spared)
        for at, node in made.items():
            told[at] = replace(told[at], leaves_reached=node not in lost)
    return told


def _silent(captures: Sequence[Capture], outcomes: Mapping[int, Outcome], givers: Givers) -> dict[int, Outcome]:
    # Return the outcomes of values that lack a gradient because a custom backward returned None, by position.
    found: dict[int, Outcome] = {}
    for at, one in outcomes.items():
        edge = captures[at].edge or gradient_edge(captures[at].tensor) if one.why is NO_PATH else None
        functions = () if edge is None else givers.by_hand(edge.node)
        if functions:
            found[at] = replace(one, why=custom_functions.reason("returned_none", functions))
    return found


def _zeros(
    captures: Sequence[Capture], there: Sequence[int], gradients: Mapping[int, Tensor], givers: Givers
) -> list[tuple[int, Reason]]:
    # Return notes on the captures in ``there`` whose gradients are zero, if a custom backward of the program is on each
    # path to them.
    edges = [(at, captures[at].edge) for at in there]
    leaves = [(at, edge.node, gradients[at]) for at, edge in edges if edge is not None]
    found = custom_functions.zero_by_hand(leaves, givers)
    return [(at, custom_functions.reason("zero_behind", each)) for each, own in found.items() for at in own]


def hooks_noted(captures: Sequence[Capture], there: Sequence[int], own: int = 0) -> list[tuple[int, Reason]]:
    """Return notes on captures whose tensors have hooks of the user. A leaf that is observed also has a hook of
    backprobe, which does not count.
    """
    hooked = [at for at in there if captures[at].tensor._backward_hooks]  # few have any
    return [(at, HOOKED) for at in hooked if users_hooks(captures[at].tensor) > own + (captures[at].leaf is not None)]


def outcome(
    capture: Capture,
    gradient: Tensor | None,
    links: Sequence[Edge],
    live: bool,
    missing: Missing = (GradStatus.NOT_CONNECTED, NO_PATH, None),
) -> Outcome:
    """Return the outcome of a capture. ``missing`` is the reason for a capture that has a history but no gradient."""
    value, inputs = _value(capture, live), tuple(links)
    own = None if value is capture.snapshot or isinstance(value, Lost) else capture.version
    if not capture.is_followed:
        return Outcome(
            capture.status, capture.why, value, inputs=inputs, cause=capture.in_vain or capture.unasked, version=own
        )
    if capture.opaque is not None:
        return Outcome(GradStatus.OPAQUE, capture.opaque, value, inputs=inputs, version=own)
    # ``detach_()`` turns a computed tensor into a leaf, so the node is also checked
    is_leaf = capture.tensor.is_leaf and (capture.edge is None or capture.edge.node.name() == LEAF)
    if gradient is None:
        status, why, cause = missing
        return Outcome(status, why, value, inputs=inputs, cause=cause, is_leaf=is_leaf, version=own)
    return Outcome(GradStatus.OK, None, value, gradient, inputs, is_leaf=is_leaf, version=own)


def _value(capture: Capture, live: bool) -> Any:
    # Return the captured value, detached. If ``live``, return the tensor with its history, so that gradients have
    # histories. A value that was copied before a write is always detached, and one that cannot be shown is ``Lost``.
    if capture.snapshot is not None:
        return capture.snapshot
    if capture.alias is None:
        assert capture.why is not None
        return Lost(capture.why)
    if not is_there(capture.alias):
        return Lost(Reason("memory_freed"))
    if capture.tensor.is_leaf and describe(capture.alias) != describe(capture.tensor):
        return Lost(Reason("data_reshaped"))
    if version(capture.tensor) != capture.version:
        return Lost(Reason("overwritten_unseen"))
    return capture.tensor if live else capture.alias


def _separate(
    options: Options, hooked: Hooked, output: Tensor, cotangent: Tensor | None, captures: Sequence[Capture]
) -> dict[int, Tensor | None]:
    # Run one pass per value. This strategy exists to show its cost.
    return {
        at: torch.autograd.grad(
            [output],
            [capture.edge],
            [cotangent] if cotangent is not None else None,
            allow_unused=True,
            retain_graph=True,
            create_graph=options.create_graph,
        )[0]
        for at, capture in enumerate(captures)
        if capture.edge is not None
    }


def _backward(
    options: Options, hooked: Hooked, output: Tensor, cotangent: Tensor | None, captures: Sequence[Capture]
) -> dict[int, Tensor | None]:
    # Run one ``backward()``. It adds to the ``.grad`` of each leaf that it reaches, so these are restored afterwards.
    leaves = graph.leaves(graph.nodes(output))
    held = [leaf.grad for leaf in leaves]
    for leaf in leaves:
        leaf.grad = None
    try:
        keeps = options.retain_graph or options.create_graph
        torch.autograd.backward([output], [cotangent], retain_graph=keeps, create_graph=options.create_graph)
        if options.strategy == "hooks":
            return {at: hooked.get(capture) for at, capture in enumerate(captures)}
        return {at: capture.tensor.grad for at, capture in enumerate(captures) if capture.edge is not None}
    finally:
        for leaf, gradient in zip(leaves, held, strict=True):
            leaf.grad = gradient


def _refuse_where_wrong(strategy: str, captures: Sequence[Capture]) -> None:
    # Raise StrategyRefused if the strategy would return wrong gradients.
    #
    # The other three strategies read gradients of tensors rather than of versions of tensors, and they treat the user's
    # hooks differently.
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
