"""The circuit of a recording as plain data: the content of each node, edge and box, before layout.

A node shows one value with its name, expression and gradient, or several values, such as those of a collapsed box. An
edge shows the flows between two nodes, with the local partial of a single flow if it is known. The parameters of a
module are rows in its node, or at the head of its box. ``draft`` makes a circuit, ``layout`` draws it.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from backprobe.show.text import printable

LONGEST = 52  # characters of one line in a node
MOST_LINES = 4  # lines of one text in a node


@dataclass(frozen=True)
class View:
    """Options of a drawing: which values share a node, and what edges show."""

    depth: int | None = None  # boxes at this depth are collapsed
    opened: frozenset[str] = frozenset()  # full names of boxes that stay open at any depth
    roll: bool = False  # True if loops and repeated modules are rolled up
    apart: int = 12  # a value with at least this many consumers is drawn beside each of them
    contributions: bool = False  # True if edges show upstream × local
    turns: bool = False  # True if only the iterations of loops are rolled up, not repeated modules
    collapsed: bool = False  # True if the depth was chosen to fit a page, False if the user gave it


@dataclass(frozen=True)
class CircuitRow:
    """A row in a node or at the head of a box: a parameter, or one of several values that a module returns.

    A parameter that belongs to another module is shown by its full name and by the gradient that flows back to it.
    """

    title: str
    value: str
    gradient: str
    at: int  # the position of its entry
    grad: str = "missing"  # the state of its gradient: ok, zero, nonfinite, missing, data, blamed
    level: int | None = None


@dataclass(frozen=True)
class Node:
    """One node: its lines of text, its kind, and the level of its gradient."""

    key: str
    cluster: str | None
    title: str
    kind: str  # one of: input, parameter, value, output, plain, module, box, loop, apart
    tooltip: str
    aside: str = ""  # small text beside the title
    expression: str = ""
    lines: tuple[str, ...] = ()
    rows: tuple[CircuitRow, ...] = ()
    grad: str = "missing"  # the state of its gradient: ok, zero, nonfinite, missing, data, blamed
    level: int | None = None


@dataclass(frozen=True)
class Arrow:
    """An edge: source, target, label, whether it carries a derivative, and the size of the gradient along it.

    The main edge into a node is the last one of the longest path to that node. The layout keeps such paths straight.
    """

    source: str
    target: str
    label: str
    carries: bool
    level: int | None
    is_finite: bool = True
    tooltip: str = ""
    is_main: bool = False
    is_back: bool = False  # True if it leads to an earlier value, from one turn of a loop to the next
    count: int = 1  # how many values flow along it
    is_reached: bool = True  # does a gradient come to a value to which it leads?


@dataclass(frozen=True)
class Cluster:
    """A box around nodes: its key, its label, its outer box, and the parameters that are listed at its head."""

    key: str
    label: str
    around: str | None
    rows: tuple[CircuitRow, ...] = ()


@dataclass(frozen=True)
class Circuit:
    """Everything that is drawn."""

    nodes: tuple[Node, ...]
    arrows: tuple[Arrow, ...]
    clusters: tuple[Cluster, ...]
    footer: tuple[str, ...]


def fitted(text: str) -> list[str]:
    """The text in lines that fit a node. If it is too long, the last line ends with an ellipsis."""
    lines = textwrap.wrap(printable(text), LONGEST, break_long_words=True) or [""]
    return lines if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 1], lines[MOST_LINES - 1][:-1] + "…"]
