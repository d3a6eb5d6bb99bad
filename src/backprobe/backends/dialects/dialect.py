"""The differences between frameworks in how programs are written, and in what reports say of them."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache


@dataclass(frozen=True)
class Dialect:
    """One framework's spelling of operations, its words for remedies, and what its programs may do.

    It is plain data, so that a saved recording is explained where its framework is not installed.

    - ``prefix`` is what stands before the name of an operation, ``spelled`` what is written where that is not enough,
      by the operation: ``{0}`` is its first argument, ``{words}`` are its dimensions.
    - ``arguments`` are the framework's names of NumPy-like keywords, ``lacks`` operations without a counterpart.
    - ``meanings`` say which of several meanings an operation has, by its name.
    - ``remedies`` are words that remedies are built from; fields in braces are those of the text around.
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
    """How gradients are clipped by their norm."""

    ones: str
    """A tensor of ones of a shape."""

    cut_off: tuple[str, str]
    """Why an output may lead back to nothing, and what to do."""

    remedies: Mapping[str, str]
    libraries: tuple[str, ...] = ()
    """Libraries that stand on it alone: a script that imports one of these uses it."""

    loading: tuple[str, ...] = ()
    """Functions that load the numbers of a model, as its name stands before them or among their arguments."""

    extremes: Mapping[str, str] = field(default_factory=dict)
    """Functions that give the values at the positions of others, where tensors have no such methods."""

    stack: str = ""
    """What makes one tensor of a list of them, in the place of a function that copies their numbers."""

    flat_cut: str = ""
    """The kind of a cut that an operation makes whose derivative is 0; empty where it leaves an edge in the graph."""

    flat_without_cut: frozenset[str] = frozenset()
    """Flat operations that leave an edge all the same."""

    gives_pairs: bool = False
    """Is the greatest along a dimension given as values and positions?"""

    takes_one_dimension: bool = False
    """Do softmax and logsumexp go over one dimension, which has to be said?"""

    runs_backward: bool = False
    """Are gradients computed by a method of the loss, after which parameters hold them?"""

    requires_on_tensors: bool = False
    """Is it said of a tensor that it requires a gradient?"""

    is_watched_by_tape: bool = False
    """Does the tape of a block watch all that it reads, data as well?"""

    has_named_nodes: bool = False
    """May a value be a node of a graph that has a name of its own, and no expression?"""

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
    # The functions that a formula calls, and the keywords that frameworks call differently.
    calls = [node for node in ast.walk(ast.parse(formula)) if isinstance(node, ast.Call)]
    functions = frozenset(call.func.id for call in calls if isinstance(call.func, ast.Name))
    return functions, frozenset({"correction"} & {word.arg for call in calls for word in call.keywords})
