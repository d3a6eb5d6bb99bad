"""``bp.watch`` as a callback for Lightning's ``Trainer``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from backprobe.errors import installed
from backprobe.integrations.trainer_watch import CALLED, HasWatch, TrainerWatch
from backprobe.record.renamed import renamed
from backprobe.watch.options import FOLDER

if TYPE_CHECKING:  # Type checkers know the library only if it is installed.
    Callback = object
else:
    Callback = installed("lightning", asked="backprobe.integrations.lightning").Callback


class WatchCallback(HasWatch, Callback):
    """Watch the module that a ``Trainer`` trains: ``Trainer(callbacks=[WatchCallback("runs/exp1")])``.

    A step is one step of the optimizer. With several optimizers, it is a step of the last one that
    ``configure_optimizers`` returns. The gradients of parameters are those that the optimizer uses: accumulated,
    unscaled and clipped. The run also contains the loss that ``training_step`` returns and the learning rate. After
    resuming from a checkpoint, the numbers of steps continue from there.

    - ``folder``: the folder to which the run is written. ``bp.open_run`` reads it.
    - ``options``: the options of ``bp.watch``, except those that the callback takes from the trainer.

    Raises BadOption.
    """

    @renamed(CALLED, FOLDER)
    def __init__(self, folder: str | os.PathLike[str], **options: Any) -> None:
        self._watch = TrainerWatch(folder, options)
        self._restored: int | None = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        first, self._restored = self._restored, None
        # with several optimizers, ``global_step`` is the sum of their steps
        if first is None and len(trainer.optimizers) == 1:
            first = trainer.global_step
        self._watch.open(pl_module, optimizer=trainer.optimizers, scaler=scaler, start_step=first)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if self.run is None:
            return
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
        if loss is not None:  # the trainer has divided the loss by the number of accumulated batches
            self.run.log(loss=loss * (trainer.accumulate_grad_batches if pl_module.automatic_optimization else 1))
        rates = [float(group["lr"]) for optimizer in trainer.optimizers for group in optimizer.param_groups]
        self._watch.log({f"learning_rate{f'.{at}' * (len(rates) > 1)}": rate for at, rate in enumerate(rates)})

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._watch.close()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._watch.close(exception)

    def state_dict(self) -> dict[str, Any]:
        return {} if self.run is None else {"step": self.run.current_step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._restored = state_dict.get("step")
