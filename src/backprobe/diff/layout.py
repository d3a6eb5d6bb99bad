"""The option ``layout``: in which other layout the second recording stores values, such as transposed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backprobe.diff.arranging import Arrangement
from backprobe.errors import BadOption
from backprobe.record.brief import sizes, written
from backprobe.record.entries import Record
from backprobe.record.options import Option
from backprobe.record.patterns import Pattern, compile_pattern, refuse_unmatched

TRANSPOSED = "T"
LAYOUT = Option(
    "layout",
    Mapping,
    lambda layout: all(isinstance(name, str) for name in layout),
    '{"**.kernel": "T"}',
    says="a dict from patterns of names to axes",
)


@dataclass(frozen=True)
class Layout:
    """An order of axes in which values of the second recording are like those of the first; None reverses the axes."""

    pattern: Pattern
    axes: tuple[int, ...] | None


class Layouts:
    """All layouts of a comparison, and the names to which each applies."""

    def __init__(self, layouts: Sequence[Layout], chosen: Mapping[str, Layout]) -> None:
        self.layouts, self.chosen = layouts, chosen

    def of(self, a: str, b: str, shape: tuple[int, ...]) -> Arrangement | None:
        """Return the arrangement for an array of the second recording, given the entry's two printed names.

        None if no layout applies. Raises BadOption if the layout has another number of axes than the array.
        """
        layout = self.chosen.get(a) or self.chosen.get(b)
        if layout is None:
            return None
        reverse = tuple(reversed(range(len(shape))))
        if layout.axes is not None and len(layout.axes) != len(shape):
            raise BadOption(
                f"the layout of {b!r} is of {len(layout.axes)} axes",
                asked=f"layout={{{layout.pattern.text!r}: {layout.axes}}}",
                found=f"shape {sizes(shape)}",
                next=f"layout={{{b!r}: {reverse}}}",
            )
        return Arrangement(axes=reverse if layout.axes is None else layout.axes)


def layouts_of(layout: Mapping[str, Any] | None, a: Record, b: Record) -> Layouts:
    """Read the option ``layout``. Raises BadOption, BadName, and NothingMatched for a pattern that matches no name."""
    if layout is None:
        return Layouts((), {})
    LAYOUT.check(layout)
    chosen: dict[str, Layout] = {}
    made = [
        Layout(compile_pattern(pattern, in_function=True), _axes(pattern, axes)) for pattern, axes in layout.items()
    ]
    for one, axes in zip(made, layout.values(), strict=True):
        names = {side.printed[full] for side in (a, b) for full in side.names if one.pattern.matches(full)}
        names |= {
            side.entries[at].name for side in (a, b) for full, at in side.names.items() if one.pattern.matches(full)
        }
        if not names:
            refuse_unmatched(
                one.pattern.text, {*a.printed.values(), *b.printed.values()}, "either recording", _asked(axes)
            )
        chosen |= dict.fromkeys(names, one)
    return Layouts(made, chosen)


def _asked(axes: Any) -> Callable[[str | None], str]:
    return lambda pattern: "list(a) and list(b)" if pattern is None else f"layout={{{pattern!r}: {axes!r}}}"


def _axes(pattern: str, axes: Any) -> tuple[int, ...] | None:
    if isinstance(axes, str) and axes == TRANSPOSED:
        return None
    is_order = (
        isinstance(axes, Sequence)
        and not isinstance(axes, str)
        and sorted(map(str, axes)) == sorted(map(str, range(len(axes))))
    )
    if is_order and all(type(axis) is int for axis in axes):
        return tuple(axes)
    raise BadOption(
        'a layout is "T", or the order of the axes',
        asked=f"layout={{{pattern!r}: {written(axes)}}}",
        why="the second recording's array is transposed so before it is compared",
        next=f"layout={{{pattern!r}: (3, 2, 0, 1)}}, from height, width, in, out to out, in, height, width",
    )
