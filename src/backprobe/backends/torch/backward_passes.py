"""The passes of the autograd engine, by number, and the gradients that each pass brings to hooked edges.

All calls of ``backward()`` count as one output, and their gradients are summed, as in ``.grad``. Calls of
``autograd.grad`` that compute the same derivatives also count as one output, but only the first gradient of each value
is kept. So five calls of ``grad`` for five values of one output give one gradient for each value.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any
from weakref import ReferenceType, ref

import torch
from torch import Tensor

from backprobe.backends.torch.backward_call import BackwardCall, innermost_call
from backprobe.backends.torch.capture import ListenedLeaf, version
from backprobe.backends.torch.pipelines import NONE, Schedules
from backprobe.backends.torch.private import (
    current_pass,
    decrement_vmap,
    increment_vmap,
    queue_callback,
    remove_batch_dim,
)
from backprobe.backends.torch.tensors import combined, copied, grad_of

MOST_OUTPUTS = 100
"""The most outputs of ``grad()`` that a block distinguishes. Each may have a gradient for every value."""
NO_PASS = -2  # the engine returns -1 if no pass is running
STRIDED = torch.strided
VERSION = attrgetter("_version")


@dataclass(eq=False)
class Output:
    """The gradients that the calls for one output brought, in order of arrival, by the number of their place: a hooked
    edge, node or leaf.
    """

    calls: list[BackwardCall] = field(default_factory=list)
    arrived: dict[int, Tensor] = field(default_factory=dict)
    written: dict[int, int] = field(default_factory=dict)  # versions of the held gradients when they arrived
    known: frozenset[int] = frozenset()  # places that earlier calls reached, and where the running call adds nothing
    is_grad: bool = False  # are the calls calls of ``grad()``?
    batch: int = 0  # the number of cotangents in a batched call; 0 if it is not batched
    captures: dict[Any, None] = field(default_factory=dict)  # the captures at which the calls started
    apart: set[int] = field(default_factory=set)  # places whose gradients cannot be summed within one process

    @property
    def is_cut_short(self) -> bool:
        """Did a call start that has not finished?"""
        return not all(call.is_over for call in self.calls)

    def and_also(self, others: Sequence[Output]) -> Output:
        """Return a copy of this output. A place that has no gradient here gets that of the first of ``others`` that has
        one.
        """
        arrived, written = dict(self.arrived), dict(self.written)
        for one in others:
            arrived = {**arrived, **{at: each for at, each in one.arrived.items() if at not in arrived}}
            written = {**one.written, **written}
        return replace(self, arrived=arrived, written=written)

    def touched(self) -> set[int]:
        """Return the numbers of the places whose gradients were written to after they arrived."""
        arrived, written = self.arrived, self.written
        if [*map(VERSION, arrived.values())] == [*written.values()] and [*arrived] == [*written]:
            return set()
        return {number for number, held in arrived.items() if held._version != written.get(number, held._version)}


class Passing:
    """The gradients that have arrived so far. Hooks refer to this object instead of the tape, which holds the captured
    tensors.
    """

    quiet: Callable[[], AbstractContextManager[Any]] = nullcontext
    """Inside this context, the program's modes do not observe operations of backprobe."""

    is_open = True  # do backward passes that start now belong to the program, rather than to backprobe?

    def __init__(self, keeps_history: bool, schedules: Schedules = NONE) -> None:
        self.keeps_history = keeps_history
        self.schedules = schedules
        self.began: Callable[[BackwardCall], None] = lambda call: None
        self.thread = threading.get_ident()
        self.begins_inside = current_pass() >= 0  # did the block begin inside a pass, so all passes are nested?
        self.is_elsewhere = False  # has another thread called backward() or grad()?
        self.passes: dict[int, BackwardCall | None] = {}  # by the engine's number of a pass; None in other threads
        self.outputs: list[Output] = []
        self.left = 0  # the number of calls of ``grad()`` for outputs beyond the limit
        self.output_of: dict[int, Output] = {}  # by the engine's number of a pass; only passes of calls that count
        self._at(Output())  # an empty output receives the gradients until an output is known
        self.held: set[int] = set()  # ids of gradients that are stored as the same objects that arrived
        self.late: set[int] = set()  # numbers of places at which gradients are read after the user's hooks ran
        self.running = NO_PASS  # the number of the latest pass whose gradients count
        self.seeds: set[int] = set()  # ids of the cotangents with which counted passes started
        self.asked: set[int] = set()  # numbers of hooked edges among the inputs of the latest ``grad()``
        self.offered: dict[int, Tensor] = {}
        self.returned: dict[int, ReferenceType[Tensor]] = {}  # by id: gradients that ``grad()`` returned
        self.count = 0
        self.begun = 0  # the number of counted calls that have started

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Inside this context, passes do not belong to the program."""
        self.is_open = False
        try:
            yield
        finally:
            self.is_open = True

    def _at(self, output: Output) -> None:
        # Assign the gradients that arrive from now on to this output.
        self.output, self.arrived, self.written = output, output.arrived, output.written
        self.is_grad = output.is_grad  # copied, because the attribute is read for each leaf
        self.batch = output.batch

    @property
    def is_cut_short(self) -> bool:
        """Did a call of backward() start that has not finished?"""
        return not all(call.is_over for call in self.calls)

    @property
    def calls(self) -> list[BackwardCall]:
        """The calls of ``backward()``."""
        return [call for call in self.passes.values() if call is not None and not call.is_grad]

    @property
    def freed(self) -> list[BackwardCall]:
        """The calls of ``backward()`` and ``grad()`` that have freed the graph through which they went, in order."""
        return [call for call in self.passes.values() if call is not None and call.is_over and not call.keeps_graph]

    def is_counted(self) -> bool:
        """Does the running pass belong to a call that counts?"""
        return current_pass() in self.output_of

    def take(self, number: int, at: int, is_users: bool, gradients: Sequence[Tensor | None], *_: Any) -> None:
        """Store the gradient at index ``at``, if the pass counts. Called by a hook or prehook of a node, with all its
        gradients.
        """
        gradient = gradients[at]
        if gradient is not None and (current_pass() == self.running or self._counts()):
            self.take_early(number, copied(gradient) if is_users else gradient)

    def take_early(self, number: int, gradient: Tensor | None) -> None:
        """Store the gradient of an edge, if the pass counts. Called by ``take``, and by a hook that is removed if the
        user has hooks on the tensor: see ``EdgeHooks``.

        The gradient is copied if the user may write to it, that is, if it is the cotangent of a pass or a result of
        ``grad()``. For a custom backward, ``take`` has copied it before. Otherwise the first gradient of a place is
        usually held itself. While it is held, the engine does not use it as a leaf's ``.grad``, to which later passes
        would add in place.
        """
        if gradient is None or (current_pass() != self.running and not (self._counts() and number not in self.late)):
            return  # the pass does not count, or the hook was removed when the pass started
        if self.batch:
            gradient = _unbatched(gradient, self.batch)
        if self.asked and number in self.asked:
            self.returned[id(gradient)] = ref(gradient)
        if (self.seeds and id(gradient) in self.seeds) or (self.asked and number in self.asked):
            gradient = copied(gradient if self.keeps_history else gradient.detach())
        if number in self.arrived or gradient.requires_grad or gradient.layout is not STRIDED:
            self.add(number, gradient)
            return
        # the same work as in ``add``, but inline: most gradients take this path, and a call would double the cost
        self.arrived[number] = gradient
        self.written[number] = gradient._version
        self.held.add(id(gradient))
        self.count += 1

    def take_of_leaf(self, leaf: ListenedLeaf, gradient: Tensor | None) -> None:
        """Store a copy of the gradient that arrives at a leaf, or add the gradient to the copy.

        The engine uses the arriving object itself as ``.grad``, unless someone else holds a reference to it. If this
        object were held here, the engine would copy it. Then a ``.grad`` that is a view of the program's own buffer
        would no longer change with the buffer.
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
        # plain tensors are copied inline, because a call for each would be noticeable in small models
        if number not in self.arrived:
            own = gradient.clone() if type(gradient) is Tensor else copied(gradient)
        if id(gradient) in self.held:
            self._let_go(gradient)
        self.add(number, own)

    def take_of_shared_leaf(self, leaf: ListenedLeaf, gradient: Tensor | None) -> None:
        """Store the gradient of a leaf if ``grad()`` computes it. For ``backward()`` in a training with several
        processes, ``.grad`` is read afterwards instead.
        """
        if self._counts() and self.is_grad:
            self.take_of_leaf(leaf, gradient)

    def _let_go(self, gradient: Tensor) -> None:
        # Replace the held gradient by a copy, unless it was written to.
        own = copied(gradient)
        for number, one in self.arrived.items():
            if one is gradient and self.is_untouched(number):
                self.arrived[number], self.written[number] = own, own._version

    def notice(self, *_: Any) -> None:
        """Register the pass that is running."""
        self._counts()

    def offer(self, number: int, gradient: Tensor) -> None:
        """Store the gradient that ``grad()`` is about to return for a place where no hook can run."""
        if self.batch:
            gradient = _unbatched(gradient, self.batch)
        self.returned[id(gradient)] = ref(gradient)
        self.offered[number] = copied(gradient if self.keeps_history else gradient.detach())

    def has_returned(self, tensor: Tensor) -> bool:
        """Is the tensor a gradient that ``grad()`` returned to the program?"""
        known = self.returned.get(id(tensor))
        return known is not None and known() is tensor

    def _take_offered(self) -> None:
        # A call of ``grad()`` has ended: store the gradients that it returned for places that no hook has observed.
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
            # PyTorch can add sparse tensors to dense ones, but not dense ones to sparse
            is_dense = before.layout is STRIDED
            total = combined(torch.add, *((before, gradient) if is_dense else (gradient, before)))
            if total is None:
                self.output.apart.add(number)
                return
            gradient = total
        elif gradient.layout is not STRIDED:
            # a leaf copies a gradient that others hold, which is not possible for every layout
            gradient = copied(gradient)
        self.arrived[number] = gradient
        self.written[number] = gradient._version
        self.count += 1

    def is_untouched(self, number: int) -> bool:
        """Is a held gradient unchanged? A custom backward may write to its argument, which may be held here."""
        return self.arrived[number]._version == self.written.get(number, self.arrived[number]._version)

    def _counts(self) -> bool:
        running = current_pass()
        if not self.is_open or self.schedules.is_inferring:
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
        # Begin a new call. Calls by a probe do not count, nor do calls of ``grad()`` inside a transform, inside a
        # custom backward, of which they are part, or for more outputs than the limit.
        call.before = self.begun
        queue_callback(call.end)  # the engine does not call it if a pass raises
        if call.is_ours or (call.is_grad and (call.is_transformed or (call.is_nested and not self.begins_inside))):
            return
        if call.is_grad and len(self.outputs) >= MOST_OUTPUTS and self._known(call) is None:
            self.left += 1
            return
        self.begun += 1
        self._belongs(call, current_pass())
        if call.is_grad or call.is_second or self.output.known:
            self.output.known = frozenset(self.arrived if call.is_grad or call.is_second else ())
        if self.begins_inside or not call.is_nested:
            self.began(call)
        if call.is_grad:
            queue_callback(self._take_offered)

    def told_apart(self) -> list[Output]:
        """Return the outputs of the calls that count, or one empty output if there are none.

        A single call of ``backward()`` is merged with calls of ``grad()`` for the same output and cotangent.
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
        """Record a call of ``backward()`` that has ended without having been observed."""
        self.passes[number] = call = BackwardCall(is_over=True)
        self._belongs(call, number)

    def _belongs(self, call: BackwardCall, number: int) -> None:
        # Assign the pass with this number to the output of its call.
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
        # Return the output that a call differentiates. It may already be known from an earlier call.
        known = self._known(call) if self.outputs else None
        if known is not None:
            return known
        self.outputs.append(found := Output(is_grad=call.is_grad, batch=call.batch if call.is_batched else 0))
        return found

    def _call(self) -> BackwardCall | None:
        # Return the call, made in the probing thread, to which the running pass belongs; None for any other pass.
        #
        # Operations on a device are run by the engine's own threads while the calling thread waits, so the frames of
        # the probing thread are searched.
        call = innermost_call(sys._getframe(1))
        if threading.get_ident() != self.thread:
            self.is_elsewhere |= call is not None
            call = innermost_call(sys._current_frames().get(self.thread)) if call is None else None
            if call is None:
                return None
        if call is None:
            return BackwardCall()  # called from C++
        found = BackwardCall.of(call)
        if self.schedules.half:
            found.become_half(self.schedules.half)
        return found


def _unbatched(gradient: Tensor, size: int) -> Tensor:
    # Return the gradients for all cotangents, stacked along a new dimension. PyTorch's vmap stores them as one tensor.
    level = increment_vmap() - 1
    decrement_vmap()
    return remove_batch_dim(gradient, level, size, 0)


def _copied(gradient: Tensor | None) -> Tensor | None:
    return None if gradient is None else copied(gradient.detach())


class SharedLeaf:
    """A leaf in a training with several processes, and the sum of what backward has added to the leaf's ``.grad``."""

    def __init__(self, number: int, tensor: Tensor) -> None:
        self.number, self.tensor = number, tensor
        self.added: Tensor | None = None  # the sum of the gradients from all passes so far
        self.is_apart = False  # does computing the sum need other processes?
        self.begin(is_first=True)

    def begin(self, is_first: bool = False) -> None:
        """Begin a pass. If the program has changed ``.grad`` since it was last read, what passes add is measured from
        its present value.
        """
        if is_first or not self.is_untouched:
            self.earlier, self.had = self.added, _copied(grad_of(self.tensor))
            self.seen = self._state()

    def take(self) -> Tensor | None:
        """Return the sum of what passes have added so far, after a pass has ended; None if no pass has reached this
        leaf. If computing the sum needs other processes, ``is_apart`` is set, and the last known sum is returned.
        """
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
        """Is ``.grad`` the same as when it was last read?"""
        (grad, *counts), (now, *counted) = self.seen, self._state()
        return grad is now and counts == counted

    def _state(self) -> tuple[Tensor | None, int, int]:
        grad = grad_of(self.tensor)
        if grad is None:
            return None, 0, 0
        return grad, version(grad), version(getattr(grad, "_local_tensor", grad))  # FSDP writes to this process's part
