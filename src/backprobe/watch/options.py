"""The options of ``bp.watch`` and ``bp.watch_function``, and their former names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from backprobe.backends.watches import GRADIENT, PARAMETER, UPDATE, VALUE
from backprobe.errors import BadOption
from backprobe.record.brief import written
from backprobe.record.names import nearest
from backprobe.record.options import Option, check_folder, check_options
from backprobe.record.renamed import Spelling
from backprobe.watch.sinks import check

Watchable = Literal["value", "grad", "param", "update"]
KINDS = (VALUE, GRADIENT, PARAMETER, UPDATE)
DEFAULT: tuple[Watchable, ...] = ("value", "grad", "param")
"""The quantities that are watched by default."""


@dataclass(frozen=True)
class Pace:
    """Says how soon the steps of a watch are on disk, and how often histograms are taken. Raises BadOption.

    >>> import backprobe as bp
    >>> bp.Pace(flush=0)
    Pace(flush=0, histogram=0)
    """

    flush: float = 1.0
    """Complete steps are on disk after at most this number of seconds; 0 writes each step immediately."""

    histogram: int = 0
    """Histograms of magnitudes are taken in steps that are multiples of this number; 0 takes none."""

    def __post_init__(self) -> None:
        check_options(vars(self), PACES)


PACES = (
    Option("flush", int | float, 0, "1.0", says="a number of seconds from 0 on"),
    Option("histogram", int, 0, "10"),
)
WHAT = Option(
    "what",
    Sequence | set | frozenset,
    lambda what: not isinstance(what, bytes),
    str(DEFAULT),
    says="a text, or several",
)
OPTIONS = (
    Option("every", int, 1, "10"),
    Option("pace", Pace, next="bp.Pace(flush=1.0, histogram=10)", says="a bp.Pace"),
    *(Option(name, int, 0, "10", or_none=True) for name in ("start_step", "rank")),
    *map(Option, ("clipping", "has_aux")),
    Option("guard", bool | str | os.PathLike, None, "True", says="True or False, or the folder for a failing step"),
)


def check_watch(given: Mapping[str, Any], asked: str, instead: str) -> None:
    """Check the options that ``watch`` and ``watch_function`` have in common. Raises BadOption."""
    check_folder(given["folder"], "folder is the path of a folder", asked, instead)
    check_options({"clipping": False, "guard": False, "has_aux": False, **given}, OPTIONS)
    for sink in given["sinks"] if isinstance(given["sinks"], list | tuple) else [given["sinks"]]:
        check(sink)


def flags_of(what: Any) -> tuple[bool, bool, bool, bool]:
    """For each of ``KINDS``, whether ``what`` contains it. Raises BadOption."""
    several = (what,) if isinstance(what, str) else what
    WHAT.check(several)
    for one in several:
        if one not in KINDS:
            meant = [kind for each in several if isinstance(each, str) for kind in nearest(each, KINDS)[:1]] or DEFAULT
            raise BadOption(
                f"nothing that is watched is called {written(one)}",
                asked=f"what={written(what)}",
                found=f"what takes {', '.join(map(repr, KINDS))}",
                next=f"what={meant[0] if len(meant) == 1 else tuple(meant)!r}",
            )
    if not several:
        raise BadOption("nothing is watched", asked=f"what={written(what)}", next=f"what={DEFAULT}")
    values, gradients, parameters, updates = (one in several for one in KINDS)
    return values, gradients, parameters, updates


# Functions for former options.


def _what(given: Mapping[str, Any]) -> str:
    # The kinds that the former options ``values=``, ``gradients=``, ``parameters=`` and ``updates=`` selected.
    values = given.get("values", True)
    asked_for = (values, given.get("gradients", True), values and given.get("parameters", True), given.get("updates"))
    found = tuple(one for one, is_asked in zip(KINDS, asked_for, strict=True) if is_asked) or DEFAULT
    return f"what={found[0]!r}" if len(found) == 1 else "" if found == DEFAULT else f"what={found}"


def _pace(given: Mapping[str, Any]) -> str:
    # The former option ``flush_every`` counted steps, but ``flush`` counts seconds. For 1 step, ``flush=0`` does the
    # same. For more steps, one second is the nearest replacement.
    of = [f"flush={'0' if given['flush_every'] == 1 else '1.0'}"] if "flush_every" in given else []
    of += [f"histogram={given[one]!r}" for one in given if one == "histogram"]
    return f"pace=bp.Pace({', '.join(of)})"


FOLDER: dict[str, Spelling] = {"run_dir": "folder={}"}
RENAMED: dict[str, Spelling] = {
    **FOLDER,
    **dict.fromkeys(("values", "gradients", "parameters", "updates"), _what),
    **dict.fromkeys(("flush_every", "histogram"), _pace),
}
MODELS: dict[str, Spelling] = {
    **RENAMED,
    "argnums": "with bp.watch_function(loss_fn, folder, argnums={}) as run:",
    "has_aux": "with bp.watch_function(loss_fn, folder, has_aux={}) as run:",
}
FUNCTIONS: dict[str, Spelling] = {
    **RENAMED,
    **dict.fromkeys(("updates", "optimizer"), "run.record(stats, updates=updates)"),
    **dict.fromkeys(("scaler", "clipping"), "bp.watch_function(loss_fn, folder)"),
    "guard": "with bp.guard(): around jax.grad(loss_fn)(params, batch), not under jit",
}
