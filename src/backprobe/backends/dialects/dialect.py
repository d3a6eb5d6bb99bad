"""The differences between frameworks in how programs are written, and in the words of reports."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache


@dataclass(frozen=True)
class Dialect:
    """One framework's spelling of operations, its words for remedies, and what its programs may do.

    It is plain data, so that a saved recording can be explained where its framework is not installed.

    - ``prefix`` comes before the name of an operation. ``spelled`` has the spelling of operations for which that is not
    enough: ``{0}`` is the first argument, ``{words}`` are the dimensions.
    - ``arguments`` are the framework's names of NumPy-like keywords; ``lacks`` are operations without a counterpart.
    - ``meanings`` say which of several meanings an operation has, by its name.
    - ``remedies`` are words from which remedies are built; fields in braces are filled in from the surrounding text.
    """

    name: str
    prefix: str
    spelled: Mapping[str, str]
    arguments: Mapping[str, str]
    lacks: frozenset[str]
    meanings: Mapping[str, str]
    from_logits: str
    binary_from_logits: str
    float32: str
    """A value in single precision."""

    clipped: str
    """How to clip gradients by their norm."""

    ones: str
    """A tensor of ones with a given shape."""

    cut_off: tuple[str, str]
    """Why an output may lead back to nothing, and what to do."""

    remedies: Mapping[str, str]
    libraries: tuple[str, ...] = ()
    """Libraries that are built on this framework only: a script that imports one of them uses it."""

    loading: tuple[str, ...] = ()
    """Functions that load the numbers of a model whose name precedes them or is among their arguments."""

    extremes: Mapping[str, str] = field(default_factory=dict)
    """Functions that return the values at the positions found by others, if tensors have no such methods."""

    stack: str = ""
    """What makes one tensor from a list of them, instead of a function that copies their numbers."""

    flat_cut: str = ""
    """The kind of cut made by an operation whose derivative is 0; empty if it leaves an edge in the graph."""

    flat_without_cut: frozenset[str] = frozenset()
    """Flat operations that do leave an edge."""

    gives_pairs: bool = False
    """Does a maximum along a dimension return both values and positions?"""

    takes_one_dimension: bool = False
    """Do softmax and logsumexp need exactly one dimension, which must be given?"""

    runs_backward: bool = False
    """Does a method of the loss compute gradients, which parameters hold afterwards?"""

    requires_on_tensors: bool = False
    """Is a flag of a tensor what makes it require a gradient?"""

    is_watched_by_tape: bool = False
    """Does the tape of a block watch all that it reads, including data?"""

    has_named_nodes: bool = False
    """Can a value be a node of a graph, with a name of its own and no expression?"""

    def has(self, formula: str) -> bool:
        """Does it have each of the operations in a formula, and their arguments?

        >>> from backprobe.backends.dialects import dialect_of
        >>> [dialect_of(name).has("logit(clamp(a, small, 1))") for name in ("torch", "tensorflow")]
        [True, False]
        """
        functions, words = _called(formula)
        return self.lacks.isdisjoint(functions) and words <= self.arguments.keys()


@cache
def _called(formula: str) -> tuple[frozenset[str], frozenset[str]]:
    # The functions that a formula calls, and those of its keywords that frameworks name differently.
    calls = [node for node in ast.walk(ast.parse(formula)) if isinstance(node, ast.Call)]
    functions = frozenset(call.func.id for call in calls if isinstance(call.func, ast.Name))
    return functions, frozenset({"correction"} & {word.arg for call in calls for word in call.keywords})
