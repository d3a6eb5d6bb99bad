"""Callbacks for trainers, and sinks for dashboards: each is a module of its own.

- ``backprobe.integrations.huggingface``, ``.lightning`` and ``.keras``: ``WatchCallback``, for their trainers.
- ``backprobe.integrations.tensorboard``: ``TensorBoardSink``; ``.wandb``: ``WandbSink``; ``.mlflow``: ``MLflowSink``.

Importing one of them imports the library that it is for; nothing else does.
"""

from backprobe.watch.sinks import FIELDS, Sink

__all__ = ["FIELDS", "Sink"]
