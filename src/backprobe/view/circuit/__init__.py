"""A recording as a circuit to explore: boxes open and close, each value shows all that is known of it.

It is a page by itself, or a part of the page that shows runs; the scripts are those of tools/page/viewer/circuit.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from backprobe.backends.discover import load_arrays
from backprobe.record.entries import Record
from backprobe.record.several import of_output
from backprobe.show.captions import Captions
from backprobe.view.circuit.content import Content
from backprobe.view.plain import plain
from backprobe.view.shown import Shown
from backprobe.view.template import assembled, script_of, text_of, zipped


def circuit(captions: Captions, depth: int | None = None, opened: Collection[str] = ()) -> Shown:
    """What is shown of a recording, in the words of ``captions``.

    ``depth`` closes the boxes that lie this deep, but for those that are ``opened``, by their full names. Without
    either, as many are open as fit.
    """
    data = Content(captions, depth, opened).data()
    names = [name for one in data["values"] for name in (one["name"], *one["aliases"])]
    return Shown(
        captions.drawn,
        captions.heading,
        data,
        tuple(dict.fromkeys([*names, *(box["name"] for box in data["boxes"])])),
    )


def captions_of(record: Record) -> Captions:
    """The words of a recording; of one with several outputs, about the one that was asked for first."""
    own = record.default_output
    return Captions(record if own is None else of_output(record, own), load_arrays(record.backend))


def page(shown: Shown) -> str:
    """The whole text of a page that shows a circuit and nothing else."""
    data = json.dumps(plain(shown.data), separators=(",", ":"), allow_nan=False).encode()
    script, style = script_of("circuit"), text_of("circuit.css")
    return assembled(f"backprobe: {shown.title}", {"circuit": zipped(data)}, style, script)[0]
