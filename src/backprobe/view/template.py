"""The text of a page: its data, style and script in one file, and the policy that lets nothing else run.

No name or value of a program is ever parsed as HTML or run. What is in the page is JSON whose signs ``<``, ``>`` and
``&`` are escaped, scripts write it as text, and the page's own policy lets no script run but those that it names.
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

ICON = '<link rel="icon" href="data:,">'  # else a browser asks the server for one
ESCAPED = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def assembled(
    title: str, data: Mapping[str, Any], style: str, script: str, *, later: Sequence[str] = (), asks: bool = False
) -> tuple[str, str]:
    """The text of a page, and its policy, which is in it too.

    ``later`` are scripts that the page may add to itself, and ``asks`` says whether it may ask the server that gave it.
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
    """Bytes as a page holds them."""
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()


@cache
def script_of(name: str) -> str:
    """A script as ``make page`` bundles it; zipped, since an installed package may not be large."""
    return gzip.decompress(resources.files("backprobe.view.page").joinpath(f"{name}.js.gz").read_bytes()).decode()


@cache
def text_of(name: str) -> str:
    return resources.files("backprobe.view.page").joinpath(name).read_text(encoding="utf-8")


def hashed(text: str) -> str:
    """A script or style as a policy names it."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"
