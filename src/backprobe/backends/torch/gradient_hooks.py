"""Hooks on nodes of autograd's graph, which collect the gradients that one backward pass brings to captured values.

The gradient of a value is what arrives at its edge. After an in-place write to a view, autograd passes part of the
gradient around the view to its base. This part is taken from the base's CopySlices node and restricted to the view.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import compress
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import GradientEdge, Node
from torch.utils.hooks import RemovableHandle

from backprobe.backends.exchanging import exhaust
from backprobe.backends.facts import Options
from backprobe.backends.torch import graph
from backprobe.backends.torch.capture import Capture, ViewWrite
from backprobe.backends.torch.graph import Key, key
from backprobe.backends.torch.private import DisableTorchFunction, disable_current_modes
from backprobe.backends.torch.tensors import ORDINARY, Geometry

Gradients = dict[int, Tensor]  # the keys are positions of captures
HOOKS = attrgetter("_backward_hooks")


@dataclass
class Arrivals:
    """The gradients that arrived at each edge, the same gradients after the user's hooks, and those that bypassed
    views.
    """

    arrived: dict[Key, Tensor | None]
    after_hooks: dict[Key, Tensor]
    around: dict[Node, Tensor]  # by CopySlices node: the gradient that the node passes on to the base's older version

    def at(self, edge: Key) -> Tensor | None:
        """The gradient that flows on from an edge, after the user's hooks; None if nothing arrived."""
        return self.after_hooks.get(edge, self.arrived.get(edge))

    def around_view(self, capture: Capture, write: ViewWrite) -> Tensor | None:
        """The part of a view's gradient that bypassed the view because of this write through it; None if none did."""
        flowing, base = self.around.get(write.node), capture.tensor._base
        if flowing is None or base is None:
            return None
        return write.geometry.carry(flowing, Geometry.of(capture.tensor, base))

    def gradients(self, captures: Sequence[Capture]) -> Gradients:
        """The gradient of each capture that has one."""
        found = {at: self.gradient(capture) for at, capture in enumerate(captures)}
        return {at: gradient for at, gradient in found.items() if gradient is not None}

    def gradient(self, capture: Capture) -> Tensor | None:
        """Return the part of the gradient at a capture's edge that belongs to the captured version; None if nothing
        arrived, or if no part of it is known to belong there.
        """
        if capture.edge is None or capture.opaque:
            return None
        gradient = self.at(key(capture.edge))
        if gradient is not None and capture.geometry is not None:
            gradient = capture.geometry.restrict(gradient)
        for write in capture.writes:
            term = self.around_view(capture, write)
            if term is not None:
                gradient = term if gradient is None else gradient + term
        return gradient


def put_hook(leaf: Tensor, hook: Callable[[Tensor], Any]) -> tuple[dict[int, Any], int]:
    """Do the same as ``leaf.register_hook(hook)``, without creating a handle. Returns the dictionary that holds the
    hook, and the key.

    Creating a handle takes three times as long as the rest, and a step needs one for each parameter. Tensors of other
    types may define ``register_hook`` themselves, so their own method is called.
    """
    if type(leaf) not in ORDINARY:
        handle = leaf.register_hook(hook)  # type: ignore[no-untyped-call]  # it has no type
        return handle.hooks_dict_ref(), handle.id
    hooks: Any = leaf._backward_hooks
    if hooks is None:
        hooks = leaf._backward_hooks = OrderedDict()
    at = RemovableHandle.next_id
    RemovableHandle.next_id = at + 1
    hooks[at] = hook
    return hooks, at


def put_hooks(leaves: Sequence[Tensor], hooks: Iterable[Callable[[Tensor], Any]]) -> tuple[list[dict[int, Any]], int]:
    """Put hooks on several ordinary tensors, as ``put_hook`` does. Returns the dictionaries, and the key in the first
    of them.

    The keys in the following dictionaries are each greater by one.
    """
    first, held = RemovableHandle.next_id, list[Any]()
    RemovableHandle.next_id = first + len(leaves)
    for at, (leaf, hook) in enumerate(zip(leaves, hooks, strict=True), first):
        own: Any = leaf._backward_hooks
        if own is None:
            own = leaf._backward_hooks = OrderedDict()
        own[at] = hook
        held.append(own)
    return held, first


MOST_CARRIERS = 64
"""The most outputs of one node that have carriers."""

CARRIERS: list[dict[int, Tensor]] = []
"""Tensors that only serve to pass a hook to a node. The key is the number of the output of the node."""


class EdgeHooks:
    """Hooks at the outputs of nodes, each in a dictionary of its own.

    ``node.register_prehook`` creates a handle, which takes three times as long as this class needs. So a dictionary of
    hooks is passed to the node in the way in which PyTorch passes a tensor's hooks. Our hook runs before hooks that the
    user puts on the tensor later. If there are any when a pass starts, a prehook replaces ours and runs after them.
    """

    def __init__(self) -> None:
        try:
            self.carriers = CARRIERS.pop()
        except IndexError:  # no dictionary is free: another thread may have taken the last one
            self.carriers = {}
        # flat, in groups of five: dictionary, tensor, node, output, number; avoids an object for each
        self.hooks: list[Any] = []

    def put(self, tensor: Tensor, node: Node, at: int, number: int, hook: Callable[[Tensor], Any]) -> bool:
        """Call a hook with the gradient that arrives at this output of the tensor's node. Returns False if this is not
        possible.
        """
        carrier = self.carriers.get(at)
        if carrier is None:
            if at >= MOST_CARRIERS or (made := _carrier(at)).output_nr != at:
                return False
            carrier = self.carriers[at] = made
        held: Any = {0: hook}
        carrier._backward_hooks = held
        node._register_hook_dict(carrier)
        self.hooks += (held, tensor, node, at, number)
        return True

    def taken_off(self, late: Collection[int]) -> list[tuple[Node, int, int]]:
        """Remove our hooks from tensors on which the user has put hooks since. Returns the node, output and number of
        each.

        ``late`` are the numbers of those that were removed before.
        """
        found = []
        hooks = self.hooks
        turns = zip(hooks[::5], hooks[2::5], hooks[3::5], hooks[4::5], strict=True)
        for held, node, at, number in compress(turns, map(HOOKS, hooks[1::5])):
            if number not in late:
                held.clear()
                found.append((node, at, number))
        return found

    def release(self) -> None:
        """Remove all hooks."""
        exhaust(map(dict.clear, self.hooks[::5]))
        for carrier in self.carriers.values():
            carrier._backward_hooks = None
        CARRIERS.append(self.carriers)
        self.hooks.clear()


def _carrier(at: int) -> Tensor:
    # Return a tensor whose output number is ``at``. Inside a transform of torch.func the number may differ.
    if not at:
        return torch.empty(0)
    with torch.inference_mode(False), torch.enable_grad(), disable_current_modes(), DisableTorchFunction():
        return torch.empty(at + 1, device="cpu", requires_grad=True).unbind()[at]


def arrive(options: Options, output: Tensor, cotangent: Tensor | None, captures: Sequence[Capture]) -> Arrivals:
    """Run backward once, and collect the gradients at the edges of all captures."""
    wanted: dict[Key, GradientEdge] = {key(c.edge): c.edge for c in captures if c.edge is not None}
    if options.nonfinite and wanted:  # also at other leaves, on the way to which NaN may arise
        wanted |= {(node, 0): GradientEdge(node, 0) for node in graph.nodes(output) if node.name() == graph.LEAF}
    around: dict[Node, Tensor] = {}
    after_hooks: dict[Key, Tensor] = {}
    with ExitStack() as hooks:
        for capture in captures:
            for write in capture.writes:
                hooks.callback(write.node.register_hook(partial(_take, around, write.node, 0)).remove)
                follower, number = write.node.next_functions[0]
                if follower is not None:  # the engine runs a node only if it leads to a requested edge
                    wanted.setdefault((follower, number), GradientEdge(follower, number))
            has_hooks = capture.tensor._backward_hooks or capture.is_changed
            if capture.edge is not None and (
                isinstance(capture.edge.node, BackwardCFunction)
                or (has_hooks and capture.edge.node.name() != graph.LEAF)
            ):
                # The engine returns what arrives before the user's hooks on the tensor run, while retain_grad shows
                # what they return. Also, a custom backward may write into its argument, which is the returned object.
                number = capture.edge.output_nr
                take = partial(_take, after_hooks, key(capture.edge), number)
                hooks.callback(capture.edge.node.register_prehook(take).remove)
        found = (
            torch.autograd.grad(
                [output],
                list(wanted.values()),
                [cotangent] if cotangent is not None else None,
                allow_unused=True,
                create_graph=options.create_graph,
                retain_graph=bool(options.partials) or options.retain_graph or options.create_graph,
            )
            if wanted
            else ()
        )
    return Arrivals(dict(zip(wanted, found, strict=True)), after_hooks, around)


def _take(into: dict[Any, Tensor], under: Any, number: int, gradients: tuple[Tensor, ...], *_: Any) -> None:
    # A hook or prehook of a node: note the gradient at one of its inputs or outputs.
    if gradients[number] is not None:
        is_users = isinstance(under, tuple) and isinstance(under[0], BackwardCFunction)
        into[under] = gradients[number].clone() if is_users else gradients[number]
