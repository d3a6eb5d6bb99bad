"""The program's own call in which JAX raised an error: its source, and what was given to it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import jax
import jax.numpy as jnp

from backprobe.backends.call_sites import Site, assigned_once, site_at
from backprobe.backends.user_lines import source_at
from backprobe.record.source import Source
from backprobe.source.user_code import package


@dataclass(frozen=True)
class FailedCall:
    """The innermost of the program's lines that an error came through, and the call in it, where its source is known.

    ``made`` is the call that made the function which was called, such as ``jax.grad(f)`` in ``jax.grad(f)(x)``.
    """

    line: Source | None = None
    node: ast.expr | None = None
    made: ast.Call | None = None
    variables: Mapping[str, Any] | None = None

    @staticmethod
    def of(error: BaseException) -> FailedCall:
        step = _users(error.__traceback__)
        if step is None:
            return FailedCall()
        frame = step.tb_frame
        line, site = source_at(frame.f_code.co_filename, step.tb_lineno), site_at(frame.f_code, step.tb_lasti, ast.expr)
        if site is None or not isinstance(site.node, ast.expr):
            return FailedCall(line)
        return FailedCall(line, site.node, _made(site), {**frame.f_globals, **frame.f_locals})

    @property
    def args(self) -> Sequence[ast.expr]:
        """What the call gives by position; nothing where that is not known."""
        known = self.node.args if isinstance(self.node, ast.Call) else []
        return () if any(isinstance(one, ast.Starred) for one in known) else known

    @property
    def keywords(self) -> list[str]:
        """The names of what it gives by keyword."""
        return [one.arg for one in self.node.keywords if one.arg] if isinstance(self.node, ast.Call) else []

    def transformed(self, otherwise: str, **words: str) -> str:
        """The call of ``jax.grad`` or the like, with other keywords; where it is not known, this text."""
        if self.made is None or not _name(self.made).endswith("grad"):
            return otherwise
        kept = [one for one in self.made.keywords if one.arg not in words]
        added = [ast.keyword(word, ast.parse(text, mode="eval").body) for word, text in words.items()]
        return ast.unparse(ast.Call(self.made.func, self.made.args, [*kept, *added]))

    def not_differentiable(self) -> Iterator[tuple[str, str]]:
        """What is to be differentiated and has no floating type: as the program spells it, with its type."""
        for at in self._differentiated():
            node = self.args[at] if 0 <= at < len(self.args) else None
            known, value = self._value(node)
            if node is not None and known:
                yield from _not_floating(ast.unparse(node), value)

    def _differentiated(self) -> Sequence[int]:
        # The positions of the arguments that ``jax.grad`` is asked for; none where that is not known.
        if self.made is None or not _name(self.made).endswith("grad"):
            return ()
        given = [one.value for one in self.made.keywords if one.arg == "argnums"] or self.made.args[1:2]
        if not given:
            return (0,)
        try:
            asked = ast.literal_eval(given[0])
        except (ValueError, TypeError):
            return ()
        return (asked,) if isinstance(asked, int) else tuple(one for one in asked if isinstance(one, int))

    def _value(self, node: ast.expr | None) -> tuple[bool, Any]:
        # The value of a name or a literal: anything else is not computed again.
        if isinstance(node, ast.Name) and self.variables is not None:
            return node.id in self.variables, self.variables.get(node.id)
        return isinstance(node, ast.Constant), getattr(node, "value", None)


def _users(step: TracebackType | None) -> TracebackType | None:
    found = None
    while step is not None:
        found = step if package(step.tb_frame.f_code.co_filename) is None else found
        step = step.tb_next
    return found


def _made(site: Site) -> ast.Call | None:
    # What made the function that is called at a site: the call itself, or the only one assigned to its name.
    function = site.node.func if isinstance(site.node, ast.Call) else None
    if isinstance(function, ast.Name):
        function = assigned_once(site, function.id)
    return function if isinstance(function, ast.Call) else None


def _name(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


def _not_floating(text: str, value: Any) -> Iterator[tuple[str, str]]:
    for where, leaf in jax.tree_util.tree_flatten_with_path(value)[0]:
        dtype = getattr(leaf, "dtype", None)
        kind = type(leaf).__name__ if dtype is None else str(dtype)
        is_number = isinstance(leaf, int) if dtype is None else not jnp.issubdtype(dtype, jnp.inexact)
        if is_number:
            yield text + jax.tree_util.keystr(where), kind
