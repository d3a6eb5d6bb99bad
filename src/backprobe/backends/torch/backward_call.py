"""The calls of ``backward()`` and ``autograd.grad`` that a program makes, read from their frames."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from operator import itemgetter
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node

from backprobe.backends.framework_code import CodeOf
from backprobe.backends.torch.graph import LEAF
from backprobe.backends.torch.private import is_wrapped
from backprobe.backends.torch.tensors import ORDINARY
from backprobe.backends.user_lines import users_line
from backprobe.record.source import Source
from backprobe.source.user_code import package

CALLS = CodeOf(torch.autograd, "backward", "grad")
"""PyTorch's functions that run backward."""
ASKED = ("create_graph", "allow_unused", "is_grads_batched", "materialize_grads")
"""Options of ``backward`` and ``grad`` whose names are kept if they are true."""
STRIDED = torch.strided


@dataclass(eq=False)
class BackwardCall:
    """One call of ``backward()`` or ``grad()``: its roots, its cotangents, and the inputs to which it is limited.

    A root or input may be an edge of the graph instead of a tensor. An edge to a leaf counts as that leaf.
    """

    roots: tuple[Tensor, ...] = ()
    cotangents: tuple[Tensor | None, ...] = ()  # cotangents of the roots, followed by those of the edges
    inputs: tuple[Tensor, ...] = ()
    edges: tuple[GradientEdge, ...] = ()  # edges from which the call started, besides the roots
    input_edges: tuple[GradientEdge, ...] = ()
    is_limited: bool = False  # is the call limited to ``inputs=``, as every call of ``grad()`` is?
    called: str = "backward()"
    has_cotangents: bool = False  # were any cotangents passed to it?
    asked: tuple[str, ...] = ()  # names of the options in ``ASKED`` that are true
    places: tuple[int, ...] = ()  # positions of the captures of its inputs, if known
    at: Source | None = None  # the line in the user's code
    keeps_graph: bool = False  # does the call keep the graph instead of freeing it?
    is_grad: bool = False  # is this a call of ``grad()``, which leaves every ``.grad`` unchanged?
    is_batched: bool = False  # does the call run once for many cotangents?
    is_second: bool = False  # is this the half of a split backward that computes gradients of weights?
    is_ours: bool = False  # was it called by a probe inside the block, and not by the program?
    is_nested: bool = False  # is the call inside another pass, as in a reentrant checkpoint?
    before: int = 0  # the number of counted calls that had started before this one
    is_over: bool = False

    def end(self) -> None:
        self.is_over = True

    def become_half(self, half: str) -> None:
        """Treat this call as one half of a split backward. It adds to ``.grad``, even if it is a call of ``grad()``."""
        self.is_grad = self.is_limited = False
        self.called, self.asked, self.is_second = "backward()", (), half == "weights"

    @property
    def leaves_graph(self) -> bool:
        """May some operations that this call reached still hold their saved tensors?"""
        return self.keeps_graph or self.is_limited or not self.is_over

    @property
    def nodes(self) -> list[Node]:
        """The nodes of the graph from which this call started."""
        nodes = [root.grad_fn for root in self.roots if root.grad_fn is not None]
        return nodes + [edge.node for edge in self.edges] if self.edges else nodes

    @classmethod
    def of(cls, frame: FrameType) -> BackwardCall:
        """Return the call that runs in a frame of ``torch.autograd.backward`` or ``torch.autograd.grad``."""
        given, is_grad = frame.f_locals, frame.f_code.co_name == "grad"
        tensors, seeds = ("outputs", "grad_outputs") if is_grad else ("tensors", "grad_tensors")
        pairs = [*zip_longest(_listed(given[tensors]), _listed(given[seeds]))]
        roots = [pair for pair in pairs if isinstance(pair[0], Tensor)]
        edges = [pair for pair in pairs if isinstance(pair[0], GradientEdge)] if len(roots) < len(pairs) else []
        inputs = given.get("inputs_tuple") or given["inputs"]
        is_limited = inputs is not None and (is_grad or inputs != ())  # old releases pass () instead of None
        limits = () if inputs is None else _listed(inputs)
        return cls(
            tuple(map(itemgetter(0), roots)),
            tuple(map(itemgetter(1), (*roots, *edges))),
            tuple([one for one in limits if isinstance(one, Tensor)]),
            tuple(map(itemgetter(0), edges)),
            tuple([one for one in limits if isinstance(one, GradientEdge)]),
            is_limited,
            "autograd.grad" if is_grad else "backward()",
            given[seeds] is not None,
            tuple(filter(given.get, ASKED)),
            at=users_line(frame),
            keeps_graph=bool(given["retain_graph"] or given["create_graph"]),
            is_grad=is_grad,
            is_batched=bool(given.get("is_grads_batched")),
            is_ours=_is_ours(frame.f_back),
            is_nested=innermost_call(frame.f_back) is not None,
        )

    @property
    def batch(self) -> int:
        """The number of cotangents for which the call runs in one batch; 0 if it is not batched or has none."""
        return len(self.cotangents[0]) if self.is_batched and self.cotangents[0] is not None else 0

    @property
    def is_transformed(self) -> bool:
        """Does the call run inside a transform of ``torch.func``? The gradients of such a call exist only until the
        transform ends.
        """
        return any(map(is_wrapped, self.roots))

    def asks_as(self, other: BackwardCall) -> bool:
        """Do two calls start from the same outputs, with cotangents that are known to be equal?"""
        if [*map(id, self.roots)] != [*map(id, other.roots)]:
            return False
        if [edge[:2] for edge in self.edges] != [edge[:2] for edge in other.edges]:
            return False
        seeds = zip(self.cotangents, other.cotangents, strict=True)
        return self.is_batched == other.is_batched and all(_is_same_seed(*each) for each in seeds)


def _is_same_seed(one: Tensor | None, other: Tensor | None) -> bool:
    # Are two cotangents of one root known to be equal? None means ones.
    if one is other:
        return True
    given: Any = one if other is None else other
    one, other = (torch.ones_like(given) if each is None else each for each in (one, other))
    if not {type(one), type(other)} <= ORDINARY or one.is_meta or not (one.layout is other.layout is STRIDED):
        return False
    return one.shape == other.shape and bool(torch.equal(one, other))


def _is_ours(calling: FrameType | None) -> bool:
    return calling is not None and package(calling.f_code.co_filename) == "backprobe"


def _listed(given: Any) -> list[Any]:
    # Return an argument, which may be one tensor or several, as a list. The list is empty for None, and for an
    # iterator, because only PyTorch may consume it. An edge is a tuple, but counts as one item.
    if isinstance(given, dict):
        given = [*given.values()]
    if isinstance(given, Tensor | GradientEdge):
        given = [given]
    if not isinstance(given, tuple | list):
        return []
    has_edges = GradientEdge in map(type, given)
    return [*map(_leaf_or_given, given)] if has_edges else [*given]


def _leaf_or_given(one: Any) -> Any:
    is_leafs = isinstance(one, GradientEdge) and one.node.name() == LEAF
    return one.node.variable if is_leafs else one


def innermost_call(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of ``backward`` or ``grad`` around a frame; None if there is none."""
    while frame is not None:  # inline, because a program may be many frames deep
        if frame.f_code.co_qualname in CALLS.names and frame.f_code in CALLS:
            return frame
        frame = frame.f_back
    return None
