"""What Graphviz is given."""

import xml.etree.ElementTree as ElementTree

import pytest

import backprobe as bp
from backprobe.draw.layout import graph_of, placed
from drawn import SVG


def sizes(drawn):
    """The width and height of each outline of a node, in points."""
    nodes = [group for group in ElementTree.fromstring(drawn).iter(f"{SVG}g") if group.get("class", "")[:4] == "node"]
    outlines = [each.get("points") for node in nodes for each in node.iter(f"{SVG}polygon")]
    corners = [[tuple(map(float, corner.split(","))) for corner in outline.split()] for outline in outlines]
    return [(max(x) - min(x), max(y) - min(y)) for each in corners for x, y in [zip(*each, strict=True)]]


def test_the_border_of_a_picture_is_as_far_out_as_the_lines_that_end_at_it():
    circuit = bp.draw(bp.probe(lambda x: x * 2)(3.0))._drawn.circuit
    graphs = [graph_of(circuit, "LR") for _ in range(2)]
    for graph in graphs:
        for node in graph.nodes_iter():
            node.attr["style"] = "filled"  # with corners, so that an outline is a polygon
    expected = sizes(graphs[0].draw(format="svg", prog="dot"))
    assert len(expected) == 3  # an argument, and the output with its two borders
    found = sizes(placed(graphs[1]).draw(format="svg", prog="nop2"))
    assert [pytest.approx(size, abs=0.1) for size in expected] == found
