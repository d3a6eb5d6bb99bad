"""Changes values as rounding would, to measure how much such changes affect a program."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from backprobe.errors import BadOption
from backprobe.record.containers import refilled


@dataclass(frozen=True)
class Variation:
    """A change of floating-point numbers: cast to ``dtype``, and moved up or down by one ulp, at random with ``seed``.

    If ``dtype`` is None, nothing is cast. If ``seed`` is None, nothing is moved.
    """

    seed: int | None = None
    dtype: str | None = None


def no_dtype(framework: str, name: str) -> BadOption:
    """Return the error for a precision that is not a floating dtype of the framework."""
    return BadOption(
        f"{framework} has no floating dtype {name!r}", asked=f"precision={name!r}", next='precision="bfloat16"'
    )


class Variations(Protocol):
    """Varies the values of a framework."""

    @abstractmethod
    def varied(self, value: Any, variation: Variation, number: int, undo: list[Callable[[], None]]) -> Any:
        """Return a floating-point tensor or a model, varied; None for any other value.

        ``number`` distinguishes the value from others that are varied with the same seed. If the value is changed in
        place, ``undo`` receives a function that restores it.
        """


@dataclass(frozen=True)
class Call:
    """A target and its arguments. ``varied`` is the number of values that were varied."""

    target: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    varied: int = 0


def varied_call(variations: Variations, call: Call, variation: Variation, undo: list[Callable[[], None]]) -> Call:
    """Return the call with its target and arguments varied, where ``Variations.varied`` can. A value that is passed
    twice is varied once.
    """
    made: dict[int, tuple[Any, bool]] = {}

    def vary(value: Any) -> Any:
        if id(value) not in made:
            new = variations.varied(value, variation, len(made), undo)
            made[id(value)] = (value, False) if new is None else (new, True)
        return made[id(value)][0]

    target = vary(call.target)
    args = [refilled(one, vary) for one in call.args]
    kwargs = {name: refilled(one, vary) for name, one in call.kwargs.items()}
    return Call(target, args, kwargs, sum(is_varied for _, is_varied in made.values()))
