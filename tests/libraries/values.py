"""What a program computes as plain arrays, in whichever framework, and the random numbers that it draws."""

import random
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

SEED = 0


def flat(value: Any, path: str = "result") -> Iterator[tuple[str, np.ndarray]]:
    """The arrays inside of containers, each with its path; None and texts too, as arrays of objects."""
    if isinstance(value, Mapping):
        for key in value:
            yield from flat(value[key], f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, one in enumerate(value):
            yield from flat(one, f"{path}.{index}")
    else:
        yield path, array(value)


def array(value: Any) -> np.ndarray:
    """A tensor or a number of any framework as an array of NumPy."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        value = value.detach().resolve_conj().resolve_neg()
        value = value.to_dense() if value.layout != torch.strided else value
        return (value.float() if value.dtype == torch.bfloat16 else value).cpu().numpy()
    return np.asarray(value)


def differing(one: Any, other: Any) -> list[str]:
    """The paths at which two results are not the same, bit for bit."""
    first, second = dict(flat(one)), dict(flat(other))
    if first.keys() != second.keys():
        return sorted(first.keys() ^ second.keys())
    return [path for path in first if not _same(first[path], second[path])]


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return one.tolist() == other.tolist() if one.dtype == object else one.tobytes() == other.tobytes()


def seeded() -> None:
    """The same random numbers from here on."""
    random.seed(SEED)
    np.random.seed(SEED)
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(SEED)
    if (tensorflow := sys.modules.get("tensorflow")) is not None:
        tensorflow.random.set_seed(SEED)
    if (keras := sys.modules.get("keras")) is not None:
        keras.utils.set_random_seed(SEED)


def drawn() -> list[Any]:
    """What tells how many random numbers were drawn until now: the next ones."""
    found: list[Any] = [random.random(), np.random.random()]
    if (torch := sys.modules.get("torch")) is not None:
        found.append(torch.rand(1))
    if (tensorflow := sys.modules.get("tensorflow")) is not None:
        found.append(tensorflow.random.uniform(()))
    return found
