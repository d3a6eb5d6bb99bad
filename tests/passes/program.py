"""A program that takes gradients itself, and by hand which gradient each of its outputs brings each value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

Gradients = dict[str, "torch.Tensor | None"]
Answer = dict[str, Gradients]


@dataclass(frozen=True)
class Pass:
    """``text`` is a script as people write it; ``expected()`` is what each of its outputs brings the values, by name.

    None means that this output brings that value no gradient. ``source`` is the address of what the program is written
    after. ``backward`` is the output that ``backward()`` ran from, where it is one of several. ``loops``: passes stand
    in a loop, of which a command records the first turn; ``turn()`` is what that brings, if it is not what the first
    output brings. ``whole``: the answer names every output, where a library may take others out of sight.
    """

    name: str
    text: str
    expected: Callable[[], Answer]
    source: str = ""
    backward: str = ""
    loops: bool = False
    turn: Callable[[], Gradients] | None = None
    whole: bool = True

    def __str__(self) -> str:
        return self.name


class Collection:
    """The programs of one file; each decorates the function that works out its gradients by hand."""

    def __init__(self) -> None:
        self.programs: list[Pass] = []

    def __call__(self, text: str, source: str = "", **rest: Any) -> Callable:
        def add(expected: Callable[[], Answer]) -> Callable[[], Answer]:
            self.programs.append(Pass(expected.__name__, text.lstrip("\n"), expected, source, **rest))
            return expected

        return add


def each(
    output: torch.Tensor | tuple[torch.Tensor, ...],
    values: Mapping[str, torch.Tensor] | None = None,
    *,
    cotangent: torch.Tensor | None = None,
    **named: torch.Tensor,
) -> Gradients:
    """The gradient that an output brings each value, each by a call of its own; None where no path leads there."""
    return {
        name: torch.autograd.grad(output, value, cotangent, retain_graph=True, allow_unused=True)[0]
        for name, value in {**(values or {}), **named}.items()
    }


def leaf(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, requires_grad=True)
