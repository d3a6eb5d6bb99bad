"""Identity operations that can block a gradient. Local partials need them, because a tape itself cannot stop at a
tensor.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

import tensorflow as tf

from backprobe.backends.tensorflow import private


class Taps:
    """The identity operations of one run. No gradient flows through those in ``stopped``."""

    def __init__(self) -> None:
        self.made: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self.stopped: frozenset[int] = frozenset()

    def tap(self, tensor: Any) -> Any:
        """Return the tensor that the program uses instead of this one. It is always the same, and a tap is returned
        unchanged. So is a tensor without a tap while recording is stopped.
        """
        number = private.identity_of(tensor)
        known = self.made.get(number)
        if known is not None or private.is_stopped():
            return tensor if known is None else known
        own: list[int] = []

        @tf.custom_gradient  # type: ignore[untyped-decorator]  # TensorFlow has no types
        def tapped(value: Any) -> Any:
            # None instead of zeros, because zeros times an infinite derivative would be NaN
            return value, lambda gradient: None if own[0] in self.stopped else gradient

        tap = tapped(tensor)
        vars(tap).update(vars(tensor))  # copy attributes such as Keras's mask
        own.append(private.identity_of(tap))
        self.made[number] = self.made[own[0]] = tap
        return tap
