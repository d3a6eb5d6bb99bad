"""A judge of gradients that differentiates nothing: it moves one recorded value, runs again, and reads the loss.

What is moved is an object at a version, which is what an entry is. A tensor that is no view is moved in its own memory:
its views are computed from it, whenever they were made. A view is moved apart from the memory it shares: its base was
there before it and does not follow, until the view is written through, for that puts the view's numbers into the base.
The version that such a write makes is the memory's, so it is moved in place. Every holder of the object sees the move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

import backprobe as bp
from backprobe.backends.discover import load_backend
from backprobe.probe.model import ModelRun
from backprobe.tracing.log import EACH
from backprobe.tracing.printed_names import full
from backprobe.tracing.trace import Trace
from backprobe.tracing.values import Value

EVERYTHING = ("**", "**:*")
JUDGED = ("ok", "not_connected")  # that no path leads from a value to the loss says that moving it changes nothing
TOLERANCE = 1e-6
ZERO = 1e-14  # a gradient of this norm is zero but for rounding: that of a bias which is added to every key alike
STILL = 1e-10  # of the loss: the 1e-16 that it is rounded to, over a step of 1e-4, a hundredfold
WIDEST, LEVELS = 2.0**-16, 8


@dataclass(frozen=True)
class Verdict:
    """What an entry's gradient says of the loss along one direction, and what the loss did."""

    name: str
    said: float
    done: float
    agrees: bool

    def __str__(self) -> str:
        return f"{self.name}: the gradient says {self.said!r} and the loss does {self.done!r}"


def record(model: torch.nn.Module, arguments: Mapping[str, Any]) -> bp.Recording:
    return bp.probe(model, EVERYTHING, of="loss")(**arguments)


def judge(recording: bp.Recording, model: torch.nn.Module, arguments: Mapping[str, Any]) -> list[Verdict]:
    """A verdict on every gradient of a recording that ``record`` made."""
    watch, loss = run(model, arguments, Watch)
    assert not watch.strayed, f"these names have another value than their entry: {watch.strayed}"
    entries = recording.record.entries
    assert [recording.record.names[name] for name in watch.names] == [*range(len(entries))], "another program ran"
    generator = torch.Generator().manual_seed(0)
    verdicts = []
    for position, entry in enumerate(entries):
        if entry.status in JUDGED:
            gradient = entry.grad if entry.status == "ok" else torch.zeros_like(entry.value)
            direction = aligned(gradient, generator)
            done = slope(partial(loss_moved, model, arguments, watch, position, direction), first_step(gradient))
            verdicts.append(verdict(entry.name, gradient, direction, done, loss))
    return verdicts


def loss_moved(
    model: torch.nn.Module, arguments: Mapping[str, Any], watch: Watch, position: int, direction: Tensor, step: float
) -> float:
    """The loss where the value at a position is moved by a step in this direction."""
    tap, loss = run(model, arguments, lambda run: Tap(run, watch, position, step * direction))
    assert tap.moved == watch.names[position]
    return loss


def verdict(name: str, gradient: Tensor, direction: Tensor, done: float, loss: float) -> Verdict:
    """Gradient and loss agree relatively; where the gradient is zero, the loss must not move but for its rounding."""
    said = float((gradient * direction).sum())
    agrees = abs(done) <= STILL * abs(loss) if gradient.norm() <= ZERO else abs(done - said) <= TOLERANCE * abs(said)
    return Verdict(name, said, done, agrees)


def aligned(gradient: Tensor, generator: torch.Generator) -> Tensor:
    """The gradient's direction and half as much of a random one.

    Along a random direction alone a thousand numbers cancel, and their rounding stays. What is wrong with a gradient
    shows in the random part, whatever the other is.
    """
    random = torch.randn(gradient.shape, generator=generator, dtype=gradient.dtype)
    along = gradient / gradient.norm() if gradient.norm() > ZERO else torch.zeros_like(gradient)
    return along + random / (2 * random.norm())


def first_step(gradient: Tensor) -> float:
    """One that changes the loss by about ``WIDEST``, or moves a value on which little depends 16 times as far."""
    return WIDEST / max(float(gradient.norm()), 1 / 16)


def slope(loss: Callable[[float], float], step: float) -> float:
    """The derivative of ``loss`` at 0 by Ridders' method: central differences with ever smaller steps, extrapolated.

    It stops where the table itself says that it knows the answer ten times better than is asked, or knows no better.
    C. J. F. Ridders, Advances in Engineering Software 4 (1982) 75; Numerical Recipes 5.7.
    """
    best, error = 0.0, float("inf")
    coarser: list[float] = []
    for _ in range(LEVELS):
        row = [(loss(step) - loss(-step)) / (2 * step)]
        for order, before in enumerate(coarser, 1):
            row.append(row[-1] + (row[-1] - before) / (4**order - 1))
            change = max(abs(row[-1] - row[-2]), abs(row[-1] - before))
            if change <= error:
                best, error = row[-1], change
        if error <= TOLERANCE / 10 * abs(best):
            break
        coarser, step = row, step / 2
    return best


# one run of the model, with another trace than a probe's


def run(model: torch.nn.Module, arguments: Mapping[str, Any], trace: Callable[[ModelRun], Any]) -> tuple[Any, float]:
    """The trace that this run had, and the loss."""
    running = ModelRun(bp.probe(model, EVERYTHING, of="loss"), load_backend("torch"))
    running.trace = trace(running)
    with parameters_kept(model):
        try:
            result = running.returned(running.forward(running.inputs((), arguments)))
            return running.trace, float(running.output(result, *running.probe.asked).tensor.detach())
        finally:
            running.trace.release()
            running.tape.release()


@contextmanager
def parameters_kept(model: torch.nn.Module) -> Iterator[None]:
    held = [(parameter, parameter.detach().clone()) for parameter in model.parameters()]
    try:
        yield
    finally:
        for parameter, before in held:
            parameter.data.copy_(before)


class Looking(Trace):
    """A trace that looks up whenever there may be new values."""

    def __init__(self, run: ModelRun) -> None:
        super().__init__(run.tape, run.selection, run.trace.home)
        self.log.events = self.events = self.versions.events = Events(self)
        self.say = self.events.extend

    @property
    def made(self) -> list[Value]:
        return self.reader.naming.made

    def tensor(self, value: Value) -> Tensor | None:
        return None if value.number is None else self.versions.tensors[value.number]

    def look_up(self) -> None:
        raise NotImplementedError


class Events(list):
    """A log that is read at once."""

    def __init__(self, trace: Looking) -> None:
        super().__init__()
        self.trace = trace

    def extend(self, event: Any) -> None:
        super().extend(event)
        self.trace.read()
        self.trace.look_up()

    def __iadd__(self, event: Any) -> Events:
        self.extend(event)
        return self


class Watch(Looking):
    """Sees to it that every name of a value finds the numbers that the value had under its first name."""

    def __init__(self, run: ModelRun) -> None:
        super().__init__(run)
        self.contents: dict[Value, Any] = {}
        self.strayed: list[str] = []
        self.names: list[str] = []  # the first name of each value
        self.written_later: set[int] = set()  # positions

    def look_up(self) -> None:
        for value in self.made[len(self.contents) :]:
            tensor = self.tensor(value)
            self.contents[value] = None if tensor is None else tensor.detach().clone()
        scope, word, _ = self.events[-3:]
        if word >= 0 or word == EACH:
            names = self.reader.scopes[scope]
            for key, slot in names.slots.items():
                for leaf, held in slot:
                    tensor = self.tensor(held)
                    if tensor is not None and not torch.equal(tensor, self.contents[held]):
                        self.strayed.append(f"{names.id.full}:{key}{leaf}")

    def release(self) -> None:
        self.names = [full(value.names[0]) for value in self.made]
        for position, value in enumerate(self.made):
            tensor = self.tensor(value)
            if tensor is not None and tensor._version != self.versions.versions[value.number]:
                self.written_later.add(position)
        super().release()


class Tap(Looking):
    """Moves one value, and hears no more where nothing that comes could matter to it."""

    def __init__(self, run: ModelRun, watch: Watch, position: int, by: Tensor) -> None:
        super().__init__(run)
        self.position, self.by, self.written_later = position, by, position in watch.written_later
        self.moved = ""
        self.apart: Apart | None = None
        self.writer: tuple[Tensor, int] | None = None  # the tensor written last, and the version that made

    def look_up(self) -> None:
        if self.moved or len(self.made) <= self.position or not self.made[self.position].names:
            return
        value = self.made[self.position]
        self.moved = full(value.names[0])
        tensor = self.tensor(value)
        wrote = self.writer is not None and self.writer[0] is tensor and self.writer[1] == tensor._version
        if tensor._is_view() and not wrote:
            self.apart = Apart(tensor, self.by)
        else:
            tensor.data.add_(self.by)
        if not self.written_later:
            self.close()

    def writing(self, tensor: Any) -> None:
        if self.apart is not None:
            self.apart.before_write(tensor)
        super().writing(tensor)

    def written(self, tensor: Any) -> None:
        super().written(tensor)
        self.writer = tensor, tensor._version
        if self.apart is not None:
            self.apart.after_write(tensor)

    def release(self) -> None:
        super().release()
        self.apart = self.writer = None


class Apart:
    """A view moved apart from its base, in a copy of their memory."""

    def __init__(self, view: Tensor, by: Tensor) -> None:
        self.view, self.place, self.version = view, view.detach(), view._version
        if overlaps(view):  # its elements are moved one by one; nothing may write to it
            view.data = self.place + by
        else:
            memory = self.place.untyped_storage().clone()
            view.data = view.new_empty(0).set_(memory, view.storage_offset(), view.size(), view.stride())
            view.data.add_(by)

    def before_write(self, tensor: Tensor) -> None:
        """A write through the view, or through a view of it, finds the base's memory with the view's numbers there."""
        if same_memory(tensor, self.view):
            place = self.place.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
            tensor.data = place.copy_(tensor.detach())
            self.view.data = self.place

    def after_write(self, tensor: Tensor) -> None:
        """After any other write to the memory, which may have read the view, this is one with its base again.

        A module that works in place reports a write when it is over, which was seen and done before the view moved.
        """
        if same_memory(tensor, self.place) and self.view._version != self.version:
            self.view.data = self.place


def same_memory(a: Tensor, b: Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def overlaps(view: Tensor) -> bool:
    """Are some of its elements one in memory, as after ``expand``?"""
    size = view.untyped_storage().nbytes() // view.element_size()
    places = torch.arange(size).as_strided(view.size(), view.stride(), view.storage_offset())
    return places.unique().numel() < view.numel()
