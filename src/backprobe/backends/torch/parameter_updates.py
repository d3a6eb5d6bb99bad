"""Writes of NaN or Inf to parameters during a block, for example by an optimizer, and the gradients that caused them.

No hooks are added to optimizers, because a compiled step would include the hook. Instead, the versions of the leaves
that a ``backward()`` reached are checked afterwards, whenever the program is observed anyway. Writes through
``.data`` do not change the version. They are noticed at the statement that reads ``.data``, or by the numbers when the
next ``backward()`` starts, and at the end. Results on a device are read only at the end, with one exception: after each
backward it is checked whether there is NaN or Inf, until it was found once. From then on, tensors that are overwritten
are copied, so that the cause can be found.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import Node
from torch.optim import Optimizer

from backprobe.backends.torch.capture import Capture, version
from backprobe.backends.torch.graph import leaves
from backprobe.backends.torch.nonfinite import BADNESS, FinitenessLook, unfit
from backprobe.backends.torch.optimizer_steps import parameters
from backprobe.backends.torch.private import queue_callback
from backprobe.backends.torch.tensors import grad_of
from backprobe.backends.user_lines import source_at, users_frames
from backprobe.record.nonfinite import GradientKind, Kind, Update
from backprobe.source.frames import forget, variables_in

Place = tuple[str, int]
"""The file and line of a statement."""


@dataclass
class UpdatedLeaf:
    """A tensor that receives gradients, the version at which it was last examined, and the number of that result."""

    tensor: Tensor
    version: int
    look: int
    gradient: int | None = None  # the number of the examination of the gradient that the last backward left
    is_written: bool = False  # was the tensor written to since that backward?


@dataclass
class WritingStatement:
    """A statement that wrote to leaves: its line if known, and the optimizers that own some of these leaves.

    ``written`` has a tuple for each leaf: its id, the number of its examination before the write, the number of its
    gradient's examination, and the number of its examination after the write.
    """

    at: Place | None
    optimizer: str
    newest: Capture | None  # the latest named value before the statement
    written: Sequence[tuple[int, int, int | None, int]]


class Updates:
    """Observes leaves after each ``backward()``, until something writes to them."""

    def __init__(self, quiet: Callable[[], AbstractContextManager[Any]], keep: Callable[[Tensor], object]) -> None:
        self.quiet, self.keep, self.has_kept = quiet, keep, False
        self.newest: Capture | None = None
        self.leaves: dict[int, UpdatedLeaf] = {}  # the key is the id of the leaf
        self.awaited: list[UpdatedLeaf] = []
        self.names: dict[int, str] = {}  # by id: names of leaves and buffers that are kept alive here
        self.held: list[Tensor] = []  # the buffers in ``names``
        self.judged = FinitenessLook()
        self.statements: list[WritingStatement] = []
        self.first: dict[int, int] = {}  # by id of a leaf or doubtful buffer: the number of its first result
        self._first_seen(buffers(list(users_frames(sys._getframe(1)))))

    def backward(self, nodes: Iterable[Node]) -> None:
        """Called when backward is about to run through these nodes."""
        self.look(None)
        self._look_closely()
        self.awaited = [self._leaf(tensor) for tensor in leaves(nodes)]
        for leaf in self.awaited:
            leaf.is_written = False
        doubted = [leaf for leaf in self.awaited if leaf.look >= 0 and id(leaf.tensor) not in self.names]
        if doubted:
            self._name_leaves(list(users_frames(sys._getframe(1))))
        queue_callback(self._arrived)

    def _first_seen(self, named: Mapping[str, Tensor]) -> None:
        with self.quiet(), torch.no_grad():
            for name, tensor in named.items():
                look = self.judged.add(tensor)
                if look >= 0:
                    self.first[id(tensor)], self.names[id(tensor)] = look, name
                    self.held.append(tensor)

    def _name_leaves(self, frames: Sequence[FrameType]) -> None:
        # Name the leaves that are kept alive here. Ids of other objects might be reused.
        self.names |= {at: name for at, name in _names(frames).items() if at in self.leaves}

    def _arrived(self) -> None:
        # Examine the gradients that backward has left. The program may clear them before the next statement that is
        # observed.
        with self.quiet(), torch.no_grad():
            doubted = dict[str, Tensor]()
            for at, leaf in enumerate(self.awaited):
                gradient = grad_of(leaf.tensor)
                leaf.gradient = None if gradient is None else self.judged.add(gradient)
                if gradient is not None and leaf.gradient is not None and leaf.gradient >= 0:
                    doubted[str(at)] = gradient
            for name in () if self.has_kept else unfit(doubted):
                self.keep(self.awaited[int(name)].tensor)
                self.has_kept = True

    def look(self, at: Place | None, exposed: Iterable[Capture] = ()) -> None:
        """Record the leaves of the last backward that were written to. ``at`` is the line of the writing statement;
        None if it is unknown.

        The statement may have written to ``exposed`` captures without changing their version.
        """
        opened = {id(capture.tensor) for capture in exposed}
        written = [leaf for leaf in self.awaited if version(leaf.tensor) != leaf.version or id(leaf.tensor) in opened]
        if written:
            self._note(at, written)
        elif at is not None and self.awaited:
            self.awaited = [leaf for leaf in self.awaited if not leaf.is_written]

    def _look_closely(self) -> None:
        # Record the known leaves that may hold NaN or Inf now: they may have been written to without a new version, or
        # when they were no longer observed.
        with self.quiet(), torch.no_grad():
            doubted = [leaf for leaf in self.leaves.values() if self.judged.add(leaf.tensor) >= 0]
        if doubted:
            self.newest, newest = None, self.newest  # it is unknown which values were computed before
            self._note(None, doubted)
            self.newest = newest

    def _note(self, at: Place | None, written: Sequence[UpdatedLeaf]) -> None:
        tensors = [leaf.tensor for leaf in written]
        frames = list(users_frames(sys._getframe(1)))
        if any(id(tensor) not in self.names for tensor in tensors):
            self._name_leaves(frames)
        found = []
        with self.quiet(), torch.no_grad():
            for leaf in written:
                before, now = leaf.look, grad_of(leaf.tensor)
                leaf.version, leaf.look, leaf.is_written = version(leaf.tensor), self.judged.add(leaf.tensor), True
                gradient = leaf.gradient if at is None or now is None else self.judged.add(now)  # it may be clipped
                found.append((id(leaf.tensor), before, gradient, leaf.look))
        self.statements.append(WritingStatement(at, _optimizers(frames, tensors), self.newest, found))

    def _leaf(self, tensor: Tensor) -> UpdatedLeaf:
        known = self.leaves.get(id(tensor))
        if known is None or known.version != version(tensor):
            with self.quiet(), torch.no_grad():
                known = self.leaves[id(tensor)] = UpdatedLeaf(tensor, version(tensor), self.judged.add(tensor))
            self.first.setdefault(id(tensor), known.look)
        return known

    def found(self, captures: Sequence[Capture]) -> tuple[Update, ...]:
        """Return the statements after which leaves held NaN or Inf that they had not held before, with the names of the
        leaves. The leaves and buffers that held NaN or Inf from the start come first.
        """
        self.look(None)
        self._look_closely()
        kind = self.judged.kinds()
        positions = {id(capture): at for at, capture in enumerate(captures)}
        found = held_before((self.names.get(leaf, ""), kind[look]) for leaf, look in self.first.items() if look >= 0)
        for statement in self.statements:
            groups: dict[tuple[GradientKind, Kind], list[str]] = {}
            for leaf, before, gradient, made in statement.written:
                if BADNESS[kind[made]] > BADNESS[kind[before]]:
                    came: GradientKind = "none" if gradient is None else kind[gradient]
                    groups.setdefault((came, kind[made]), []).append(self.names.get(leaf, ""))
            at, newest = statement.at, positions.get(id(statement.newest))
            source = None if at is None else source_at(*at)
            found += [
                Update(
                    parameters=tuple(filter(None, names)),
                    size=len(names),
                    optimizer=statement.optimizer,
                    gradient=came,
                    made=after,
                    source=source,
                    after=newest,
                )
                for (came, after), names in groups.items()
            ]
        return tuple(found)


def held_before(named: Iterable[tuple[str, Kind]]) -> list[Update]:
    """Return the values that have a name and held NaN or Inf before any write was observed, grouped by kind."""
    found: dict[Kind, list[str]] = {}
    for name, kind in named:
        if name and BADNESS[kind]:
            found.setdefault(kind, []).append(name)
    return [
        Update(tuple(names), len(names), optimizer="", gradient="before", made=kind, source=None, after=None)
        for kind, names in found.items()
    ]


def held_now(frames: Sequence[FrameType]) -> list[Update]:
    """Return the parameters that hold NaN or Inf now, after a pass has ended and before anything is written. They are
    those of models in the variables of these frames.
    """
    models = [(name, value) for name, value in variables(frames) if isinstance(value, torch.nn.Module)]
    named = [pair for prefix, one in models for pair in one.named_parameters(prefix=prefix)]
    judged = FinitenessLook()
    with torch.no_grad():
        looks = [(name, judged.add(parameter)) for name, parameter in named]
        kinds = judged.kinds()
    return held_before((name, kinds[look]) for name, look in looks)


def buffers(frames: Sequence[FrameType]) -> dict[str, Tensor]:
    """Return the buffers of the models in the user's variables, by name."""
    modules = [(name, value) for name, value in variables(frames) if isinstance(value, torch.nn.Module)]
    return {name: buffer for prefix, one in modules for name, buffer in one.named_buffers(prefix=prefix)}


def _names(frames: Sequence[FrameType]) -> dict[int, str]:
    # Return, by id, the names of the values of variables in the user's code, and of the parameters of models among
    # these values. An attribute of ``self`` counts as a variable.
    found: dict[int, str] = {}
    for name, value in variables(frames):
        held = value.named_parameters(prefix=name) if isinstance(value, torch.nn.Module) else [(name, value)]
        for spelled, leaf in held:
            found.setdefault(id(leaf), spelled)
    return found


def variables(frames: Sequence[FrameType]) -> Iterator[tuple[str, Any]]:
    """Yield the variables of frames, and the attributes of objects named ``self`` that are not modules. No code of the
    objects is run.
    """
    for frame in frames:
        held = [*variables_in(frame).items()]
        forget(frame)
        for name, value in held:
            yield name, value
            if name == "self" and not isinstance(value, torch.nn.Module):
                with suppress(AttributeError):
                    own = object.__getattribute__(value, "__dict__")
                    yield from ((f"self.{attribute}", held) for attribute, held in own.items())


def _optimizers(frames: Sequence[FrameType], tensors: Sequence[Tensor]) -> str:
    # Describe the optimizers in the user's variables that own some of these leaves, as in ``SGD, lr 0.1``.
    wanted = set(map(id, tensors))
    known = {id(value): value for _, value in variables(frames) if isinstance(value, Optimizer)}
    return "; ".join(_described(one) for one in known.values() if not wanted.isdisjoint(map(id, parameters(one))))


def _described(optimizer: Optimizer) -> str:
    # Return the optimizer's type and learning rates, except rates that are tensors; and an epsilon of 0, with which
    # an optimizer divides by 0 where all gradients of a number were 0.
    rates = dict.fromkeys(group.get("lr") for group in optimizer.param_groups)
    told = [f"{rate:.6g}" for rate in rates if isinstance(rate, int | float)]
    without = ", eps 0" * any(group.get("eps") == 0 for group in optimizer.param_groups)
    return type(optimizer).__name__ + (f", lr {', '.join(told)}" if told else "") + without
