"""The text of a page: data, style and script in one file, with a policy that forbids everything else.

No name or value of a program is parsed as HTML or executed. Data is JSON in which ``<``, ``>`` and ``&`` are escaped,
scripts insert it as text, and the page's policy allows only the scripts that it names.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

from backprobe.show.text import printable
from backprobe.view.plain import plain

ICON = '<link rel="icon" href="data:,">'  # otherwise browsers request an icon from the server
ESCAPED = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def assembled(
    title: str, data: Mapping[str, Any], style: str, script: str, *, later: Sequence[str] = (), asks: bool = False
) -> tuple[str, str]:
    """The text of a page, and its content security policy, which is also part of the text.

    ``later`` are scripts that the page may load later. ``asks`` says whether it may send requests to its server.
    """
    base = text_of("base.css")
    allowed = {
        "default-src": "'none'",
        "style-src": " ".join(map(hashed, (base, style))),
        "script-src": " ".join(map(hashed, (script, *later))),
        "img-src": "data:" if asks else "'none'",
        "connect-src": "'self'" if asks else "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    policy = "; ".join(f"{name} {value}" for name, value in allowed.items())
    parts = {
        "title": html.escape(printable(title)),
        "base": base,
        "style": style,
        "script": script,
        "policy": policy,
        "icon": ICON if asks else "",
        "data": json.dumps(plain(data), separators=(",", ":"), allow_nan=False).translate(ESCAPED),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], text_of("page.html")), policy


def zipped(data: bytes) -> str:
    """Bytes compressed and encoded for a page."""
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()


@cache
def script_of(name: str) -> str:
    """A script as bundled by ``make page``. It is stored compressed, to keep the installed package small."""
    return gzip.decompress(resources.files("backprobe.view.page").joinpath(f"{name}.js.gz").read_bytes()).decode()


@cache
def text_of(name: str) -> str:
    return resources.files("backprobe.view.page").joinpath(name).read_text(encoding="utf-8")


def hashed(text: str) -> str:
    """The hash of a script or style in the form of a content security policy."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"
