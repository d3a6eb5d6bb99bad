"""Changes to a ``GraphDef``, which is plain data, so that it can be imported into another graph."""

from __future__ import annotations

import itertools
from typing import Any

_numbers = itertools.count()


def renamed(definition: Any) -> Any:
    """The ``GraphDef`` with new names for its functions, which belong to all of TensorFlow.

    Differentiating a loop adds a function with a name made from the loop's. If the program later takes gradients of the
    same loop, TensorFlow would refuse the second function of that name.
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
    """The ``GraphDef`` without these nodes, and without inputs that only place other nodes with them or order others
    after them.
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
    """The names of the tensors that its nodes use."""
    return {
        given if ":" in given else f"{given}:0"
        for node in definition.node
        for given in node.input
        if not given.startswith("^")
    }
