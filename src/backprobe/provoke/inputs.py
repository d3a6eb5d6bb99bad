"""Converts between arguments of a program and rows: flat arrays with all their floating numbers. Keeps the bounds."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from backprobe.backends.tensors import Arrays
from backprobe.backends.trials import Trials
from backprobe.errors import BadOption, NothingToDifferentiate
from backprobe.findings.phrasing import listed, plural
from backprobe.probe.request import bound, name_of
from backprobe.record.brief import kind, written
from backprobe.record.containers import leaves, refilled
from backprobe.record.names import nearest

Array = Any
Bounds = Any  # a pair, or a mapping from arguments to pairs or None


@dataclass(frozen=True)
class Variable:
    """One floating tensor among the arguments.

    ``name`` is the program's name for the tensor, and ``entry`` the tensor's full name in a recording. ``argument`` is
    the argument that contains the tensor, and ``span`` are the tensor's places in the row.
    """

    name: str
    entry: str
    argument: str
    tensor: Any
    span: slice


class Inputs:
    """The arguments of a program: which of their numbers are varied, and within which bounds."""

    def __init__(
        self,
        function: Callable[..., Any],
        named: Callable[..., Any],
        trials: Trials,
        arrays: Arrays,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        bounds: Bounds,
    ) -> None:
        self.trials, self.arrays = trials, arrays
        name = name_of(getattr(named, "__self__", named))  # messages about a model's forward use the model's name
        signature = inspect.signature(function)
        _refuse_options(name, named, kwargs)
        self.bound = bound(signature, name, "provoke", args, kwargs)
        self.held = refilled(dict(self.bound.arguments), trials.given)
        names = _names(named, args, kwargs) if function is not named else {}
        self.variables = [*self._varied(names)]
        if not self.variables or not self.variables[-1].span.stop:
            raise NothingToDifferentiate(
                f"{name} has no floating argument to vary",
                asked=f"bp.provoke({name})",
                found=_given(args, kwargs),
                why="an input is searched by its gradient",
                next="floating point values, 3.0 instead of 3; or a function of what is to be varied",
            )
        self.example = self.row(self.held)
        self.low, self.high = self.example.copy(), self.example.copy()
        self.notes: list[tuple[str, dict[str, str]]] = []
        self._set_bounds(bounds)

    def _varied(self, names: Mapping[str, str]) -> Iterator[Variable]:
        # The floating arguments, each with its place in a row.
        size = 0
        for path, leaf in leaves(self.held):
            if self.trials.is_varied(leaf):
                numbers = self.arrays.numbers(leaf)
                local, _, rest = path.removeprefix(".").partition(".")
                full = f":{local}#0" + (f".{rest}" if rest else "")
                printed = names.get(path, path.removeprefix("."))
                argument = printed.partition(".")[0]
                span = slice(size, size + numbers.size)
                yield Variable(printed, full, argument, leaf, span)
                size = span.stop

    def row(self, arguments: Mapping[str, Any]) -> Array:
        """The numbers of all variables, concatenated."""
        return self._joined([leaf for _, leaf in leaves(dict(arguments)) if self.trials.is_varied(leaf)])

    def _joined(self, tensors: Sequence[Any]) -> Array:
        return numpy.concatenate([numpy.asarray(self.arrays.numbers(one), float).reshape(-1) for one in tensors])

    def arguments(self, row: Array) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """The example's arguments with the numbers of a row. All varied tensors are new ones."""
        variables = iter(self.variables)

        def filled(leaf: Any) -> Any:
            if not self.trials.is_varied(leaf):
                return leaf
            variable = next(variables)
            return self.trials.alike(leaf, row[variable.span])

        bound = inspect.BoundArguments(self.bound.signature, refilled(self.held, filled))  # type: ignore[arg-type]  # a dict serves
        return bound.args, bound.kwargs

    def rounded(self, row: Array) -> Array:
        """The row within the bounds, rounded to the dtypes of the tensors."""
        row = numpy.clip(row, self.low, self.high)
        held = self._joined([self.trials.alike(one.tensor, row[one.span]) for one in self.variables])
        return numpy.where(self.low == self.high, self.example, held)

    @property
    def width(self) -> Array:
        """The width of each number's bounds."""
        return self.high - self.low

    def gradient(self, record: Mapping[str, Any]) -> Array:
        """The gradients in a recording as a row; 0 for values without a gradient."""
        found = numpy.zeros(self.example.shape)
        for one in self.variables:
            gradient = record[one.entry].grad_or_none
            numbers = None if gradient is None else self.arrays.numbers(gradient)
            if numbers is not None:
                found[one.span] = numpy.asarray(numbers, float).reshape(-1)
        return found

    # Methods for bounds.

    def _set_bounds(self, bounds: Bounds) -> None:
        asked = self._by_argument(bounds)
        for one in self.variables:
            numbers, limits = self.example[one.span], asked.get(one.argument, ...)
            if limits is None:
                continue
            if not numpy.isfinite(numbers).all():
                self.notes.append(("not_finite_example", {"name": one.name}))
                continue
            low, high = self._default(one, numbers) if limits is ... else self._asked(one, limits)
            if (numbers < low).any() or (numbers > high).any():
                raise BadOption(
                    f"the example of {one.name!r} lies outside of its bounds",
                    asked=f"bounds of {one.argument!r}",
                    found=f"numbers from {numbers.min():.6g} to {numbers.max():.6g}",
                    why="the search begins at the example",
                    next="bounds that hold the example",
                )
            self.low[one.span], self.high[one.span] = low, high

    def refuse_fixed(self, asked: str) -> None:
        """Raise BadOption if no number may be varied."""
        if not self.width.any():
            raise BadOption(
                "no number may be varied",
                asked=asked,
                found=listed([one.name for one in self.variables]),
                why="without bounds a number varies within the range of its argument in the example",
                next=f"bounds={{{self.variables[0].argument!r}: (-1.0, 1.0)}}",
            )

    def _default(self, one: Variable, numbers: Array) -> tuple[Array, Array]:
        # The range of the numbers in the example. For a single number x, or equal ones, the range from -x to x.
        low, high = numbers.min(), numbers.max()
        if low == high:
            low, high = -abs(low), abs(high)
            code = "one_number" if high else "zeros"
            self.notes.append((code, {"name": one.name, "low": f"{low:.6g}", "high": f"{high:.6g}"}))
        return low, high

    def _asked(self, one: Variable, limits: Any) -> tuple[Array, Array]:
        shape = self.example[one.span].reshape(numpy.shape(one.tensor)).shape
        try:
            low, high = (numpy.broadcast_to(numpy.asarray(end, float), shape).reshape(-1) for end in limits)
        except (TypeError, ValueError):
            why = "each end is a number, or an array that fits the argument"
        else:
            if (low <= high).all() and numpy.isfinite([low, high]).all():
                return low, high
            why = "a lower end above the upper one, or an end that is not finite"
        raise BadOption(
            "bounds are a lower and an upper end",
            asked=f"bounds of {one.argument!r}: {written(limits)}",
            found=kind(limits),
            why=why,
            next=f"bounds={{{one.argument!r}: (-1.0, 1.0)}}, or None for what is not to be varied",
        )

    def _by_argument(self, bounds: Bounds) -> Mapping[str, Any]:
        arguments = list(dict.fromkeys(one.argument for one in self.variables))
        if bounds is None:
            return {}
        if not isinstance(bounds, Mapping):
            return dict.fromkeys(arguments, bounds)
        for name in bounds:
            if name not in arguments:
                close = nearest(str(name), arguments) or arguments
                raise BadOption(
                    f"{name!r} is not a floating argument",
                    asked=f"bounds={{{name!r}: ...}}",
                    found=f"floating arguments: {listed(arguments)}",
                    next=f"bounds={{{close[0]!r}: (-1.0, 1.0)}}",
                )
        return bounds


def _accepted(function: Callable[..., Any], names: Iterable[str]) -> set[str]:
    # The names that a function accepts as arguments; all of ``names``, if it has ``**kwargs``.
    parameters = inspect.signature(function).parameters
    takes_any = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
    return {*names} if takes_any else {*parameters}


def _given(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    return plural(len(args), "positional argument") + "".join(f", {name}=" for name in kwargs)


def _names(named: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Mapping[str, str]:
    # Map the path of each leaf in the arguments to the leaf's name in messages, which begins with the name of a
    # parameter.
    try:
        parameters = list(inspect.signature(named).parameters)
    except (TypeError, ValueError):
        parameters = []
    found: dict[str, str] = {}
    for at, value in enumerate(args):
        name = parameters[at] if at < len(parameters) else f"argument {at}"
        found |= {f".args.{at}{path}": name + path for path, _ in leaves(value)}
    for name, value in kwargs.items():
        found |= {f".kwargs.{name}{path}": name + path for path, _ in leaves(value)}
    return found


def _refuse_options(name: str, named: Callable[..., Any], kwargs: Mapping[str, Any]) -> None:
    # In earlier versions, the returned function took these options.
    for option in {"bounds", "seed"} & {*kwargs} - _accepted(named, kwargs):
        raise BadOption(
            f"{option} is an option of bp.provoke, and not an argument of {name}",
            asked=f"bp.provoke({name})(..., {option}=...)",
            next=f"bp.provoke({name}, {option}=...)(...)",
        )
