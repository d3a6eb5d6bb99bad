"""Gradients that the program reads of its tensors and finds None: each with what was known when it was read.

PyTorch warns who reads ``.grad`` of a tensor that is not a leaf and retains none. That one is None, unless the program
has put something there; nothing is read of it here, and the warning stays the program's own.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from backprobe.backends.seen import Seen
from backprobe.backends.torch import graph
from backprobe.backends.torch.backward_passes import CALLS, BackwardCall, Passing, current_pass
from backprobe.backends.torch.capture import Capture
from backprobe.backends.torch.tensors import ORDINARY
from backprobe.record.entries import NoneRead, WhyEmpty
from backprobe.record.source import Source

MOST = 64
"""Tensors that are kept for one place of the program: a loop may read a new one each time."""

is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor


@dataclass(frozen=True, eq=False)
class _Read:
    """One read: the tensor, the place, and how far the program was.

    ``begun`` are the calls of ``backward()`` until then, and ``has_asked`` says whether ``grad()`` had run.
    """

    tensor: Tensor
    text: str
    at: Source
    why: WhyEmpty | None
    begun: int = 0
    has_asked: bool = False


class NoneReads:
    """Those of one block."""

    def __init__(self, passing: Passing) -> None:
        self.passing = passing
        self.reads: dict[Hashable, _Read] = {}
        self.places: dict[Hashable, int] = {}  # how many tensors were read at each
        self.filled = Seen()  # tensors that are not leaves and were given a gradient

    def __len__(self) -> int:
        return len(self.reads)

    def is_none(self, tensor: Any, is_item: bool) -> bool:
        """Will ``tensor.grad`` give None, or that of an item? Not asked of tensors that may answer for themselves."""
        if type(tensor) not in ORDINARY or is_wrapped(tensor):
            return False
        if is_item:  # it is a leaf, or a result that retains nothing
            return True
        if tensor.is_leaf or tensor.retains_grad:
            return tensor.grad is None
        return tensor not in self.filled

    def assigned(self, tensor: Any) -> None:
        if type(tensor) in ORDINARY and not tensor.is_leaf:
            self.filled.add(tensor)

    def note(self, tensor: Tensor, text: str, at: Source, is_item: bool) -> None:
        calls = self.passing.calls
        has_asked = any(call is not None and call.is_grad for call in self.passing.passes.values())
        why = WhyEmpty.ITEM if is_item and tensor.requires_grad else self._why_now(tensor)
        self._keep(_Read(tensor, text, at, why, len(calls), has_asked))

    def gave(self, frame: FrameType, returned: Any, texts: Sequence[str], at: Source) -> None:
        """What ``grad()`` has returned, and could not compute."""
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
        """What is sure already; the rest is known when the graphs of all passes are looked at."""
        if not tensor.requires_grad:
            return WhyEmpty.FROZEN
        if not tensor.is_leaf and not tensor.retains_grad:
            return WhyEmpty.COMPUTED
        return WhyEmpty.UNKNOWN if current_pass() >= 0 else None

    def found(self, captures: Sequence[Capture]) -> tuple[NoneRead, ...]:
        """All of them as facts, with the positions of their captures."""
        known = {id(capture.tensor): at for at, capture in enumerate(captures)} if self.reads else {}
        return tuple([
            NoneRead(known.get(id(read.tensor)), read.text, read.at, self._why(read)) for read in self.reads.values()
        ])  # fmt: skip

    def _why(self, read: _Read) -> WhyEmpty:
        if read.why is not None:
            return read.why
        if self.passing.is_elsewhere:
            return WhyEmpty.UNKNOWN
        calls = self.passing.calls[: read.begun]
        if not calls:
            return WhyEmpty.GRADIENTS_RETURNED if read.has_asked else WhyEmpty.NOT_RUN
        why = why_empty(read.tensor, calls)
        is_late = why is WhyEmpty.CLEARED and not read.tensor.is_leaf
        return WhyEmpty.RETAINED_LATE if is_late else why


def why_empty(tensor: Tensor, calls: Sequence[BackwardCall]) -> WhyEmpty:
    """Why a tensor that keeps its gradient has none after these calls of ``backward()``."""
    if any(not call.is_over for call in calls):
        return WhyEmpty.UNKNOWN
    nodes = dict.fromkeys(graph.all_nodes(node for call in calls if not call.is_limited for node in call.nodes))
    is_reached = tensor.grad_fn in nodes if not tensor.is_leaf else any(one is tensor for one in graph.leaves(nodes))
    is_reached |= any(root is tensor for call in calls for root in call.roots)
    if not is_reached:
        return WhyEmpty.NOT_REACHED
    return WhyEmpty.UNKNOWN if any(map(graph.is_custom, nodes)) else WhyEmpty.CLEARED


def may_give_none(frame: FrameType) -> bool:
    """Is this that of ``torch.autograd.grad``, which was allowed to return None?"""
    given = frame.f_locals
    return frame.f_code in CALLS and bool(given.get("allow_unused")) and not given.get("materialize_grads")
