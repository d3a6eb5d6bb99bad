"""A limit for the runs that explain a program."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Limit:
    """The recorded run took less than ``seconds``, and at most ``runs`` more runs are allowed."""

    seconds: float
    runs: int
