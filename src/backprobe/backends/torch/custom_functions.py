"""Functions with a backward written in Python: where it returned None or zeros in the place of a gradient, and the
functions and modules that it calls, which are not recorded.
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
from backprobe.backends.torch.graph import all_nodes, is_torchs, operation
from backprobe.backends.torch.private import FUNCTIONS_MADE
from backprobe.backends.torch.tensors import dense, is_there
from backprobe.backends.user_lines import source_at, users_line
from backprobe.findings.phrasing import listed
from backprobe.record.reasons import Reason
from backprobe.record.source import Source
from backprobe.source.user_code import package

OF_OBJECT = ("LOAD_ATTR", "LOAD_METHOD")
"""Instructions that look a name up in an object, as in ``ctx``."""


@dataclass(frozen=True)
class ByHand:
    """A function with a backward of its own: what that is called, and its line, if it is the program's own."""

    name: str
    line: Source | None


@dataclass
class Givers:
    """What gives gradients to the nodes that backward from some nodes may reach."""

    roots: Iterable[Node]

    @cached_property
    def of(self) -> dict[Node, list[Node]]:
        """By node: those that give it gradients; empty where none of them is written in Python."""
        found: dict[Node, list[Node]] = {}
        nodes = all_nodes(self.roots)
        for node in nodes if any(isinstance(node, BackwardCFunction) for node in nodes) else ():
            for follower, _ in node.next_functions:
                if follower is not None:
                    found.setdefault(follower, []).append(node)
        return found

    def unrecorded(self) -> list[Reason]:
        """What each backward of the program's own calls: autograd runs it when nothing is recorded."""
        found: dict[ByHand, dict[str, None]] = {}
        for node in {giver: None for givers in self.of.values() for giver in givers}:
            code = _own_backward(node)
            if code is not None:
                found.setdefault(_described(node), {}).update(dict.fromkeys(_called(node, code)))
        return [reason("backward_unrecorded", [one], names=listed([*names])) for one, names in found.items() if names]

    def by_hand(self, node: Node) -> tuple[ByHand, ...]:
        """The functions with a backward in Python, if each way from a root to a node has one: the nearest of each way.

        Where nothing comes to the node, these returned None: operations of PyTorch itself hand on what comes to them.
        """
        found, pending, seen = dict[ByHand, None](), [node], {node}
        while pending:
            at = pending.pop()
            givers = self.of.get(at, ())
            if not givers:  # a root, or nothing leads to it
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
    """The user's line that applies a function with a backward of its own, in which this runs, where no tensor that it
    is given requires a gradient: autograd then keeps no history, whatever it finds in lists and objects.
    """
    around = [*applied(sys._getframe(1))]
    return None if not around or around[-1].is_asked else users_line(around[-1].caller)


def reason(code: str, functions: Sequence[ByHand], **fields: str) -> Reason:
    """Something about what goes through these functions, with the line of the first that is the program's own."""
    line = next((one.line for one in functions if one.line is not None), None)
    place = {} if line is None else {"at": f"{line.file}:{line.line}", "text": line.text}
    return Reason(code, {"functions": ", ".join(f"{one.name}()" for one in functions), **place, **fields})


_KNOWN: dict[str, ref[type] | None] = {}
"""The program's own class that was found when they were looked through last, by PyTorch's count of those made."""


def are_users() -> bool:
    """Are there functions of the program's own among those with a backward in Python?

    They are looked through again where others were made since, or the one that was found is gone.
    """
    made = repr(FUNCTIONS_MADE)  # which tells the count, and leaves it as it is
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
    """By the functions of the program's own that every way to them goes through: the leaves whose gradient is zero.

    Of each leaf its node and its gradient are given.
    """
    found: dict[tuple[ByHand, ...], list[Any]] = {}
    for leaf, node, gradient in leaves:
        functions = givers.by_hand(node)
        if functions and all(one.line is not None for one in functions) and is_zero(gradient):
            found.setdefault(functions, []).append(leaf)
    return found


def is_zero(gradient: Tensor) -> bool:
    """Is each number of it zero?"""
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
    # The function that computes the gradients of a node, if the program has written it.
    made_by = getattr(node, "_forward_cls", None)
    for name in ("backward", "vjp"):
        own = getattr(made_by, name, None)
        if isinstance(own, FunctionType) and package(own.__code__.co_filename) is None:
            return own
    return None


def _called(node: Any, function: FunctionType) -> Iterator[str]:
    # The program's own functions, and modules, that a backward names or that its node holds, as ``ctx.module``.
    held = {f"ctx.{name}": value for name, value in getattr(node, "__dict__", {}).items()}
    cells = zip(function.__code__.co_freevars, map(contents, function.__closure__ or ()), strict=True)
    known = {**function.__globals__, **dict(cells), **held}
    for instruction in instructions(function.__code__):
        loads = instruction.opname.startswith("LOAD_") and isinstance(instruction.argval, str)
        name = f"ctx.{instruction.argval}" if instruction.opname in OF_OBJECT else instruction.argval
        if loads and (isinstance(known.get(name), Module) or is_users(known.get(name))):
            yield name


def instructions(code: CodeType) -> Iterator[dis.Instruction]:
    """Those of a function and of the functions in it."""
    yield from dis.get_instructions(code)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from instructions(inner)


def _first_line(code: CodeType) -> int:
    # That of ``def``, below the decorators: the first line in which something of it is written.
    lines = range(code.co_firstlineno, code.co_firstlineno + 10)
    return next((at for at in lines if source_at(code.co_filename, at).text.startswith("def ")), code.co_firstlineno)
