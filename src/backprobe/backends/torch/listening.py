"""The block form's tape: gradients as they pass in the ``backward()`` calls that the program makes itself.

A prehook on the node of each captured edge notes what arrives there, after the user's own hooks on the tensor. It runs
in ``autograd.grad`` too, as in a gradient penalty: each pass of the engine is told apart by its number, and those of
``backward()`` alone are summed, as ``.grad`` does.
"""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from types import CodeType, FrameType
from typing import Any

import torch
import torch.utils.checkpoint
from torch import Tensor

from backprobe.backends.base import Around, Backward, Link, Options
from backprobe.backends.torch import graph
from backprobe.backends.torch.capture import Capture, ViewWrite, version
from backprobe.backends.torch.edges import Arrivals, Gradients
from backprobe.backends.torch.graph import Key, key
from backprobe.backends.torch.strategies import NOT_CONNECTED, by_edge, outcome
from backprobe.backends.torch.tape import TorchTape
from backprobe.record import GradStatus

NOT_RUN = (GradStatus.BACKWARD_NOT_RUN, "backward() was not called while the block was open")
ELSEWHERE = (GradStatus.BACKWARD_NOT_RUN, "backward() was called by another thread than the one that opened the block")
NOT_AGAIN = "it was computed inside a reentrant checkpoint, and not seen again when that was computed again"
UNCLEAR = (
    "its .grad held something before the block, and what backward() has added cannot be told: select a module's output "
    "as well"
)
LATE = "it began to require a gradient after it got its name, and was not seen again before backward()"
REENTRANT = torch.utils.checkpoint.CheckpointFunction
UNHEARD = "what backward computes, and nobody has a name for"
BACKWARD, GRAD = torch.autograd.backward.__code__, torch.autograd.grad.__code__
HOME = torch.__file__.removesuffix("__init__.py")
AROUND = -1  # in the place of an output: what a CopySlices node lets pass around a view
TRACERS = ("_dynamo/", "_inductor/", "jit/", "fx/", "export/", "_functorch/_aot_autograd/")
"""Parts of torch that run a function of the user's to find out what it does."""
DIVISION = "DivBackward0"
SCALING = ("MulBackward0", DIVISION)
UNNUMBERED = -1
queue_callback = torch.autograd.Variable._execution_engine.queue_callback
current_pass = torch._C._current_graph_task_id


@dataclass(frozen=True)
class BackwardCall:
    """One call of ``backward()``: the tensors it was called on with their cotangents, and what limits it."""

    roots: tuple[Tensor, ...] = ()
    cotangents: tuple[Tensor | None, ...] = ()
    is_limited: bool = False  # to ``inputs=``
    is_nested: bool = False  # in another pass, as when a reentrant checkpoint differentiates what it computed again

    @classmethod
    def of(cls, frame: FrameType) -> BackwardCall:
        """The call that runs in a frame of ``torch.autograd.backward``."""
        given = frame.f_locals
        limits = given["inputs"]
        roots, cotangents = _listed(given["tensors"]), _listed(given["grad_tensors"])
        cotangents += [None] * (len(roots) - len(cotangents))
        pairs = [(r, c) for r, c in zip(roots, cotangents, strict=False) if isinstance(r, Tensor)]
        is_limited = bool(limits) if isinstance(limits, tuple | list) else limits is not None
        is_nested = _innermost(frame.f_back) is not None
        return cls(tuple(root for root, _ in pairs), tuple(given for _, given in pairs), is_limited, is_nested)


def _listed(given: Any) -> list[Any]:
    return [] if given is None else [given] if isinstance(given, Tensor) else list(given)


def _innermost(frame: FrameType | None) -> FrameType | None:
    """The nearest call of ``backward`` or ``grad`` that a frame runs in."""
    while frame is not None and frame.f_code is not BACKWARD and frame.f_code is not GRAD:
        frame = frame.f_back
    return frame


class Passing:
    """What has passed so far. The hooks hold this, and this holds no node: no cycle goes through the engine."""

    def __init__(self, keeps_history: bool) -> None:
        self.keeps_history = keeps_history
        self.began: Callable[[BackwardCall], None] = _nobody
        self.thread = threading.get_ident()
        self.is_elsewhere = False  # has another thread called backward()?
        self.passes: dict[int, BackwardCall | None] = {}  # by the engine's number; None for one that does not count
        self.arrived: dict[int, Tensor] = {}  # by the number of an edge, in the order in which backward came there
        self.around: dict[int, Tensor] = {}  # by the number of a CopySlices node
        self.holders: dict[int, list[tuple[dict[int, Tensor], int]]] = {}  # by identity of a gradient
        self.count = 0

    @property
    def calls(self) -> list[BackwardCall]:
        return [call for call in self.passes.values() if call is not None]

    def take(self, into: dict[int, Tensor], number: int, at: int, gradients: Sequence[Tensor | None], *_: Any) -> None:
        """A hook or prehook of a node: note the gradient at one of its places."""
        gradient = gradients[at]
        if gradient is not None and self._counts():
            self.add(into, number, gradient)

    def take_of_leaf(self, number: int, gradients: Sequence[Tensor | None]) -> None:
        """What arrives at a leaf becomes its ``.grad``, or is added to that: hold a copy, as do those who held it."""
        gradient = gradients[0]
        if gradient is None or not self._counts():
            return
        own = gradient.clone()
        for into, other in self.holders.pop(id(gradient), ()):
            if into.get(other) is gradient:
                into[other] = own
        self.add(self.arrived, number, own)

    def notice(self, *_: Any) -> None:
        """A pass has come by."""
        self._counts()

    def add(self, into: dict[int, Tensor], number: int, gradient: Tensor) -> None:
        if gradient.requires_grad and not self.keeps_history:
            gradient = gradient.detach()
        elif gradient.layout is not torch.strided:
            gradient = gradient.clone()  # a leaf whose gradient others hold takes a copy, and cannot of every layout
        # else the very object: while it is held, the engine takes no leaf's ``.grad`` from it, to add to in place later
        self.holders.setdefault(id(gradient), []).append((into, number))
        before = into.get(number)
        into[number] = gradient if before is None else before + gradient
        self.count += 1

    def _counts(self) -> bool:
        running = current_pass()
        if running not in self.passes:
            self.passes[running] = call = self._call()
            if call is not None and not call.is_nested:
                self.began(call)
        return self.passes[running] is not None

    def _call(self) -> BackwardCall | None:
        """The ``backward()`` of the probing thread that the running pass belongs to; None for any other pass.

        What is on a device is run by threads of the engine's own, while the thread that called waits.
        """
        call = _innermost(sys._getframe(1))
        if threading.get_ident() != self.thread:
            self.is_elsewhere |= call is not None
            call = _innermost(sys._current_frames().get(self.thread)) if call is None else None
            if call is None:
                return None
        if call is None:
            return BackwardCall()  # called from C++
        return BackwardCall.of(call) if call.f_code is BACKWARD else None

    def clear(self) -> None:
        self.began = _nobody
        for held in (self.passes, self.arrived, self.around, self.holders):
            held.clear()


@lru_cache(4096)
def _traces(code: CodeType) -> bool:
    runs_as_it_is = code.co_qualname.startswith("DisableContext")
    return not runs_as_it_is and code.co_filename.startswith(tuple(HOME + part for part in TRACERS))


def _computing_again() -> Any:
    """What the innermost checkpoint that computes its part again keeps its things on."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not BACKWARD and frame.f_code is not GRAD:
        if frame.f_code is REENTRANT.backward.__code__:
            return frame.f_locals["ctx"]
        frame = frame.f_back
    return None


def _to_compute_again() -> Any:
    """What the outermost checkpoint that now runs without a history keeps its things on: those in it are not asked."""
    frame: FrameType | None = sys._getframe(1)
    found = None
    while frame is not None and frame.f_code is not REENTRANT.backward.__code__:
        if frame.f_code is REENTRANT.forward.__code__:
            found = frame.f_locals["ctx"]
        frame = frame.f_back
    return found


def _with_history(capture: Capture) -> Capture:
    """A capture as it is where a reentrant checkpoint computed it again, as often as it did."""
    again = None if capture.again is None else _with_history(capture.again)
    if again is not None and again.edge is not None:
        return replace(capture, edge=again.edge, status=GradStatus.OK, reason="", opaque=again.opaque,
                       tensor=again.tensor, geometry=again.geometry, writes=again.writes)  # fmt: skip
    if capture.edge is None and capture.part is not None:
        return replace(capture, status=GradStatus.OPAQUE, reason=NOT_AGAIN)
    return capture


def _copied(gradient: Tensor | None) -> Tensor | None:
    return None if gradient is None else gradient.detach().clone()


class Leaf:
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


def _ratio(root: Tensor, capture: Capture) -> float | None:
    """How many times a scalar another one is, where their numbers tell."""
    part = capture.alias
    if part is None or root.numel() != 1 or part.numel() != 1 or root.is_complex() or part.is_complex():
        return None
    ratio = float(root.detach()) / float(part) if float(part) else math.nan
    return ratio if math.isfinite(ratio) and version(capture.tensor) == capture.version else None


def _nobody(call: BackwardCall) -> None:
    """Nobody is to be told."""


class ListeningTape(TorchTape):
    """PyTorch's ``BlockTape``."""

    refused = ()

    differentiator = None

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.passing = Passing(options.create_graph)
        self.numbers: dict[Key, int] = {}  # of the edges and nodes that are listened to
        self.waiting: dict[Capture, int] = {}  # floating, and without an edge so far; the calls there had been
        self.leaves: list[Leaf] = []  # where processes work together

    # while the block runs

    def listen(self, began: Callable[[Sequence[Any]], Sequence[Any]]) -> None:
        def started(call: BackwardCall) -> None:
            if self.leaves:
                self._compare_leaves()
            known = set(self.numbers)
            with self.quiet():
                captures = began(call.roots)
                for capture, cotangent in zip(captures, call.cotangents, strict=True):
                    if capture.edge is not None and key(capture.edge) not in known:
                        self._start_at(capture, cotangent, len(captures) == 1)

        self.passing.began = started

    def _start_at(self, capture: Capture, cotangent: Tensor | None, alone: bool) -> None:
        """Its node has run in this pass before it was listened to: only the cotangent comes to a single start."""
        if not alone:
            capture.opaque = "backward() was called on several tensors at once, and this one has no name"
        seed = torch.ones_like(capture.tensor) if cotangent is None else cotangent
        assert capture.edge is not None
        self.passing.add(self.passing.arrived, self.numbers[key(capture.edge)], seed)

    def capture(self, tensor: Tensor, around: Callable[[], Around], previous: Capture | None, through: bool) -> Capture:
        capture = super().capture(tensor, around, previous, through)
        if capture.edge is None and capture.alias is not None and self.is_floating(tensor):
            capture.part = self.to_be_repeated()
            self.waiting[capture] = len(self.passing.calls)
        return capture

    # checkpoints

    def repeated(self) -> Hashable | None:
        return None if current_pass() < 0 else _computing_again() or UNHEARD

    def to_be_repeated(self) -> Hashable | None:
        return None if torch.is_grad_enabled() else _to_compute_again()

    def computed_again(self, capture: Capture, again: Capture) -> None:
        if capture.edge is None:
            capture.again = again
            again.alias = None  # of the same numbers
            if not again.writes and again.geometry is None:
                again.tensor = capture.tensor

    # histories that come late

    def look_again(self) -> None:
        for capture in self.waiting:
            self.late_edge(capture)
        self.waiting = {capture: calls for capture, calls in self.waiting.items() if capture.edge is None}

    def seen_again(self, capture: Capture) -> None:
        if capture.edge is None:
            self.late_edge(capture)

    def late_edge(self, capture: Capture) -> None:
        had_none = capture.edge is None
        super().late_edge(capture)
        passed = len(self.passing.calls) > self.waiting.get(capture, 0)
        if had_none and capture.edge is not None and passed and not capture.opaque:
            capture.opaque = LATE

    def _attach(self, capture: Capture) -> None:
        assert capture.edge is not None
        node, at = key(capture.edge)
        if (node, at) not in self.numbers:
            self.numbers[node, at] = number = len(self.numbers)
            take: Callable[..., None] = partial(self.passing.take, self.passing.arrived, number, at)
            if node.name() == graph.LEAF:
                take = partial(self.passing.take_of_leaf, number)
                if torch.distributed.is_available() and torch.distributed.is_initialized():
                    self.leaves.append(Leaf(number, capture.tensor))
                    take = self.passing.notice
            self.hook_handles.append(node.register_prehook(take))

    def _compare_leaves(self) -> None:
        """Where processes work together, what backward leaves in ``.grad`` is not what arrives at a leaf: that may be
        averaged, or be of another tensor. What it adds there is seen when all that it has queued is over."""
        for leaf in self.leaves:
            leaf.begin()

        def over(again: bool) -> None:
            if again:  # behind what others have queued for the end
                queue_callback(partial(over, False))
            else:
                self._take_leaves()

        queue_callback(partial(over, True))

    def _take_leaves(self) -> None:
        for leaf in self.leaves:
            added = leaf.take()
            if added is not None:
                self.passing.arrived[leaf.number] = added
        self.passing.count += 1

    def _look_at_leaves(self, captures: Sequence[Capture]) -> None:
        """No hook lay on the way of any pass. What ``.grad`` holds now, and did not before, a pass has brought."""
        unclear = [leaf for leaf in self.leaves if leaf.had is not None and not leaf.is_untouched]
        for capture in captures:
            if any(capture.tensor is leaf.tensor for leaf in unclear):
                capture.opaque = UNCLEAR
        if any(leaf.had is None and not leaf.is_untouched for leaf in self.leaves):
            self.passing.passes[UNNUMBERED] = BackwardCall()
            self._take_leaves()

    def _lead_around(self, write: ViewWrite) -> None:
        if (write.node, AROUND) not in self.numbers:
            self.numbers[write.node, AROUND] = number = len(self.numbers)
            take = partial(self.passing.take, self.passing.around, number, 0)
            self.hook_handles.append(write.node.register_hook(take))

    def hides(self, code: CodeType) -> bool:
        return code is BACKWARD or code is GRAD or _traces(code)

    def unseen(self) -> Sequence[str]:
        return ()

    # what is known about gradients

    @property
    def progress(self) -> int:
        return self.passing.count + sum(not leaf.is_untouched for leaf in self.leaves)

    def backward(self, captures: Sequence[Capture]) -> Backward:
        self.settle(captures)
        if self.leaves and self.passing.passes.keys() <= {UNNUMBERED}:
            self._look_at_leaves(captures)
        arrived = {edge: self.passing.arrived.get(number) for edge, number in self.numbers.items()}
        around = {node: gradient for (node, at), number in self.numbers.items()
                  if at == AROUND and (gradient := self.passing.around.get(number)) is not None}  # fmt: skip
        captures = [_with_history(capture) for capture in captures]
        gradients, recorded = Arrivals(arrived, {}, around).gradients(captures), by_edge(captures)
        missing = self._why_missing()
        outcomes = []
        for at, capture in enumerate(captures):
            sources = graph.inputs(capture.edge, recorded) if capture.edge is not None else []
            links = tuple(map(Link, sources))
            outcomes.append(outcome(capture, gradients.get(at), links, self.options.create_graph, missing))
        places = {self.numbers[edge]: positions for edge, positions in recorded.items() if edge in self.numbers}
        order = [at for number in self.passing.arrived for at in places.get(number, ())]
        visited = tuple(at for at in order if outcomes[at].status is GradStatus.OK)
        return Backward(outcomes, visited, notes=self._scales(captures, recorded, gradients))

    def _scales(
        self, captures: Sequence[Capture], recorded: Mapping[Key, Sequence[int]], gradients: Gradients
    ) -> tuple[tuple[int, str], ...]:
        """Scalars that ``backward()`` was called on a multiple of, as where ``GradScaler`` scales a loss."""
        found = {}
        for call in self.passing.calls:
            for root in () if call.is_nested else call.roots:
                node = root.grad_fn
                edges = node.next_functions if node is not None and node.name() in SCALING else ()
                followed = [at for at, (follower, _) in enumerate(edges) if follower is not None]
                if len(followed) != 1 or (node is not None and node.name() == DIVISION and followed != [0]):
                    continue  # no multiple of anything by a number
                for at in recorded.get(edges[followed[0]], ())[:1]:  # type: ignore[arg-type]
                    scale = None if captures[at].tensor.is_leaf else _ratio(root, captures[at])
                    if scale is not None:
                        found[at] = f"backward() ran from {scale:.6g} × this, and all gradients are of that"
        return tuple(found.items())

    def _why_missing(self) -> tuple[GradStatus, str]:
        calls = self.passing.calls
        if not calls:
            return ELSEWHERE if self.passing.is_elsewhere else NOT_RUN
        if any(call.is_limited for call in calls):
            return (
                GradStatus.NOT_CONNECTED,
                f"{NOT_CONNECTED}, or none to the inputs that backward(inputs=...) asks for",
            )
        return GradStatus.NOT_CONNECTED, NOT_CONNECTED

    def release(self) -> None:
        super().release()
        self.passing.clear()
        self.numbers.clear()
        self.waiting.clear()
        self.leaves.clear()
