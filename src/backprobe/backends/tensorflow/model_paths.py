"""The layers and Variables of a Keras model, by path as one would write them down.

Layers of a functional or Sequential model, and operations between them, are called by their names. Layers of other
models are called by the attribute that holds them: ``blocks.0.dense``. A layer that is held twice has two paths.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import keras
import tensorflow as tf

BOOKKEEPING = frozenset(
    {
        "_layers",
        "_functional",
        "_operations",
        "_operations_by_depth",
        "_nodes",
        "_nodes_by_depth",
        "_tracker",
        "_trainable_variables",
        "_non_trainable_variables",
        "_metrics",
        "_seed_generators",
        "_losses_override",
        "_inbound_nodes",
        "_outbound_nodes",
        "_obj_reference_counts_dict",
        "_tracked",
        "_losses",
        "_build_shapes_dict",
        "_call_has_context_arg",
        "call_signature_parameters",
    }
)
"""Attributes in which Keras keeps no parts, or only parts that other attributes hold too. Such attributes of TensorFlow
start with ``_self_``.
"""

PLAIN = frozenset({bool, int, float, str, type(None)})
"""The types of most attributes of a layer. They hold no parts, and are tested first because testing for a Variable is
slower.
"""

WANTED = (keras.layers.Layer, keras.Variable, tf.Variable, list, tuple, dict)


@dataclass
class ModulePart:
    """A layer or operation that can run, with the parts and the Variables that it holds directly, by name."""

    module: Any
    parts: list[tuple[str, ModulePart]] = field(default_factory=list)
    variables: list[tuple[str, Any]] = field(default_factory=list)


def dismantle(model: Any) -> ModulePart:
    """Return the parts of a model. A layer that is held in several places is a single part."""
    return _part(model, {})


def modules(part: ModulePart, path: str = "", above: tuple[ModulePart, ...] = ()) -> Iterator[tuple[str, ModulePart]]:
    """Yield every part with its path, which is "" for the whole model. A part that contains itself is not entered
    again.
    """
    yield path, part
    for name, inner in part.parts:
        if inner is not part and inner not in above:
            yield from modules(inner, f"{path}.{name}" if path else name, (*above, part))


def parameters(whole: ModulePart) -> Iterator[tuple[str, Any]]:
    """Yield every Variable that a layer holds, with its path, trainable or not, except random seeds."""
    for path, part in modules(whole):
        for name, variable in part.variables:
            yield f"{path}.{name}" if path else name, variable


def _part(module: Any, known: dict[int, ModulePart]) -> ModulePart:
    if id(module) in known:
        return known[id(module)]
    part = known[id(module)] = ModulePart(module)
    if isinstance(module, keras.layers.Layer):
        attributes = list(_attributes(module))
        named = [(inner.name, inner) for inner in named_in(module)]
        by_name = {id(inner) for _, inner in named}
        named += [each for each in attributes if isinstance(each[1], keras.layers.Layer) and id(each[1]) not in by_name]
        part.parts = [(name, _part(inner, known)) for name, inner in named]
        part.variables = _variables(module, attributes)
    return part


def named_in(layer: Any) -> list[Any]:
    """Return the layers and operations of a Sequential or functional model, which are called by their own names. Other
    layers have none.
    """
    if isinstance(layer, keras.Sequential):
        return list(layer.layers)
    if isinstance(layer, keras.Model) and hasattr(type(layer), "operations"):
        return [operation for operation in layer.operations if not isinstance(operation, keras.layers.InputLayer)]
    return []


def _variables(layer: Any, attributes: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    # Return the Variables by attribute. A Variable without a public attribute, such as ``_kernel``, is called by its
    # own name.
    found = [(name, value) for name, value in attributes if isinstance(value, keras.Variable | tf.Variable)]
    known = {id(value) for _, value in found}
    own = [value for key in ("_trainable_variables", "_non_trainable_variables") for value in vars(layer).get(key, ())]
    found += [("_", value) for value in own if id(value) not in known]
    return [(v.name if name[0] == "_" and isinstance(v, keras.Variable) else name, v) for name, v in found]


def _attributes(layer: Any) -> Iterator[tuple[str, Any]]:
    own = dict(vars(layer))  # a copy, because another thread may change the original
    for name in holders(own):
        yield from held(name, own[name])


def holders(own: Mapping[str, Any]) -> list[str]:
    """Return the attributes of a layer that may hold parts or Variables."""
    return [
        name
        for name, value in own.items()
        if not (type(value) in PLAIN or name in BOOKKEEPING or name.startswith("_self_")) and isinstance(value, WANTED)
    ]


def held(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the layers and Variables that an attribute holds, directly or in lists and dictionaries."""
    if isinstance(value, dict | list | tuple):
        for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
            if type(item) not in PLAIN:
                yield from held(f"{path}.{key}", item)
    elif isinstance(value, WANTED):
        yield path, value
