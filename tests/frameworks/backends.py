"""The frameworks that the suite runs on, each spelled alike: making tensors, reading them, and a few operators.

One that is absent fails this import, and with it every test of the folder.
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # what TensorFlow has to say about the machine

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import tensorflow as tf

from torch_framework import TORCH, Framework

try:
    from jax import enable_x64
except ImportError:  # before 0.8
    from jax.experimental import enable_x64


def _widened(array: Any) -> np.ndarray:
    array = np.asarray(array)
    return array.astype(np.float32) if array.dtype == ml_dtypes.bfloat16 else array


TENSORFLOW = Framework(
    name="tensorflow",
    tensor=lambda numbers, dtype="float32": tf.constant(numbers, dtype),
    numpy=lambda tensor: _widened(tf.convert_to_tensor(tensor)),
    ops=SimpleNamespace(
        sin=tf.sin,
        cos=tf.cos,
        exp=tf.exp,
        tanh=tf.tanh,
        sqrt=tf.sqrt,
        abs=tf.abs,
        relu=tf.nn.relu,
        sum=tf.reduce_sum,
        mean=tf.reduce_mean,
        where=tf.where,
        stack=tf.stack,
        concat=tf.concat,
        reshape=tf.reshape,
        argmax=tf.argmax,
        stop_gradient=tf.stop_gradient,
        conj=tf.math.conj,
        real=tf.math.real,
        matmul=tf.matmul,
        round=tf.round,
        cast=tf.cast,
        half=tf.float16,
        brain=tf.bfloat16,
        single=tf.float32,
        integer=tf.int32,
    ),
)
JAX = Framework(
    name="jax",
    tensor=lambda numbers, dtype="float32": jnp.asarray(numbers, dtype),
    numpy=_widened,
    ops=SimpleNamespace(
        sin=jnp.sin,
        cos=jnp.cos,
        exp=jnp.exp,
        tanh=jnp.tanh,
        sqrt=jnp.sqrt,
        abs=jnp.abs,
        relu=jax.nn.relu,
        sum=jnp.sum,
        mean=jnp.mean,
        where=jnp.where,
        stack=jnp.stack,
        concat=jnp.concatenate,
        reshape=jnp.reshape,
        argmax=jnp.argmax,
        stop_gradient=jax.lax.stop_gradient,
        conj=jnp.conj,
        real=jnp.real,
        matmul=jnp.matmul,
        round=jnp.round,
        cast=jnp.astype,
        half=jnp.float16,
        brain=jnp.bfloat16,
        single=jnp.float32,
        integer=jnp.int32,
    ),
    wide=lambda: enable_x64(True),
)
FRAMEWORKS = {framework.name: framework for framework in (TORCH, TENSORFLOW, JAX)}

NUMPY = SimpleNamespace(
    sin=np.sin,
    cos=np.cos,
    exp=np.exp,
    tanh=np.tanh,
    sqrt=np.sqrt,
    abs=np.abs,
    relu=lambda x: np.maximum(x, 0),
    sum=np.sum,
    mean=np.mean,
    where=np.where,
    stack=np.stack,
    concat=np.concatenate,
    reshape=np.reshape,
    argmax=np.argmax,
    stop_gradient=np.copy,
    conj=np.conj,
    real=np.real,
    matmul=np.matmul,
    cast=lambda x, dtype: x,
    half=np.float16,
    brain=None,
    single=np.float32,
    integer=np.int32,
)
"""The operators in NumPy, which judges the expected numbers by finite differences."""
