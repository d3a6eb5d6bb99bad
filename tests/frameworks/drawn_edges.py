"""The edges of a drawing, by the titles of their ends."""

from backprobe.backends.discover import load_arrays
from backprobe.draw.circuit import View
from backprobe.draw.fit import drawn
from backprobe.show.captions import Captions


def edges(rec):
    """The solid edges of a drawing, and the dashed ones."""
    captions = Captions(rec.record, load_arrays(rec.record.backend))
    circuit = drawn(captions, View(9, frozenset(), False, 12, False), None).circuit
    titles = {node.key: node.title for node in circuit.nodes}
    found = {True: set(), False: set()}
    for arrow in circuit.arrows:
        found[arrow.carries].add((titles[arrow.source], titles[arrow.target]))
    return found[True], found[False]


def pairs(text):
    """``a b>c d>e`` as pairs: everything before the sign leads to what stands behind it."""
    return {(source, part.split(">")[1]) for part in text.split() for source in part.split(">")[0].split(",")}
