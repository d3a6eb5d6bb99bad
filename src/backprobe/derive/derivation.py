"""The verb ``derive``: which derivative is asked for, and the answer as an object that shows itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from backprobe.backends.base import Arrays, load_arrays
from backprobe.derive.chain import Chain
from backprobe.derive.factors import size
from backprobe.derive.layout import Page, latex, text
from backprobe.derive.notes import sentences
from backprobe.derive.paths import Ways, inputs_of, ways
from backprobe.derive.writing import Text
from backprobe.errors import BadOption
from backprobe.record import Entry, GradStatus
from backprobe.recording import Recording

HIDING = (GradStatus.OPAQUE,)  # a gradient flows through the value, and what it is was not recorded


@dataclass(frozen=True, eq=False)
class Derivation:
    """A derivative by the chain rule: ``text``, and ``latex`` as one environment for MathJax or LaTeX.

    ``value`` is the recorded gradient; towards it, ``paths`` lists the names along each path, the output first (none
    where ``path_count`` is more than can be listed). ``steps`` say what each value on the way was computed by, and
    ``notes`` where a recorded number stands for a formula, and why. ``agrees`` is whether every number that could be
    checked, of each formula and of the whole sum, is the recorded one.
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


def derive(recording: Recording, name: str, of: str | None = None) -> Derivation:
    """Write out the derivative of the output towards a value, by the chain rule, from the source that was recorded.

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
    formula, or a kink is met (relu at 0), the recorded partial stands, and ``notes`` says why. Several paths are listed
    with their sum; of more than 16 the rule is shown at the value itself. Between tensors the product is elementwise.

    ``of`` is another value than the output to differentiate, where all that lies between is single numbers.

    Raises BadOption for a recording without ``partials=True``, and for an ``of`` that does not depend on the value;
    NoGradient, UnknownName and AmbiguousName as the recording does; BadRecording for one that is no graph.
    """
    _check(recording, name)
    entries = recording.record.entries
    entry, start = recording[name], _output(recording, name, of)
    position = {each.name: at for at, each in enumerate(entries)}
    at, top = position[entry.name], position[start.name]
    recorded = len(recording.outputs) == 1 and start is recording.outputs[0]
    inputs, hidden = inputs_of(entries), []
    if recorded:
        entry.grad  # noqa: B018 - raises where there is none
        hidden = [each for each in ways(inputs, top, at, lambda *_: True).order if entries[each].status in HIDING]
        between = ways(inputs, top, at, lambda *pair: all(entries[each].status is GradStatus.OK for each in pair))
    else:
        between = ways(inputs, top, at, lambda *_: True)
        _refuse_unconnected(start, entry, between, bool(ways(inputs, at, top, lambda *_: True).count))
        _refuse_tensors(start, entry, between, entries)
    return _written(Chain(entries, between, recorded=recorded, hidden=hidden), load_arrays(recording.record.backend))


def _written(chain: Chain, arrays: Arrays) -> Derivation:
    notes = sentences(chain)
    page = Page(chain, arrays, Text(), Text(dotted=True))
    return Derivation(
        text=text(chain, arrays, notes), latex=latex(chain, arrays, notes), value=chain.total,
        paths=[tuple(chain.entries[at].name for at in way) for way in chain.listed], path_count=chain.between.count,
        steps=tuple(row.text() for row in page.steps()), notes=tuple(notes), agrees=chain.agrees, symbol=page.head(),
    )  # fmt: skip


def _check(recording: Any, name: str) -> None:
    if not isinstance(recording, Recording):
        raise BadOption(
            f"derive derives from a recording, not from {type(recording).__name__}",
            asked=f"bp.derive({type(recording).__name__}, {name!r})",
            next="bp.derive(bp.probe(f, partials=True)(x), 'x')",
        )  # fmt: skip
    if recording.path_sums is None:
        raise BadOption(
            "the recording has no partials", asked=f"bp.derive(rec, {name!r})", found="a recording without partials",
            why="the factors of the chain rule are checked against local partials", next="bp.probe(f, partials=True)",
        )  # fmt: skip


def _output(recording: Recording, name: str, of: str | None) -> Entry:
    if of is not None:
        return recording[of]
    if len(recording.outputs) > 1:
        names = [entry.name for entry in recording.outputs]
        raise BadOption(
            f"{len(names)} values were differentiated", asked=f"bp.derive(rec, {name!r})", found=", ".join(names[:8]),
            why="a derivation has one value that it differentiates", next=f"bp.derive(rec, {name!r}, of={names[0]!r})",
        )  # fmt: skip
    return recording.outputs[0]


def _refuse_unconnected(start: Entry, entry: Entry, between: Ways, the_other_way: bool) -> None:
    if between.count:
        return
    found = f"{entry.name} depends on {start.name}" if the_other_way else "no path of recorded values between them"
    raise BadOption(
        f"{start.name} does not depend on {entry.name}", asked=f"bp.derive(rec, {entry.name!r}, of={start.name!r})",
        found=found, next=f"bp.derive(rec, {start.name!r}, of={entry.name!r})" if the_other_way else "print(rec)",
    )  # fmt: skip


def _refuse_tensors(start: Entry, entry: Entry, between: Ways, entries: Any) -> None:
    tensors = [entries[at].name for at in between.order if size(entries[at]) != 1]
    tensors += [edge.name for at in between.order for edge in between.inputs[at].values() if edge.partial is None]
    if tensors:
        raise BadOption(
            f"∂{start.name}/∂{entry.name} was not recorded", asked=f"bp.derive(rec, {entry.name!r}, of={start.name!r})",
            found=f"{tensors[0]} between them is no single number",
            why="the recorded gradients are of the output, and the partials of tensors cannot be multiplied out",
            next="bp.probe(f, of=..., partials=True), with that value as the output",
        )  # fmt: skip
