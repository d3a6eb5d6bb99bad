"""Reads saved pages again: the contents of a page that shows a circuit, comparison, attribution or sweep."""

from __future__ import annotations

import base64
import binascii
import gzip
import html
import io
import json
import re
from pathlib import Path
from typing import Any

from backprobe.errors import BadRecording
from backprobe.view.packing import unpacked
from backprobe.view.shown import Shown

MOST = 1 << 30
"""The most bytes that a page may unpack to."""

DATA = re.compile(r'<script id="data" type="application/json">(.*?)</script>', re.DOTALL)
TITLE = re.compile("<title>backprobe: (.*?)</title>", re.DOTALL)


def read_page(path: Path, asked: str) -> Shown:
    """The contents of a page. Raises BadRecording, also for the page of a run."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _refused(path, asked, f"{type(error).__name__}: {error}") from error
    data, title = DATA.search(text), TITLE.search(text)
    if data is None or title is None:
        raise _refused(path, asked, "no data of backprobe in it")
    try:
        return _shown(json.loads(data[1]), html.unescape(title[1]))
    except (ValueError, KeyError, TypeError, EOFError, OSError, binascii.Error) as error:
        raise _refused(path, asked, "a page of a run, or a damaged one") from error


def _shown(data: dict[str, Any], title: str) -> Shown:
    if "circuit" in data:
        circuit = json.loads(_unzipped(data["circuit"]))
        names = [name for one in circuit["values"] for name in (one["name"], *one["aliases"])]
        names += [box["name"] for box in circuit["boxes"]]
        return Shown(circuit["kind"], title, circuit, tuple(dict.fromkeys(names)))
    if data["runs"]:
        raise ValueError
    store = data["store"]
    (other,) = unpacked(_unzipped(store["others?"]))[0]["others"]
    head, arrays = unpacked(_unzipped(store["other?other=0"]))
    names = unpacked(_unzipped(store["names?other=0"]))[0]["names"]
    return Shown(other["kind"], other["title"], head["shown"], tuple(names), arrays)


def _unzipped(text: str) -> bytes:
    with gzip.open(io.BytesIO(base64.b64decode(text))) as file:
        found = file.read(MOST + 1)
    if len(found) > MOST:
        raise ValueError
    return found


def _refused(path: Path, asked: str, found: str) -> BadRecording:
    return BadRecording(
        f"{path} is not a page of a recording, a comparison, an attribution or a sweep",
        asked=asked,
        found=found,
        next="a page that bp.draw or report.save has written; of a run, its folder",
    )
