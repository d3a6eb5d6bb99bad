"""A program of the suite: one function for every framework, and what a recording of it says, stated once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import backprobe as bp
from torch_framework import Framework

Wanted = tuple[Any, Any]
"""A value, and its gradient or the status that stands in the place of one."""


@dataclass(frozen=True)
class Program:
    """``make(ops)`` gives the function; ``wanted`` are its entries by printed name, in the order of execution.

    ``claim`` is the row of the documentation that the program stands for. ``readings`` are other names, and the entry
    that each of them means.
    """

    section: str
    claim: str
    make: Callable[[Any], Callable[..., Any]]
    given: tuple[Any, ...]
    wanted: Mapping[str, Wanted]
    readings: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    tolerance: float = 1e-5
    smooth: bool = True  # may finite differences of the function judge the gradients of its arguments?

    def record(self, framework: Framework) -> bp.Recording:
        with framework.wide() if self.is_wide else nullcontext():
            arguments = [framework.given(value) for value in self.given]
            return bp.probe(self.make(framework.ops), backend=framework.name, **self.options)(*arguments)

    @property
    def is_wide(self) -> bool:
        """Does it need the 64-bit dtypes, which JAX has only where they are switched on?"""
        return any(str(getattr(value, "dtype", "")) in ("float64", "complex128") for value in self.given)

    def __str__(self) -> str:
        return self.make.__name__


class Collection:
    """The programs of one section of the documentation."""

    def __init__(self, section: str) -> None:
        self.section = section
        self.programs: list[Program] = []

    def __call__(self, claim: str, given: Sequence[Any], wanted: Mapping[str, Wanted], **rest: Any) -> Callable:
        """Decorate a factory ``program(ops)`` that returns the function."""

        def add(make: Callable[[Any], Callable[..., Any]]) -> Callable[[Any], Callable[..., Any]]:
            self.programs.append(Program(self.section, claim, make, tuple(given), wanted, **rest))
            return make

        return add
