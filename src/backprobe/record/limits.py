"""Limits for the runs that explain a program."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Limit:
    """The program runs again only if its recorded run took less than ``seconds``, and at most ``runs`` more times.

    Each further run is subtracted from ``runs``.
    """

    seconds: float
    runs: int
