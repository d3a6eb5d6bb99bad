"""The chain rule written out from the recorded source, with every number checked against the recorded ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from backprobe.backends.discover import load_arrays
from backprobe.errors import BadOption, installed
from backprobe.record.brief import kind, written
from backprobe.recording import Recording, refuse_several


def derive(recording: Recording, name: str, of: str | None = None) -> Derivation:
    """Write out the derivative of the output with respect to a value, by the chain rule, from the recorded source.

    >>> import torch, backprobe as bp
    >>> def f(x):
    ...     z = 2 * x
    ...     y = z**2 + 2 * z + 2
    ...     return y
    >>> rec = bp.probe(f, partials=True)(1.0)
    >>> print(bp.derive(rec, "x").text.splitlines()[0])
    ∂y/∂x = ∂y/∂z · ∂z/∂x = (2z+2)·2 = 6·2 = 12

    Arithmetic and the usual functions are differentiated by sympy; every formula is first checked against the recorded
    values, and every derivative against the recorded partials, to half the digits of their dtype. Where there is no
    formula, or at a kink (relu at 0), the recorded partial is used, and ``notes`` says why. Several paths are listed
    with their sum; of more than 16 the rule is shown at the value itself. Between tensors the product is elementwise.

    ``of`` is another value to differentiate than the output, where all values in between are single numbers.

    Raises BadOption for a recording without ``partials=True``, and for an ``of`` that does not depend on the value;
    NoGradient, UnknownName and AmbiguousName as the recording does; BadRecording for values that flow in a circle.
    """
    _check(recording, name)
    installed("sympy", asked="bp.derive(rec, ...)")
    from backprobe.derive.notation import Latex, Text  # here: what derives takes longer to import than all the rest
    from backprobe.derive.page import Page
    from backprobe.derive.question import asked
    from backprobe.derive.text import sentences

    chain = asked(recording, name, of)
    page, notes, text = Page(chain, load_arrays(recording.record.backend)), sentences(chain), Text()
    blocks = page.blocks(notes)
    return Derivation(
        text=text.page(blocks),
        latex=Latex().page(blocks),
        value=chain.total,
        paths=[tuple(chain.entries[at].name for at in path) for path in chain.listed],
        path_count=chain.between.count,
        steps=tuple(map(text.line, page.steps())),
        notes=tuple(notes),
        agrees=chain.agrees,
        symbol=text.write(page.head)[0],
    )


@dataclass(frozen=True, eq=False)
class Derivation:
    """A derivative by the chain rule: ``text``, and ``latex`` as one environment for MathJax or LaTeX.

    ``value`` is the recorded gradient; ``paths`` lists the names along each path to it, the output first (empty where
    ``path_count`` is more than can be listed). ``steps`` are the formulas of the values on the way, and ``notes`` say
    where a recorded number stands for a formula, and why. ``agrees`` is whether every number that could be checked, of
    each formula and of the whole sum, is the recorded one.

    >>> import torch, backprobe as bp
    >>> derivation = bp.derive(bp.probe(lambda x: x * x, partials=True)(torch.tensor(3.0)), "x")
    >>> derivation.value, derivation.paths, derivation.agrees
    (tensor(6.), [('return', 'x')], True)
    """

    text: str = field(repr=False)
    latex: str = field(repr=False)
    value: Any
    paths: list[tuple[str, ...]]
    path_count: int
    steps: tuple[str, ...]
    notes: tuple[str, ...]
    agrees: bool
    symbol: str

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        count = f"{self.path_count:,} path{'' if self.path_count == 1 else 's'}"
        return f"<backprobe.Derivation of {self.symbol}: {count}, {'agrees' if self.agrees else 'disagrees'}>"

    def _repr_latex_(self) -> str:
        return f"$${self.latex}$$"


def _check(recording: Any, name: str) -> None:
    if not isinstance(recording, Recording):
        raise BadOption(
            f"derive takes a recording, not {kind(recording)}",
            asked=f"bp.derive({written(recording)}, {name!r})",
            next="bp.derive(bp.probe(f, partials=True)(x), 'x')",
        )
    refuse_several(recording, f"bp.derive(rec, {name!r})", f"bp.derive(rec.of({{}}), {name!r})")
    if recording.path_sums is None:
        raise BadOption(
            "the recording has no partials",
            asked=f"bp.derive(rec, {name!r})",
            found="a recording without partials",
            why="the factors of the chain rule are checked against local partials",
            next="bp.probe(f, partials=True)",
        )


__all__ = ["Derivation", "derive"]
