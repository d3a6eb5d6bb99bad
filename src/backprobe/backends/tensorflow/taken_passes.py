"""The backward passes that a program runs with its own tapes: their outputs and cotangents, and which pass is meant by
default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from backprobe.backends.facts import Root
from backprobe.backends.tensorflow.operation_log import OperationLog
from backprobe.backends.tensorflow.tensors import identity, is_differentiable, is_eager, variable_of
from backprobe.backends.tensorflow.useless import TensorflowUselessGradients
from backprobe.record.reasons import Reason
from backprobe.record.source import Source

TARGETS, SOURCES = ("target",), ("sources", "source")  # argument names in the methods of tapes
GRADIENT, COTANGENTS = "gradient", "output_gradients"
MOST = 8  # the most outputs that are distinguished


@dataclass(frozen=True)
class GivenPass:
    """A backward pass of a tape: its target tensors, their cotangents, its positions in the log, whether it requested
    only gradients of Variables, its line, and the tape's method. A pass of the probe, or inside another pass, is kept
    without targets and line.
    """

    targets: Sequence[Any]
    cotangents: Sequence[Any]
    positions: range
    is_of_variables: bool
    line: Source | None
    method: str

    def asks_as(self, other: GivenPass) -> bool:
        """Do both passes have the same targets, with equal cotangents?"""
        is_of_same = [*map(id, self.targets)] == [*map(id, other.targets)]
        return is_of_same and all(map(_is_same, self.cotangents, other.cotangents))

    def root(self, meant: bool) -> Root:
        is_one = len(self.targets) == 1
        seeds = self.cotangents if any(one is not None for one in self.cotangents) else None
        if is_one:
            return Root(self.targets[0], None if seeds is None else seeds[0], meant)
        return Root(list(self.targets), None if seeds is None else list(seeds), meant)


def _is_same(one: Any, other: Any) -> bool:
    # Are two cotangents equal? None means ones.
    if one is other or one is None or other is None:
        return one is other
    return bool(one.shape == other.shape and (one.numpy() == other.numpy()).all())


class TakenPasses:
    """The backward passes of one block, in order."""

    def __init__(self, log: OperationLog) -> None:
        self.log = log
        self.given: list[GivenPass] = []

    def hear(
        self,
        method: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        positions: range,
        line: Callable[[], Source | None],
        *,
        counts: bool,
    ) -> None:
        """Record that a tape has run backward. Passes of the probe, and passes inside other passes, do not count."""
        pairs = self._targets(method, args, kwargs) if counts else []
        sources = _named(args[1:2], kwargs, SOURCES)
        self.given.append(
            GivenPass(
                [one for one, _ in pairs],
                [by for _, by in pairs],
                positions,
                all(variable_of(one) is not None for one in sources),
                line() if pairs else None,
                method,
            )
        )

    def tell(
        self, useless: TensorflowUselessGradients, args: Sequence[Any], kwargs: Mapping[str, Any], gradients: Any
    ) -> None:
        """Report the latest pass, and the gradients that it returned, to the search for useless gradients, if it was an
        eager call of ``gradient``.
        """
        given = self.given[-1]
        if given.targets and given.method == GRADIENT and tf.executing_eagerly():
            pairs = [*zip(given.targets, given.cotangents, strict=True)]
            useless.gave(pairs, _named(args[1:2], kwargs, SOURCES), gradients)

    def _targets(self, method: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[tuple[Any, Any]]:
        # Return the eager targets through which a gradient can flow, each with its cotangent; None means ones.
        targets = _named(args[:1], kwargs, TARGETS)
        seeds = _named(args[2:3] if method == GRADIENT else (), kwargs, (COTANGENTS,))
        seeds = seeds if len(seeds) == len(targets) else [None] * len(targets)
        with self.log.muted():
            by = [None if one is None else tf.convert_to_tensor(one) for one in seeds]
        return [
            (one, seed)
            for one, seed in zip(targets, by, strict=True)
            if is_eager(one) and is_differentiable(one) and self.log.carries(one)
        ]

    def took(self, position: int) -> bool:
        """Was the value at this position of the log computed in one of these passes?"""
        return any(position in given.positions for given in self.given)

    def targets(self) -> list[Any]:
        """Return the targets of passes. If a gradient penalty flows into the loss, only the loss is returned."""
        found = {id(target): target for given in self.given for target in given.targets}
        positions = {self.log.position(number) for number in self.log.before(map(identity, found.values()))}
        inner = {
            id(target) for given in self.given if not positions.isdisjoint(given.positions) for target in given.targets
        }
        return [target for known, target in found.items() if known not in inner]

    def targets_of(self, values: Sequence[Any]) -> list[Any]:
        """Return the targets of all outputs, if any of them is among these values: see ``Differentiator``. Otherwise
        return []; also if the last value is no target, and was computed from the program's gradients and from other
        values.
        """
        own = {id(one): one for given in self.outputs() for one in given.targets}
        numbers, last = set(map(identity, own.values())), identity(values[-1])
        if numbers.isdisjoint(map(identity, values)) or (last not in numbers and self._is_penalized(last)):
            return []
        return list(own.values())

    def _is_penalized(self, number: int) -> bool:
        # Is a value computed from the program's own gradients, and not only from gradients of Variables, as their norm
        # is?
        log = self.log
        others, own = log.back_to_gradients([number])
        positions = set(map(log.position, own))
        used = [given for given in self.given if not positions.isdisjoint(given.positions)]
        is_norm = all(given.is_of_variables for given in used) and not others
        return bool(used) and not is_norm

    def outputs(self) -> list[GivenPass]:
        """Return one pass for each output. If a loop recomputes its target, it is the pass of the last iteration. If
        there are many outputs, it is the last one of each line.
        """
        found: list[GivenPass] = []
        for one in self.given:
            if one.targets and not any(map(one.asks_as, found)):
                found = [before for before in found if not self._is_iteration(before, one)] + [one]
        return [*{one.line: one for one in found}.values()] if len(found) > MOST else found

    def _is_iteration(self, before: GivenPass, one: GivenPass) -> bool:
        # Do these passes belong to two iterations, so that the second computed its targets after the first pass?
        made = (self.log.position(identity(target)) for target in one.targets)
        return before.line is not None and before.line == one.line and min(made) >= before.positions.stop

    def roots(self) -> list[Root]:
        """Return the root of a pass for each output.

        ``meant`` marks the default: the only output whose gradients are not used to compute another output, such as the
        loss next to a penalty.
        """
        outer = set(map(id, self.targets()))
        outputs = self.outputs()
        last = [one for one in outputs if not outer.isdisjoint(map(id, one.targets))]
        return [one.root(len(last) == 1 and one is last[0]) for one in outputs]

    def notes(self) -> list[Reason]:
        """Return notes on these passes that a reader of the gradients needs to know."""
        rows = [one for one in self.outputs() if one.method != GRADIENT]
        is_row = any(target.shape.num_elements() != 1 for one in rows for target in one.targets)
        return [Reason("jacobian_summed", {"method": rows[0].method})] if is_row else []


def _named(args: Sequence[Any], kwargs: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    # Return the parts of an argument that is passed by position or by name.
    return list(tf.nest.flatten([*args, *(kwargs[name] for name in names if name in kwargs)]))
