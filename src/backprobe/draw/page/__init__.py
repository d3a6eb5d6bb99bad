"""A recording as one page of HTML that explores it: boxes open and close, each value shows all that is known of it.

The page is a file by itself. Its style and scripts are the ``.css`` and ``.js`` files of this folder; browsers refuse
modules that a page from disk imports, so they are joined into one script. Nothing of the program is ever parsed
as HTML or run: the data is JSON whose signs ``<``, ``>`` and ``&`` are escaped, the scripts write it as text, and the
page's own policy lets no script run but this one and nothing be loaded.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
from collections.abc import Collection
from functools import cache
from importlib import resources
from typing import Any

from backprobe.draw.page.content import Content
from backprobe.draw.text import Captions
from backprobe.show.text import printable

SCRIPTS = ("recording", "layers", "visible", "elements", "edges", "chart", "chain", "details", "diagram", "search",
           "theme", "main")  # fmt: skip
"""The modules, each after those that it imports."""
IMPORT = re.compile(r"^import [^;]*;\n", re.MULTILINE)
EXPORT = re.compile(r"^export ", re.MULTILINE)
ESCAPED = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def page(captions: Captions, depth: int | None = None, opened: Collection[str] = ()) -> str:
    """The whole text of the page.

    ``depth`` closes the boxes that lie this deep, but for those that are ``opened``, by their full names. Without
    either, as many are open as fit.
    """
    style, script = _file("page.css"), _script()
    parts = {
        "title": html.escape(printable(f"backprobe: {captions.heading}")), "style": style, "script": script,
        "policy": f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}",
        "recording": _json(Content(captions, depth, opened).data()),
    }  # fmt: skip
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _file("page.html"))


def _json(data: Any) -> str:
    return json.dumps(_plain(data), separators=(",", ":"), allow_nan=False).translate(ESCAPED)


def _plain(data: Any) -> Any:
    # Data without the numbers that JSON has none for: as texts that JavaScript reads as numbers.
    if isinstance(data, dict):
        return {key: _plain(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_plain(value) for value in data]
    if isinstance(data, float) and not math.isfinite(data):
        return "NaN" if math.isnan(data) else "Infinity" if data > 0 else "-Infinity"
    return data


@cache
def _script() -> str:
    # All modules in one.
    return "\n".join(EXPORT.sub("", IMPORT.sub("", _file(f"{name}.js"))) for name in SCRIPTS)


@cache
def _file(name: str) -> str:
    return resources.files("backprobe.draw.page").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"
