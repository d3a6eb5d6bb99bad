"""When something happened: a value is made where its entry is, and a gradient when backward runs from behind it."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import lru_cache

from backprobe.explain.nonfinite.sources import Sources, parsed, statement
from backprobe.explain.nonfinite.states import States
from backprobe.record.source import Source
from backprobe.source.sites import operation

MODES = frozenset({"no_grad", "enable_grad", "set_grad_enabled", "requires_grad", "requires_grad_", "zero_grad"})
"""What has gradients in its name and gives none."""

Moment = tuple[int, bool]
"""The position of the entry that was made last, and whether backward ran then: moments compare as they come."""


class Moments:
    """The forward and the backward passes of one record, one after the other."""

    def __init__(self, states: States, sources: Sources) -> None:
        self.entries = states.record.entries
        self.ends = _ends(states, sources)
        bad = [end for at, end in enumerate(self.ends) if states.grads[at].is_bad or states.made(at)]
        self.first_bad = min(bad, default=len(self.entries))
        self.first = min([self.first_bad, *(at for at, state in enumerate(states.values) if state.is_bad)])

    def forward(self, at: int) -> Moment:
        """When a value was made."""
        return at, False

    def backward(self, at: int) -> Moment:
        """When its gradient was."""
        return self.ends[at], True

    def is_read_from_gradients(self, at: int) -> bool:
        """Is it computed from gradients, as the norm that ``clip_grad_norm_`` gives, after something was bad?

        Of the values in a loop of JAX, of which each is there for all steps, none comes after another.
        """
        entry = self.entries[at]
        return entry.source is not None and not entry.axes and at > self.first and _reads_gradients(entry.source)


def _ends(states: States, sources: Sources) -> Sequence[int]:
    """For each entry the first output that it goes into: from there backward came to it."""
    outputs, ends = set(states.record.outputs), [len(states.values)] * len(states.values)
    for at in range(len(ends) - 1, -1, -1):
        following = [ends[consumer] for consumer in sources.consumers[at] if consumer > at]
        ends[at] = at if at in outputs else min(following, default=len(ends))
    return ends


@lru_cache(4096)
def _reads_gradients(source: Source) -> bool:
    """Does a line mention ``.grad``, or call what has gradients in its name?"""
    tree = parsed(source.expression) or statement(source.text)
    nodes = list(ast.walk(tree)) if tree is not None else []
    called = {operation(node) for node in nodes if isinstance(node, ast.Call)} - MODES
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return "grad" in attributes or any("grad" in name for name in called)
