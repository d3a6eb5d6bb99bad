"""Changes to a ``GraphDef``, which is plain data, before it is imported into another graph."""

from __future__ import annotations

import itertools
from typing import Any

_numbers = itertools.count()


def renamed(definition: Any) -> Any:
    """Return the ``GraphDef`` with new names for its functions, because these names are global in TensorFlow.

    Differentiating a loop adds a function whose name is derived from the loop's name. If the program later
    differentiated the same loop, TensorFlow would refuse a second function with that name.
    """
    number = next(_numbers)
    names = {
        function.signature.name: f"backprobe_{number}_{function.signature.name}"
        for function in definition.library.function
    }
    for function in definition.library.function:
        function.signature.name = names[function.signature.name]
    for pair in definition.library.gradient:
        pair.function_name = names.get(pair.function_name, pair.function_name)
        pair.gradient_func = names.get(pair.gradient_func, pair.gradient_func)
    for node in itertools.chain(definition.node, *(function.node_def for function in definition.library.function)):
        node.op = names.get(node.op, node.op)
        for attribute in node.attr.values():
            for called in (attribute.func, *attribute.list.func):
                if called.name in names:
                    called.name = names[called.name]
    return definition


def without(definition: Any, names: set[str]) -> Any:
    """Return the ``GraphDef`` without these nodes. Control inputs from them and colocations with them are removed from
    the other nodes; inputs that take their tensors stay.
    """
    kept = [node for node in definition.node if node.name not in names]
    for node in kept:
        inputs = [given for given in node.input if given.removeprefix("^") not in names or not given.startswith("^")]
        del node.input[:]
        node.input.extend(inputs)
        beside = node.attr["_class"].list.s if "_class" in node.attr else ()
        if any(place.decode().removeprefix("loc:@") in names for place in beside):
            del node.attr["_class"]
    del definition.node[:]
    definition.node.extend(kept)
    return definition


def tensors_taken(definition: Any) -> set[str]:
    """Return the names of the tensors that the nodes use."""
    return {
        given if ":" in given else f"{given}:0"
        for node in definition.node
        for given in node.input
        if not given.startswith("^")
    }
