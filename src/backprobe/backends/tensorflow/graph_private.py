"""Private parts of TensorFlow that graph mode needs. Where one is missing, less is seen, but never wrongly."""

from __future__ import annotations

from typing import Any

from tensorflow.python.framework import ops

try:
    from tensorflow.python.framework.convert_to_constants import _run_inline_graph_optimization as inline
except ImportError:
    inline = None  # then a call is one operation, and a note says so

FLAT = frozenset({"Ceil", "Floor", "Rint", "Round"})  # their registered gradient is None


def conducts(operation: Any) -> bool:
    """Does TensorFlow let a gradient through this kind of operation?"""
    if operation.type in FLAT:
        return False
    try:
        return ops.get_gradient_function(operation) is not None
    except LookupError:  # a call of a function, or an operation that ``tf.gradients`` will complain of by name
        return True


def inlined(function: Any) -> Any:
    """The ``GraphDef`` of a concrete function with the calls in it replaced by what they call."""
    if inline is None:
        return function.graph.as_graph_def()
    return inline(function, lower_control_flow=False, aggressive_inlining=True)


def called_graph(graph: Any, call: Any) -> Any:
    """The graph of the function that an operation calls; None where it is not there to be seen."""
    function = graph._get_function(call.get_attr("f").name)
    return getattr(function, "graph", None)


def is_compiled(call: Any) -> bool:
    """Is this a call of a function that XLA compiles?"""
    try:
        return bool(call.get_attr("_XlaMustCompile"))
    except ValueError:
        return False
