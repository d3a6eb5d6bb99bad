"""Watches a loss function: its value, gradients and statistics are computed in one trace under a probe."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from backprobe.backends.jax.arguments import exchange, is_differentiable
from backprobe.backends.jax.tensors import is_array, is_floating
from backprobe.backends.jax.watched_steps import About, Statistics, measured, row_of
from backprobe.backends.watches import (
    GRADIENT,
    PARAMETER,
    UPDATE,
    VALUE,
    DifferentiatedLoss,
    FunctionWatches,
    FunctionWatching,
    LossProbe,
    StepListener,
    WatchOptions,
)
from backprobe.backends.watching import later
from backprobe.errors import BadOption, NothingToDifferentiate
from backprobe.record.brief import kind, written
from backprobe.record.names import quote
from backprobe.record.options import Option
from backprobe.record.statistics import Row

WATCHES = itertools.count(1)
ARGNUMS = Option("argnums", object, None, "0", says="the position of an argument, or several")


class JaxWatching(FunctionWatching):
    """Implements ``FunctionWatching`` for JAX."""

    def __init__(
        self, function: Callable[..., Any], options: WatchOptions, listener: StepListener, probe: LossProbe, asked: str
    ) -> None:
        self.function, self.options, self.listener, self.probe, self.asked = function, options, listener, probe, asked
        self.name = str(getattr(function, "__name__", type(function).__name__))
        self.number = next(WATCHES)
        self.argnums = _argnums(options.argnums, asked)
        self.parameters: dict[Any, list[str]] = {}  # the names of parameters, by the tree structure of the gradients
        self.places: dict[About, tuple[Sequence[int] | None, Sequence[int]]] = {}  # a cache of ``_places``
        self.measure = jax.jit(self._measured, static_argnums=0)
        self.is_open = False

    def __enter__(self) -> JaxWatching:
        self.is_open = True
        return self

    def stop(self) -> None:
        self.is_open = False

    def step(self) -> None:
        raise BadOption(
            "run.record(stats) ends the steps of a loss function",
            asked="run.step()",
            found=f"a watch of {self.name}",
            next="run.record(stats)",
        )

    # Methods for use inside the program's own jit.

    def value_and_grad(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        positions = [self._position(at, args) for at in self.argnums]
        names = [self._argument(at) for at in positions]
        args = [_own(one) if at in positions else one for at, one in enumerate(args)]
        held = [list(_parameters(name, args[at])) for name, at in zip(names, positions, strict=True)]
        self._refuse_nothing(names, held)
        found = self.probe(args, kwargs, names, [name for one in held for name, _ in one])
        flowed = iter(found.inputs)
        by_argument = {at: _filled(args[at], flowed) for at in sorted(set(positions))}
        gradients = [by_argument[at] for at in positions]
        statistics = self._statistics(found, held, gradients)
        one = gradients[0] if isinstance(self.options.argnums, int) else tuple(gradients)
        self.parameters[jax.tree.structure(one)] = [name for of in held for name, _ in of]
        return (found.result, statistics), one

    def _statistics(
        self, found: DifferentiatedLoss, held: Sequence[Sequence[tuple[str, Any]]], gradients: Sequence[Any]
    ) -> Statistics:
        options, named = self.options, []
        own = {name for of in held for name, _ in of}
        for name, value, gradient in found.values:
            if name not in own and is_floating(value):
                named += [(name, VALUE, value)] * options.values
                named += [(name, GRADIENT, gradient)] * (options.gradients and gradient is not None)
        for of, gradient in zip(held, gradients, strict=True):
            for (name, value), flowed in zip(of, jax.tree.leaves(gradient), strict=True):
                if found.wants(name):
                    named += [(name, PARAMETER, jnp.asarray(value))] * options.parameters
                    named += [(name, GRADIENT, flowed)] * options.gradients
        for alias, name in found.aliases:
            self.listener.alias(alias, name)
        for name, line in found.lines:
            self.listener.line(name, line)
        if not named:
            raise BadOption(
                "nothing of this function is watched",
                asked=self.asked,
                found="no value that is selected is recorded",
                next="leave out select= or what=",
            )
        return measured(self.number, self.name, named, options.magnitudes)

    def _position(self, at: int, args: Sequence[Any]) -> int:
        # Return the position of an argument, counted from 0. ``at`` may be negative, to count from the end. Raises
        # BadOption if there is no such argument.
        if not -len(args) <= at < len(args):
            raise BadOption(
                f"there is no argument {at} to differentiate",
                asked=f"argnums={self.options.argnums!r}",
                found=f"{len(args)} positional argument{'s' * (len(args) != 1)}, counted from 0",
                next=f"run.value_and_grad(...) with the parameters as argument {at}, or another argnums=",
            )
        return at % len(args)

    def _argument(self, at: int) -> str:
        # Return the name of an argument. Raises BadOption if it has none, as in ``*args``.
        parameters = list(inspect.signature(self.function).parameters.values())
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        if at >= len(parameters) or parameters[at].kind not in kinds:
            raise BadOption(
                f"argument {at} of {self.name} has no name of its own",
                asked=f"argnums={self.options.argnums!r}",
                found=f"{self.name}{inspect.signature(self.function)}",
                why="names in a run begin with those of arguments",
                next="def loss_fn(params, *others):",
            )
        return parameters[at].name

    def _refuse_nothing(self, names: Sequence[str], held: Sequence[Sequence[Any]]) -> None:
        for at, name, own in zip(self.argnums, names, held, strict=True):
            if not own:
                raise NothingToDifferentiate(
                    f"{name!r} holds no floating array",
                    asked=f"run.value_and_grad(...), with argnums={at}",
                    found="only floating point and complex values have derivatives",
                    next="parameters of a floating dtype, or another argnums=",
                )

    # Methods for use outside of jit.

    def record(self, statistics: Any, updates: Any) -> None:
        found = self._checked(statistics) if statistics is not None or self.listener.is_measured else []
        own = [] if updates is None or not self.listener.is_measured else [self._updates(updates)]
        self.listener.begin()
        for one in found:
            one.is_recorded = True
            self.listener.passed()
        for one in [*found, *own] if self.listener.is_measured else ():
            self._add(one)
        self.listener.end()

    def _add(self, one: Statistics) -> None:
        one.begin_transfer()
        known = self.places.get(one.about)
        if known is None:
            known = self.places[one.about] = self._places(one.about)
        wanted, places = known
        self.listener.add_columns(places, partial(one.columns, wanted))
        if self.listener.is_counted and len(one.arrays) > 2:
            for at, place in zip(wanted or range(len(places)), places, strict=True):
                self.listener.count(place, partial(one.exponents, at))

    def _places(self, about: About) -> tuple[Sequence[int] | None, Sequence[int]]:
        # Return the rows that this process writes, or None for all rows, and the place of each of them.
        names = {name for of in self.parameters.values() for name in of}
        wanted = None
        if jax.process_index() > 0:  # every process has all numbers, and the first one writes them
            wanted = [at for at, (name, _, _) in enumerate(about.rows) if name in names]
        rows = about.rows if wanted is None else [about.rows[at] for at in wanted]
        places = [self.listener.place(name, what, is_replicated=name in names) for name, what, _ in rows]
        together = range(places[0], places[0] + len(places)) if places else range(0)
        return wanted, together if places == [*together] else places  # consecutive places become a range

    def _checked(self, statistics: Any) -> list[Statistics]:
        # Return the statistics in the value that the program passed. Raises BadOption if there are none, if it holds
        # anything else, or if they are traced, recorded already, or of another watch.
        held = jax.tree.leaves(statistics, is_leaf=lambda one: isinstance(one, Statistics))
        for one in held:
            if not isinstance(one, Statistics):
                raise _refused(
                    statistics, "run.record takes the statistics that run.value_and_grad returns", found=kind(one)
                )
            if one.about.watch != self.number:
                raise _refused(
                    statistics,
                    "these are the statistics of another watch",
                    found=f"statistics of {one.about.function}, and a watch of {self.name}",
                    why="a step that was compiled with one run goes on computing for it",
                )
            if any(isinstance(array, jax.core.Tracer) for array in one.arrays):
                raise _refused(
                    statistics,
                    "run.record was called inside jit",
                    found="arrays that are being traced",
                    why="it would run once, as the function is traced, and not in each step",
                    next="return stats from the jitted function, and call run.record(stats) outside of it",
                )
            if one.is_recorded:
                raise _refused(
                    statistics,
                    "these statistics were recorded already",
                    found="a second run.record of them",
                    next="run.record(stats) once for each step",
                )
        if not held:
            raise _refused(statistics, "there are no statistics to record", found=kind(statistics))
        return held

    def _updates(self, updates: Any) -> Statistics:
        names = self.parameters.get(jax.tree.structure(updates))
        if names is None:
            raise BadOption(
                "the updates have another structure than the gradients",
                asked="run.record(stats, updates=...)",
                found=str(jax.tree.structure(updates)),
                next="updates, opt_state = optimizer.update(grads, opt_state), and run.record(stats, updates=updates)",
            )
        found: Statistics = self.measure(tuple(names), jax.tree.leaves(updates))
        return found

    def _measured(self, names: tuple[str, ...], leaves: Sequence[Any]) -> Statistics:
        named = [(name, UPDATE, leaf) for name, leaf in zip(names, leaves, strict=True)]
        return measured(self.number, self.name, named, self.options.magnitudes)


def _refused(
    statistics: Any,
    said: str,
    *,
    next: str = "(loss, stats), grads = run.value_and_grad(params, batch), and run.record(stats)",
    **parts: str,
) -> BadOption:
    # Return the error for a wrong argument of ``run.record``.
    return BadOption(said, asked=f"run.record({written(statistics)})", next=next, **parts)


def _argnums(argnums: Any, asked: str) -> tuple[int, ...]:
    found = (argnums,) if isinstance(argnums, int) else tuple(argnums) if isinstance(argnums, list | tuple) else ()
    if not found or not all(type(one) is int for one in found):
        raise ARGNUMS.refused(argnums)
    return found


def _own(given: Any) -> Any:
    # Return a copy of an argument in new containers, in which floating-point numbers are arrays.
    copied = jax.tree.map(lambda leaf: leaf, given)
    return exchange(copied, lambda leaf: jnp.asarray(leaf) if is_differentiable(leaf) else leaf)


def _is_parameter(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and is_differentiable(leaf)


def _parameters(argument: str, given: Any) -> Iterator[tuple[str, Any]]:
    # Yield the floating-point arrays of an argument, by the names that a recording gives them.
    for path, leaf in jax.tree_util.tree_flatten_with_path(given)[0]:
        if _is_parameter(leaf):
            steps = [str(getattr(key, "name", getattr(key, "key", getattr(key, "idx", key)))) for key in path]
            yield ".".join([argument, *map(quote, steps)]), leaf  # spelled as in ``record.containers``


def _filled(given: Any, flowed: Iterator[Any]) -> Any:
    # Return an argument in which each floating-point array is replaced by its gradient, or zeros if it has none, and
    # every other leaf by None.
    def one(leaf: Any) -> Any:
        if not _is_parameter(leaf):
            return None
        found = next(flowed)
        return jnp.zeros_like(leaf) if found is None else found

    return jax.tree.map(lambda leaf: leaf if isinstance(leaf, jax.Array) else None, exchange(given, one))


class JaxWatches(FunctionWatches):
    """Implements ``FunctionWatches`` for JAX."""

    def watching(
        self, function: Callable[..., Any], options: WatchOptions, listener: StepListener, probe: LossProbe, asked: str
    ) -> FunctionWatching:
        if options.updates:
            raise BadOption(
                "a loss function makes no updates",
                asked="what='update'",
                found="a function of JAX",
                why="it is given its parameters, and an optimizer of JAX is a function too",
                next="run.record(stats, updates=updates), without what='update'",
            )
        return JaxWatching(function, options, listener, probe, asked)

    def rank(self) -> int:
        return jax.process_index()

    def scalar(self, number: Any) -> Any:
        if isinstance(number, jax.core.Tracer):
            raise BadOption(
                "run.log was called inside jit",
                asked="run.log(...)",
                found="an array that is being traced",
                next="return it from the jitted function, and call run.log outside of it",
            )
        if not is_array(number):
            number = jnp.asarray(float(number))
        if number.size != 1 or jnp.issubdtype(number.dtype, jnp.complexfloating):
            raise TypeError("not one number")
        number.copy_to_host_async()
        return number

    def later(self, rows: Mapping[int, Any]) -> Callable[[], Mapping[int, Row]]:
        return later(rows, row_of)
