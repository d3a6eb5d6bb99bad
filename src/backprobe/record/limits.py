"""A limit of the runs that explain a program."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Limit:
    """A recorded run took less than so many ``seconds``, and of as many ``runs`` some are left."""

    seconds: float
    runs: int
