"""The verb ``derive``: the chain rule written out from the recorded source, and compared with the recorded numbers."""

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
    values, and its derivative against the recorded partial or contribution, to half the digits of their dtype. If there
    is no formula that agrees, or at a kink (relu at 0), recorded numbers or the name of the partial stand there, and
    ``notes`` gives the reason. Several paths are listed with their sum. If there are more than 16 paths, a single step
    is shown instead: one term for each direct consumer of the value. Between tensors the product is elementwise.

    ``of`` names a value to differentiate instead of the output. All values on the paths must then be single numbers.

    Raises BadOption for a recording without ``partials=True`` or of several outputs, and for an ``of`` that does not
    depend on the value or has tensors on the paths; NoGradient, UnknownName and AmbiguousName as the recording does;
    NotInstalled without sympy; BadRecording if the values form a cycle.
    """
    _check(recording, name)
    installed("sympy", asked="bp.derive(rec, ...)")
    # imported here because the modules of ``derive`` take longer to import than everything else
    from backprobe.derive.notation import Latex, Text
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

    ``value`` is the recorded gradient, or what the recorded partials give if ``of`` named another value. ``paths``
    lists the names along each path, from the output to the value. It is empty if there are too many paths, whose number
    is ``path_count``. ``steps`` are the formulas or expressions of the values on the paths. ``notes`` say which
    formulas are replaced by recorded numbers, and why. ``agrees`` is True if every number that could be checked, of
    each formula and of the whole sum, equals the recorded one.

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
