"""The engine's passes, told apart by number, and the gradients that each brings to the edges with a hook.

A prehook runs in ``autograd.grad`` too, as in a gradient penalty: each pass is told apart by its number, and those of
``backward()`` alone are summed, as ``.grad`` does.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import Node

from backprobe.backends.framework_code import CodeOf
from backprobe.backends.torch.capture import ListenedLeaf, version
from backprobe.backends.user_lines import users_line
from backprobe.record.source import Source

CALLS = CodeOf(torch.autograd, "backward", "grad")
"""The functions of PyTorch in which backward runs."""
NO_PASS = -2  # the engine says -1 where none is running
STRIDED = torch.strided
current_pass = torch._C._current_graph_task_id
queue_callback = torch.autograd.Variable._execution_engine.queue_callback


@dataclass(eq=False)
class BackwardCall:
    """One call of ``backward()`` or ``grad()``: the tensors it began at with their cotangents, and what limits it."""

    roots: tuple[Tensor, ...] = ()
    cotangents: tuple[Tensor | None, ...] = ()
    is_limited: bool = False  # to ``inputs=``
    at: Source | None = None  # the line in the user's code
    keeps_graph: bool = False  # does it free nothing?
    is_grad: bool = False  # of ``grad()``, which brings no leaf its ``.grad``
    is_nested: bool = False  # in another pass, as when a reentrant checkpoint differentiates what it computed again
    before: int = 0  # how many calls of ``backward()`` had begun
    is_over: bool = False

    def end(self) -> None:
        self.is_over = True

    @property
    def nodes(self) -> list[Node]:
        """Where it began in the graph."""
        return [root.grad_fn for root in self.roots if root.grad_fn is not None]

    @classmethod
    def of(cls, frame: FrameType) -> BackwardCall:
        """The call that runs in a frame of ``torch.autograd.backward`` or ``torch.autograd.grad``."""
        given, is_grad = frame.f_locals, frame.f_code.co_name == "grad"
        tensors, seeds = ("outputs", "grad_outputs") if is_grad else ("tensors", "grad_tensors")
        pairs = [
            (r, c) for r, c in zip_longest(_listed(given[tensors]), _listed(given[seeds])) if isinstance(r, Tensor)
        ]
        is_limited = bool(_listed(given["inputs"]))
        keeps_graph = bool(given["retain_graph"] or given["create_graph"])
        is_nested = innermost_call(frame.f_back) is not None
        roots, cotangents = zip(*pairs, strict=True) if pairs else ((), ())
        return cls(roots, cotangents, is_limited, users_line(frame), keeps_graph, is_grad, is_nested)


def _listed(given: Any) -> list[Any]:
    return [] if given is None else [given] if isinstance(given, Tensor) else list(given)


def innermost_call(frame: FrameType | None) -> FrameType | None:
    """The nearest call of ``backward`` or ``grad`` that a frame runs in."""
    while frame is not None:  # a program may be many frames deep: nothing is called for each
        if frame.f_code.co_qualname in CALLS.names and frame.f_code in CALLS:
            return frame
        frame = frame.f_back
    return None


class Passing:
    """What has passed so far. The hooks hold this, and this holds no node: no cycle goes through the engine."""

    def __init__(self, keeps_history: bool) -> None:
        self.keeps_history = keeps_history
        self.began: Callable[[BackwardCall], None] = _ignore
        self.thread = threading.get_ident()
        self.begins_inside = current_pass() >= 0  # of a pass: all that the block does is nested then
        self.is_elsewhere = False  # has another thread called backward()?
        self.passes: dict[int, BackwardCall | None] = {}  # by the engine's number; None for another thread's
        self.arrived: dict[int, Tensor] = {}  # by the number of a place, in the order in which backward came there
        self.written: dict[int, int] = {}  # the versions of the gradients that are held
        self.held: set[int] = set()  # by identity: the gradients of values, as they came
        self.late: set[int] = set()  # the numbers of places that are taken behind the user's hooks
        self.running = NO_PASS  # the last pass that was found to count
        self.seeds: set[int] = set()  # by identity: the cotangents that such passes began with
        self.count = 0
        self.begun = 0  # how many calls of backward() so far

    @property
    def is_cut_short(self) -> bool:
        """Has a call of backward() begun that did not come to its end?"""
        return not all(call.is_over for call in self.calls)

    @property
    def calls(self) -> list[BackwardCall]:
        return [call for call in self.passes.values() if call is not None and not call.is_grad]

    @property
    def freed(self) -> list[BackwardCall]:
        """The calls of ``backward()`` and ``grad()`` that have freed what they went through, in their order."""
        return [call for call in self.passes.values() if call is not None and call.is_over and not call.keeps_graph]

    def is_counted(self) -> bool:
        """Does the running pass belong to a call of ``backward()`` that is known?"""
        call = self.passes.get(current_pass())
        return call is not None and not call.is_grad

    def take(self, number: int, at: int, is_users: bool, gradients: Sequence[Tensor | None], *_: Any) -> None:
        """A hook or prehook of a node: note the gradient at one of its places."""
        gradient = gradients[at]
        if gradient is not None and (current_pass() == self.running or self._counts()):
            self.take_early(number, gradient.clone() if is_users else gradient)

    def take_early(self, number: int, gradient: Tensor | None) -> None:
        """A hook of an edge, which is taken off where the user has hooks on the tensor: see ``EdgeHooks``.

        The gradient is copied where the user may write into it: in a backward of their own, or into what they began
        with. Else the very object is held: meanwhile the engine makes no leaf's ``.grad`` of it, to add to in place.
        """
        if gradient is None or (current_pass() != self.running and not (self._counts() and number not in self.late)):
            return  # it may have been taken off just now, as this pass began here
        if self.seeds and id(gradient) in self.seeds:
            gradient = gradient.clone()
        if number in self.arrived or gradient.requires_grad or gradient.layout is not STRIDED:
            self.add(number, gradient)
            return
        self.arrived[number] = gradient  # as in ``add``; most come here, and a call would cost as much as all this
        self.written[number] = gradient._version
        self.held.add(id(gradient))
        self.count += 1

    def take_of_leaf(self, leaf: ListenedLeaf, gradient: Tensor | None) -> None:
        """What arrives at a leaf becomes its ``.grad``, or is added to that: note a copy, or add to the copy noted.

        The engine makes ``.grad`` of the very object, unless that is held. Held here, it would be copied: where it is a
        view of the program's own buffer, ``.grad`` would change no longer with that.
        """
        if gradient is None or (current_pass() != self.running and not self._counts()):
            return
        number = leaf.number
        if number != leaf.first and not leaf.is_fresh:
            leaf.is_unclear = True
        own = gradient if number in self.arrived else gradient.clone()
        if id(gradient) in self.held:
            self._let_go(gradient)
        self.add(number, own)

    def _let_go(self, gradient: Tensor) -> None:
        """Hold a copy in its place."""
        own = gradient.clone()
        for number, one in self.arrived.items():
            if one is gradient and self.is_untouched(number):
                self.arrived[number], self.written[number] = own, own._version

    def notice(self, *_: Any) -> None:
        """A pass has come by."""
        self._counts()

    def add(self, number: int, gradient: Tensor) -> None:
        if gradient.requires_grad and not self.keeps_history:
            gradient = gradient.detach()
        before = self.arrived.get(number)
        if before is not None:
            is_dense = before.layout is STRIDED  # PyTorch adds sparse numbers to dense ones, and not the other way
            gradient = before + gradient if is_dense else gradient + before
        elif gradient.layout is not STRIDED:
            gradient = gradient.clone()  # a leaf whose gradient others hold takes a copy, and cannot of every layout
        self.arrived[number] = gradient
        self.written[number] = gradient._version
        self.count += 1

    def touched(self) -> set[int]:
        """The numbers of the gradients that something has written into since."""
        return {
            number for number, held in self.arrived.items() if held._version != self.written.get(number, held._version)
        }

    def is_untouched(self, number: int) -> bool:
        """A backward that the user wrote may write into what it is given, which is what is held here."""
        return self.arrived[number]._version == self.written.get(number, self.arrived[number]._version)

    def _counts(self) -> bool:
        running = current_pass()
        if running not in self.passes:
            self.passes[running] = call = self._call()
            if call is not None:
                call.before = self.begun
                queue_callback(call.end)  # which the engine does not call where a pass raises
            if call is not None and not call.is_grad:
                self.begun += 1
                if self.begins_inside or not call.is_nested:
                    self.began(call)
        known = self.passes[running]
        if known is None or known.is_grad:
            return False
        self.running = running
        self.seeds.update(map(id, known.cotangents))
        self.seeds.discard(id(None))
        return True

    def _call(self) -> BackwardCall | None:
        """The call in the probing thread that the running pass belongs to; None for any other pass.

        What is on a device is run by threads of the engine's own, while the thread that called waits.
        """
        call = innermost_call(sys._getframe(1))
        if threading.get_ident() != self.thread:
            self.is_elsewhere |= call is not None
            call = innermost_call(sys._current_frames().get(self.thread)) if call is None else None
            if call is None:
                return None
        if call is None:
            return BackwardCall()  # called from C++
        return BackwardCall.of(call)


def _ignore(call: BackwardCall) -> None:
    """No block listens."""


def _copied(gradient: Tensor | None) -> Tensor | None:
    return None if gradient is None else gradient.detach().clone()


class SharedLeaf:
    """A leaf where processes work together: what backward adds to its ``.grad``."""

    def __init__(self, number: int, tensor: Tensor) -> None:
        self.number, self.tensor = number, tensor
        self.added: Tensor | None = None  # in all passes so far
        self.begin(is_first=True)

    def begin(self, is_first: bool = False) -> None:
        """A pass begins. Where the program has changed ``.grad`` since the last, it adds to something else."""
        if is_first or not self.is_untouched:
            self.earlier, self.had = self.added, _copied(self.tensor.grad)
            self.seen = self._state()

    def take(self) -> Tensor | None:
        """What all passes have added, now that one is over; None where none has come here."""
        grad = self.tensor.grad
        if grad is not None and not self.is_untouched:
            now = grad.detach().clone()
            new = now if self.had is None else now - self.had
            self.added = new if self.earlier is None else self.earlier + new
            self.seen = self._state()
        return self.added

    @property
    def is_untouched(self) -> bool:
        """Is ``.grad`` what it was when it was looked at last?"""
        (grad, *counts), (now, *counted) = self.seen, self._state()
        return grad is now and counts == counted

    def _state(self) -> tuple[Tensor | None, int, int]:
        grad = self.tensor.grad
        if grad is None:
            return None, 0, 0
        return grad, version(grad), version(getattr(grad, "_local_tensor", grad))  # FSDP writes to this process's part
