"""Functions with a backward written in Python, where that returned None or zeros in the place of a gradient."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import CodeType
from typing import Any
from weakref import ref

from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import Node

from backprobe.backends.torch.graph import all_nodes, is_torchs, operation
from backprobe.backends.torch.tensors import dense, is_there
from backprobe.backends.user_lines import source_at
from backprobe.record.reasons import Reason
from backprobe.record.source import Source
from backprobe.source.user_code import package


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


def reason(code: str, functions: Sequence[ByHand], **fields: str) -> Reason:
    """Something about what goes through these functions, with the line of the first that is the program's own."""
    line = next((one.line for one in functions if one.line is not None), None)
    place = {} if line is None else {"at": f"{line.file}:{line.line}", "text": line.text}
    return Reason(code, {"functions": ", ".join(f"{one.name}()" for one in functions), **place, **fields})


_KNOWN: list[tuple[int, ref[type], bool]] = []
"""How many classes there were when they were looked through last, the last of them, and what was found."""


def are_users() -> bool:
    """Are there functions of the program's own among those with a backward in Python?

    They are looked through again where there are others than before. A class that is made comes last, and one that is
    gone is missing in their number.
    """
    every = Function.__subclasses__()
    for count, last, found in _KNOWN:
        if count == len(every) and last() is every[-1]:
            return found
    found = any(map(_is_users, every))
    _KNOWN[:] = [(len(every), ref(every[-1]), found)]
    return found


def _is_users(made: type) -> bool:
    code = getattr(getattr(made, "forward", None), "__code__", None)
    return not made.__module__.startswith("torch.") and code is not None and package(code.co_filename) is None


def zero_by_hand(
    leaves: Iterable[tuple[Any, Node, Tensor]], givers: Givers
) -> dict[tuple[ByHand, ...], list[Any]]:  # fmt: skip
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
    made_by = getattr(node, "_forward_cls", None)
    for name in ("backward", "vjp"):
        code = getattr(getattr(made_by, name, None), "__code__", None)
        if isinstance(code, CodeType) and package(code.co_filename) is None:
            return ByHand(f"{operation(node)}.{name}", source_at(code.co_filename, _first_line(code)))
    return ByHand(operation(node), None)


def _first_line(code: CodeType) -> int:
    """That of ``def``, below the decorators: the first line in which something of it is written."""
    lines = range(code.co_firstlineno, code.co_firstlineno + 10)
    return next((at for at in lines if source_at(code.co_filename, at).text.startswith("def ")), code.co_firstlineno)
