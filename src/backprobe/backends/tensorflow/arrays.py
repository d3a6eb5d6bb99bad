"""Implements ``Arrays`` for TensorFlow: the tensors of a recording as data."""

from __future__ import annotations

from typing import Any

import numpy
import tensorflow as tf

from backprobe.backends.facts import Summary
from backprobe.backends.numpy import DTYPES, HostArrays
from backprobe.backends.tensorflow import evaluation
from backprobe.backends.tensorflow.tensors import describe, plain, read
from backprobe.errors import NotSaved


class TensorflowArrays(HostArrays):
    """Shows and saves tensors of TensorFlow."""

    name = "tensorflow"

    def is_tensor(self, value: Any) -> bool:
        return plain(value) is not None

    describe = staticmethod(describe)
    evaluate = staticmethod(evaluation.evaluate)

    def to_host(self, tensor: Any) -> Any:
        held = plain(tensor)
        return numpy.asarray((read(held) if isinstance(held, tf.Variable) else held).numpy())

    def from_host(self, array: Any, dtype: str) -> Any:
        return tf.constant(array, dtype=tf.as_dtype(dtype))

    def summarize(self, tensor: Any) -> Summary | None:
        return super().summarize(tensor) if describe(tensor).dtype in DTYPES else None

    def to_text(self, tensor: Any) -> str:
        if describe(tensor).dtype in DTYPES:
            return super().to_text(tensor)
        return str(self.to_host(tensor).tolist()) if describe(tensor).dtype == "string" else "(not shown)"

    def encode(self, tensor: Any, blobs: dict[str, Any], seen: dict[Any, str]) -> dict[str, Any]:
        dtype = describe(tensor).dtype
        if dtype not in DTYPES:
            raise NotSaved(f"a {dtype} tensor cannot be saved", asked="rec.save(path)", found=f"a {dtype} tensor")
        return super().encode(tensor, blobs, seen)
