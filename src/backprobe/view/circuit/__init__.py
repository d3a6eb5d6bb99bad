"""A recording as an interactive circuit: boxes open and close, and each value shows its details.

It is a page by itself, or a part of the page that shows runs. The scripts are in tools/page/viewer/circuit.
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
    """The data of a recording's circuit, with the texts of ``captions``.

    ``depth`` closes boxes from this depth on, except those in ``opened``, by full name. Without either, as many boxes
    are open as fit.
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
    """The captions of a recording; if it has several outputs, those of the default output."""
    own = record.default_output
    return Captions(record if own is None else of_output(record, own), load_arrays(record.backend))


def page(shown: Shown) -> str:
    """The whole text of a page that shows one circuit and nothing else."""
    data = json.dumps(plain(shown.data), separators=(",", ":"), allow_nan=False).encode()
    script, style = script_of("circuit"), text_of("circuit.css")
    return assembled(f"backprobe: {shown.title}", {"circuit": zipped(data)}, style, script)[0]
