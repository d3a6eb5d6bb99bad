"""Verbs that wait for a call: an object keeps the target and the options, and runs the verb when it is called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from backprobe.backends.discover import find_backend, find_program
from backprobe.backends.protocol import Backend
from backprobe.backends.taken import UsedUp
from backprobe.errors import BadOption, Unsupported
from backprobe.markup import facts, shown
from backprobe.probe.request import name_of, refuse_uncallable, typed_as
from backprobe.record.brief import kind
from backprobe.record.containers import leaves
from backprobe.record.typed import Generic, P, R
from backprobe.source.tracebacks import FRAMES_OF_PROGRAM


@dataclass(frozen=True, repr=False)
class Waiting(Generic[P, R]):
    """A verb with its function or model. Calling it with the arguments of the target runs the verb."""

    target: Any
    backend: Any
    verb: ClassVar[str]
    options: ClassVar[str] = ""
    """The options that are required to call the verb, as messages write them."""

    def __repr__(self) -> str:
        return f"<{', '.join([self._about(), *map('='.join, self._asked())])}>"

    def _repr_html_(self) -> str:
        return shown(facts(self._about(), self._asked()))

    def _about(self) -> str:
        return f"bp.{self.verb} of {name_of(self.target)}"

    def _spelled(self) -> str:
        return f"bp.{self.verb}({typed_as(self.target)}{self.options})"

    def _asked(self) -> list[tuple[str, str]]:
        return []

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the target with these arguments. Returns the result of the verb.

        Raises Unsupported if the first run took items from an iterator, queue or file: another run would get others.
        """
        with FRAMES_OF_PROGRAM:
            try:
                return self._run(args, kwargs)
            except UsedUp as used:
                raise _refused(used.one, self._spelled(), name_of(self.target)) from None

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
        raise NotImplementedError

    def _found(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], refused: str, why: str) -> Backend:
        # Return the backend of a program that is run several times. Raises BadOption, NoBackend and Unsupported.
        asked = self._spelled()
        try:
            is_graph = find_program(self.backend, self.target, None) is not None
        except BadOption:  # raised if the target is a graph and no session is given
            is_graph = True
        if is_graph:
            raise Unsupported(
                f"a graph cannot be {refused}",
                asked=asked,
                found="operations that a session runs, instead of calls",
                why=why,
                next=f"bp.{self.verb}(f{self.options})(x), with f the Python function",
            )
        refuse_uncallable(self.target, self.verb, self.options)
        values = [leaf for value in (*args, *kwargs.values()) for _, leaf in leaves(value)]
        found = find_backend(self.backend, [self.target, *values], spelled=f"bp.{self.verb}(f{self.options}, {{}})")
        found.refuse(self.target, asked)
        for value in values:
            found.refuse_argument(value, asked)
            refuse_used_up(value, asked)
        return found


def refuse_used_up(value: Any, asked: str) -> None:
    """Raise BadOption for an iterator among the arguments of a program that is run several times."""
    if isinstance(value, Iterator):
        raise BadOption(
            f"the first run would use up {kind(value)} among the arguments",
            asked=asked,
            found=kind(value),
            why="the program runs more than once, each time on the same arguments",
            next="list(...) of it, and iter(...) of that in the function where it needs an iterator",
        )


def _refused(one: Any, call: str, name: str) -> Unsupported:
    # Return the error about a program that cannot run again, because an iterator, queue or file would give it other
    # items.
    return Unsupported(
        f"{name} cannot be run again: the first run took from {kind(one)}, and the next would be given what comes then",
        asked=call,
        found=f"{kind(one)} that the program holds",
        why="runs are compared that compute with the same numbers, and what was taken cannot be put back",
        next=f"what is taken as an argument: batch = next(batches), and {call}(batch)",
    )
