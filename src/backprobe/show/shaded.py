"""The captions of a drawing in which a verb such as ``diff`` or ``attribute`` shades the values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from backprobe.backends.discover import load_arrays
from backprobe.backends.tensors import Arrays
from backprobe.record.entries import Entry
from backprobe.record.graph import Flow
from backprobe.show.captions import Captions
from backprobe.show.drawable import Drawable, Shade, decades

NONE = Shade(())


class ShadedCaptions(Captions):
    """The texts of a ``Drawable``: each value shows its shade, and each edge shows its number."""

    def __init__(self, drawable: Drawable) -> None:
        super().__init__(drawable.record, load_arrays(drawable.record.backend))
        self.drawable, self.spelled, self.weighs = drawable, drawable.spelled, drawable.weighs
        self.drawn, self.alarm_words = drawable.what, drawable.alarm
        self.others = load_arrays(drawable.backend) if drawable.backend else self.arrays

    @property
    def blamed(self) -> list[int]:
        """The values with a highlighted border."""
        return [at for at, shade in self.drawable.shades.items() if shade.is_blamed]

    def _shade(self, at: int) -> Shade:
        return self.drawable.shades.get(at, NONE)

    # Texts about the whole drawing.

    @property
    def heading(self) -> str:
        return self.drawable.heading

    def about(self) -> Iterator[str]:
        yield from ()

    def legend(self) -> Iterator[str]:
        yield from self.drawable.legend

    # Texts about a single value.

    def lines(self, at: int, name: str) -> list[str]:
        return list(self._shade(at).lines)

    def brief(self, at: int) -> list[str]:
        value, gradient = self._shade(at).brief
        return [f"value {value}"] * bool(value) + [gradient] * bool(gradient)

    def notes(self, at: int) -> list[str]:
        return self.lines(at, "")

    def brief_value(self, at: int) -> str:
        return self._shade(at).brief[0]

    def brief_gradient(self, at: int) -> str:
        return self._shade(at).brief[1]

    def kind(self, at: int) -> str:
        if at not in self.drawable.shades:
            return "missing"
        return "blamed" if self._shade(at).is_blamed else "ok"

    def level(self, at: int) -> int | None:
        return self._shade(at).level

    def weight(self, at: int) -> float | None:
        return self._shade(at).weight if at in self.drawable.shades else None

    def partner(self, at: int) -> tuple[Entry, Arrays] | None:
        found = self.drawable.partners.get(at)
        return None if found is None else (found, self.others)

    def worst(self, positions: Sequence[int]) -> int | None:
        ranked = [at for at in positions if self._shade(at).rank > 0]
        return max(ranked, key=lambda at: self._shade(at).rank, default=None)

    def alarm(self, positions: Sequence[int]) -> str:
        worst = self.worst(positions)
        assert worst is not None
        return f"inside, {self.record.entries[worst].name}: {', '.join(self.lines(worst, ''))}"

    # Methods for edges.

    def decade(self, tensor: Any) -> int | None:
        return None

    def is_not_finite(self, tensor: Any) -> bool:
        return False

    def _on(self, flow: Flow) -> float | None:
        return self.drawable.numbers.get((flow.source, flow.target))

    def width(self, flow: Flow) -> int | None:
        number = self._on(flow)
        return None if number is None else decades(number, self.drawable.numbers.values())

    def is_broken(self, flow: Flow) -> bool:
        number = self._on(flow)
        return number is not None and not math.isfinite(number)

    def local(self, flow: Flow, *, upstream: bool) -> str:
        return self.arrow(flow, upstream=upstream)

    def arrow(self, flow: Flow, *, upstream: bool) -> str:
        number = self._on(flow)
        return "" if number is None else f"{number:.3g}"
