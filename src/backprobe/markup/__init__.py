"""HTML for notebooks: elements with escaped text, in one style that uses the colours of the surrounding page.

Objects of every layer have an HTML form for notebooks. So every layer may import this package, as every layer may
import the errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from html import escape
from typing import Any, ClassVar

DARK = "@media screen and (prefers-color-scheme: dark)"  # pictures contain rules for this media query


class Html(str):
    """Text that already is HTML, and is not escaped again."""

    __slots__ = ()


class Printed:
    """A base class of objects that IPython shows as ``print`` does."""

    _repr_pretty_: ClassVar[Callable[[Any, Any, bool], None]]

    def __init_subclass__(cls) -> None:
        # Set in each class, because IPython uses the first base class that defines ``_repr_pretty_`` or ``__repr__``.
        cls._repr_pretty_ = _print


def _print(shown: object, printer: Any, cycle: bool) -> None:
    printer.text(str(shown))


def element(name: str, *children: str, **attributes: str | int) -> Html:
    """An HTML element with its children. Children of other types than ``Html`` are escaped. ``class_`` is written as
    ``class``.

    >>> element("p", "x < y", element("b", "z"), class_="note")
    '<p class="note">x &lt; y<b>z</b></p>'
    """
    written = "".join(f' {name.rstrip("_")}="{escape(str(value))}"' for name, value in attributes.items())
    return Html(f"<{name}{written}>{joined(children)}</{name}>")


def joined(children: Iterable[str]) -> Html:
    """The concatenated HTML of several children."""
    return Html("".join(child if isinstance(child, Html) else escape(child) for child in children))


def shown(*children: str) -> Html:
    """The HTML that an object returns to a notebook: its elements, with the style."""
    return element("div", element("style", Html(_file("notebook.css"))), *children, class_="backprobe")


def facts(heading: str, parts: Iterable[tuple[str, str]]) -> Html:
    """A heading with labelled parts below it, like ``errors.labelled`` in HTML. Parts without text are left out."""
    rows = [joined([element("dt", label), element("dd", text)]) for label, text in parts if text]
    return joined([element("div", heading, class_="heading"), *([element("dl", *rows)] if rows else [])])


def numbered(items: Sequence[Html]) -> Html:
    """A list of items, which is numbered if there are several."""
    return element("ol" if len(items) > 1 else "ul", *(element("li", item) for item in items)) if items else Html()


def table(titles: Iterable[str], rows: Iterable[Html]) -> Html:
    """A table with these titles. The rows are results of ``row``."""
    head = element("thead", element("tr", *(element("th", title) for title in titles)))
    return element("div", element("table", head, element("tbody", *rows)), class_="wide")


def row(*cells: str, class_: str = "") -> Html:
    """A row of a table. Line breaks in a cell are kept."""
    return element("tr", *(element("td", cell) for cell in cells), **({"class_": class_} if class_ else {}))


def pictured(svg: str) -> Html:
    """A picture that may be wider than the page, in the colours of the notebook.

    A picture only knows whether the system is dark, but a notebook may have another theme. So the picture's rules for
    dark mode always apply here. They derive their colours from the colour of the text.
    """
    return shown(element("div", Html(svg.replace(DARK, "@media screen", 1)), class_="wide picture"))


def framed(page: str, title: str = "The recording, to explore") -> Html:
    """A page inside an ``iframe`` of a notebook. The page cannot access anything outside, so the notebook's theme is
    passed to it.
    """
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
    from importlib import resources  # imported here, because it would slow down importing backprobe

    return resources.files("backprobe.markup").joinpath(name).read_text(encoding="utf-8")
