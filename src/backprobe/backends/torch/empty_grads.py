"""Errors of programs that read ``.grad`` of a tensor and find None: the tensor, and why it has no gradient."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from types import FrameType, TracebackType
from typing import Any

from torch import Tensor

from backprobe.backends.call_sites import InstructionSite, assigned_once, site_at
from backprobe.backends.facts import Failure
from backprobe.backends.torch import graph
from backprobe.backends.torch.backward_passes import Passing
from backprobe.backends.torch.capture import Capture
from backprobe.backends.user_lines import source_at
from backprobe.source.frames import UNKNOWN, value_in
from backprobe.source.user_code import package

OF_NONE = (TypeError, AttributeError)
"""The errors that Python and PyTorch raise when an operand is None."""


def failure(error: BaseException, captures: Sequence[Capture], passing: Passing | None) -> Failure | None:
    """Return the facts behind an error about None, if the failing code reads a ``.grad`` that is None; else None.

    ``passing`` are the gradients that backward has brought so far, if known.
    """
    step = _innermost(error.__traceback__)
    if step is None or not isinstance(error, OF_NONE) or "NoneType" not in str(error):
        return None
    frame, file = step.tb_frame, step.tb_frame.f_code.co_filename
    site = site_at(frame.f_code, step.tb_lasti, ast.AST) if package(file) is None else None
    text, tensor = next(_empty(frame, site), ("", None)) if site is not None else ("", None)
    if tensor is None:
        return None
    at = [at for at, capture in enumerate(captures) if capture.tensor is tensor][-1:]
    arrived = passing is not None and any(captures[one].number in passing.arrived for one in at)
    why = "cleared" if arrived and tensor.is_leaf else _why(tensor, passing)
    return Failure(f"grad_none.{why}", tuple(at), lines=(source_at(file, step.tb_lineno),), text=text)


def _innermost(step: TracebackType | None) -> TracebackType | None:
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    return step


def _empty(frame: FrameType, site: InstructionSite) -> Iterator[tuple[str, Tensor]]:
    # Yield the tensors whose ``.grad`` is None and is read where the error arose, each with its source text.
    #
    # A name that holds None also counts, if its only assignment reads such a ``.grad``.
    for node in ast.walk(site.node):
        read = assigned_once(site, node.id) if isinstance(node, ast.Name) and value_in(frame, node) is None else node
        if isinstance(read, ast.Attribute) and read.attr == "grad":
            held = _each(frame, site, read.value)
            yield from [(ast.unparse(read), one) for one in held if isinstance(one, Tensor) and _has_none(one)]


def _each(frame: FrameType, site: InstructionSite, node: ast.expr) -> Sequence[Any]:
    # Return the value of an expression. For the variable of a finished comprehension, return all items over which it
    # looped.
    known = value_in(frame, node)
    above: ast.AST = node
    while known is UNKNOWN and above in site.above:
        above = site.above[above]
        for loop in getattr(above, "generators", ())[:1]:
            if ast.unparse(loop.target) == ast.unparse(node) and not loop.ifs:
                held = value_in(frame, loop.iter)
                return held if isinstance(held, list | tuple) else ()
    return [known]


def _has_none(tensor: Tensor) -> bool:
    # Is the ``.grad`` of the tensor None? It is not read on a tensor that is not a leaf, because PyTorch would warn.
    # Such a tensor is taken to have none unless it retains its gradient.
    return (tensor.grad is None) if tensor.is_leaf else not tensor.retains_grad


def _why(tensor: Tensor, passing: Passing | None) -> str:
    if not tensor.requires_grad:
        return "frozen"
    if not tensor.is_leaf:
        return "computed"
    if passing is None or passing.is_elsewhere or passing.is_cut_short:
        return "unknown"
    whole = [call for call in passing.calls if not call.is_limited]
    if not passing.calls:
        return "not_run"
    reached = graph.leaves(graph.all_nodes(node for call in whole for node in call.nodes))
    return "unknown" if any(leaf is tensor for leaf in reached) or not whole else "not_reached"
