"""Custom functions with a backward in Python: the places at which this backward returned None or zeros, and the
functions that it calls, whose operations are not recorded.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import CodeType, FunctionType
from typing import Any
from weakref import ref

from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import Node
from torch.nn import Module

from backprobe.backends.pure_calls import contents, is_users
from backprobe.backends.torch.applied import applied
from backprobe.backends.torch.graph import all_nodes, givers_of, is_torchs, operation
from backprobe.backends.torch.private import FUNCTIONS_MADE
from backprobe.backends.torch.tensors import dense, is_there
from backprobe.backends.user_lines import source_at, users_line
from backprobe.findings.phrasing import listed
from backprobe.record.reasons import Reason
from backprobe.record.source import Source
from backprobe.source.user_code import package

OF_OBJECT = ("LOAD_ATTR", "LOAD_METHOD")
"""Instructions that look up a name in an object, such as ``ctx``."""


@dataclass(frozen=True)
class ByHand:
    """A custom function: its name, and its line if it belongs to the program."""

    name: str
    line: Source | None


@dataclass
class Givers:
    """The nodes that backward may reach from some roots, and for each of them the nodes that pass gradients to it."""

    roots: Iterable[Node]

    @cached_property
    def of(self) -> dict[Node, list[Node]]:
        """For each node, the nodes that pass gradients to it. The result is empty if no node's backward is written in
        Python.
        """
        nodes = all_nodes(self.roots)
        return givers_of(nodes) if any(isinstance(node, BackwardCFunction) for node in nodes) else {}

    def unrecorded(self) -> list[Reason]:
        """Return notes on functions that the program's own backwards call. Nothing is recorded of what these functions
        do, because they run during the backward pass.
        """
        found: dict[ByHand, dict[str, None]] = {}
        for node in {giver: None for givers in self.of.values() for giver in givers}:
            code = _own_backward(node)
            if code is not None:
                found.setdefault(_described(node), {}).update(dict.fromkeys(_called(node, code)))
        return [reason("backward_unrecorded", [one], names=listed([*names])) for one, names in found.items() if names]

    def by_hand(self, node: Node) -> tuple[ByHand, ...]:
        """Return the nearest custom functions on all paths from the roots to a node. Return nothing if a path has none,
        or if one of them is PyTorch's own.

        If no gradient arrives at the node, these functions must have returned None, because PyTorch's own operations
        pass on every gradient that they receive.
        """
        found, pending, seen = dict[ByHand, None](), [node], {node}
        while pending:
            at = pending.pop()
            givers = self.of.get(at, ())
            if not givers:  # a root, or a node to which no node leads
                return ()
            for giver in givers:
                if isinstance(giver, BackwardCFunction):
                    if is_torchs(giver):
                        return ()
                    found[_described(giver)] = None
                elif giver not in seen:
                    seen.add(giver)
                    pending.append(giver)
        return tuple(found)


NOTHING_GIVEN = Reason("nothing_given")


def unasked() -> Source | None:
    """Return the user's line that applies the outermost custom function that is running, if none of its tensor
    arguments requires a gradient. Autograd then keeps no history, even for tensors in lists and objects.
    """
    around = [*applied(sys._getframe(1))]
    return None if not around or around[-1].is_asked else users_line(around[-1].caller)


def reason(code: str, functions: Sequence[ByHand], **fields: str) -> Reason:
    """Return a reason about these functions, with the line of the first one that belongs to the program."""
    line = next((one.line for one in functions if one.line is not None), None)
    place = {} if line is None else {"at": f"{line.file}:{line.line}", "text": line.text}
    return Reason(code, {"functions": ", ".join(f"{one.name}()" for one in functions), **place, **fields})


_KNOWN: dict[str, ref[type] | None] = {}
"""A class of the program that the last search found, if any, by PyTorch's count of custom functions at that time."""


def are_users() -> bool:
    """Does the program define direct subclasses of ``autograd.Function``?

    The search is repeated if functions were defined since, or if the class that was found no longer exists.
    """
    made = repr(FUNCTIONS_MADE)  # repr shows the count without advancing it
    found = _KNOWN.get(made)
    if made not in _KNOWN or (found is not None and found() is None):
        found = next((ref(one) for one in Function.__subclasses__() if _is_users(one)), None)
        _KNOWN.clear()
        _KNOWN[made] = found
    return found is not None


def _is_users(made: type) -> bool:
    code = getattr(getattr(made, "forward", None), "__code__", None)
    return not made.__module__.startswith("torch.") and code is not None and package(code.co_filename) is None


def zero_by_hand(leaves: Iterable[tuple[Any, Node, Tensor]], givers: Givers) -> dict[tuple[ByHand, ...], list[Any]]:
    """Return the leaves whose gradient is zero, grouped by the program's own functions on all paths to them.

    Each leaf is given with its node and its gradient.
    """
    found: dict[tuple[ByHand, ...], list[Any]] = {}
    for leaf, node, gradient in leaves:
        functions = givers.by_hand(node)
        if functions and all(one.line is not None for one in functions) and is_zero(gradient):
            found.setdefault(functions, []).append(leaf)
    return found


def is_zero(gradient: Tensor) -> bool:
    """Is every number of the gradient zero? False if it has no numbers, or none that can be read."""
    return (
        is_there(gradient)
        and gradient.numel() > 0
        and not (gradient.is_meta or gradient.is_nested or dense(gradient).any())
    )


def _described(node: Any) -> ByHand:
    own = _own_backward(node)
    if own is None:
        return ByHand(operation(node), None)
    code = own.__code__
    return ByHand(f"{operation(node)}.{own.__name__}", source_at(code.co_filename, _first_line(code)))


def _own_backward(node: Any) -> FunctionType | None:
    # Return the function that computes the gradients of a node, if the program defines it.
    made_by = getattr(node, "_forward_cls", None)
    for name in ("backward", "vjp"):
        own = getattr(made_by, name, None)
        if isinstance(own, FunctionType) and package(own.__code__.co_filename) is None:
            return own
    return None


def _called(node: Any, function: FunctionType) -> Iterator[str]:
    # Yield the modules, and the program's own functions, that a backward uses by name or that its node holds, such as
    # ``ctx.module``.
    held = {f"ctx.{name}": value for name, value in getattr(node, "__dict__", {}).items()}
    cells = zip(function.__code__.co_freevars, map(contents, function.__closure__ or ()), strict=True)
    known = {**function.__globals__, **dict(cells), **held}
    for instruction in instructions(function.__code__):
        loads = instruction.opname.startswith("LOAD_") and isinstance(instruction.argval, str)
        name = f"ctx.{instruction.argval}" if instruction.opname in OF_OBJECT else instruction.argval
        if loads and (isinstance(known.get(name), Module) or is_users(known.get(name))):
            yield name


def instructions(code: CodeType) -> Iterator[dis.Instruction]:
    """Yield the instructions of a function and of the functions inside it."""
    yield from dis.get_instructions(code)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from instructions(inner)


def _first_line(code: CodeType) -> int:
    # Return the line of ``def``, after the decorators; the first line if ``def`` is not near it.
    lines = range(code.co_firstlineno, code.co_firstlineno + 10)
    return next((at for at in lines if source_at(code.co_filename, at).text.startswith("def ")), code.co_firstlineno)
