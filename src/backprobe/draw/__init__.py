"""The circuit of a recording, drawn: every value with its gradient, every edge with its local partial."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from backprobe.draw.circuit import Circuit, Draft, View
from backprobe.draw.layout import png, svg
from backprobe.errors import BadOption
from backprobe.record.entries import Record
from backprobe.recording import Recording

CROWDED = 250  # nodes that a drawing is collapsed to where nothing was asked: what dot lays out well in a second
MOST = 2500  # nodes that are drawn at all: dot needs minutes beyond
ROW, NARROW = 14, 32  # nodes, and characters of a line, up to which a drawing goes from left to right
DIRECTIONS = {"right": "LR", "down": "TB"}


def draw(
    recording: Recording,
    path: str | os.PathLike[str] | None = None,
    *,
    depth: int | None = None,
    roll: bool = False,
    contributions: bool = False,
    apart: int = 12,
    direction: str | None = None,
) -> Drawing:
    """Draw a recording as a circuit; with ``path``, an ``.svg`` or ``.png``, write it there too. It shows itself in a
    notebook.

    >>> import torch, backprobe as bp
    >>> def f(x, w, b):
    ...     u = x * w
    ...     v = u + b
    ...     return torch.relu(v)
    >>> drawing = bp.draw(bp.probe(f, partials=True)(3.0, 2.0, 1.0))
    >>> drawing
    <backprobe.Drawing of 6 nodes and 5 edges>
    >>> drawing.save("/tmp/toy.svg")

    Each node has a name, its expression, value and gradient: a tensor of more than 8 elements by shape, rms and
    largest magnitude. The fill is darker, in steps of a factor of 10, the larger the rms of the gradient, and a line
    wider the more flows back along it; gradients that are zero, not finite or missing have a border of their own and
    say why in words. Edges carry the local partial, for a tensor the rms of upstream gradient times local Jacobian; a
    dashed edge is a value that is read and carries no derivative. Without ``partials=True`` in the probe, edges carry
    no numbers.

    ``depth`` collapses the boxes of modules and called functions that lie this deep, from 1 for the outermost;
    ``roll`` draws repeated modules and the bindings of a loop, from three on, as one; ``contributions`` writes upstream
    × local = contribution on the edges; a value that flows into ``apart`` others or more, such as a mask, is named
    beside each of them instead. ``direction`` is ``"right"`` or ``"down"``. A recording of more than 250 nodes is
    collapsed by itself where nothing was asked, and says so.

    Raises BadOption, and BadRecording for a recording whose values flow in a circle.
    """
    if not isinstance(recording, Recording):
        raise BadOption(
            f"draw draws a recording, not {type(recording).__name__}", asked=f"bp.draw({recording!r})",
            next="bp.draw(bp.probe(f, partials=True)(x))",
        )  # fmt: skip
    _check(depth, apart, direction, roll, contributions)
    if path is not None:
        check_path(path)
    if contributions and recording.path_sums is None:
        raise BadOption(
            "the recording has no contributions", asked="contributions=True", found="a recording without partials",
            next="bp.probe(f, partials=True)",
        )  # fmt: skip
    view = View(depth, roll, apart, contributions)
    made = _drafted(recording.record, view).circuit()
    drawing = Drawing(made, DIRECTIONS[direction] if direction else _direction(made))
    if path is not None:
        drawing.save(path)
    return drawing


class Drawing:
    """A drawn circuit: ``svg`` is its text, ``png()`` its picture; ``save`` writes either.

    >>> import torch, backprobe as bp
    >>> drawing = bp.draw(bp.probe(lambda x: x * 3)(torch.tensor(2.0)))
    >>> drawing.svg.startswith("<svg"), drawing.png()[1:4]
    (True, b'PNG')
    """

    def __init__(self, circuit: Circuit, direction: str) -> None:
        self._circuit, self._direction = circuit, direction
        self.svg = svg(circuit, direction)

    def png(self) -> bytes:
        """The drawing as the bytes of a PNG file."""
        return png(self._circuit, self._direction)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an ``.svg`` or ``.png`` file, replacing one that is there. Raises BadOption for another ending."""
        check_path(path)
        target = Path(path)
        data = self.png() if target.suffix.lower() == ".png" else self.svg.encode()
        try:
            target.write_bytes(data)
        except OSError as error:
            raise _unwritable(target, str(error)) from error

    def __repr__(self) -> str:
        nodes, edges = len(self._circuit.nodes), len(self._circuit.arrows)
        return f"<backprobe.Drawing of {nodes} node{'s' * (nodes != 1)} and {edges} edge{'s' * (edges != 1)}>"

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return f'<div style="overflow-x: auto">{self.svg}</div>'


def check_path(path: Any) -> None:
    """Raise BadOption where no drawing can be written: before anything is laid out."""
    if not isinstance(path, str | os.PathLike):
        raise BadOption("path is a text", asked=f"path={path!r}", next="path='circuit.svg'")
    target = Path(path)
    kind = target.suffix.lower()
    if kind not in (".svg", ".png"):
        raise BadOption(
            "a drawing is saved as .svg or .png", asked=f"path={str(path)!r}",
            found=f"the ending {kind!r}" if kind else "no ending", next=f"path={target.stem + '.svg'!r}",
        )  # fmt: skip
    if not target.parent.is_dir():
        raise _unwritable(target, f"no folder {target.parent}")


def _unwritable(target: Path, found: str) -> BadOption:
    return BadOption(
        f"the drawing cannot be written to {target}", asked=f"path={str(target)!r}", found=found,
        next="a path in a folder that exists",
    )  # fmt: skip


def _check(depth: Any, apart: Any, direction: Any, roll: Any, contributions: Any) -> None:
    for name, value in (("roll", roll), ("contributions", contributions)):
        if not isinstance(value, bool):
            raise BadOption(f"{name} is True or False", asked=f"{name}={value!r}", next=f"{name}=True")
    for name, value in (("depth", depth), ("apart", apart)):
        if (value is not None or name == "apart") and (type(value) is not int or value < 1):
            raise BadOption(f"{name} is a whole number from 1 on", asked=f"{name}={value!r}", next=f"{name}=2")
    if direction is not None and direction not in list(DIRECTIONS):
        raise BadOption('direction is "right" or "down"', asked=f"direction={direction!r}", next='direction="down"')


def _direction(made: Circuit) -> str:
    narrow = all(len(line) <= NARROW for node in made.nodes for line in node.lines)
    return "LR" if len(made.nodes) <= ROW and narrow else "TB"


def _drafted(record: Record, view: View) -> Draft:
    """The draft, collapsed as far as it must be where the caller left that open. Raises BadOption if that is none.

    The most detailed one is taken that is not crowded: boxes collapsed, then loops rolled up as well.
    """
    draft = Draft(record, view)
    if view.depth is None and (len(draft.members) > CROWDED or len(draft.flows) > MOST):
        depths = range(max((box.level for box in draft.graph.boxes.values()), default=0), 0, -1) or [None]
        for roll, depth in product(dict.fromkeys((view.roll, True)), depths):
            other = Draft(record, replace(view, depth=depth, roll=roll, collapsed=True))
            if len(other.members) <= CROWDED and len(other.flows) <= MOST:
                return other
    if max(len(draft.members), len(draft.flows)) > MOST:
        raise BadOption(
            f"{len(draft.members):,} nodes and {len(draft.flows):,} edges are too many to draw",
            asked=f"depth={view.depth}, roll={view.roll}",
            found=f"{len(record.entries):,} values", why=f"laying out more than {MOST:,} takes minutes",
            next="bp.draw(rec, depth=1), roll=True, or a probe of fewer values: bp.probe(f, ['loss', 'h.*'])",
        )  # fmt: skip
    return draft
