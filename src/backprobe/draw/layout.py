"""Lays out a circuit with Graphviz, as SVG that is readable in dark, light and print, as PDF, and as PNG.

Graphviz interprets labels. Text in an HTML-like label is therefore escaped as XML, with every backslash doubled. Text
from a program is never used as the identifier of a node, the name of an attribute, or an unescaped label.
"""

from __future__ import annotations

import hashlib
import html
import math
import re
import textwrap
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any

from backprobe.draw.circuit import Arrow, Circuit, CircuitRow, Node, fitted
from backprobe.errors import installed
from backprobe.show.text import printable

FONT, CODE = "Helvetica,Arial,sans-serif", "Courier New,Courier,monospace"
ALARM = "#b00020"
INK, FAINT, PAPER = "#1b1f24", "#5b6470", "#ffffff"
# light to dark; the steps can be distinguished in print without colour
FILLS = ("#fffaf3", "#fdf0de", "#fbe4c4", "#f8d5a4", "#f4c27c")
# dots per inch of a PNG: twice those of a screen, and the fewest at which small print is legible
SHARP, LEGIBLE = 144, 84
PAGE = 1360, 1870  # width and height of a page in points, which are 1,600 x 2,200 pixels at the legible resolution
MARGIN = 8  # points around a drawing, sum of both sides
BORDER_GAP = 4  # points between two borders of a node
MOST_PIXELS = 24_000_000  # pixels of a PNG that viewers still open quickly
PREAMBLE = re.compile(r"^.*?(?=<svg)", re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)


def svg(circuit: Circuit, direction: str) -> str:
    """Return the drawing as self-contained SVG.

    Its unique identifier keeps its styles from affecting the rest of a page.
    """
    graph = graph_of(circuit, direction)
    drawn = graph.draw(format="svg", prog="dot").decode()
    drawn = COMMENT.sub("", PREAMBLE.sub("", drawn, count=1))
    identifier = "bp" + hashlib.sha256(drawn.encode()).hexdigest()[:10]
    drawn = drawn.replace('id="bp_', f'id="{identifier}_').replace('id="a_bp_', f'id="a_{identifier}_')
    style = resources.files("backprobe.draw").joinpath("circuit.css").read_text(encoding="utf-8")
    opening, rest = drawn.split(">", 1)
    return f'{opening} id="{identifier}">\n<style>\n{style.replace("#circuit", "#" + identifier)}</style>{rest}'


def png(circuit: Circuit, direction: str) -> bytes:
    """Return the drawing as PNG, on white.

    The resolution is as high as the size of a page allows and always legible, unless the image would be huge.
    """
    graph = placed(graph_of(circuit, direction))
    left, bottom, right, top = map(float, graph.graph_attr["bb"].split(","))
    size = max(1.0, right - left + MARGIN), max(1.0, top - bottom + MARGIN)
    dots = max(LEGIBLE, SHARP * min(1.0, *(most / SHARP * LEGIBLE / own for own, most in zip(size, PAGE, strict=True))))
    dots = min(dots, 72 * math.sqrt(MOST_PIXELS / math.prod(size)))
    graph.graph_attr["dpi"] = str(int(dots))
    drawn: bytes = graph.draw(format="png", prog="nop2")
    return drawn


def pdf(circuit: Circuit, direction: str) -> bytes:
    """The drawing as PDF, on white."""
    drawn: bytes = graph_of(circuit, direction).draw(format="pdf", prog="dot")
    return drawn


def placed(graph: Any) -> Any:
    """Lay out the graph, and return it for drawing with ``nop2``, which keeps the positions."""
    graph.layout(prog="dot")
    # Graphviz has written the size of a node's outermost border, but reads it as the size of the innermost one.
    for node in graph.nodes_iter():
        beyond = 2 * BORDER_GAP * (int(node.attr["peripheries"] or 1) - 1)
        for side in ("width", "height") if beyond else ():
            node.attr[side] = str(float(node.attr[side]) - beyond / 72)
    return graph


def graph_of(circuit: Circuit, direction: str) -> Any:
    """The graph as a pygraphviz object. All identifiers are generated numbers."""
    pygraphviz = installed("pygraphviz", asked="bp.draw(rec)")
    graph = pygraphviz.AGraph(directed=True, strict=False, name="circuit")
    graph.graph_attr.update(
        rankdir=direction,
        bgcolor=PAPER,
        fontname=FONT,
        fontsize="10",
        fontcolor=FAINT,
        labelloc="b",
        labeljust="l",
        nodesep="0.25",
        ranksep="0.45" if direction == "LR" else "0.25",
        id="bp_circuit",
        label=_table(_text(part, size=9) for line in circuit.footer for part in textwrap.wrap(printable(line), 110)),
    )
    graph.node_attr.update(
        shape="box",
        style="rounded,filled",
        fontname=FONT,
        fontsize="11",
        margin="0.08,0.05",
        fontcolor=INK,
        color=INK,
        fillcolor=PAPER,
    )
    graph.edge_attr.update(fontname=FONT, fontsize="10", fontcolor=INK, color=FAINT, arrowsize="0.7")
    place = _clusters(graph, circuit)
    numbers = {node.key: f"n{number}" for number, node in enumerate(circuit.nodes)}
    for node in circuit.nodes:
        place[node.cluster].add_node(numbers[node.key], id=f"bp_{numbers[node.key]}", **_node(node))
    for number, arrow in enumerate(circuit.arrows):
        graph.add_edge(numbers[arrow.source], numbers[arrow.target], id=f"bp_e{number}", **_arrow(arrow))
    return graph


def _clusters(graph: Any, circuit: Circuit) -> dict[str | None, Any]:
    # Add the clusters, each inside the one around it, and return the subgraph of each.
    place: dict[str | None, Any] = {None: graph}
    for number, cluster in enumerate(circuit.clusters):
        place[cluster.key] = place[cluster.around].add_subgraph(
            name=f"cluster_{number}",
            id=f"bp_f{number}",
            labeljust="l",
            labelloc="t",
            fontname=FONT,
            label=_table([_text(cluster.label, size=11)], cluster.rows),
            style="rounded",
            bgcolor="transparent",
            color=FAINT,
            tooltip=_plain(cluster.label),
        )
    return place


# the style of each kind of node, edge and box


def _node(node: Node) -> dict[str, str]:
    classes = f"{node.kind} {node.grad}" + ("" if node.level is None else f" level{node.level}")
    if node.kind == "apart":
        label = _table([_text(node.title)])
        return {"class": classes, "label": label, "shape": "plain", "tooltip": _plain(node.tooltip)}
    rows = [_text(node.title, bold=True, size=12) + (_text(f" {node.aside}", size=9) if node.aside else "")]
    rows += [_text(line, code=True) for line in fitted(node.expression)] if node.expression else []
    rows += [_text(part) for line in node.lines for part in fitted(line)]
    look = {"class": classes, "label": _table(rows, node.rows), "tooltip": _plain(node.tooltip)}
    if node.level is not None:
        look["fillcolor"] = FILLS[node.level]
    return look | SHAPES.get(node.kind, {}) | BORDERS[node.grad]


SHAPES = {
    "output": {"peripheries": "2"},
    "input": {"shape": "box", "style": "filled"},
    "parameter": {"shape": "cylinder", "style": "filled"},
    "plain": {"shape": "plaintext", "style": ""},
    "box": {"shape": "component", "style": "filled"},
    "loop": {"shape": "box3d", "style": "filled", "margin": "0.12,0.1"},
}
BORDERS = {
    "ok": {},
    "zero": {"color": FAINT, "penwidth": "1.5", "style": "filled,dotted"},
    "nonfinite": {"color": ALARM, "penwidth": "3.5"},
    "blamed": {"color": ALARM, "penwidth": "3.5"},
    "missing": {"color": FAINT, "style": "filled,dashed", "fillcolor": "#f3f4f6"},
    "data": {"color": FAINT},
}


def _arrow(arrow: Arrow) -> dict[str, str]:
    look = {"class": "carries" if arrow.carries else "cut", "tooltip": _plain(arrow.tooltip)}
    if arrow.label:
        clear_of_the_line = '<td width="5"></td>'
        look["label"] = _table([_text(part) for part in fitted(arrow.label)], beside=clear_of_the_line)
    if arrow.is_main:
        look["weight"] = "20"
    if arrow.is_back:
        look["constraint"] = "false"
    if not arrow.carries:
        look |= {"style": "dashed", "arrowhead": "empty"}
    if not arrow.is_finite:
        look |= {"class": "carries nonfinite", "color": ALARM, "penwidth": "3.5"}
    elif arrow.level is not None:
        look["penwidth"] = f"{0.8 + 0.6 * arrow.level:.1f}"
    return look


# Functions for writing text for Graphviz.


def _table(lines: Iterable[str], rows: Sequence[CircuitRow] = (), beside: str = "") -> str:
    across = ' colspan="7"' if rows else ""
    cells = "".join(f'<tr>{beside}<td align="left"{across}>{line}</td></tr>' for line in lines)
    cells += "".join(map(_row, rows))
    return f'<<table border="0" cellborder="0" cellspacing="0" cellpadding="1">{cells}</table>>'


def _row(row: CircuitRow) -> str:
    # Return a row: a bar coloured by the level of its gradient, and aligned cells for name, value and gradient. Only
    # the bar is coloured, because a coloured cell would hide the end of the preceding text if a viewer's font is wider.
    if not row.value and not row.gradient:
        return f'<tr><td align="left" colspan="7">{_text(row.title, size=9)}</td></tr>'
    fill = f' bgcolor="{FILLS[row.level]}"' if row.level is not None else ""
    ink = {"nonfinite": ALARM, "blamed": ALARM, "missing": FAINT}.get(row.grad, INK)
    texts = (
        _text(row.title, bold=True, size=10, ink=INK),
        _text(row.value, size=10, ink=INK),
        _text(row.gradient, size=10, ink=ink),
    )
    cells = '<td width="8"></td>'.join(f'<td align="left">{text}</td>' for text in texts)
    return f'<tr><td width="5"{fill}></td><td width="2"></td>{cells}</tr>'


def _text(text: str, *, bold: bool = False, code: bool = False, size: int | None = None, ink: str | None = None) -> str:
    # Return one line of text, escaped for an HTML-like label.
    escaped = html.escape(printable(text)).replace("\\", "\\\\") or " "
    font = (f' face="{CODE}"' if code else "") + (f' point-size="{size}"' if size else "")
    font += f' color="{ink}"' if ink else ""
    escaped = f"<font{font}>{escaped}</font>" if font else escaped
    return f"<b>{escaped}</b>" if bold else escaped


def _plain(text: str) -> str:
    # Return text for a plain attribute. The spaces prevent Graphviz from reading it as an HTML-like label, and
    # backslashes are doubled.
    return " " + printable(text).replace("\\", "\\\\") + " "
