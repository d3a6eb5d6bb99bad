"""Captures: each is one tensor at one version, from the moment it is named until backward has run."""

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
    """An attribute that few captures have. Setting it marks the capture as ``is_rare``."""

    def put(capture: Capture, value: Any) -> None:
        setattr(capture, f"_{name}", value)
        capture.is_rare = True

    return property(attrgetter(f"_{name}"), put)


class _Fields:
    # The attributes of every capture, as slots. Without slots, Python would create a dictionary for each capture that
    # gets an attribute which the first captures of the process did not have.
    __slots__ = (
        "alias",
        "calls",
        "edge",
        "is_rare",
        "leaf",
        "number",
        "status",
        "tensor",
        "unfollowed",
        "version",
        "why",
    )


class Capture(_Fields):
    """One tensor at one version."""

    opaque: Reason | None = rare("opaque")  # the reason if the gradient at the edge does not belong to this version
    snapshot: Tensor | None = rare("snapshot")
    part: Any = rare("part")  # the part of the program that runs without a history here, and is recomputed with one
    again: Capture | None = rare("again")  # the same value in the recomputation
    in_vain: Source | None = rare("in_vain")  # the line of a checkpoint that will not recompute the tensor
    unasked: Source | None = rare("unasked")  # the line of an ``apply()`` that received no differentiated tensor
    geometry: Geometry | None = rare("geometry")  # set if the tensor is a view, and the edge is that of its base
    writes: tuple[ViewWrite, ...] = rare("writes")
    is_changed: bool = rare("is_changed")  # does a hook of ours change its gradient?
    _opaque = _snapshot = _part = _again = _in_vain = _unasked = _geometry = None
    _writes, _is_changed = (), False

    def __init__(
        self,
        tensor: Tensor,
        version: int,
        alias: Tensor | None,
        calls: int = 0,
        edge: GradientEdge | None = None,
        number: int = -1,
        leaf: ListenedLeaf | None = None,
    ) -> None:
        """``calls`` is the number of calls of backward() and grad() before the tensor was named.

        ``number`` is the number under which gradients for this version arrive. ``leaf`` is set if the tensor itself has
        a hook; then no edge is kept.
        """
        self.tensor, self.version, self.alias = tensor, version, alias
        self.calls, self.edge, self.number, self.leaf = calls, edge, number, leaf
        self.unfollowed: Unfollowed | None = None
        self.status = GradStatus.OK  # why there is no edge; decided at the end of the program
        self.why: Reason | None = None
        self.is_rare = False

    @property
    def is_followed(self) -> bool:
        """Does the tensor have a history through which gradients flow?"""
        return self.edge is not None or self.leaf is not None

    def but(self, **changed: Any) -> Capture:
        """Return a copy in which these attributes are changed."""
        other = copy(self)
        for name, value in changed.items():
            setattr(other, name, value)
        return other


def with_edges(captures: Sequence[Capture]) -> list[Capture]:
    """Return the captures. A leaf with a hook gets the edge at which its gradients arrive."""
    return [c if c.leaf is None else c.but(edge=gradient_edge(c.tensor)) for c in captures]


class Unfollowed(NamedTuple):
    """Facts about a tensor without a history, noted when the tensor was named. The reason is derived from them
    later.
    """

    mode: str  # the mode that switched gradients off, or ""
    requires_grad: bool  # does the base of this view require a gradient that autograd does not pass to the view?
    is_beside: bool  # did the tensor share memory with a capture that has a history?


class ListenedLeaf:
    """A leaf with a hook of ours. A gradient belongs to its current version, unless an operation used an older version.

    ``written`` is the engine's count of nodes at the last write, or -1. Nodes that used older values of the leaf have
    smaller sequence numbers.
    """

    written = -1
    superseded: int | None = None  # the number of calls of backward() and grad() before it was first written to
    is_fresh = False  # after a write: does the running pass reach it only through operations on its newest values?
    is_unclear = False

    def __init__(self, number: int, version: int) -> None:
        self.number = number  # the number under which gradients for its newest version arrive
        self.first = number  # its number when it got the hook
        self.version = version  # the newest known version

    def write(self) -> None:
        self.written, self.is_fresh = nodes_made(), False


@dataclass(eq=False)
class ViewWrite:
    """A write through a view: autograd passes the gradient to the base, around the view."""

    node: Node  # the base's CopySlices node
    geometry: Geometry  # the geometry of the written view


def version(tensor: Tensor) -> int:
    """The version counter; 0 for inference tensors, which have none and cannot be written outside of inference mode."""
    try:
        return tensor._version
    except RuntimeError:
        return 0


def memory(tensor: Tensor) -> int:
    """A number that is equal for strided tensors that share memory. Other tensors have one each."""
    if tensor.layout is not torch.strided or tensor.is_nested:
        return id(tensor)
    return int(tensor.untyped_storage()._cdata)


def memories(tensors: Sequence[Tensor]) -> list[int]:
    """``memory`` of several tensors."""
    if {*map(FORMAT, tensors)} <= {(torch.strided, False)}:
        return [*map(PLACE, map(Tensor.untyped_storage, tensors))]
    return [*map(memory, tensors)]


FORMAT, PLACE = attrgetter("layout", "is_nested"), attrgetter("_cdata")
TOKENS = (None,) * (len(GradientEdge._fields) - 2)  # newer releases have fields for objects that keep the node alive
make = tuple.__new__  # makes a named tuple, and is faster than its own constructor


def gradient_edge(tensor: Tensor) -> GradientEdge | None:
    """The edge at which the gradient of a tensor arrives; None if it requires no gradient.

    Also None for a view that was made under ``no_grad``, or before its base required a gradient. Such a view claims to
    require a gradient because its base does, but autograd passes none to it.
    """
    if not tensor.requires_grad:
        return None
    node = tensor.grad_fn
    if node is not None and not isinstance(node, WRITTEN_IN_PYTHON):
        return make(GradientEdge, (node, tensor.output_nr, *TOKENS))
    has_views = tensor.layout is torch.strided and not tensor.is_nested
    if has_views and (node is not None or not tensor._is_view()):
        with torch.inference_mode(False):  # PyTorch creates a view of a leaf to find its edge
            return get_gradient_edge(tensor)
    with torch.inference_mode(False), torch.enable_grad():  # sparse and nested tensors get a copy instead of a view
        following = (tensor.view_as(tensor) if has_views else tensor.clone()).grad_fn
    node, number = following.next_functions[0] if following is not None else (None, 0)
    if node is None:
        return None
    # in newer releases the edge has to keep the node alive, by holding ``following``
    token = (following,) if "ownership_token" in GradientEdge._fields else ()
    return GradientEdge(node, number, *token)
