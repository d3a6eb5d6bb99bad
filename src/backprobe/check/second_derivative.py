"""The gradient of a call, treated as a call of its own: its derivative is the call's second derivative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from backprobe.backends.recheck import Input, RecordedCall
from backprobe.record.reasons import Reason

OF_OUTPUT = "the gradient of its output"
"""The name of the added input: the cotangent from which the gradient of the call is computed."""


class GradientCall:
    """The gradient of a call, as a function of the call's inputs and of a cotangent for each output.

    Its derivative with respect to the inputs is the second derivative of the call. Its derivative with respect to the
    cotangents matters for a gradient penalty, which is differentiated through the gradient.
    """

    def __init__(self, call: RecordedCall) -> None:
        self.call = call
        self.epsilon, self.is_custom, self.derives = call.epsilon, call.is_custom, call.derives
        self.may_have_rules = call.may_have_rules
        self.notes: list[Reason] = []
        random, outputs = numpy.random.default_rng(0), call.run(call.values)
        several = len(outputs) > 1
        own = {-1 - at: Input(f"{OF_OUTPUT} {at}" if several else OF_OUTPUT, "") for at in range(len(outputs))}
        self.inputs = {**call.inputs, **own}
        self.values = [*call.values, *(random.standard_normal(one.shape).astype(one.dtype) for one in outputs)]

    def run(self, values: Sequence[Any]) -> list[Any]:
        inputs, cotangents = self._parted(values)
        pulled = self.call.pull(inputs, cotangents)
        return [numpy.zeros_like(value) if one is None else one for value, one in zip(inputs, pulled, strict=True)]

    def pull(self, values: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        return self.call.pull_twice(*self._parted(values), cotangents)

    def push(self, values: Sequence[Any], at: int, direction: Any) -> list[Any] | None:
        return None

    def _parted(self, values: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        count = len(self.call.inputs)
        return values[:count], values[count:]
