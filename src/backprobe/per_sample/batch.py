"""The batch of a call: finds the arguments that hold samples, and makes calls with other samples."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from backprobe.backends.discover import is_model
from backprobe.backends.protocol import Backend
from backprobe.errors import BadOption
from backprobe.per_sample.asked import AskedSamples
from backprobe.probe.request import asked_as, name_of
from backprobe.record.containers import leaves, refilled
from backprobe.record.patterns import texts_of


@dataclass(frozen=True)
class Batch:
    """The arguments of a call, and the positions and keywords of those that hold the samples."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    places: frozenset[int | str]
    is_tensor: Callable[[Any], bool]
    tensors: tuple[Any, ...]
    """The tensors in the arguments that hold the samples. The first axis of each is the batch axis."""

    names: tuple[str, ...] = ()
    """The parameter names of the arguments that hold the samples."""

    def __len__(self) -> int:
        return len(self.tensors[0])

    def filled(self, tensors: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of the call, with other tensors instead of those of the batch."""
        new = iter(tensors)

        def exchanged(place: int | str, value: Any) -> Any:
            if place not in self.places:
                return value
            return refilled(value, lambda leaf: next(new) if self.is_tensor(leaf) else leaf)

        args = tuple([exchanged(at, value) for at, value in enumerate(self.args)])
        return args, {name: exchanged(name, value) for name, value in self.kwargs.items()}

    def part(self, start: int, stop: int) -> list[Any]:
        """The tensors of the samples from ``start`` to ``stop``."""
        return [tensor[start:stop] for tensor in self.tensors]


@dataclass(frozen=True)
class _Argument:
    # An argument of the call: its position or keyword, its name, and the tensors in it.
    place: int | str
    name: str
    tensors: tuple[Any, ...]

    @property
    def length(self) -> int | None:
        """The common length of the first axes of an argument's tensors; None if they differ."""
        lengths = {tensor.shape[0] if len(tensor.shape) else None for tensor in self.tensors}
        return lengths.pop() if len(lengths) == 1 else None

    @property
    def shown(self) -> str:
        shapes = [str(tuple(tensor.shape)) for tensor in self.tensors[:3]]
        return f"{self.name} of shape {', '.join(shapes)}" + (" …" if len(self.tensors) > 3 else "")


def batch_of(asked: AskedSamples[...], backend: Backend, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Batch:
    """The batch of a call. Raises BadOption if it is not clear which arguments hold the samples."""
    vectorized = backend.vectorized
    assert vectorized is not None

    def is_tensor(value: Any) -> bool:
        return vectorized.is_tensor(value) or isinstance(value, numpy.ndarray)

    names = _names(asked, backend, args)
    places: list[tuple[int | str, str, Any]] = [(at, names[at], value) for at, value in enumerate(args)]
    places += [(name, name, value) for name, value in kwargs.items()]
    every = [
        _Argument(place, name, tuple([leaf for _, leaf in leaves(value) if is_tensor(leaf)]))
        for place, name, value in places
    ]
    chosen = _named(asked, every) if asked.batch is not None else _found(asked, every)
    tensors = [vectorized.tensor(tensor) for one in chosen for tensor in one.tensors]
    return Batch(
        args,
        kwargs,
        frozenset(one.place for one in chosen),
        is_tensor,
        tuple(tensors),
        tuple([one.name for one in chosen]),
    )


def _names(asked: AskedSamples[...], backend: Backend, args: Sequence[Any]) -> list[str]:
    # The parameter names of positional arguments; for those without a known name, their positions.
    function = asked.target
    if backend.models is not None and is_model(backend, function):
        function = backend.models.call(function, (), {}).forward
    try:
        known = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        known = []
    plain = [one.name for one in known if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    plain = plain[plain[:1] == ["self"] :]
    return [plain[at] if at < len(plain) else str(at) for at in range(len(args))]


def _named(asked: AskedSamples[...], every: Sequence[_Argument]) -> list[_Argument]:
    # The arguments that ``batch=`` names. Raises BadOption.
    wanted = [asked.batch] if isinstance(asked.batch, str) else [*asked.batch]
    chosen = [one for one in every if one.name in wanted]
    lengths = {one.length for one in chosen}
    if {*wanted} > {one.name for one in chosen} or len(lengths) != 1 or not all(lengths):
        raise BadOption(
            "these are not arguments that hold the same number of samples",
            asked=f"batch={asked.batch!r}",
            found="; ".join(one.shown if one.tensors else f"{one.name} without a tensor" for one in every),
            why="the first axis of each counts the samples",
            next="arguments whose first axes have one length",
        )
    return chosen


def _found(asked: AskedSamples[...], every: Sequence[_Argument]) -> list[_Argument]:
    # The arguments that can hold samples, if all of them have the same number of samples. Raises BadOption.
    selected = {text.lstrip(":").partition(".")[0] for text in texts_of(asked.select)}
    chosen = [one for one in every if one.tensors and one.length and one.name not in selected]
    if len({one.length for one in chosen}) == 1:
        return chosen
    names = [one.name for one in chosen] or [one.name for one in every if one.tensors] or ["x"]
    raise BadOption(
        "it is not clear which arguments hold the samples",
        asked=asked.call,
        found="; ".join(one.shown for one in chosen) or f"arguments of {name_of(asked.target)} without an axis",
        why="their first axes have different lengths"
        if chosen
        else "samples are in the arguments that hold tensors and are not selected",
        next=_as_many(asked, names) if chosen else f"bp.per_sample({asked_as(asked.target)}, ..., batch={names[0]!r})",
    )


def _as_many(asked: AskedSamples[...], names: Sequence[str]) -> str:
    call = f"bp.per_sample({asked_as(asked.target)}, ..., batch={[*names[:1]]!r})"
    return f"as many samples in each; or, where one holds no samples, the names of those that do, as in {call}"
