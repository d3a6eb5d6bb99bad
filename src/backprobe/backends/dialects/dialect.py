"""Differences between programs of different frameworks, and the words that reports use for each framework."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache


@dataclass(frozen=True)
class Dialect:
    """One framework's spelling of operations, its words for remedies, and facts about its programs.

    It is plain data, so that a saved recording can be explained on a machine without the framework.

    - ``prefix`` comes before the name of an operation. ``spelled`` has the spelling of operations for which that is not
    enough: ``{0}`` is the first argument, ``{words}`` are the dimensions.
    - ``arguments`` are the framework's names of NumPy-like keywords; ``lacks`` are operations without a counterpart.
    - ``meanings`` map the name of an operation to the meaning that the name has in this framework.
    - ``remedies`` are words from which remedies are built; fields in braces are filled in from the finding.
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
    """The spelling that converts a value to single precision."""

    clipped: str
    """The spelling that clips gradients by their norm."""

    ones: str
    """The spelling of a tensor of ones with a given shape."""

    cut_off: tuple[str, str]
    """The reason why an output may have no history, and the advice."""

    remedies: Mapping[str, str]
    libraries: tuple[str, ...] = ()
    """Libraries that compute with this framework, unless they can tell that they compute with another. A script that
    imports one of them is taken to use this framework.
    """

    loading: tuple[str, ...] = ()
    """Functions that load numbers into a model. The model's name stands before the function, or among its arguments."""

    extremes: Mapping[str, str] = field(default_factory=dict)
    """Functions that return extreme values, by the function that finds their positions. Used if tensors have no such
    methods.
    """

    stack: str = ""
    """The function that makes one tensor from a list of tensors. It replaces a function that copies only their
    numbers.
    """

    flat_cut: str = ""
    """The kind of cut that an operation with derivative 0 makes; empty if the operation leaves an edge in the graph."""

    flat_without_cut: frozenset[str] = frozenset()
    """Operations with derivative 0 that do leave an edge in the graph."""

    gives_pairs: bool = False
    """Does a maximum along a dimension return both values and positions?"""

    takes_one_dimension: bool = False
    """Do softmax and logsumexp need exactly one dimension, which must be passed?"""

    runs_backward: bool = False
    """Are gradients computed by a method of the loss, and stored on the parameters?"""

    requires_on_tensors: bool = False
    """Does a tensor require a gradient because of a flag on the tensor?"""

    is_watched_by_tape: bool = False
    """Does the tape of a block watch all tensors that the block reads, including data?"""

    has_named_nodes: bool = False
    """Can a value be a node of a graph that has its own name, and no expression in the source?"""

    def has(self, formula: str) -> bool:
        """Does the framework have all operations in a formula, with their arguments?

        >>> from backprobe.backends.dialects import dialect_of
        >>> [dialect_of(name).has("logit(clamp(a, small, 1))") for name in ("torch", "tensorflow")]
        [True, False]
        """
        functions, words = _called(formula)
        return self.lacks.isdisjoint(functions) and words <= self.arguments.keys()


@cache
def _called(formula: str) -> tuple[frozenset[str], frozenset[str]]:
    # Return the functions that a formula calls, and those of its keywords that are named differently in each framework.
    calls = [node for node in ast.walk(ast.parse(formula)) if isinstance(node, ast.Call)]
    functions = frozenset(call.func.id for call in calls if isinstance(call.func, ast.Name))
    return functions, frozenset({"correction"} & {word.arg for call in calls for word in call.keywords})
