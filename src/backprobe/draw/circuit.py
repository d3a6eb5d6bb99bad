"""The circuit of a recording as plain data: the content of each node, edge and box, before anything is laid out.

Every value is a node with its name, expression, value and gradient; every flow an edge with its local partial. The
parameters of a module are rows in its node, or at the head of its box. ``draft`` makes a circuit, ``layout`` draws it.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from backprobe.show.text import printable

LONGEST = 52  # characters of one line in a node
MOST_LINES = 4  # of one text in a node


@dataclass(frozen=True)
class View:
    """Which values are drawn as one node, and what edges say."""

    depth: int | None = None  # boxes this deep are collapsed
    opened: frozenset[str] = frozenset()  # boxes that are not, by their full names
    roll: bool = False  # loops are rolled up, and modules alike
    apart: int = 12  # a value that flows into this many nodes is drawn apart
    contributions: bool = False  # edges show upstream × local
    turns: bool = False  # the turns of a loop are rolled up, and modules alike are not
    collapsed: bool = False  # the depth was not asked for: it fits a page


@dataclass(frozen=True)
class CircuitRow:
    """A value that stands in a node, or at the head of a box: a parameter, or one of several that a module returns.

    Where a parameter of another module flows in, its row is its full name with what flows back to it.
    """

    title: str
    value: str
    gradient: str
    at: int  # the position of its entry
    grad: str = "missing"  # ok, zero, nonfinite, missing, data, blamed
    level: int | None = None


@dataclass(frozen=True)
class Node:
    """One node: its lines of text, what it stands for, and how large its gradient is (None without one)."""

    key: str
    cluster: str | None
    title: str
    kind: str  # input, parameter, value, output, plain, module, box, loop, apart
    tooltip: str
    aside: str = ""  # small, beside the title
    expression: str = ""
    lines: tuple[str, ...] = ()
    rows: tuple[CircuitRow, ...] = ()
    grad: str = "missing"  # ok, zero, nonfinite, missing, data, blamed
    level: int | None = None


@dataclass(frozen=True)
class Arrow:
    """One edge: from, to, its label, whether it carries a derivative, and how large what flows back along it is.

    The main one into a node is the last of the longest way there: along these, a drawing runs straight.
    """

    source: str
    target: str
    label: str
    carries: bool
    level: int | None
    is_finite: bool = True
    tooltip: str = ""
    is_main: bool = False
    is_back: bool = False  # to a value that is computed before: from one turn of a loop to the next


@dataclass(frozen=True)
class Cluster:
    """A box around nodes: its key, label, the box around it, and its own parameters that no single node uses."""

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
    """A text in lines that fit a node, the last ending in an ellipsis where it is too long."""
    lines = textwrap.wrap(printable(text), LONGEST, break_long_words=True) or [""]
    return lines if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 1], lines[MOST_LINES - 1][:-1] + "…"]
