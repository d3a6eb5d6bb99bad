"""HTML for notebooks: elements whose text is escaped, and one style that takes its colours from the page around it.

Objects on every layer show themselves in notebooks, so this stands beside the errors, below all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from html import escape
from typing import Any, ClassVar

DARK = "@media screen and (prefers-color-scheme: dark)"  # what a picture has rules for


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


class Printed:
    """IPython shows it as ``print`` does."""

    _repr_pretty_: ClassVar[Callable[[Any, Any, bool], None]]

    def __init_subclass__(cls) -> None:
        # in each class, since IPython takes the first of a class's bases that has this or a ``__repr__``
        cls._repr_pretty_ = _print


def _print(shown: object, printer: Any, cycle: bool) -> None:
    printer.text(str(shown))


def element(name: str, *children: str, **attributes: str | int) -> Html:
    """An element with its children; what is not HTML already is escaped. ``class_`` stands for ``class``.

    >>> element("p", "x < y", element("b", "z"), class_="note")
    '<p class="note">x &lt; y<b>z</b></p>'
    """
    written = "".join(f' {name.rstrip("_")}="{escape(str(value))}"' for name, value in attributes.items())
    return Html(f"<{name}{written}>{joined(children)}</{name}>")


def joined(children: Iterable[str]) -> Html:
    """Several children beside each other."""
    return Html("".join(child if isinstance(child, Html) else escape(child) for child in children))


def shown(*children: str) -> Html:
    """What an object returns to a notebook: its elements with their style."""
    return element("div", element("style", Html(_file("notebook.css"))), *children, class_="backprobe")


def facts(heading: str, parts: Iterable[tuple[str, str]]) -> Html:
    """A headline with labelled parts below it, as ``errors.labelled`` writes them; empty ones are left out."""
    rows = [joined([element("dt", label), element("dd", text)]) for label, text in parts if text]
    return joined([element("div", heading, class_="heading"), *([element("dl", *rows)] if rows else [])])


def numbered(items: Sequence[Html]) -> Html:
    """A list: numbered, where there are several."""
    return element("ol" if len(items) > 1 else "ul", *(element("li", item) for item in items)) if items else Html()


def table(titles: Iterable[str], rows: Iterable[Html]) -> Html:
    """A table of rows that ``row`` made."""
    head = element("thead", element("tr", *(element("th", title) for title in titles)))
    return element("div", element("table", head, element("tbody", *rows)), class_="wide")


def row(*cells: str, class_: str = "") -> Html:
    """One row; the lines of a cell stand below each other."""
    return element("tr", *(element("td", cell) for cell in cells), **({"class_": class_} if class_ else {}))


def pictured(svg: str) -> Html:
    """A picture that may be wider than the page, in the colours of the notebook.

    A picture knows light and dark of the system alone, and a notebook has a theme of its own: so the rules for the dark
    hold here always, with colours that are made from the text's.
    """
    return shown(element("div", Html(svg.replace(DARK, "@media screen", 1)), class_="wide picture"))


def framed(page: str, title: str = "The recording, to explore") -> Html:
    """A page of its own within the notebook, where it can reach nothing outside itself: the theme is told to it."""
    frame = element(
        "iframe",
        title=title,
        srcdoc=page,
        sandbox="allow-scripts",
        width="100%",
        height=560,
        onload=_file("framed.js"),
        style="border: 1px solid #8886; border-radius: 6px; resize: vertical",
    )
    return shown(frame)


@cache
def _file(name: str) -> str:
    from importlib import resources  # here, because importing backprobe shall take no longer for it

    return resources.files("backprobe.markup").joinpath(name).read_text(encoding="utf-8")
