"""Prints to terminals and files that cannot show every character: LANG=C, PYTHONIOENCODING=ascii, old consoles."""

from __future__ import annotations

import sys

PLAIN = {
    "×": "x",
    "·": "*",
    "−": "-",
    "…": "...",
    "⋯": "...",
    "∂": "d",
    "π": "pi",
    "±": "+-",
    "→": "->",
    "←": "<-",
    "‹": "<",
    "›": ">",
    "─": "-",
    "│": "|",
    "├": "|",
    "└": "`",
    **dict(zip("▁▂▃▄▅▆▇█", ".:-=+*#@", strict=True)),
    **{power: f"^{digit}" for digit, power in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")},
}


def echo(text: str, *, err: bool = False) -> None:
    """Print a text. Characters that the stream cannot encode are replaced by plain ones."""
    stream = sys.stderr if err else sys.stdout
    if stream is not None:  # None if the program has no console
        print(encodable(text, getattr(stream, "encoding", None) or "utf-8"), file=stream, flush=True)


def encodable(text: str, encoding: str) -> str:
    """A text in which all characters can be encoded.

    >>> encodable("λ of shape 2×3", "ascii")
    '\\\\u03bb of shape 2x3'
    """
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        plain = "".join(char if _fits(char, encoding) else PLAIN.get(char, char) for char in text)
        return plain.encode(encoding, "backslashreplace").decode(encoding)
    return text


def _fits(char: str, encoding: str) -> bool:
    try:
        char.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True
