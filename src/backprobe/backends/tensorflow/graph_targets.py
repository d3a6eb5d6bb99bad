"""Targets that are already graphs, and errors for objects that only look like graphs."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from backprobe.backends.tensorflow.graph_function import FunctionProgram
from backprobe.backends.tensorflow.graph_mode import GraphProgram
from backprobe.backends.tensorflow.graph_session import session_program
from backprobe.errors import BadOption, Unsupported
from backprobe.record.containers import leaves


def program(target: Any, session: Any) -> GraphProgram | None:
    """Return the program of a graph's tensor, a container of such tensors, or a concrete function; None for targets
    without anything of a graph. Raises BadOption or Unsupported for what cannot be probed, such as an eager tensor.
    """
    if isinstance(target, tf.types.experimental.ConcreteFunction):
        if session is not None:
            raise BadOption(
                "a concrete function runs by itself",
                asked="session=",
                found="a concrete function and a session",
                next="bp.probe(function)(x)",
            )
        return FunctionProgram(target, str(target.graph.name))
    parts = [leaf for _, leaf in leaves(target)]
    for part in parts:
        _refuse(part)
    tensors = [part for part in parts if tf.is_symbolic_tensor(part)]
    if not tensors:
        return None
    name = tensors[0].op.name if target is tensors[0] else type(target).__name__
    if any(hasattr(tensor.graph, "outer_graph") for tensor in tensors):
        raise Unsupported(
            "a tensor inside a tf.function cannot be probed from within it",
            asked=f"bp.probe({name})",
            found=f"{tensors[0].name} of a function's graph",
            why="its function is being traced, and runs only later",
            next="bp.probe(f)(x), or bp.probe(f.get_concrete_function(x))(x)",
        )
    return session_program(tensors, target, name, session)


def _refuse(part: Any) -> None:
    # Raise BadOption if a part of a target is an operation, an eager tensor or a Variable.
    if isinstance(part, tf.Operation):
        raise BadOption(
            f"{part.name} is an operation, not a tensor",
            asked=f"bp.probe({part.name})",
            found=f"{len(part.outputs)} outputs",
            next=f"bp.probe({part.name}.outputs[0], session=s)",
        )
    if isinstance(part, tf.Tensor) and not tf.is_symbolic_tensor(part):
        raise BadOption(
            "an eager tensor has no history to differentiate",
            asked="bp.probe(tensor)",
            found=f"an eager tensor of shape {tuple(part.shape)}",
            why="it holds numbers and has no graph",
            next="bp.probe(f)(x), with the function f that computes it",
        )
    if isinstance(part, tf.Variable):
        raise BadOption(
            f"the variable {part.name} is not computed from anything",
            asked=f"bp.probe({part.name})",
            found="a tf.Variable",
            next="bp.probe(loss, session=s), for the gradient of a loss with respect to it",
        )
