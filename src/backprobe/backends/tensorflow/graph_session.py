"""Tensors of a ``tf.compat.v1`` graph, which a session runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

import numpy
import tensorflow as tf

from backprobe.backends.tensorflow.graph_gradients import v1
from backprobe.backends.tensorflow.graph_mode import GraphProgram
from backprobe.backends.tensorflow.graph_values import FREE, fed_names
from backprobe.errors import BadOption
from backprobe.record.brief import kind
from backprobe.record.names import nearest
from backprobe.record.options import Option

SESSION = Option("session", object, None, "tf.compat.v1.Session()", says="a tf.compat.v1.Session")


class SessionProgram(GraphProgram):
    """Tensors of one graph, and the session that runs them."""

    def __init__(self, graph: Any, wanted: Any, name: str, session: Any) -> None:
        super().__init__(graph, wanted, name)
        self.session = session
        self.feeds: dict[Any, Any] = {}

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Bind the only argument, a ``feed_dict`` as for ``Session.run``. Its keys may also be names."""
        if len(args) + len(kwargs) > 1 or kwargs.keys() - {"feed_dict"}:
            asked = f"{len(args)} positional arguments" + "".join(f", {name}=" for name in kwargs)
            self._refuse("the probe of a graph takes a feed_dict, as Session.run does", asked)
        feeds = (*args, *kwargs.values(), {})[0]
        feeds = {} if feeds is None else feeds
        if not isinstance(feeds, Mapping):
            asked = f"bp.probe({self.name}, session=s)({feeds!r})"
            self._refuse(f"a feed_dict is a dict, not {kind(feeds)}", asked)
        self.feeds = {self._key(key): value for key, value in feeds.items()}
        self.fed = frozenset(fed_names(self.graph, self.feeds))

    def _key(self, key: Any) -> Any:
        # Return a key of a ``feed_dict`` as the session takes it: a tensor as it is, a name in full. Raises BadOption
        # if the graph has no such tensor.
        if isinstance(key, str):
            written = key.replace("`", "")
            with suppress(KeyError, ValueError):
                return self.graph.get_tensor_by_name(written if ":" in written else f"{written}:0").name
            close = nearest(written, self._placeholders()) or self._placeholders()
            instead = f"{{{close[0]!r}: ...}}" if close else "no feed_dict"
            self._refuse(f"the graph has no tensor {key!r} to feed", f"feed_dict={{{key!r}: ...}}", instead)
        owner = getattr(key, "graph", None) if not isinstance(key, tuple) else self.graph
        if owner is not self.graph:
            kind = "a tensor of another graph" if owner is not None else type(key).__name__
            self._refuse(f"{kind} cannot be fed", f"feed_dict={{{key!r}: ...}}")
        return key

    def _refuse(self, headline: str, asked: str, instead: str | None = None) -> NoReturn:
        found = f"placeholders: {', '.join(self._placeholders()) or 'none'}"
        raise BadOption(headline, asked=asked, found=found, next=instead or self._example())

    def _placeholders(self) -> list[str]:
        return [
            operation.name
            for operation in self.graph.get_operations()
            if operation.type in FREE and self.written_as(operation) is not None
        ]

    def _example(self) -> str:
        inside = ", ".join(f"{name!r}: ..." for name in self._placeholders()[:3])
        return f"bp.probe({self.name}, session=s)({{{inside}}})" if inside else f"bp.probe({self.name}, session=s)()"

    def fetch(self, tensors: Mapping[str, Any], fed: Sequence[tuple[Any, Any]]) -> tuple[Any, dict[str, Any]]:
        # the keys are names, because tensors may not be hashable
        feeds = {**self.feeds, **{tensor.name: value for tensor, value in fed}}
        fetched = self.session.run({"result": self.wanted, "numbers": dict(tensors)}, feed_dict=feeds)
        result = tf.nest.map_structure(_as_array, fetched["result"])
        return result, {key: numpy.asarray(value) for key, value in fetched["numbers"].items()}


def _as_array(value: Any) -> Any:
    return numpy.asarray(value) if isinstance(value, numpy.generic) else value


def session_program(tensors: list[Any], wanted: Any, name: str, session: Any) -> SessionProgram:
    """Return the program for tensors of one graph. Raises BadOption if they belong to several graphs, or if neither
    ``session`` nor the default session runs their graph.
    """
    graphs = list({id(tensor.graph): tensor.graph for tensor in tensors}.values())
    if len(graphs) > 1:
        raise BadOption(
            "the target holds tensors of several graphs",
            asked=f"bp.probe({name})",
            why="one session runs one graph",
            next="a probe of the tensors of each graph, with its session",
        )
    chosen = session if session is not None else v1.get_default_session()
    if chosen is None:
        raise BadOption(
            "a tensor of a graph needs a session to run it",
            asked=f"bp.probe({name})",
            found="no session, and no default session",
            next=f"bp.probe({name}, session=s)({{x: 3.0}})",
        )
    if not callable(getattr(chosen, "run", None)) or not hasattr(chosen, "graph"):
        raise SESSION.refused(chosen)
    if chosen.graph is not graphs[0]:
        raise BadOption(
            "the session runs another graph than the tensor's",
            asked=f"bp.probe({name}, session=s)",
            found="the session given" if session is not None else "the default session",
            next="tf.compat.v1.Session(graph=tensor.graph)",
        )
    return SessionProgram(graphs[0], wanted, name, chosen)
