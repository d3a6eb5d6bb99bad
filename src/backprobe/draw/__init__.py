"""The verb ``draw``: the circuit of a recording, with each value's gradient, and each edge's local partial."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from backprobe.draw.circuit import View
from backprobe.draw.fit import DIRECTIONS, Drawn, drawn
from backprobe.draw.grouping import opened_by, with_those_around
from backprobe.draw.layout import pdf, png
from backprobe.errors import BadOption
from backprobe.findings.phrasing import plural
from backprobe.findings.report import Report
from backprobe.markup import framed, pictured
from backprobe.record.brief import kind, written
from backprobe.record.disk import check_folders, unwritable, write_whole
from backprobe.record.graph import Graph
from backprobe.record.options import Option, check_folder, check_options
from backprobe.recording import Recording, refuse_several
from backprobe.show.captions import Captions
from backprobe.show.drawable import Drawable, HasDrawable
from backprobe.show.shaded import ShadedCaptions
from backprobe.view.circuit import captions_of, circuit, page
from backprobe.view.shown import Shown

OPTIONS = (
    Option("roll"),
    Option("contributions"),
    Option("depth", int, 1, "2", or_none=True),
    Option("apart", int, 1, "2"),
    Option("direction", str, tuple(DIRECTIONS), '"down"', or_none=True),
)


def draw(
    recording: Recording | Report | HasDrawable,
    path: str | os.PathLike[str] | None = None,
    *,
    depth: int | None = None,
    open: str | Sequence[str] = (),
    roll: bool = False,
    contributions: bool = False,
    apart: int = 12,
    direction: Literal["right", "down"] | None = None,
) -> Drawing:
    """Draw a recording as a circuit, and save it if ``path`` is given. A notebook shows the result as a picture.

    >>> import torch, backprobe as bp
    >>> def f(x, w, b):
    ...     u = x * w
    ...     v = u + b
    ...     return torch.relu(v)
    >>> drawing = bp.draw(bp.probe(f, partials=True)(3.0, 2.0, 1.0))
    >>> drawing
    <backprobe.Drawing of 6 nodes and 5 edges>
    >>> drawing.save("/tmp/toy.svg")

    Each node shows a name, its expression, value and gradient. A tensor of more than 8 elements is shown by shape, rms
    and largest magnitude. A larger rms of the gradient gives a darker fill, in steps of a factor of 10, and a larger
    gradient along an edge gives a wider line. Gradients that are zero, not finite or missing have a special border, and
    a reason in words. Edges show the local partial; for a tensor, the rms of the upstream gradient times the local
    Jacobian. A dashed edge is a value that is read without a derivative. Without ``partials=True`` in the probe, edges
    have no numbers.

    - ``recording`` is a recording, a report of ``bp.diff`` on two, or an attribution of ``bp.attribute``.
    - ``path`` is the file to write: an ``.svg``, ``.pdf``, ``.png`` or ``.html``.
    - ``depth`` is the depth at which boxes of modules and called functions are collapsed, 1 for the outermost. By
      default, boxes are opened as far as a page allows, and the drawing says how to open more.
    - ``open`` is a pattern, or several, of boxes that are opened at any depth: ``open="h.0"``.
    - ``roll`` draws three or more repeated modules, or bindings in a loop, as one node.
    - ``contributions`` writes upstream × local = contribution on the edges.
    - ``apart`` is a number of consumers. A value with at least so many, such as a mask, is named beside each consumer
      instead of drawn once.
    - ``direction`` is ``"right"`` or ``"down"``.

    An ``.html`` is a page to explore: boxes open and close, and a click on a value shows its line of code, histograms,
    partials and the chain rule. It needs no Graphviz, has no limit on the number of values, and uses only the option
    ``depth``.

    A report of ``bp.diff`` is drawn as the circuit of the second recording. Each node shows the errors of its value and
    gradient relative to the first recording. A larger multiple of the floor gives a darker fill. Values named in the
    report have a thick border, and their boxes are open.

    Raises BadOption, NothingMatched for an ``open`` that matches no box, BadRecording for a recording whose values form
    a cycle, and NotInstalled for a picture without pygraphviz.
    """
    given = locals()
    captions = _captions(recording)
    record = captions.record
    check_options(given, OPTIONS)
    if path is not None:
        check_path(path)
    if contributions and (record.path_sums is None or captions.spelled != "rec"):
        raise BadOption(
            "the recording has no contributions",
            asked="contributions=True",
            found="a recording without partials",
            next="bp.probe(f, partials=True)",
        )
    graph = Graph.of(record)
    opened = opened_by(open, graph) if open else frozenset[str]()
    opened |= with_those_around({graph.box_of[at] for at in captions.blamed}, graph)
    view = View(depth, opened, roll, apart, contributions)
    is_page = _ending(path) == ".html" if path is not None else find_spec("pygraphviz") is None
    drawing = Drawing(captions, view, direction, is_page=is_page)
    if not is_page:
        drawing.svg  # noqa: B018  # what cannot be drawn is refused here
    if path is not None:
        drawing.save(path)
    return drawing


class Drawing:
    """A drawn circuit as SVG, PNG, PDF, or an interactive page.

    ``svg`` is its text, ``png()`` and ``pdf()`` return pictures, and ``page`` is an interactive page.

    ``save`` writes any of these to a file.

    >>> import torch, backprobe as bp
    >>> drawing = bp.draw(bp.probe(lambda x: x * 3)(torch.tensor(2.0)))
    >>> drawing.svg.startswith("<svg"), drawing.png()[1:4], drawing.page.startswith("<!doctype html>")
    (True, b'PNG', True)
    """

    def __init__(self, captions: Captions, view: View, direction: str | None, *, is_page: bool) -> None:
        self._captions, self._view, self._asked, self._is_page = captions, view, direction, is_page

    @cached_property
    def _drawn(self) -> Drawn:
        return drawn(self._captions, self._view, self._asked)

    @property
    def svg(self) -> str:
        """The drawing as the text of an SVG file."""
        return self._drawn.svg

    @cached_property
    def page(self) -> str:
        """The interactive page of the recording as the text of an HTML file."""
        return page(self._viewed())

    def _viewed(self) -> Shown:
        # The content that bp.view shows.
        return circuit(self._captions, self._view.depth, self._view.opened)

    def png(self) -> bytes:
        """The drawing as the bytes of a PNG file."""
        return png(self._drawn.circuit, self._drawn.direction)

    def pdf(self) -> bytes:
        """The drawing as the bytes of a PDF file: a single page of the drawing's size, on white."""
        return pdf(self._drawn.circuit, self._drawn.direction)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an ``.svg``, ``.pdf``, ``.png`` or ``.html`` file. An existing file is replaced only by a complete one.

        Raises BadOption for another ending.
        """
        check_path(path)
        target, ending = Path(path), _ending(path)
        pictures = {".png": self.png, ".pdf": self.pdf}
        data = pictures[ending]() if ending in pictures else (self.page if ending == ".html" else self.svg).encode()
        try:
            write_whole(target, data)
        except OSError as error:
            raise unwritable(
                "the drawing", target, error, asked=f"path={str(path)!r}", call="path={!r}", smaller="another disk"
            ) from error

    def __repr__(self) -> str:
        if self._is_page:
            return f"<backprobe.Drawing of {plural(len(self._captions.record.entries), 'value')}, as a page>"
        nodes, edges = len(self._drawn.circuit.nodes), len(self._drawn.circuit.arrows)
        return f"<backprobe.Drawing of {plural(nodes, 'node')} and {plural(edges, 'edge')}>"

    def _repr_svg_(self) -> str | None:
        return None if self._is_page else self.svg

    def _repr_html_(self) -> str:
        return framed(self.page) if self._is_page else pictured(self.svg)


def _captions(drawn: Any) -> Captions:
    # The captions of the object to draw. Raises BadOption.
    if isinstance(drawn, Recording):
        refuse_several(drawn, "bp.draw(rec)", "bp.draw(rec.of({}))")
        return captions_of(drawn.record)
    drawable = None if isinstance(drawn, type) else getattr(drawn, "drawable", None)
    if isinstance(drawable, Drawable):
        return ShadedCaptions(drawable)
    raise BadOption(
        f"draw draws a recording, not {kind(drawn)}",
        asked=f"bp.draw({written(drawn)})",
        next="bp.draw(bp.probe(f, partials=True)(x))",
    )


def check_path(path: Any) -> None:
    """Raise BadOption for a path with another ending, or whose folder cannot be made. Called before the layout, which
    may be slow.
    """
    check_folder(path, "path is a text", f"path={path!r}", "path='circuit.svg'")
    target, ending = Path(path), _ending(path)
    if ending not in (".svg", ".pdf", ".png", ".html"):
        raise BadOption(
            "a drawing is saved as .svg, .pdf, .png or .html",
            asked=f"path={str(path)!r}",
            found=f"the ending {ending!r}" if ending else "no ending",
            next=f"path={(target.stem or 'circuit') + '.svg'!r}",
        )
    check_folders("the drawing", target, f"path={str(target)!r}", f"path={target.name!r}")


def _ending(path: str | os.PathLike[str]) -> str:
    return Path(path).suffix.lower()
