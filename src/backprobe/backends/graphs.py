"""The capability to run a target that already is a graph, whose values have names of their own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from backprobe.backends.facts import Backward, GraphNode, Options
from backprobe.backends.tensors import Tensors
from backprobe.record.reasons import Note
from backprobe.record.source import Source


class GraphExecution(Tensors, Protocol):
    """One run of a target that already is a graph. Its methods are called in this order."""

    name: str
    """How messages call the target."""

    arrays: str
    """The name of the ``Arrays`` for the tensors that it returns."""

    framework: str
    """The framework to which the graph belongs."""

    @abstractmethod
    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Take the arguments of the run. Raises BadOption."""

    @abstractmethod
    def target(self, of: Any) -> tuple[Any, Any]:
        """The symbolic result of the run, and ``of`` applied to it."""

    @abstractmethod
    def nodes(self, output: Any) -> Sequence[GraphNode]:
        """Every value that has a name in the graph, in the order of execution."""

    @abstractmethod
    def run(self, cotangent: Any, wanted: Sequence[int], options: Options) -> tuple[Any, Any, Backward]:
        """Run once, forward and backward: the result, what was differentiated, and the outcomes of the wanted nodes."""

    @abstractmethod
    def source(self, node: int) -> Source | None:
        """The user's line that made a node."""

    @abstractmethod
    def notes(self) -> Sequence[Note]:
        """Notes about what could not be observed."""
