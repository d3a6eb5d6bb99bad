"""What a birth may have come in with though no entry holds it: a buffer of a model, a global, an attribute.

Buffers are no entries, since nothing is differentiated towards them; which of them held NaN or Inf before the model ran
is recorded by itself. Of anything else that a line mentions nothing is known.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence
from functools import cached_property

from backprobe.explain.nonfinite.sources import Sources, parsed, scopes_of
from backprobe.explain.nonfinite.states import State
from backprobe.record.entries import Record
from backprobe.record.names import split
from backprobe.record.nonfinite import Nonfinite

LITERALS = ("inf", "nan", "Inf", "NaN", "infty")
LIBRARIES = ("torch.", "math.", "np.", "numpy.", "tf.", "jnp.", "jax.", "F.", "nn.")


class Unrecorded:
    """What the lines and modules of one record compute with beside its entries."""

    def __init__(self, record: Record, sources: Sources) -> None:
        self.record, self.sources = record, sources
        self.entries = record.entries

    @cached_property
    def _scopes(self) -> Sequence[str]:
        return scopes_of(self.record)

    def mentioned(self, at: int) -> list[str]:
        """What an expression mentions and no entry holds, as it spells that: values, and modules that it calls."""
        return [*self._names(at), *self._modules(at)]

    def _modules(self, at: int) -> list[str]:
        """What a line calls that holds parameters which were not recorded: an object of a library's class."""
        source, parts = self.entries[at].source, self.sources.parts[at]
        if source is None or not any(call.split(".")[-1][:1].isupper() for call in source.calls):
            return []
        tree = parsed(source.expression)
        called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)] if tree is not None else []
        names = [ast.unparse(one) for one in called if isinstance(one, ast.Name | ast.Attribute)]
        return [
            name for name in dict.fromkeys(names)
            if (name.isidentifier() and name not in vars(builtins) and f"{name}()" not in parts)
            or (name.startswith("self.") and not self._is_recorded(at, name))
        ]  # fmt: skip

    def _is_recorded(self, at: int, name: str) -> bool:
        path = f"{self._module(at)}{name.partition('.')[2]}"
        return any(known == path or known.startswith(f"{path}.") for known in self.record.names)

    def _names(self, at: int) -> list[str]:
        known = {split(self.entries[one].name)[0].split(".")[-1] for one in self.sources.direct[at]}  # self.w as "w"
        parts = self.sources.parts[at]
        return [
            name for name in self.sources.unknown[at]
            if ("." not in name or name.split(".")[-1] not in known) and name.split(".")[-1] not in LITERALS
            and not name.startswith(LIBRARIES) and f"{name}()" not in parts
        ]  # fmt: skip

    def brought(self, at: int, names: Sequence[str], state: State) -> list[str]:
        """The buffers among what a line mentions, or of the module that an entry comes out of, which were as bad."""
        entry, buffers = self.entries[at], self.record.buffers
        if entry.source is not None:
            module = self._module(at)
            spelled = [f"{module}{name.partition('.')[2]}" for name in names if "." in name]  # of self
        else:
            module = f"{strip_counts(entry.name)}."
            spelled = [name for name in buffers if name.rpartition(".")[0] + "." == module]
        return [name for name in spelled if name in buffers and kind(buffers[name]) >= state]

    def _module(self, at: int) -> str:
        """The path of the module whose code an entry's line is, with a dot behind it."""
        path = strip_counts(self._scopes[at].partition("/")[0])
        return f"{path}." if path else ""


def strip_counts(scope: str) -> str:
    """A module's path without counts of its calls."""
    return split(scope)[0].partition("#")[0]


def kind(count: Nonfinite) -> State:
    """How bad a tensor is by its counts."""
    return State.NAN if count.nan else State.INF if count.inf else State.FINITE
