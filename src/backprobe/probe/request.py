"""The arguments of ``probe``, checked: the target, what to record of it, and how."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from backprobe.backends.facts import Options
from backprobe.errors import BadOption

STRATEGIES = ("edges", "retain_grad", "hooks", "separate")
VALUES = ("alias", "copy")
PARTIALS = (False, True, "full")


@dataclass(frozen=True)
class Request:
    """A target, what to record of it, and how."""

    target: Any
    select: str | Sequence[str] | None
    of: str | int | Callable[[Any], Any] | None
    wrt: frozenset[str] | None
    cotangent: Any
    options: Options
    backend: str | None
    session: Any = None

    @classmethod
    def checked(
        cls,
        target: Any,
        select: str | Sequence[str] | None,
        *,
        of: str | int | Callable[[Any], Any] | None = None,
        wrt: str | Sequence[str] | None = None,
        cotangent: Any = None,
        strategy: str = "edges",
        values: str = "alias",
        partials: bool | str = False,
        create_graph: bool = False,
        nonfinite: bool = False,
        backend: str | None = None,
        session: Any = None,
    ) -> Self:
        """The request that these arguments make. Raises BadOption."""
        for name, value, allowed in (("strategy", strategy, STRATEGIES), ("values", values, VALUES)):
            if value not in allowed:
                raise BadOption(
                    f"{name} is one of {', '.join(allowed)}", asked=f"{name}={value!r}", next=f"{name}={allowed[0]!r}"
                )
        _check_partials(partials, strategy)
        _check_nonfinite(nonfinite, strategy)
        for name, texts in (("select", select), ("wrt", wrt)):
            if not (texts is None or isinstance(texts, str | Sequence | set | frozenset)):
                raise BadOption(
                    f"{name} is a text or a list of texts, not {type(texts).__name__}", asked=f"{name}={texts!r}",
                    next=f"{name}='x'",
                )  # fmt: skip
        if not (of is None or isinstance(of, str | int) or callable(of)):
            raise BadOption(
                f"of is a path, a position or a function, not {type(of).__name__}", asked=f"of={of!r}", next="of='loss'"
            )
        names = None if wrt is None else frozenset([wrt] if isinstance(wrt, str) else wrt)
        options = Options(strategy, values, create_graph, partials, nonfinite)
        return cls(target, select, of, names, cotangent, options, backend, session)


def _check_partials(partials: Any, strategy: str) -> None:
    if partials not in PARTIALS:
        raise BadOption('partials is True, False or "full"', asked=f"partials={partials!r}", next="partials=True")
    if partials and strategy != "edges":
        raise BadOption(
            "partials are taken at gradient edges", asked=f"partials={partials!r}, strategy={strategy!r}",
            why="the hooks of the other strategies would take part in every local pass", next='strategy="edges"',
        )  # fmt: skip


def _check_nonfinite(nonfinite: Any, strategy: str) -> None:
    if not isinstance(nonfinite, bool):
        raise BadOption("nonfinite is True or False", asked=f"nonfinite={nonfinite!r}", next="nonfinite=True")
    if nonfinite and strategy != "edges":
        raise BadOption(
            "NaN and Inf are looked for in one pass over the gradient edges",
            asked=f"nonfinite=True, strategy={strategy!r}", next='strategy="edges"',
        )  # fmt: skip


def name_of(target: Any) -> str:
    """What a target is called in messages."""
    return str(getattr(target, "__name__", None) or type(target).__name__)
