"""The checked arguments of ``probe``: the target, the names to record, and the options."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn, get_args

from backprobe.backends.facts import Options
from backprobe.errors import BackprobeError, BadOption
from backprobe.probe.several_outputs import AskedOutput, Of, asked_of, refuse_several
from backprobe.record.brief import kind, written
from backprobe.record.names import nearest
from backprobe.record.options import Option, check_options, check_texts
from backprobe.record.typed import Strategy, Values
from backprobe.tracing.replacing import Instead

VALUES = get_args(Values)
OPTIONS = (
    Option("strategy", str, get_args(Strategy), "'edges'"),
    Option("values", str, VALUES, "'alias'"),
    Option("partials", bool | str, (True, False, "full")),
    Option("nonfinite"),
    Option("create_graph"),
)


@dataclass(frozen=True)
class Request:
    """A target, the names to record, and the options of the recording. The options, names and outputs are checked."""

    target: Any
    select: str | Sequence[str] | None = None
    of: Of | Sequence[Of] | Mapping[str, Of] = None
    wrt: frozenset[str] | None = None
    cotangent: Any = None
    replace: Mapping[str, Any] | Instead | None = None
    replace_grad: Mapping[str, Any] | None = None
    options: Options = field(default_factory=Options)
    backend: str | None = None
    session: Any = None

    def __post_init__(self) -> None:
        """Check the options. Raises BadOption."""
        options = self.options
        check_options(vars(options), OPTIONS)
        if options.strategy != "edges" and (options.partials or options.nonfinite):
            _refuse_strategy(options)
        if self.select is not None:
            check_texts("select", self.select)
            if not self.select and not isinstance(self.select, str):
                raise BadOption(
                    "select is an empty list, and selects nothing",
                    asked="select=[]",
                    next="leave out select=, for what is recorded by default",
                )
        several = bool(self.asked) and self.asked[0].key is not None
        if several and options.strategy != "edges":
            refuse_several(
                self.of,
                f"bp.probe(..., strategy={options.strategy!r}, ",
                'strategy="edges"',
                "the other strategies are for comparison, of one backward pass",
            )

    @property
    def chosen(self) -> str | tuple[str, ...] | None:
        """``select``, as a key for caches: a list becomes a tuple."""
        return self.select if self.select is None or isinstance(self.select, str) else tuple(self.select)

    @functools.cached_property
    def asked(self) -> tuple[AskedOutput, ...]:
        """The outputs to differentiate: each with its key if ``of`` is a list, tuple or mapping; else one without."""
        return asked_of(self.of, self.cotangent)

    @functools.cached_property
    def keys(self) -> tuple[str, ...]:
        """The keys of the outputs if ``of`` is a list, tuple or mapping; empty otherwise."""
        return tuple([one.key for one in self.asked if one.key is not None])


def names_in(wrt: str | Sequence[str] | None) -> frozenset[str] | None:
    """Return the names of arguments in ``wrt``; None if it is not given. Raises BadOption."""
    if wrt is not None:
        check_texts("wrt", wrt)
    return None if wrt is None else frozenset([wrt] if isinstance(wrt, str) else wrt)


def _refuse_strategy(options: Options) -> NoReturn:
    if options.partials:
        raise BadOption(
            "partials are taken at gradient edges",
            asked=f"partials={options.partials!r}, strategy={options.strategy!r}",
            why="the hooks of the other strategies would take part in every local pass",
            next='strategy="edges"',
        )

    raise BadOption(
        "NaN and Inf are looked for in one pass over the gradient edges",
        asked=f"nonfinite=True, strategy={options.strategy!r}",
        next='strategy="edges"',
    )


def name_of(target: Any) -> str:
    """Return the name of a target for messages."""
    return str(getattr(target, "__name__", None) or type(target).__name__)


def asked_as(target: Any) -> str:
    """Return the text that stands for a target in the call that was made: like ``typed_as``, and for a class its name.

    >>> asked_as(print), asked_as(object()), asked_as(dict)
    ('print', 'model', 'dict')
    """
    return target.__name__ if isinstance(target, type) else typed_as(target)


def typed_as(target: Any) -> str:
    """Return the text that stands for a target in a call that a message proposes. For a function it is the function's
    name, or ``f`` if that cannot be typed. For an object it is a made-up name, because the name of its class would be
    wrong.

    >>> typed_as(print), typed_as(lambda x: x), typed_as(object())
    ('print', 'f', 'model')
    """
    name = getattr(target, "__name__", None)
    if isinstance(name, str) and not isinstance(target, type):
        return name if name.isidentifier() else "f"
    return "f" if isinstance(target, functools.partial) else "model"


def bound(
    signature: inspect.Signature, name: str, verb: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> inspect.BoundArguments:
    """Bind the arguments of a call to a function's signature. Raises BadOption if the arguments do not fit."""
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        why, asked = str(error), [*("..." for _ in args), *(f"{given}=..." for given in kwargs)]
    parameters = signature.parameters.values()
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters)
    unknown = [given for given in kwargs if given not in signature.parameters and not takes_any]
    if unknown:  # report this first: Python would report a missing argument
        close = nearest(unknown[0], signature.parameters)
        why = f"there is no argument {unknown[0]!r}" + (f", but {close[0]!r}" if close else "")
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [one for one in parameters if one.default is one.empty and one.kind not in several]
    fitting = ["..." if one.kind is one.POSITIONAL_ONLY else f"{one.name}=..." for one in needed]
    raise BadOption(
        f"{name} cannot be called with these arguments: {why}",
        asked=f"bp.{verb}({name})({', '.join(asked)})",
        found=f"{name}{signature}",
        next=f"bp.{verb}({name})({', '.join(fitting)})",
    )


def refuse_class(target: Any, verb: str, *, in_block: bool = False) -> None:
    """Raise BadOption if a class is given instead of an object."""
    if isinstance(target, type):
        name, made = target.__name__, target.__name__.lower()
        spelled = "with bp.{}({}):" if in_block else "bp.{}({})"
        raise BadOption(
            f"{name} is a class, and bp.{verb} takes an object of it" + ", or a function" * (not in_block),
            asked=spelled.format(verb, name),
            found=kind(target),
            next=f"{made} = {name}(...), and {spelled.format(verb, made)}",
        )


def refuse_uncallable(target: Any, verb: str, more: str = "") -> None:
    """Raise BadOption for a class, or a target that is not callable. ``more`` is the text of the verb's other
    arguments.
    """
    refuse_class(target, verb)
    if not callable(target):
        raise BadOption(
            f"{kind(target)} is neither a function nor a model",
            asked=f"bp.{verb}({written(target)}{more})",
            found="an object that cannot be called",
            next=f"bp.{verb}(f{more})(x), with f a function or a model",
        )


@contextmanager
def spelled_as(pattern: str, verb: str | Callable[[re.Match[str]], str]) -> Iterator[None]:
    """Within this context, errors about the probe that a verb creates are reworded, so that they mention the verb."""
    try:
        yield
    except BackprobeError as error:
        error.asked, error.next = (re.sub(pattern, verb, text) for text in (error.asked, error.next))
        raise
