"""The engine's passes, told apart by number, and the gradients that each brings to the edges with a hook.

The calls of ``backward()`` are of one output, and what they bring is summed, as ``.grad`` does. Those of
``autograd.grad`` that ask for the same derivatives are of one output too, and what the first of them brings stands:
five calls for five values are one gradient.
"""

from __future__ import annotations

import operator
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from operator import attrgetter
from types import FrameType
from typing import Any
from weakref import ReferenceType, ref

import torch
from torch import Tensor
from torch.autograd.graph import Node

from backprobe.backends.framework_code import CodeOf
from backprobe.backends.torch.capture import ListenedLeaf, version
from backprobe.backends.torch.private import (
    current_pass,
    decrement_vmap,
    increment_vmap,
    is_wrapped,
    queue_callback,
    remove_batch_dim,
)
from backprobe.backends.torch.tensors import ORDINARY, combined, copied, grad_of
from backprobe.backends.user_lines import users_line
from backprobe.record.source import Source
from backprobe.source.user_code import package

CALLS = CodeOf(torch.autograd, "backward", "grad")
"""The functions of PyTorch in which backward runs."""
ASKED = ("create_graph", "allow_unused", "is_grads_batched", "materialize_grads")
"""Arguments of these that change what they give."""
MOST_OUTPUTS = 100
"""The outputs of ``grad()`` that a block keeps apart: each has a gradient of every value."""
NO_PASS = -2  # the engine says -1 where none is running
STRIDED = torch.strided
VERSION = attrgetter("_version")
_is_not: Callable[[object, object], bool] = operator.is_not


@dataclass(eq=False)
class BackwardCall:
    """One call of ``backward()`` or ``grad()``: the tensors it began at with their cotangents, and what limits it."""

    roots: tuple[Tensor, ...] = ()
    cotangents: tuple[Tensor | None, ...] = ()
    inputs: tuple[Tensor, ...] = ()
    is_limited: bool = False  # to ``inputs=``
    called: str = "backward()"
    has_cotangents: bool = False  # was it given any?
    asked: tuple[str, ...] = ()  # other arguments that it was given
    places: tuple[int, ...] = ()  # the positions of the captures of its inputs, where they are known
    at: Source | None = None  # the line in the user's code
    keeps_graph: bool = False  # does it free nothing?
    is_grad: bool = False  # of ``grad()``, which brings no leaf its ``.grad``
    is_batched: bool = False  # does it run once for many cotangents?
    is_ours: bool = False  # does a probe run it, as where a function is probed in a block?
    is_nested: bool = False  # in another pass, as when a reentrant checkpoint differentiates what it computed again
    before: int = 0  # how many calls had begun
    is_over: bool = False

    def end(self) -> None:
        self.is_over = True

    @property
    def leaves_graph(self) -> bool:
        """May something be left of what the operations have saved that it has come to?"""
        return self.keeps_graph or self.is_limited or not self.is_over

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
        inputs = given.get("inputs_tuple") or given["inputs"]
        is_limited = inputs is not None and (is_grad or inputs != ())  # old releases put () in the place of None
        limits = () if inputs is None else tuple([one for one in _listed(inputs) if isinstance(one, Tensor)])
        roots, cotangents = zip(*pairs, strict=True) if pairs else ((), ())
        return cls(
            roots,
            cotangents,
            limits,
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
        """For how many cotangents at once it runs; 0 for one."""
        return len(self.cotangents[0]) if self.is_batched and self.cotangents[0] is not None else 0

    @property
    def is_transformed(self) -> bool:
        """Does it run inside a transform of ``torch.func``? All gradients end with that."""
        return any(map(is_wrapped, self.roots))

    def asks_as(self, other: BackwardCall) -> bool:
        """Do two calls of ``grad()`` ask for derivatives of the same output, with the same cotangents?"""
        if len(self.roots) != len(other.roots) or any(map(_is_not, self.roots, other.roots)):
            return False
        seeds = zip(self.roots, self.cotangents, other.cotangents, strict=True)
        return self.is_batched == other.is_batched and all(_is_same_seed(*each) for each in seeds)


def _is_same_seed(root: Tensor, one: Tensor | None, other: Tensor | None) -> bool:
    # Are two cotangents the same? None stands for ones.
    if one is other:
        return True
    one, other = (torch.ones_like(root) if each is None else each for each in (one, other))
    if not {type(one), type(other)} <= ORDINARY or one.is_meta or not (one.layout is other.layout is STRIDED):
        return False
    return one.shape == other.shape and bool(torch.equal(one, other))


@dataclass(eq=False)
class Output:
    """What the calls of one output have brought, by the number of a place, in the order in which they came there."""

    calls: list[BackwardCall] = field(default_factory=list)
    arrived: dict[int, Tensor] = field(default_factory=dict)
    written: dict[int, int] = field(default_factory=dict)  # the versions of the gradients that are held
    known: frozenset[int] = frozenset()  # the places to which earlier calls of ``grad()`` have brought the same
    is_grad: bool = False  # are they calls of ``grad()``?
    batch: int = 0  # for how many cotangents at once they run; 0 for one
    captures: dict[Any, None] = field(default_factory=dict)  # of what the calls began at
    apart: set[int] = field(default_factory=set)  # places where what came cannot be added up in one process

    @property
    def is_cut_short(self) -> bool:
        """Has a call begun that did not come to its end?"""
        return not all(call.is_over for call in self.calls)

    def and_also(self, others: Sequence[Output]) -> Output:
        """This one, with what others have brought beside it."""
        arrived, written = dict(self.arrived), dict(self.written)
        for one in others:
            arrived = {**arrived, **{at: each for at, each in one.arrived.items() if at not in arrived}}
            written = {**one.written, **written}
        return replace(self, arrived=arrived, written=written)

    def touched(self) -> set[int]:
        """The numbers (keys) of the gradients that were written to after they arrived."""
        arrived, written = self.arrived, self.written
        if [*map(VERSION, arrived.values())] == [*written.values()] and [*arrived] == [*written]:
            return set()
        return {number for number, held in arrived.items() if held._version != written.get(number, held._version)}


def _is_ours(calling: FrameType | None) -> bool:
    return calling is not None and package(calling.f_code.co_filename) == "backprobe"


def _listed(given: Any) -> list[Any]:
    # What is given as a tensor or several; nothing of an iterator, which only PyTorch itself may read.
    if isinstance(given, dict):
        return [*given.values()]
    return [given] if isinstance(given, Tensor) else [*given] if isinstance(given, tuple | list) else []


def innermost_call(frame: FrameType | None) -> FrameType | None:
    """The nearest call of ``backward`` or ``grad`` that a frame runs in."""
    while frame is not None:  # a program may be many frames deep: nothing is called for each
        if frame.f_code.co_qualname in CALLS.names and frame.f_code in CALLS:
            return frame
        frame = frame.f_back
    return None


class Passing:
    """What has passed so far. The hooks hold this, and this holds no node: no cycle goes through the engine."""

    quiet: Callable[[], AbstractContextManager[Any]] = nullcontext
    """Within this context, no mode of the program sees what is done."""

    is_open = True  # are passes those of the program?

    def __init__(self, keeps_history: bool) -> None:
        self.keeps_history = keeps_history
        self.began: Callable[[BackwardCall], None] = _ignore
        self.thread = threading.get_ident()
        self.begins_inside = current_pass() >= 0  # of a pass: all that the block does is nested then
        self.is_elsewhere = False  # has another thread called backward()?
        self.passes: dict[int, BackwardCall | None] = {}  # by the engine's number; None for another thread's
        self.outputs: list[Output] = []
        self.left = 0  # calls of ``grad()`` of more outputs than are kept
        self.output_of: dict[int, Output] = {}  # by the engine's number
        self._at(Output())  # until one is known, what arrives is of none
        self.held: set[int] = set()  # by identity: the gradients of values, as they came
        self.late: set[int] = set()  # the numbers of places that are taken behind the user's hooks
        self.running = NO_PASS  # the last pass that was found to count
        self.seeds: set[int] = set()  # by identity: the cotangents that such passes began with
        self.asked: set[int] = set()  # the numbers of the places whose gradients ``grad()`` returns
        self.offered: dict[int, Tensor] = {}
        self.returned: dict[int, ReferenceType[Tensor]] = {}  # by identity: what ``grad()`` returns
        self.count = 0
        self.begun = 0  # how many calls so far

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Within this context no pass is the program's."""
        self.is_open = False
        try:
            yield
        finally:
            self.is_open = True

    def _at(self, output: Output) -> None:
        # What arrives from now on is of this output.
        self.output, self.arrived, self.written = output, output.arrived, output.written
        self.is_grad = output.is_grad  # looked at for each leaf
        self.batch = output.batch

    @property
    def is_cut_short(self) -> bool:
        """Has a call of backward() begun that did not come to its end?"""
        return not all(call.is_over for call in self.calls)

    @property
    def calls(self) -> list[BackwardCall]:
        """Those of ``backward()``."""
        return [call for call in self.passes.values() if call is not None and not call.is_grad]

    @property
    def freed(self) -> list[BackwardCall]:
        """The calls of ``backward()`` and ``grad()`` that have freed what they went through, in their order."""
        return [call for call in self.passes.values() if call is not None and call.is_over and not call.keeps_graph]

    def is_counted(self) -> bool:
        """Does the running pass belong to a call that counts?"""
        running = current_pass()
        call = self.passes.get(running)
        return call is not None and running in self.output_of

    def take(self, number: int, at: int, is_users: bool, gradients: Sequence[Tensor | None], *_: Any) -> None:
        """A hook or prehook of a node: note the gradient at one of its places."""
        gradient = gradients[at]
        if gradient is not None and (current_pass() == self.running or self._counts()):
            self.take_early(number, copied(gradient) if is_users else gradient)

    def take_early(self, number: int, gradient: Tensor | None) -> None:
        """A hook of an edge, which is taken off where the user has hooks on the tensor: see ``EdgeHooks``.

        The gradient is copied where the user may write into it: in a backward of their own, into what they began with,
        or into what ``grad()`` returns. Else the very object is held: meanwhile the engine makes no leaf's ``.grad`` of
        it, to add to in place.
        """
        if gradient is None or (current_pass() != self.running and not (self._counts() and number not in self.late)):
            return  # it may have been taken off just now, as this pass began here
        if self.batch:
            gradient = _unbatched(gradient, self.batch)
        if self.asked and number in self.asked:
            self.returned[id(gradient)] = ref(gradient)
        if (self.seeds and id(gradient) in self.seeds) or (self.asked and number in self.asked):
            gradient = copied(gradient if self.keeps_history else gradient.detach())
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
        if self.batch:
            gradient = _unbatched(gradient, self.batch)
        if self.is_grad:
            self.returned[id(gradient)] = ref(gradient)
        if number in self.output.known:
            return
        if number != leaf.first and not leaf.is_fresh:
            leaf.is_unclear = True
        own = gradient
        if number not in self.arrived:  # the plain ones are copied here: a call for each would show in small models
            own = gradient.clone() if type(gradient) is Tensor else copied(gradient)
        if id(gradient) in self.held:
            self._let_go(gradient)
        self.add(number, own)

    def take_of_shared_leaf(self, leaf: ListenedLeaf, gradient: Tensor | None) -> None:
        """Where processes work together, what ``backward()`` leaves in ``.grad`` is looked for when it is over."""
        if self._counts() and self.is_grad:
            self.take_of_leaf(leaf, gradient)

    def _let_go(self, gradient: Tensor) -> None:
        # Hold a copy in its place.
        own = copied(gradient)
        for number, one in self.arrived.items():
            if one is gradient and self.is_untouched(number):
                self.arrived[number], self.written[number] = own, own._version

    def notice(self, *_: Any) -> None:
        """A pass has come by."""
        self._counts()

    def offer(self, number: int, gradient: Tensor) -> None:
        """What ``grad()`` is about to return for a place at which nothing else may be heard."""
        if self.batch:
            gradient = _unbatched(gradient, self.batch)
        self.returned[id(gradient)] = ref(gradient)
        self.offered[number] = copied(gradient if self.keeps_history else gradient.detach())

    def has_returned(self, tensor: Tensor) -> bool:
        """Is a tensor a gradient that ``grad()`` returned to the program?"""
        known = self.returned.get(id(tensor))
        return known is not None and known() is tensor

    def _take_offered(self) -> None:
        # A call of ``grad()`` is over.
        for number, gradient in self.offered.items():
            if number not in self.arrived:
                self.add(number, gradient)
        self.offered.clear()

    def add(self, number: int, gradient: Tensor) -> None:
        if number in self.output.known:
            return
        if gradient.requires_grad and not self.keeps_history:
            gradient = gradient.detach()
        before = self.arrived.get(number)
        if before is not None:
            is_dense = before.layout is STRIDED  # PyTorch adds sparse numbers to dense ones, and not the other way
            total = combined(torch.add, *((before, gradient) if is_dense else (gradient, before)))
            if total is None:
                self.output.apart.add(number)
                return
            gradient = total
        elif gradient.layout is not STRIDED:
            gradient = copied(gradient)  # a leaf whose gradient others hold takes a copy, and cannot of every layout
        self.arrived[number] = gradient
        self.written[number] = gradient._version
        self.count += 1

    def is_untouched(self, number: int) -> bool:
        """A backward that the user wrote may write into what it is given, which is what is held here."""
        return self.arrived[number]._version == self.written.get(number, self.arrived[number]._version)

    def _counts(self) -> bool:
        running = current_pass()
        if not self.is_open:
            return False
        if running not in self.passes:
            self.passes[running] = call = self._call()
            if call is not None:
                self._begin(call)
        known = self.passes[running]
        if known is None or running not in self.output_of:
            return False
        if self.output is not self.output_of[running]:
            self._at(self.output_of[running])
        self.running = running
        self.seeds.update(map(id, known.cotangents))
        self.seeds.discard(id(None))
        return True

    def _begin(self, call: BackwardCall) -> None:
        # A call that has not been heard of so far. One of ``grad()`` in a backward that the program wrote is a part of
        # that.
        call.before = self.begun
        queue_callback(call.end)  # which the engine does not call where a pass raises
        if call.is_ours or (call.is_grad and (call.is_transformed or (call.is_nested and not self.begins_inside))):
            return
        if call.is_grad and len(self.outputs) >= MOST_OUTPUTS and self._known(call) is None:
            self.left += 1
            return
        self.begun += 1
        self._belongs(call, current_pass())
        if call.is_grad:
            self.output.known = frozenset(self.arrived)
        if self.begins_inside or not call.is_nested:
            self.began(call)
        if call.is_grad:
            queue_callback(self._take_offered)

    def told_apart(self) -> list[Output]:
        """What there is of each output: one without calls where there were none.

        What one call of ``backward()`` brought is the same as what ``grad()`` did that asked for the same.
        """
        if len(self.outputs) < 2:
            return self.outputs or [self.output]
        summed = next((one for one in self.outputs if not one.is_grad), None)
        if summed is None or len(summed.calls) > 1:
            return self.outputs
        with self.quiet():
            same = [one for one in self.outputs if one.is_grad and one.calls[0].asks_as(summed.calls[0])]
        others = [one for one in self.outputs if one not in same]
        return [one.and_also(same) if one is summed else one for one in others]

    def begin_unnumbered(self, number: int) -> None:
        """A call of ``backward()`` that nothing was heard of is over."""
        self.passes[number] = call = BackwardCall(is_over=True)
        self._belongs(call, number)

    def _belongs(self, call: BackwardCall, number: int) -> None:
        # What the pass of this number brings is of the output of its call.
        self.output_of[number] = output = self._output_of(call)
        output.calls.append(call)
        self._at(output)

    def _known(self, call: BackwardCall) -> Output | None:
        for output in self.outputs:
            if not (call.is_grad or output.is_grad):
                return output
            with self.quiet():
                if output.is_grad and call.is_grad and output.calls[0].asks_as(call):
                    return output
        return None

    def _output_of(self, call: BackwardCall) -> Output:
        # What it is differentiated from, as far as it is that of an earlier call.
        known = self._known(call) if self.outputs else None
        if known is not None:
            return known
        self.outputs.append(found := Output(is_grad=call.is_grad, batch=call.batch if call.is_batched else 0))
        return found

    def _call(self) -> BackwardCall | None:
        # The call in the probing thread that the running pass belongs to; None for any other pass.
        #
        # What is on a device is run by threads of the engine's own, while the thread that called waits.
        call = innermost_call(sys._getframe(1))
        if threading.get_ident() != self.thread:
            self.is_elsewhere |= call is not None
            call = innermost_call(sys._current_frames().get(self.thread)) if call is None else None
            if call is None:
                return None
        if call is None:
            return BackwardCall()  # called from C++
        return BackwardCall.of(call)


def _unbatched(gradient: Tensor, size: int) -> Tensor:
    # The gradients of each cotangent, one behind the other, of what PyTorch's vmap holds as one tensor.
    level = increment_vmap() - 1
    decrement_vmap()
    return remove_batch_dim(gradient, level, size, 0)


def _ignore(call: BackwardCall) -> None:
    """No block listens."""


def _copied(gradient: Tensor | None) -> Tensor | None:
    return None if gradient is None else copied(gradient.detach())


class SharedLeaf:
    """A leaf where processes work together: what backward adds to its ``.grad``."""

    def __init__(self, number: int, tensor: Tensor) -> None:
        self.number, self.tensor = number, tensor
        self.added: Tensor | None = None  # in all passes so far
        self.is_apart = False  # can that not be told in one process?
        self.begin(is_first=True)

    def begin(self, is_first: bool = False) -> None:
        """A pass begins. Where the program has changed ``.grad`` since the last, it adds to something else."""
        if is_first or not self.is_untouched:
            self.earlier, self.had = self.added, _copied(grad_of(self.tensor))
            self.seen = self._state()

    def take(self) -> Tensor | None:
        """What all passes have added, now that one is over; None where none has come here."""
        grad = grad_of(self.tensor)
        if grad is not None and not self.is_untouched:
            now = copied(grad.detach())
            new = now if self.had is None else combined(torch.sub, now, self.had)
            both = new if new is None or self.earlier is None else combined(torch.add, self.earlier, new)
            self.added, self.is_apart = self.added if both is None else both, both is None
            self.seen = self._state()
        return self.added

    @property
    def is_untouched(self) -> bool:
        """Is ``.grad`` what it was when it was looked at last?"""
        (grad, *counts), (now, *counted) = self.seen, self._state()
        return grad is now and counts == counted

    def _state(self) -> tuple[Tensor | None, int, int]:
        grad = grad_of(self.tensor)
        if grad is None:
            return None, 0, 0
        return grad, version(grad), version(getattr(grad, "_local_tensor", grad))  # FSDP writes to this process's part
