"""The training function of Keras's ``fit`` while a callback watches it. Hooks are installed only while the function
runs.

Keras calls no callback if ``fit`` raises. Therefore a step is watched only after the callback has announced it, and the
exception that ends the training is caught here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from backprobe.backends.tensorflow.watching import TensorflowWatching

OVER = StopIteration, tf.errors.OutOfRangeError
"""Errors that mean that there are no more batches."""


class FitSteps:
    """Replaces ``model.train_function``. ``failed`` is called with the exception that ends the training."""

    def __init__(self, model: Any, watching: TensorflowWatching, failed: Callable[[BaseException], None]) -> None:
        self.model, self.watching, self.failed = model, watching, failed
        self.before = model.train_function
        self.history = getattr(model, "history", None)  # Keras creates a new ``History`` for each ``fit``
        self.is_expected = False
        watching.rest()
        self._make()

    def _make(self) -> None:
        # Create the program's own training function. TensorFlow traces it when it first runs, with the hooks installed.
        self.model.train_function = None
        self.model.make_train_function()
        self.watched = self.model.train_function
        self.model.train_function = self

    def expect(self) -> None:
        """Announce that the next call is a step of the watched ``fit``."""
        if self.model.train_function is not self:  # a callback has made Keras replace it
            self._make()
        self.is_expected = True

    def __call__(self, iterator: Any) -> Any:
        is_expected, self.is_expected = self.is_expected, False
        # the step belongs to another ``fit``, so the watched one has failed
        if getattr(self.model, "history", None) is not self.history:
            self.give_up()
            self.model.make_train_function()
            return self.model.train_function(iterator)
        if not is_expected:  # the call is no step of ``fit``, but for example ``train_on_batch``
            return self._unwatched()(iterator)
        try:
            with self.watching.hearing():
                return self.watched(iterator)
        except OVER:
            raise
        except BaseException as error:
            self.end()
            self.failed(error)
            raise

    def _unwatched(self) -> Callable[[Any], Any]:
        if self.before is None or self.before is self:
            self.model.train_function = None
            self.model.make_train_function()
            self.before, self.model.train_function = self.model.train_function, self
        found: Callable[[Any], Any] = self.before
        return found

    def give_up(self) -> None:
        """Called when ``fit`` was called again, so the watched call of ``fit`` must have failed."""
        self.end()
        self.failed(RuntimeError("fit was called again"))

    def end(self) -> None:
        """Restore the model's own training function."""
        if self.model.train_function is self:
            self.model.train_function = self.before
