"""Functions traced before a watch began. Their graphs do not contain the watch's operations, and run without them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from backprobe.backends.patching import listening
from backprobe.backends.seen import Seen
from backprobe.backends.tensorflow import private
from backprobe.backends.tensorflow.tensors import identity


class TracedBefore:
    """The functions that ran in the current step, and were traced before this object was created."""

    def __init__(self) -> None:
        self.first = private.graph_number(tf.Graph())
        self.ran: dict[int, Any] = {}  # the functions that ran and train, by id
        self.others = Seen()  # functions whose graphs contain no tape; they train only if a tape records the call

    def listening(self, ran: Callable[[Any], None]) -> AbstractContextManager[None]:
        """Inside this context calls are observed. ``ran`` is called after a call of a function that was traced before
        and trains.
        """

        def called(following: Callable[..., Any], function: Any, tensor_inputs: Any, captured_inputs: Any) -> Any:
            result = following(function, tensor_inputs, captured_inputs)
            if private.graph_number(function.graph) < self.first:
                if self._is_training(function, captured_inputs):
                    self.ran[id(function)] = function
                    ran(function)
                else:
                    self.others.add(function)
            return result

        return listening(*private.CALLED_FUNCTION, called)

    def _is_training(self, function: Any, captured: Any) -> bool:
        # Did a tape record this call, or does the function contain a tape?
        if id(function) in self.ran or private.is_followed_by_a_tape(*captured):
            return True
        return function not in self.others and private.has_gradients(function.graph)

    def around(self, parts: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return the name of a function that ran with one of these layers, and the layer's path; None if there is
        none.
        """
        for function in self.ran.values():
            held = {
                private.identity_of(one)
                for one in function.captured_inputs
                if one.dtype == tf.resource and hasattr(one, "_id")
            }
            for path, layer in parts.items():
                if any(identity(one) in held for one in layer.trainable_variables):
                    return private.spelled(function), path
        return None
