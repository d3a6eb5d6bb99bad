"""Gradients of tensors that the program reads and that are None, with the facts that were known at that moment.

PyTorch warns if ``.grad`` is read on a tensor that is not a leaf and does not retain its gradient. The ``.grad`` of
such a tensor is None unless the program has set it. backprobe does not read it, so that the program alone causes the
warning.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from backprobe.backends.capabilities import KeptGradients
from backprobe.backends.seen import Seen
from backprobe.backends.torch import graph
from backprobe.backends.torch.backward_call import CALLS, BackwardCall
from backprobe.backends.torch.backward_passes import Passing
from backprobe.backends.torch.capture import Capture
from backprobe.backends.torch.optimizer_steps import parameters
from backprobe.backends.torch.private import current_pass, is_wrapped
from backprobe.backends.torch.tape import quiet
from backprobe.backends.torch.tensors import ORDINARY
from backprobe.record.none_gradients import NoneRead, WhyEmpty
from backprobe.record.source import Source

MOST = 64
"""The most tensors that are kept for one place in the program, because a loop may read a new tensor each time."""


@dataclass(frozen=True, eq=False)
class _Read:
    # One read: the tensor, the place, and the state of the program.
    #
    # ``begun`` is the number of ``backward()`` calls so far, and ``has_asked`` says whether ``grad()`` had run.
    tensor: Tensor
    text: str
    at: Source
    why: WhyEmpty | None
    begun: int = 0
    has_asked: bool = False
    cause: Source | None = None


@dataclass(frozen=True, eq=False)
class _Clear:
    # A line that cleared the gradients of a tensor, or of the parameters of an optimizer or module.
    owner: Any
    at: Source
    begun: int

    def is_of(self, tensor: Tensor) -> bool:
        if isinstance(self.owner, torch.optim.Optimizer):
            return any(one is tensor for one in parameters(self.owner))
        if isinstance(self.owner, torch.nn.Module):
            modules = torch.nn.Module.modules(self.owner)
            return any(one is tensor for module in modules for one in module._parameters.values())
        return self.owner is tensor


class NoneReads(KeptGradients):
    """The reads of None in one block."""

    def __init__(self, passing: Passing) -> None:
        self.passing = passing
        self.reads: dict[Hashable, _Read] = {}
        self.places: dict[Hashable, int] = {}  # the number of tensors that were read at each place
        self.cleared: dict[Hashable, _Clear] = {}  # for each line, its latest clearing of gradients, the newest last
        self.filled = Seen()  # tensors that do not keep their gradient, but whose ``.grad`` was assigned
        self.count = 0

    def __len__(self) -> int:
        return len(self.reads)

    def is_none(self, tensor: Any, is_item: bool) -> bool:
        self.count += 1
        with quiet():
            return self._is_none(tensor, is_item)

    def _is_none(self, tensor: Any, is_item: bool) -> bool:
        # Is ``tensor.grad``, or the gradient of an item, None? The answer is False for tensor types that may define
        # ``grad`` themselves.
        if type(tensor) not in ORDINARY or is_wrapped(tensor):
            return False
        if is_item:  # an item is a result that does not retain its gradient, or a leaf
            return True
        if tensor.is_leaf or tensor.retains_grad:
            return tensor.grad is None
        return tensor not in self.filled

    def clears(self, owner: Any, at: Source) -> None:
        self.cleared.pop(at, None)
        self.cleared[at] = _Clear(owner, at, len(self.passing.calls))

    def assigned(self, tensor: Any, at: Source) -> None:
        with quiet():
            if type(tensor) not in ORDINARY:
                return
            if not (tensor.is_leaf or tensor.retains_grad):
                self.filled.add(tensor)
            elif tensor.grad is None:
                self.clears(tensor, at)

    def none_read(self, tensor: Tensor, text: str, at: Source, is_item: bool) -> None:
        calls = self.passing.calls
        has_asked = any(call is not None and call.is_grad for call in self.passing.passes.values())
        with quiet():
            why = WhyEmpty.ITEM if is_item and tensor.requires_grad else self._why_now(tensor)
        self._keep(_Read(tensor, text, at, why, len(calls), has_asked, self.cleared_at(tensor)))

    def cleared_at(self, tensor: Tensor) -> Source | None:
        """Return the line that last cleared the gradient of a tensor since the last ``backward()``, or None."""
        begun = len(self.passing.calls)
        return next(
            (one.at for one in reversed(self.cleared.values()) if one.begun == begun and one.is_of(tensor)), None
        )

    def may_give_none(self, frame: FrameType) -> bool:
        """Is this the frame of ``torch.autograd.grad``, called so that it may return None?"""
        given = frame.f_locals
        return frame.f_code in CALLS and bool(given.get("allow_unused")) and not given.get("materialize_grads")

    def gave(self, frame: FrameType, returned: Any, texts: Sequence[str], at: Source) -> None:
        inputs = frame.f_locals.get("inputs")
        inputs = (inputs,) if isinstance(inputs, Tensor) else inputs
        if not isinstance(inputs, tuple | list) or not isinstance(returned, tuple) or len(inputs) != len(returned):
            return
        several = len(texts) != len(inputs) and len(texts) == 1
        spelled = [f"{texts[0]}[{nth}]" for nth in range(len(inputs))] if several else texts
        for nth, (tensor, gradient) in enumerate(zip(inputs, returned, strict=True)):
            if gradient is None and type(tensor) in ORDINARY:
                text = spelled[nth] if nth < len(spelled) else ""
                self._keep(_Read(tensor, text, at, WhyEmpty.GIVEN))

    def _keep(self, read: _Read) -> None:
        place = read.at.file, read.at.line, read.text
        key = (*place, id(read.tensor))
        if key not in self.reads and self.places.get(place, 0) < MOST:
            self.places[place] = self.places.get(place, 0) + 1
            self.reads[key] = read

    def _why_now(self, tensor: Tensor) -> WhyEmpty | None:
        # Return a reason that is already certain, ``UNKNOWN`` while backward runs, or None. Other reasons are known
        # only when the graphs of all passes are examined.
        if not tensor.requires_grad:
            return WhyEmpty.FROZEN
        if not tensor.is_leaf and not tensor.retains_grad:
            return WhyEmpty.COMPUTED
        return WhyEmpty.UNKNOWN if current_pass() >= 0 else None

    def found(self, captures: Sequence[Capture]) -> tuple[NoneRead, ...]:
        """Return all reads as facts, with positions of their captures. If a tensor has several versions, one with a
        gradient is used.
        """
        if not self.reads:
            return ()
        arrived = {number for output in self.passing.outputs for number in output.arrived}
        known = {id(capture.tensor): at for at, capture in enumerate(captures)}
        known |= {id(capture.tensor): at for at, capture in enumerate(captures) if capture.number in arrived}
        return tuple([self._fact(known.get(id(read.tensor)), read) for read in self.reads.values()])

    def _fact(self, at: int | None, read: _Read) -> NoneRead:
        why, cause = (read.why, None) if read.why is not None else self._why(read)
        return NoneRead(at, read.text, read.at, why, cause)

    def _why(self, read: _Read) -> tuple[WhyEmpty, Source | None]:
        # Return why a tensor that keeps its gradient has none, and the line that caused it, if known.
        calls = self.passing.calls[: read.begun]
        if self.passing.is_elsewhere or any(not call.is_over for call in calls):
            return WhyEmpty.UNKNOWN, None
        if not calls:
            return WhyEmpty.GRADIENTS_RETURNED if read.has_asked else WhyEmpty.NOT_RUN, None
        whole = [call for call in calls if not call.is_limited]
        if any(one is read.tensor for call in calls if call.is_limited for one in call.inputs):
            return self._taken_away(read, calls)
        if _reaches(read.tensor, whole):
            return self._taken_away(read, whole)
        limited = [call for call in calls if call.is_limited and _reaches(read.tensor, [call])]
        return (WhyEmpty.LIMITED, limited[-1].at) if limited else (WhyEmpty.NOT_REACHED, None)

    def _taken_away(self, read: _Read, calls: Sequence[BackwardCall]) -> tuple[WhyEmpty, Source | None]:
        # Return the reason if a pass has reached the tensor. It is unknown if the pass has a custom derivative, which
        # may have returned None.
        if any(map(graph.is_custom, graph.all_nodes(node for call in calls for node in call.nodes))):
            return WhyEmpty.UNKNOWN, None
        return WhyEmpty.CLEARED if read.tensor.is_leaf else WhyEmpty.RETAINED_LATE, read.cause


def _reaches(tensor: Tensor, calls: Sequence[BackwardCall]) -> bool:
    # Do the graphs of these calls lead to a tensor?
    if any(root is tensor for call in calls for root in call.roots):
        return True
    nodes = graph.all_nodes(node for call in calls for node in call.nodes)
    return tensor.grad_fn in {*nodes} if not tensor.is_leaf else any(one is tensor for one in graph.leaves(nodes))
