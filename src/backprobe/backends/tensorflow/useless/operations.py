"""The operations of a program as TensorFlow reports them, one iteration after another."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import tensorflow as tf

from backprobe.backends.tensorflow import layers, private
from backprobe.backends.tensorflow.cuts import users_place
from backprobe.backends.tensorflow.operation_log import OperationLog
from backprobe.backends.tensorflow.private import identity_of, is_stopped, shape_of
from backprobe.backends.tensorflow.useless.distributions import Distributions
from backprobe.backends.tensorflow.useless.outcomes import Elementwise, Operation
from backprobe.backends.tensorflow.useless.picks import Picks
from backprobe.backends.tensorflow.useless.replay import Recorded
from backprobe.backends.tensorflow.useless.shapes import Shapes
from backprobe.backends.user_lines import callers
from backprobe.source.user_code import package

MOST = 20_000
"""The operations that are kept in one iteration."""
SMALL, SMALL_ELEMENTS = 2_000, 5_000_000
"""Those of a small program, and the elements of what they make: going through them once more takes no time there."""
UNDONE = "Softmax"
"""The kind of operation that Keras leaves out in a graph, where a loss is given what it has made."""


class Operations:
    """Looks at each operation as it has run, and changes nothing."""

    def __init__(self) -> None:
        self.elementwise = Elementwise()
        self.is_off = self.is_backward = False
        self.begin(OperationLog(), ())

    def begin(self, log: OperationLog, suspicious: Collection[int] | None, is_brief: bool = False) -> None:
        """An iteration begins. What is computed from suspicious Variables is kept; from all if that is None.

        Where it ``is_brief``, that is done for small programs alone.
        """
        self.log = log
        self.shapes = Shapes(self.elementwise, self._is_held)
        self.distributions = Distributions(self._is_computed, _is_undone)
        self.picks = Picks(self._is_computed)
        self.is_whole, self.is_brief, self.elements = suspicious is None, is_brief, 0
        self.suspicious, self.leading = frozenset(suspicious or ()), set(suspicious or ())
        self.recorded: list[Recorded] = []
        self.trained: set[int] = set()  # what is computed from Variables that are followed, and differentiated

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Within this context it hears of operations."""
        with private.also_hearing(self._ran, self._has_own_gradient):
            yield

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Within this context what runs is no part of the program; the first error ends all this, and is not raised."""
        try:
            with self.log.muted(), private.all_stopped():
                yield
        except Exception:  # noqa: BLE001  # the program goes on, and no more is said of it
            self.is_off = True
            self.begin(self.log, ())

    def _ran(
        self, kind: Any, inputs: Sequence[Any], attrs: Any, outputs: Any, op_name: Any = None, graph: Any = None
    ) -> None:  # fmt: skip
        if self.is_off or graph is not None or self.log.is_muted or not outputs or is_stopped():
            return
        with self.looking():
            numbers = [*map(identity_of, inputs)]
            one = Operation(kind.decode() if isinstance(kind, bytes) else str(kind), inputs, attrs or (), outputs)
            variables, followed = self.log.variables, self.log.followed
            if any(each in self.trained or (each in variables and each in followed) for each in numbers):
                self.trained.update(followed.intersection(map(identity_of, outputs)))
                if self.is_whole:
                    self.leading.update(each for each in numbers if each in variables)
            if self.leading and not self.leading.isdisjoint(numbers):
                self._keep(Recorded(one, numbers, users_place()))
            if not self.is_backward:
                self.shapes.look(one, numbers)
                self.distributions.look(one, numbers)
                self.picks.look(one, numbers)

    def _has_own_gradient(
        self, kind: Any, outputs: Sequence[Any], inputs: Sequence[Any], gradient: Callable[..., Any]
    ) -> None:  # fmt: skip
        if self.is_off or not self.leading or self.log.is_muted or is_stopped():
            return
        if any(map(tf.is_symbolic_tensor, (*outputs, *inputs))):
            return
        numbers = [*map(identity_of, inputs)]
        if not self.leading.isdisjoint(numbers):
            one = Operation(str(kind), tuple(inputs), (), tuple(outputs))
            self._keep(Recorded(one, numbers, users_place(), gradient))

    def _keep(self, one: Recorded) -> None:
        self.leading.update(map(identity_of, one.operation.outputs))
        self.recorded.append(one)
        self.elements += prod(shape_of(one.operation.outputs[0]))
        is_large = self.is_brief and (self.elements > SMALL_ELEMENTS or len(self.recorded) > SMALL)
        if is_large or len(self.recorded) > MOST:
            self.is_whole = False
            self.leading.clear()
            self.recorded.clear()

    def _is_held(self, number: int) -> bool:
        # Is it what a Variable holds?
        given = self.log.inputs(number)
        return bool(given) and all(one in self.log.variables for one in given)

    def _is_computed(self, number: int) -> bool:
        # Is it computed from Variables, and none? One of these may start as a distribution by chance, as 1/N each.
        return number in self.trained and not self._is_held(number)

    def is_trained(self, tensor: Any) -> bool:
        """Is it computed from Variables?"""
        return identity_of(tensor) in self.trained


def _is_undone(kind: str) -> bool:
    # Does a loss of Keras run now that leaves this operation out where the program is compiled, as it is by itself?
    outside = (package(one.f_code.co_filename) for one in callers(sys._getframe()))
    by = next((one for one in outside if one not in ("backprobe", "tensorflow")), None)
    if kind != UNDONE or by != "keras":
        return False
    frames = [one.f_code for one in callers(sys._getframe())]
    return any(code in private.RUN_EAGERLY for code in frames) or layers.is_in_step_of_keras()
