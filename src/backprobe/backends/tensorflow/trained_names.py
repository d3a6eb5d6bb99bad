"""Names of Variables in the program: the local variable that holds the model, and the path inside the model."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from backprobe.backends.tensorflow.layers import is_layer
from backprobe.backends.tensorflow.tensors import identity, variable_of
from backprobe.backends.user_lines import users_frames
from backprobe.source.frames import forget, variables_in

Owned = tuple[str, str, str, tuple[int, ...]]
"""The name of a Variable; the built-in Keras layer that holds it, by name and kind; and the layer's Variables."""


def owned_by_layers() -> dict[int, Owned]:
    """Return, by id, the names of the Variables that local variables of running functions hold, directly or in
    models.
    """
    found: dict[int, Owned] = {}
    for name, value in _variables():
        if is_layer(value):
            found = {**_of_layer(name, value), **found}
        elif isinstance(value, tf.Module):
            own = {attribute: held for attribute, held in vars(value).items() if isinstance(held, tf.Variable)}
            found = {**{identity(held): (f"{name}.{path}", "", "", ()) for path, held in own.items()}, **found}
        elif isinstance(value, tf.Variable):
            found.setdefault(identity(value), (name, "", "", ()))
    return found


def name_of(variable: Any, owned: Mapping[int, Owned]) -> str:
    """Return the name of a Variable in the program, or else Keras's or TensorFlow's name."""
    if identity(variable) in owned:
        return owned[identity(variable)][0]
    return str(getattr(variable, "path", None) or variable_of(variable).name.partition(":")[0])


def _variables() -> Iterator[tuple[str, Any]]:
    # Yield the names and values of variables, those of the outermost function first: its name for a model has priority
    # over the names in functions that it calls.
    for frame in reversed([*users_frames(sys._getframe(1))]):
        held = [*variables_in(frame).items()]
        forget(frame)
        yield from ((name, value) for name, value in held if name != "self")
        own = next((value for name, value in held if name == "self"), None)
        if own is not None and not is_layer(own):
            yield from ((f"self.{name}", value) for name, value in getattr(own, "__dict__", {}).items())


def _of_layer(name: str, layer: Any) -> dict[int, Owned]:
    from backprobe.backends.tensorflow.model_plans import structure_of  # imports Keras

    structure, found = structure_of(layer), dict[int, Owned]()
    kinds = dict(structure.modules)
    places = {path: identity(own) for path, own in structure.variables if variable_of(own) is not None}
    for path, own in places.items():
        holder = path.rpartition(".")[0]
        module = kinds.get(holder)
        if module is None or type(module).__module__.partition(".")[0] != "keras":
            found[own] = f"{name}.{path}", "", "", ()  # the program's own layer may run without reading its Variables
            continue
        beside = tuple(other for place, other in places.items() if place.rpartition(".")[0] == holder)
        found[own] = f"{name}.{path}", f"{name}.{holder}" if holder else name, type(module).__name__, beside
    return found
