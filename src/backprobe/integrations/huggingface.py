"""``bp.watch`` as a callback for Hugging Face's ``Trainer``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from backprobe.errors import installed
from backprobe.integrations.trainer_watch import CALLED, HasWatch, TrainerWatch
from backprobe.record.renamed import renamed
from backprobe.watch.options import FOLDER

if TYPE_CHECKING:  # Type checkers know the library only if it is installed.
    TrainerCallback = object
else:
    TrainerCallback = installed(
        "transformers", asked="backprobe.integrations.huggingface", packages="transformers accelerate"
    ).TrainerCallback

SUMMARY = "train_runtime"
"""Logs that contain this key describe the whole training instead of one step."""


class WatchCallback(HasWatch, TrainerCallback):
    """Watch the model that a ``Trainer`` trains: ``Trainer(..., callbacks=[WatchCallback("runs/exp1")])``.

    A step is one step of the optimizer. Steps are counted like ``state.global_step``, also after resuming from a
    checkpoint. The gradients of parameters are those that the optimizer uses: accumulated, unscaled and clipped. The
    run also contains the numbers that the trainer logs during the training, such as ``loss``, ``learning_rate``,
    ``grad_norm`` and ``eval_loss``.

    - ``folder``: the folder to which the run is written. ``bp.open_run`` reads it.
    - ``options``: the options of ``bp.watch``, except those that the callback takes from the trainer.

    Raises BadOption.
    """

    @renamed(CALLED, FOLDER)
    def __init__(self, folder: str | os.PathLike[str], **options: Any) -> None:
        self._watch = TrainerWatch(folder, options)

    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, optimizer: Any = None, **kwargs: Any
    ) -> None:
        self._watch.open(model, optimizer=optimizer, start_step=state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if logs and SUMMARY not in logs:
            self._watch.log(logs)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._watch.close()
