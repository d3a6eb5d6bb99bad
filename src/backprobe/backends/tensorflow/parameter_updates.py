"""Finds updates by which Keras's optimizers wrote NaN or Inf to Variables, and whether their gradients contained any.

An optimizer receives gradients in their final form: accumulated, unscaled and clipped. Gradients are examined at that
point, and Variables before and after the update.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import tensorflow as tf

from backprobe.backends.tensorflow.capture import Capture
from backprobe.backends.tensorflow.cuts import users_place
from backprobe.backends.tensorflow.operation_log import OperationLog
from backprobe.backends.tensorflow.private import unrecorded
from backprobe.backends.tensorflow.tensors import is_eager, number_of, numbers_of, read, variable_of
from backprobe.backends.tensorflow.trained_names import name_of, owned_by_layers
from backprobe.backends.user_lines import Place, source_at
from backprobe.record.nonfinite import GradientKind, Kind, Update

BADNESS: dict[Kind, int] = {"finite": 0, "inf": 1, "nan": 2}


@dataclass(frozen=True)
class UpdateStep:
    """One update: its position in the log, its line, and the NaN or Inf that it wrote to Variables that held better
    numbers before.
    """

    position: int
    place: Place | None
    optimizer: str
    made: tuple[tuple[str, GradientKind, Kind], ...]


class Updates:
    """The updates of one block that wrote NaN or Inf."""

    def __init__(self, log: OperationLog) -> None:
        self.log = log
        self.steps: list[UpdateStep] = []

    def before(self, pairs: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Kind, Kind]]:
        """Return those of these Variables whose numbers and gradients can be read, before they are updated, with the
        worst kind of number in each and in its gradient.
        """
        with self.log.muted():
            looked = [(variable, _kind(variable), _kind(gradient)) for variable, gradient in pairs]
        return [(variable, held, gradient) for variable, held, gradient in looked if held and gradient]

    def after(self, before: Sequence[tuple[Any, Kind, Kind]], position: int, optimizer: Any, rate: Any) -> None:
        with self.log.muted():
            now = [(variable, gradient, held, _kind(variable) or held) for variable, held, gradient in before]
            worse = [
                (variable, gradient, made) for variable, gradient, held, made in now if BADNESS[made] > BADNESS[held]
            ]
            if worse:
                owned = owned_by_layers()
                made = tuple([(name_of(variable, owned), gradient, made) for variable, gradient, made in worse])
                self.steps.append(UpdateStep(position, users_place(), _described(optimizer, rate), made))

    def found(self, captures: Sequence[Capture]) -> tuple[Update, ...]:
        return tuple([update for step in self.steps for update in self._of(step, captures)])

    def _of(self, step: UpdateStep, captures: Sequence[Capture]) -> list[Update]:
        groups: dict[tuple[GradientKind, Kind], list[str]] = {}
        for name, gradient, made in step.made:
            groups.setdefault((gradient, made), []).append(name)
        newest = max((at for at, one in enumerate(captures) if self._time(one) <= step.position), default=None)
        return [
            Update(
                parameters=tuple(names),
                size=len(names),
                optimizer=step.optimizer,
                gradient=gradient,
                made=made,
                source=None if step.place is None else source_at(*step.place),
                after=newest,
            )
            for (gradient, made), names in groups.items()
        ]

    def _time(self, capture: Capture) -> int:
        # Return the position in the log at which a value was made; 0 if it existed before, or was not computed from
        # values with a gradient.
        if capture.is_variable:
            uses = self.log.variables.get(capture.number)
            return uses.writes[capture.version - 1] if uses is not None and capture.version else 0
        return self.log.made_at(capture.number)


def _kind(given: Any) -> Kind | None:
    # Return the worst kind of number in a Variable or gradient; None if its numbers cannot be read or are integers.
    variable = variable_of(given)
    held = unrecorded(read, variable) if variable is not None else numbers_of(given)
    if not is_eager(held) or not (held.dtype.is_floating or held.dtype.is_complex):
        return None
    numbers = unrecorded(lambda tensor: tf.cast(tensor, tf.float32) if tensor.dtype.size < 4 else tensor, held).numpy()
    return "nan" if numpy.isnan(numbers).any() else "inf" if numpy.isinf(numbers).any() else "finite"


def _described(optimizer: Any, rate: Any) -> str:
    # Return the optimizer's type and, if it is a number, the learning rate as text.
    number = number_of(rate)
    return type(optimizer).__name__ + ("" if number is None else f", lr {number:.6g}")
