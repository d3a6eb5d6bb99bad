"""``bp.watch`` as a callback for Hugging Face's ``Trainer``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from backprobe.errors import installed
from backprobe.integrations.trainer_watch import CALLED, HasWatch, TrainerWatch
from backprobe.record.renamed import renamed
from backprobe.watch.options import FOLDER

if TYPE_CHECKING:  # which knows the library only where it is installed
    TrainerCallback = object
else:
    TrainerCallback = installed(
        "transformers", asked="backprobe.integrations.huggingface", packages="transformers accelerate"
    ).TrainerCallback

SUMMARY = "train_runtime"
"""What is logged with this is about the whole training, and not about a step."""


class WatchCallback(HasWatch, TrainerCallback):
    """Watch the model that a ``Trainer`` trains: ``Trainer(..., callbacks=[WatchCallback("runs/exp1")])``.

    A step is one of the optimizer, counted as ``state.global_step`` is, also where a training goes on from a
    checkpoint; parameters' gradients are those that the optimizer uses: accumulated, unscaled and clipped. What the
    trainer logs is logged in the run: ``loss``, ``learning_rate``, ``grad_norm``, ``eval_loss``.

    - ``folder`` is where the run is written, and ``bp.open_run`` reads it.
    - ``options`` are those of ``bp.watch``, without those that the trainer knows.

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
