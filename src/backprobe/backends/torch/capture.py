"""One tensor at one version, from the moment it gets its name until backward has run."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

from backprobe.backends.torch.private import WRITTEN_IN_PYTHON, nodes_made
from backprobe.backends.torch.tensors import Geometry
from backprobe.record.entries import GradStatus
from backprobe.record.reasons import Reason
from backprobe.record.source import Source


def rare(name: str) -> Any:
    """An attribute that few captures have: with it set, they are ``is_rare``."""

    def put(capture: Capture, value: Any) -> None:
        setattr(capture, f"_{name}", value)
        capture.is_rare = True

    return property(attrgetter(f"_{name}"), put)


class Capture:
    """One tensor at one version."""

    opaque: Reason | None = rare("opaque")  # why the gradient at the edge would not be this version's
    snapshot: Tensor | None = rare("snapshot")
    part: Any = rare("part")  # of the program, that runs here without a history and is computed again with one
    again: Capture | None = rare("again")  # what it is there
    in_vain: Source | None = rare("in_vain")  # the line of the checkpoint that will not compute it again
    unasked: Source | None = rare("unasked")  # the line of a function's apply() that was given nothing to differentiate
    geometry: Geometry | None = rare("geometry")  # set where the edge is that of the base, and this is a view of it
    writes: tuple[ViewWrite, ...] = rare("writes")
    is_changed: bool = rare("is_changed")  # does a hook of ours change its gradient?
    is_rare = False
    _opaque = _snapshot = _part = _again = _in_vain = _unasked = _geometry = None
    _writes, _is_changed = (), False

    edge: GradientEdge | None = None
    leaf: ListenedLeaf | None = None  # where no edge is held, but the tensor itself listened to
    number = -1  # of what has arrived at either for this version
    unfollowed: Unfollowed | None = None
    calls = 0  # of backward() before it got its name
    status = GradStatus.OK  # why there is no edge, decided when the program is over
    why: Reason | None = None

    def __init__(self, tensor: Tensor, version: int, alias: Tensor | None) -> None:
        self.tensor, self.version, self.alias = tensor, version, alias

    @property
    def is_followed(self) -> bool:
        """Does it have a history, in which gradients flow?"""
        return self.edge is not None or self.leaf is not None

    def but(self, **changed: Any) -> Capture:
        """Another like this one."""
        other = copy(self)
        for name, value in changed.items():
            setattr(other, name, value)
        return other


def with_edges(captures: Sequence[Capture]) -> list[Capture]:
    """The captures, leaves that are listened to with the edges at which their gradients arrive."""
    return [c if c.leaf is None else c.but(edge=gradient_edge(c.tensor)) for c in captures]


class Unfollowed(NamedTuple):
    """A tensor without history, when it got its name: what will say why it has none."""

    mode: str  # that switched gradients off, if one did
    requires_grad: bool  # as its base does, though nothing leads to it
    is_beside: bool  # did it share its memory with a capture that has a history?


@dataclass(eq=False)
class ListenedLeaf:
    """A leaf with a hook of ours. What arrives is of the version that it has then, unless older ones may be meant.

    ``written`` is the engine's count of the nodes made so far, when it was written last: what uses the numbers from
    before that has a smaller one.
    """

    number: int  # of what arrives at its newest version
    first: int  # at the version that it had when it was listened to first
    version: int  # the newest that is known
    written: int = -1
    superseded: int | None = None  # the calls of backward() before its second version
    is_fresh: bool = False  # does this pass come from uses of its newest numbers alone?
    is_unclear: bool = False

    def write(self) -> None:
        self.written, self.is_fresh = nodes_made(), False


@dataclass(eq=False)
class ViewWrite:
    """A write through a view: autograd passes its gradient to the base, around the view that it went through."""

    node: Node  # the base's CopySlices node
    geometry: Geometry  # of the view written


def version(tensor: Tensor) -> int:
    """The version counter; an inference tensor has none, and cannot be written outside of inference mode."""
    try:
        return tensor._version
    except RuntimeError:
        return 0


def memory(tensor: Tensor) -> int:
    """The same number for tensors that share their memory."""
    if tensor.layout is not torch.strided or tensor.is_nested:
        return id(tensor)
    return int(tensor.untyped_storage()._cdata)


TOKENS = (None,) * (len(GradientEdge._fields) - 2)  # newer releases: what keeps the node alive
make = tuple.__new__


def edge_at(node: Node, number: int) -> GradientEdge:
    """``GradientEdge(node, number)``, without the function that a named tuple is made by."""
    return make(GradientEdge, (node, number, *TOKENS))


def gradient_edge(tensor: Tensor) -> GradientEdge | None:
    """Where the gradient of a tensor arrives; None for one that requires none.

    And for a view made under ``no_grad``, or before its base required a gradient: it says that it requires one, as
    its base does, and autograd leads nothing to it.
    """
    if not tensor.requires_grad:
        return None
    node = tensor.grad_fn
    if node is not None and not isinstance(node, WRITTEN_IN_PYTHON):
        return edge_at(node, tensor.output_nr)
    has_views = tensor.layout is torch.strided and not tensor.is_nested
    if has_views and (node is not None or not tensor._is_view()):
        with torch.inference_mode(False):  # where PyTorch makes a view of a leaf to find its edge
            return get_gradient_edge(tensor)
    with torch.inference_mode(False), torch.enable_grad():  # sparse and nested tensors have no view, but a copy
        following = (tensor.view_as(tensor) if has_views else tensor.clone()).grad_fn
    node, number = following.next_functions[0] if following is not None else (None, 0)
    if node is None:
        return None
    token = (following,) if "ownership_token" in GradientEdge._fields else ()  # newer releases: it keeps the node alive
    return GradientEdge(node, number, *token)
