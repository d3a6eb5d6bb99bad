"""Parameters that keep their numbers although the program computes new ones, and copies that keep old numbers.

When a backward pass begins, samples of the leaves' numbers are compared with those from earlier passes. In between,
operations are observed that read or write a leaf, and those that compute from gradients. The operations of an
optimizer's step are not observed: what it changed is compared once it is over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any
from weakref import ref

import torch
from torch import Tensor
from torch.autograd.graph import Node
from torch.optim import Optimizer

from backprobe.backends.torch import graph
from backprobe.backends.torch.capture import version
from backprobe.backends.torch.graph import LEAF
from backprobe.backends.torch.optimizer_steps import parameters
from backprobe.backends.torch.private import DisableTorchDispatch
from backprobe.backends.torch.tensors import grad_of, is_plain
from backprobe.backends.torch.unaccounted_nodes import now
from backprobe.backends.useless.steps import spread
from backprobe.backends.user_lines import callers, source_at, users_frames
from backprobe.record.source import Source

MOST = 2_000
"""The most leaves whose numbers are compared."""
ALIKE = 1e-3
"""An update counts as a multiple of a tensor if at most this share of its norm remains once the multiple is removed."""

OWN = __name__.partition(".")[0]

Line = tuple[str, int] | None
Numbers = tuple[int, int, Tensor]  # version, address and a sample of the elements


@dataclass(eq=False)
class LeafNumbers:
    """What is known of one leaf since the last backward pass that reached it."""

    leaf: ref[Tensor]
    numbers: Numbers
    passes: int  # the number of the last pass that reached it
    mark: int = 0  # the count of nodes when that pass began
    # the count of nodes after the latest step of an optimizer that wrote the leaf; equals ``mark`` if there was none
    changed: int = 0
    moved: bool = False  # did that step change its numbers?
    is_read: bool = False  # was it read since that step, or else since the pass, before it was written again?
    written: Line = None  # the line that wrote it last after that step


@dataclass(eq=False)
class UnusedUpdate:
    """A new value for a leaf that the program computed from the leaf and gradients, in another tensor."""

    held: LeafNumbers
    numbers: Numbers  # the leaf's numbers then
    result: ref[Tensor]
    at: Line
    passes: int
    is_read: bool = False


@dataclass(frozen=True, eq=False)
class Stale:
    """A copy that was made before the leaf was changed, by the number of the copy's node. ``is_cast`` says that
    autocast made and kept the copy.
    """

    leaf: Tensor
    number: int
    is_cast: bool


@dataclass(eq=False)
class Made:
    """Facts about the operations that made nodes, by the numbers of the nodes."""

    aliases: set[int] = field(default_factory=set)  # operations whose result shares memory with an operand
    copies: set[int] = field(default_factory=set)  # operations whose result has memory of its own
    casts: set[int] = field(default_factory=set)  # operations whose result has another dtype than the first operand
    calls: dict[int, tuple[Any, int]] = field(default_factory=dict)  # the instruction that ran each operation


class KeptNumbers:
    """Observes the leaves of one program."""

    def __init__(self) -> None:
        self.held: dict[int, LeafNumbers] = {}
        self.places: dict[int, LeafNumbers] = {}  # the same, by the address of their numbers
        self.from_gradients: dict[int, ref[Tensor]] = {}
        self.updates: list[UnusedUpdate] = []
        self.results: dict[int, UnusedUpdate] = {}  # the same updates, by the id of their result
        self.stale: dict[int, Stale] = {}
        self.undone: dict[int, tuple[Tensor, Line]] = {}
        self.made = Made()
        self.passes = 0  # how many passes have begun
        self.has_gradients = True  # are those of the last pass in ``from_gradients``?

    def begins(self, roots: Sequence[Node], leaves: Iterable[Tensor]) -> None:
        """Called when a backward pass is about to start."""
        every = [leaf for leaf in leaves if is_plain(leaf) and leaf.numel()][:MOST]
        with torch.no_grad(), DisableTorchDispatch():
            changed = {id(leaf) for leaf in every if self._is_changed(leaf)}
            self.stale |= {id(one.leaf): one for one in self._stale(roots, changed)} if changed else {}
            self.passes += 1
            for leaf in every:
                self._look_at(leaf)

    def ended(self) -> None:
        """Called when the pass is over: the leaves have their gradients."""
        self.has_gradients = False

    def _is_changed(self, leaf: Tensor) -> bool:
        known = self._known(leaf)
        return known is not None and not torch.equal(known.numbers[2], _sample(leaf))

    def _known(self, leaf: Tensor) -> LeafNumbers | None:
        known = self.held.get(id(leaf))
        return known if known is not None and known.leaf() is leaf else None

    def _look_at(self, leaf: Tensor) -> None:
        known, numbers = self._known(leaf), _numbers(leaf)
        is_back = known is not None and known.moved and torch.equal(known.numbers[2], numbers[2])
        if known is not None and is_back and known.written is not None and not known.is_read:
            self.undone[id(leaf)] = leaf, known.written
        if known is None:
            known = self.held[id(leaf)] = LeafNumbers(ref(leaf), numbers, self.passes)
        known.numbers, known.passes = numbers, self.passes
        known.mark = known.changed = now()
        known.moved, known.is_read, known.written = False, False, None
        self.places[leaf.data_ptr()] = known

    def stepped(self, optimizer: Optimizer) -> None:
        """Called when an optimizer has stepped."""
        with torch.no_grad(), DisableTorchDispatch():
            for one in parameters(optimizer):
                known = self._known(one)
                if known is not None and is_plain(one) and version(one) != known.numbers[0]:
                    known.moved = not torch.equal(known.numbers[2], _sample(one))
                    known.is_read, known.written, known.changed = False, None, now()

    def look(self, function: Any, given: Sequence[Tensor], result: Any, calling: FrameType) -> None:
        """Observe an operation that has run outside of backward passes and steps of optimizers."""
        if _is_own(calling):
            return
        self._take_gradients()
        for one in given:
            if (update := self.results.get(id(one))) is not None and update.result() is one:
                update.is_read = True
        into = given[0] if function._schema.is_mutable and given else None
        touched = [known for one in given if (known := self._at(one)) is not None]
        for known in touched:
            if into is not None and known is self._at(into):
                known.written = _line(calling)
            elif known.written is None:
                known.is_read = True
        if not isinstance(result, Tensor) or not any(map(self._is_from_gradients, given)):
            return
        if into is None:
            self.from_gradients[id(result)] = ref(result)
            self._look_for_update(touched, given, result, calling)

    def read(self, tensor: Tensor) -> None:
        """Note that the program has read all numbers of a tensor, without an operation."""
        known = self._at(tensor) if is_plain(tensor) else None
        if known is not None and known.written is None:
            known.is_read = True
        if (update := self.results.get(id(tensor))) is not None and update.result() is tensor:
            update.is_read = True

    def _at(self, tensor: Tensor) -> LeafNumbers | None:
        # Return the leaf, if any, whose numbers begin at the same address as those of a tensor, such as ``leaf.data``.
        known = self.places.get(tensor.data_ptr())
        return known if known is not None and known.leaf() is not None else None

    def _take_gradients(self) -> None:
        if self.has_gradients:
            return
        self.has_gradients = True
        self.from_gradients = {key: one for key, one in self.from_gradients.items() if one() is not None}
        for known in self.held.values():
            leaf = known.leaf()
            gradient = None if leaf is None or known.passes < self.passes else grad_of(leaf)
            if gradient is not None and is_plain(gradient):
                self.from_gradients[id(gradient)] = ref(gradient)

    def _is_from_gradients(self, one: Tensor) -> bool:
        known = self.from_gradients.get(id(one))
        return known is not None and known() is one

    def _look_for_update(
        self, touched: Sequence[LeafNumbers], given: Sequence[Tensor], result: Tensor, calling: FrameType
    ) -> None:
        # Note a result that is a leaf plus a multiple of a gradient, or of a tensor that was computed from gradients.
        others = [one for one in given if self._is_from_gradients(one)]
        if len(touched) != 1 or len(given) != 2 or len(others) != 1 or not is_plain(result):
            return
        leaf = touched[0].leaf()
        if leaf is None or touched[0].passes < self.passes or result.shape != leaf.shape:
            return
        with torch.no_grad(), DisableTorchDispatch():
            if others[0].shape == leaf.shape and _adds(_sample(leaf), _sample(others[0]), _sample(result)):
                one = UnusedUpdate(touched[0], touched[0].numbers, ref(result), _line(calling), self.passes)
                self.updates.append(one)
                self.results[id(result)] = one

    def node(self, number: int, given: Sequence[Tensor], made: Tensor, calling: FrameType) -> None:
        """Note of the operation that made a node: which instruction ran it, whether its result shares memory with an
        operand, and whether the result has another dtype.
        """
        if number in self.made.aliases or number in self.made.copies:
            return  # this operation made no node: the last node is that of an earlier operation
        storages = {one.untyped_storage().data_ptr() for one in given}
        (self.made.aliases if made.untyped_storage().data_ptr() in storages else self.made.copies).add(number)
        self.made.calls[number] = calling.f_code, calling.f_lasti
        if given and made.dtype != given[0].dtype:
            self.made.casts.add(number)

    def _stale(self, roots: Sequence[Node], changed: Collection[int]) -> Iterator[Stale]:
        # Yield the old copies of changed leaves. Such a copy was made before the last pass that reached its leaf, and a
        # node that was made after the change uses it.
        for user in graph.all_nodes(roots):
            for copy, _ in user.next_functions if user.name() != LEAF else ():
                if copy is not None and copy.name() != LEAF and copy._sequence_nr() in self.made.copies:
                    yield from self._of_copy(copy, user, changed)

    def _of_copy(self, copy: Node, user: Node, changed: Collection[int]) -> Iterator[Stale]:
        number, used, made = copy._sequence_nr(), user._sequence_nr(), self.made
        for leaf in graph.leaves([after for after, _ in copy.next_functions if after is not None]):
            known = self._known(leaf)
            if known is not None and id(leaf) in changed and number < known.mark <= known.changed <= used:
                # the instruction that made the copy now uses it without making it again: autocast has kept the copy
                is_kept = made.calls.get(number) == made.calls.get(used, ())
                yield Stale(leaf, number, is_kept and number in made.casts)

    def unused_updates(self) -> list[tuple[Tensor, Line]]:
        """Return the leaves for which the program computed new numbers that nothing has read, and whose own numbers
        were still the old ones in a later pass. Each comes with the line that computed the new numbers.
        """
        found = {}
        for one in self.updates:
            leaf = one.held.leaf()
            if leaf is not None and not one.is_read and one.held.passes > one.passes:
                before, after = one.numbers, one.held.numbers
                if before[1] == after[1] and torch.equal(before[2], after[2]):
                    found[id(leaf)] = leaf, one.at
        self.updates = [one for one in self.updates if not one.is_read and one.held.passes <= one.passes]
        self.results = {key: one for key, one in self.results.items() if one in self.updates}
        return [*found.values()]


def _is_own(calling: FrameType) -> bool:
    # Has backprobe run the operation, to record a value?
    packages = (one.f_globals.get("__name__", "").partition(".")[0] for one in callers(calling))
    return next((one for one in packages if one != "torch"), "") == OWN


def _line(calling: FrameType) -> Line:
    frame = next(users_frames(calling), None)
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def source_of(line: Line) -> Source | None:
    return None if line is None else source_at(*line)


def _sample(tensor: Tensor) -> Tensor:
    flat = tensor.detach().flatten()
    return flat[spread(flat.numel())].clone()


def _numbers(leaf: Tensor) -> Numbers:
    return version(leaf), leaf.data_ptr(), _sample(leaf)


def _adds(leaf: Tensor, other: Tensor, result: Tensor) -> bool:
    # Is the result the leaf plus a multiple of the other tensor?
    leaf, other, result = leaf.double(), other.double(), result.double()
    added, square = result - leaf, other @ other
    if not bool(square > 0) or not bool(added.any()):
        return False
    left = added - (added @ other / square) * other
    rounding = torch.finfo(torch.float32).eps * 4 * leaf.norm()
    return bool(left.norm() <= ALIKE * added.norm() + rounding) and bool(added.norm() > rounding)
