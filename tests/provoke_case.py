"""A small program with a numerical bug, and its stable twin: what ``bp.provoke`` makes of each."""

import ast
from collections.abc import Callable
from dataclasses import dataclass

import backprobe as bp


@dataclass(frozen=True)
class Case:
    """``broken`` gives NaN or Inf at ``operation`` for an input within ``bounds``; ``stable`` computes the same."""

    about: str
    operation: str
    broken: Callable
    stable: Callable
    example: tuple  # nested lists
    bounds: object = None

    @property
    def name(self):
        return self.broken.__name__

    def provoked(self, make):
        """The report on the bug; ``make`` makes a tensor of nested lists."""
        return bp.provoke(self.broken, bounds=self.bounds)(*map(make, self.example))

    def unprovoked(self, make):
        """The report on its twin."""
        return bp.provoke(self.stable, bounds=self.bounds)(*map(make, self.example))

    def finding(self, report):
        """What was found at the operation; None where that is nothing."""
        text = ast.unparse(ast.parse(self.operation))
        return next((one for one in report.findings if one.headline.startswith(f"`{text}`")), None)
