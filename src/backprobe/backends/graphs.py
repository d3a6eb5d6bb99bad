"""The capability to run a target that is itself a graph, in which each value has a name."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from backprobe.backends.facts import Backward, GraphNode, Options
from backprobe.backends.tensors import Tensors
from backprobe.record.reasons import Note
from backprobe.record.source import Source


class GraphExecution(Tensors, Protocol):
    """One run of a target that is itself a graph. Its methods are called in the order of their definition."""

    name: str
    """The name of the target in messages."""

    arrays: str
    """The name of the ``Arrays`` for the returned tensors."""

    framework: str
    """The framework to which the graph belongs."""

    @abstractmethod
    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Receive the arguments of the run. Raises BadOption."""

    @abstractmethod
    def target(self, of: Any) -> tuple[Any, Any]:
        """Return the symbolic result of the run, and ``of`` applied to that result."""

    @abstractmethod
    def nodes(self, output: Any) -> Sequence[GraphNode]:
        """Return the values that have names in the graph, in the order of execution."""

    @abstractmethod
    def run(self, cotangent: Any, wanted: Sequence[int], options: Options) -> tuple[Any, Any, Backward]:
        """Run once, forward and backward. Returns the result, the differentiated output, and the outcomes of the wanted
        nodes.
        """

    @abstractmethod
    def source(self, node: int) -> Source | None:
        """Return the user's line that created a node; None if it is not known."""

    @abstractmethod
    def notes(self) -> Sequence[Note]:
        """Return notes about parts of the run that could not be observed."""
