"""Callbacks for trainers and sinks for dashboards, each in a module of its own.

- ``backprobe.integrations.huggingface``, ``.lightning`` and ``.keras``: ``WatchCallback``, for their trainers.
- ``backprobe.integrations.tensorboard``: ``TensorBoardSink``; ``.wandb``: ``WandbSink``; ``.mlflow``: ``MLflowSink``.

A trainer's or dashboard's library is only imported when its module here is imported.
"""

from backprobe.watch.sinks import FIELDS, Sink

__all__ = ["FIELDS", "Sink"]
