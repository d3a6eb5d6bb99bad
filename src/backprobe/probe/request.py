"""The arguments of ``probe``, checked: the target, what to record of it, and how."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from backprobe.backends.facts import Options
from backprobe.errors import BackprobeError, BadOption
from backprobe.probe.several_outputs import Asked, Of, asked_of, refuse_several
from backprobe.record.brief import kind, written
from backprobe.record.names import nearest
from backprobe.tracing.exchanging import Exchange

STRATEGIES = ("edges", "retain_grad", "hooks", "separate")
VALUES = ("alias", "copy")
PARTIALS = (False, True, "full")


@dataclass(frozen=True)
class Request:
    """A target, what to record of it, and how."""

    target: Any
    select: str | Sequence[str] | None = None
    of: Of | Sequence[Of] | Mapping[str, Of] = None
    wrt: frozenset[str] | None = None
    cotangent: Any = None
    replace: Mapping[str, Any] | Exchange | None = None
    replace_grad: Mapping[str, Any] | None = None
    options: Options = field(default_factory=Options)
    backend: str | None = None
    session: Any = None

    def __post_init__(self) -> None:
        """Raises BadOption."""
        options = self.options
        for name, value, allowed in (("strategy", options.strategy, STRATEGIES), ("values", options.values, VALUES)):
            if not isinstance(value, str) or value not in allowed:
                raise BadOption(
                    f"{name} is one of {', '.join(allowed)}",
                    asked=f"{name}={written(value)}",
                    next=f"{name}={allowed[0]!r}",
                )
        _check_partials(options.partials, options.strategy)
        _check_nonfinite(options.nonfinite, options.strategy)
        _check_texts("select", self.select)
        if not isinstance(options.create_graph, bool):
            raise BadOption(
                "create_graph is True or False", asked=f"create_graph={written(options.create_graph)}",
                next="create_graph=True",
            )  # fmt: skip
        several = bool(self.asked) and self.asked[0].key is not None
        if several and options.strategy != "edges":
            refuse_several(
                self.of, f"bp.probe(..., strategy={options.strategy!r}, ", 'strategy="edges"',
                "the other strategies are for comparison, of one backward pass",
            )  # fmt: skip

    @cached_property
    def asked(self) -> tuple[Asked, ...]:
        """The outputs to differentiate: one without a key, or several."""
        return asked_of(self.of, self.cotangent)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Those of several outputs."""
        return tuple([one.key for one in self.asked if one.key is not None])


def names_in(wrt: str | Sequence[str] | None) -> frozenset[str] | None:
    """The names of the arguments to differentiate, None for all. Raises BadOption."""
    _check_texts("wrt", wrt)
    return None if wrt is None else frozenset([wrt] if isinstance(wrt, str) else wrt)


def _check_texts(name: str, texts: Any) -> None:
    if texts is None or isinstance(texts, str):
        return
    is_list = isinstance(texts, Sequence | set | frozenset) and not isinstance(texts, bytes)
    other = next((text for text in texts if not isinstance(text, str)), "") if is_list else texts
    if not isinstance(other, str):
        raise BadOption(
            f"{name} is a text or a list of texts, not {'one with ' * is_list}{kind(other)}",
            asked=f"{name}={written(texts)}", next=f"{name}='x'",
        )  # fmt: skip
    if name == "select" and not texts:
        raise BadOption(
            "select is an empty list, and selects nothing", asked="select=[]",
            next="leave out select=, for what is recorded by default",
        )  # fmt: skip


def _check_partials(partials: Any, strategy: str) -> None:
    if not isinstance(partials, bool | str) or partials not in PARTIALS:
        raise BadOption(
            'partials is True, False or "full"', asked=f"partials={written(partials)}", next="partials=True"
        )
    if partials and strategy != "edges":
        raise BadOption(
            "partials are taken at gradient edges", asked=f"partials={partials!r}, strategy={strategy!r}",
            why="the hooks of the other strategies would take part in every local pass", next='strategy="edges"',
        )  # fmt: skip


def _check_nonfinite(nonfinite: Any, strategy: str) -> None:
    if not isinstance(nonfinite, bool):
        raise BadOption("nonfinite is True or False", asked=f"nonfinite={written(nonfinite)}", next="nonfinite=True")
    if nonfinite and strategy != "edges":
        raise BadOption(
            "NaN and Inf are looked for in one pass over the gradient edges",
            asked=f"nonfinite=True, strategy={strategy!r}", next='strategy="edges"',
        )  # fmt: skip


def name_of(target: Any) -> str:
    """What a target is called in messages."""
    return str(getattr(target, "__name__", None) or type(target).__name__)


def bound(
    signature: inspect.Signature, name: str, verb: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> inspect.BoundArguments:
    """The arguments of a function as its signature names them. Raises BadOption where they do not fit it."""
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        why, asked = str(error), [*("..." for _ in args), *(f"{given}=..." for given in kwargs)]
    parameters = signature.parameters.values()
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters)
    unknown = [given for given in kwargs if given not in signature.parameters and not takes_any]
    if unknown:  # Python would name what is missing instead
        close = nearest(unknown[0], signature.parameters)
        why = f"there is no argument {unknown[0]!r}" + (f", but {close[0]!r}" if close else "")
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [one for one in parameters if one.default is one.empty and one.kind not in several]
    fitting = ["..." if one.kind is one.POSITIONAL_ONLY else f"{one.name}=..." for one in needed]
    raise BadOption(
        f"{name} cannot be called with these arguments: {why}", asked=f"bp.{verb}({name})({', '.join(asked)})",
        found=f"{name}{signature}", next=f"bp.{verb}({name})({', '.join(fitting)})",
    )  # fmt: skip


def refuse_class(target: Any, verb: str, *, in_block: bool = False) -> None:
    """Raise BadOption for a class in the place of an object of it."""
    if isinstance(target, type):
        name, made = target.__name__, target.__name__.lower()
        spelled = "with bp.{}({}):" if in_block else "bp.{}({})"
        raise BadOption(
            f"{name} is a class, and bp.{verb} takes an object of it" + ", or a function" * (not in_block),
            asked=spelled.format(verb, name), found=kind(target),
            next=f"{made} = {name}(...), and {spelled.format(verb, made)}",
        )  # fmt: skip


def refuse_uncallable(target: Any, verb: str, more: str = "") -> None:
    """Raise BadOption for what a verb can neither call nor differentiate; ``more`` are its other arguments."""
    refuse_class(target, verb)
    if not callable(target):
        raise BadOption(
            f"{kind(target)} is neither a function nor a model", asked=f"bp.{verb}({written(target)}{more})",
            found="an object that cannot be called", next=f"bp.{verb}(f{more})(x), with f a function or a model",
        )  # fmt: skip


@contextmanager
def spelled_as(pattern: str, verb: str | Callable[[re.Match[str]], str]) -> Iterator[None]:
    """What an error says of the probe that a verb makes, matched by a regular expression, it says of the verb."""
    try:
        yield
    except BackprobeError as error:
        error.asked, error.next = (re.sub(pattern, verb, text) for text in (error.asked, error.next))
        raise
