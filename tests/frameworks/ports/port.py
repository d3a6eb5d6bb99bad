"""What a port is: how both programs are recorded, and what a planted fault must be named by."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import torch

import backprobe as bp


@dataclass(frozen=True)
class Port:
    """``record(is_faulty)`` gives the recordings of reference and port.

    ``first`` are the names of the reference's value that may be named first when ``fault`` is planted. ``alone`` are
    parameters that have no counterpart. ``is_whole`` says that each entry of both has a partner.
    """

    name: str
    record: Callable[[bool], tuple[Any, Any]]
    fault: str
    first: tuple[str, ...]
    alone: tuple[str, ...] = ()
    is_whole: bool = True
    address: str = ""


def mean_square(y):
    """The output that is differentiated, of a tensor of PyTorch or JAX."""
    return (y * y).mean()


def in_torch(model, *arrays, **options):
    """The recording of the reference."""
    return bp.probe(model.eval(), of=mean_square, **options)(*(torch.tensor(array) for array in arrays))


def weights(model):
    """The parameters and buffers of a reference, as arrays of JAX, by their names."""
    return {name: jnp.asarray(value.numpy()) for name, value in model.state_dict().items()}


def images(*shape):
    """Images with the channels first, of one seed."""
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


TOKENS = np.array([[3, 1, 4, 1, 5], [2, 6, 5, 3, 5]])
