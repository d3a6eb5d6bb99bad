"""``bp.watch`` as a callback for Keras's ``fit``."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from backprobe.errors import BadOption, Unsupported, installed
from backprobe.integrations.trainer_watch import CALLED, HasWatch, TrainerWatch
from backprobe.record.renamed import renamed
from backprobe.watch.options import FOLDER

keras = installed("keras", asked="backprobe.integrations.keras")

if TYPE_CHECKING:  # The type checker may not have the library.
    from backprobe.backends.tensorflow.fitting import FitSteps
    from backprobe.backends.tensorflow.watching import TensorflowWatching

    Callback = object
else:
    Callback = keras.callbacks.Callback

ELSEWHERE = {
    "torch": "with bp.watch(model, folder) as run: around model.fit(..., callbacks=[keras.callbacks.LambdaCallback("
    "on_train_batch_end=lambda batch, logs: run.step())])",
    "jax": "bp.watch_function(loss_fn, folder), with a loss function that calls model.stateless_call",
}
"""The advice for each backend of Keras other than TensorFlow."""


class WatchCallback(HasWatch, Callback):
    """Watch the model that ``fit`` trains: ``model.fit(x, y, callbacks=[WatchCallback("runs/exp1")])``.

    A step is a batch, or several batches with ``gradient_accumulation_steps=``. The run also contains the numbers that
    Keras logs, as its progress bar shows them: averages since the beginning of the epoch. It contains ``learning_rate``
    and, after each epoch, the results of validation such as ``val_loss``. If the model was trained before, steps are
    counted on from those of its optimizer.

    - ``folder``: the folder to which the run is written. ``bp.open_run`` reads it.
    - ``options``: the options of ``bp.watch``, except those that the callback takes from the model.

    Raises BadOption. When the training begins, raises Unsupported if Keras does not compute with TensorFlow.
    """

    model: Any

    @renamed(CALLED, FOLDER)
    def __init__(self, folder: str | os.PathLike[str], **options: Any) -> None:
        super().__init__()
        self._watch = TrainerWatch(folder, options)
        self._steps: FitSteps | None = None

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        from backprobe.backends.tensorflow.fitting import FitSteps

        model, optimizers = self.model, self._optimizers()
        if isinstance(model.train_function, FitSteps):  # left over from a ``fit`` that failed
            model.train_function.give_up()
        self._watch.close()
        before = model.train_function
        first = int(optimizers[0].iterations) if len(optimizers) == 1 else None
        self._watch.open(model, optimizer=optimizers, start_step=first)
        model.train_function = before
        held = weakref.ref(self._watch)  # weak, because the model would otherwise keep the run open

        def failed(error: BaseException) -> None:
            watch = held()
            if watch is not None:
                watch.close(error)

        assert self.run is not None
        self._steps = FitSteps(model, cast("TensorflowWatching", self.run._watching), failed)

    def _optimizers(self) -> list[Any]:
        # The optimizers in the model. The optimizer given to ``compile`` comes last. Raises BadOption and Unsupported.
        asked, backend = f"WatchCallback({str(self._watch.folder)!r})", keras.backend.backend()
        if backend != "tensorflow":
            raise Unsupported(
                "WatchCallback watches fit where Keras computes with TensorFlow",
                asked=asked,
                found=f"Keras's backend {backend!r}",
                why="a step of the other backends runs other code",
                next=ELSEWHERE.get(backend, "KERAS_BACKEND=tensorflow"),
            )
        model = self.model
        if getattr(model, "steps_per_execution", 1) != 1:
            raise BadOption(
                "several steps in one execution cannot be told apart",
                asked=asked,
                found=f"steps_per_execution={model.steps_per_execution}",
                next="model.compile(..., steps_per_execution=1)",
            )
        others = [one for one in vars(model).values() if isinstance(one, keras.optimizers.Optimizer)]
        return [*dict.fromkeys(one for one in others if one is not model.optimizer), model.optimizer]

    def on_train_batch_begin(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        if self.run is not None and self._steps is not None:
            self._steps.expect()

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        if self.run is None or self._steps is None:
            return
        self._steps.watching.fitted()
        rates = {"learning_rate": float(self.model.optimizer.learning_rate)} if self.model.optimizer else {}
        self._watch.log({**(logs or {}), **rates})

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        self._watch.log({name: one for name, one in (logs or {}).items() if name.startswith("val_")})

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        steps, self._steps = self._steps, None
        if steps is not None:
            steps.end()
        self._watch.close()
