"""Replay: a program runs again, each time as it would have run now, and leaves everything as it was.

What is put back after each run, also after one that ends with an error or is interrupted:

- random states: of Python, NumPy and the framework, and of generators that the program holds or is given
- of modules, whenever the program comes to them: buffers, modes, hooks, attributes, which parameters they have
- of parameters, and of tensors that the program holds or is given: their numbers, ``.grad`` and ``requires_grad``
- of optimizers: their state and their groups
- of Variables in TensorFlow and Flax NNX: their values

- of Python's objects that the program holds or is given: attributes, items, globals, cells, and NumPy's arrays

Not put back: what is no part of this, as a file that is written; what a compiled or C++ module changes; tensors and
arrays of more than 64 MB that are no parameters. Results and errors of the program come as they are. What a run takes
from an iterator, a queue or a file is gone: then there is no other run, which would be given something else.

This file has the contract, and what is the same in every framework; ``state.py`` of each backend has the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from backprobe.backends.held_values import held_by
from backprobe.backends.iterator_copies import copies_of, exchange, is_copyable
from backprobe.backends.kept import Kept
from backprobe.backends.taken import UsedUp, hearing_takes, is_lost, sources
from backprobe.record.containers import leaves

if TYPE_CHECKING:
    from backprobe.backends.random_states import RandomState


class State:
    """State of a program that a run may change: some of it found beforehand, some when the run reaches it."""

    def __init__(self, target: Any, given: Any = (), *, draws_anew: bool = True) -> None:
        self.target, self.given, self.draws_anew = target, given, draws_anew
        self.lasting: dict[int, Any] = {}
        """Copies of large tensors, by identity, kept from one run to the next."""

    @cached_property
    def held(self) -> Sequence[Any]:
        """The values that the program holds or receives."""
        return [*held_by(self.target, *(leaf for _, leaf in leaves(self.given)))]

    @cached_property
    def reached(self) -> Sequence[Any]:
        """These values, and all that they lead to, also through objects of libraries."""
        from backprobe.backends.held_objects import reached_from  # which imports NumPy

        given = list(self.given)
        return [*reached_from([self.target, *given, *self.held, *self.further()], self.is_known)]

    @cached_property
    def sources(self) -> Sequence[Any]:
        """Those of them that give something else at each request, as an iterator does."""
        return sources(self.reached)

    @cached_property
    def holders(self) -> Sequence[Any]:
        """The objects reached without opening copyable iterators; empty if there are no such iterators."""
        from backprobe.backends.held_objects import reached_from  # which imports NumPy

        if not any(map(is_copyable, self.reached)):
            return ()
        roots = [*self.given, *self.held, *self.further()]
        return [*reached_from([self.target, *roots], lambda one: self.is_known(one) or is_copyable(one))]

    @cached_property
    def lost(self) -> Sequence[Any]:
        """The objects that it holds and no undo can restore: generators, streams, iterators that cannot be copied."""
        from backprobe.backends.held_objects import places  # which imports NumPy

        copies = copies_of(self.holders, places)
        return [one for one in self.held if is_lost(one) and id(one) not in copies]

    def further(self) -> Iterable[Any]:
        """Other objects that the framework's objects hold, such as functions called in backward."""
        return ()

    def keep_objects(self, kept: Kept) -> None:
        """Keep what a run may change of Python's own objects; from now on these hold copies of iterators."""
        from backprobe.backends.held_objects import keep_object, places  # which imports NumPy

        for one in self.reached:
            if not self.is_known(one):
                keep_object(one, kept)
        exchange(self.holders, places, kept.undo)

    @staticmethod
    def modes() -> Callable[[], AbstractContextManager[object]]:
        """A factory of contexts with the present modes of the framework, so that a later run begins in these."""
        return nullcontext

    def random_states(self) -> Sequence[RandomState]:
        """The random states that the program may draw from."""
        from backprobe.backends.random_states import OF_PYTHON, generators_of_numpy  # which imports NumPy

        return [*OF_PYTHON, *generators_of_numpy(self.reached)]

    def effect(self) -> str:
        """An outside effect that running the program again would have; empty if none is known."""
        return ""

    def is_known(self, value: Any) -> bool:
        """Is it an object of the framework, whose state is kept otherwise, or has no state?"""
        return False

    def hearing(self, kept: Kept, seed: int | None) -> AbstractContextManager[None]:
        """Within this context ``kept`` receives state that the program reaches and may change, before it changes.

        With a seed, random numbers of the framework begin with it. Without one they repeat in each run, even if the run
        consumes a seed. This does not hold if the caller restores random numbers itself and passes
        ``draws_anew=False``.
        """
        return nullcontext()


class HasState(Protocol):
    """A backend, as far as replay needs it."""

    @property
    def state(self) -> type[State]:
        """The class that knows the state of its programs."""


class Replay:
    """A program that can be run again and again.

    >>> import random
    >>> from backprobe.backends.discover import load_backend
    >>> replay = Replay(load_backend("torch"), random.random)
    >>> with replay.run():
    ...     first = random.random()
    >>> with replay.run():
    ...     again = random.random()
    >>> first == again == random.random()
    True
    """

    def __init__(
        self,
        backend: HasState,
        target: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        seed: int | None = None,
        draws_anew: bool = True,
        taken: dict[int, Any] | None = None,
    ) -> None:
        """``taken`` is that of another program that runs before this one: both may take from the same iterator."""
        self.state = backend.state(target, (tuple(args), tuple((kwargs or {}).values())), draws_anew=draws_anew)
        self.seed = seed
        self.taken = {} if taken is None else taken
        """The iterators, queues and files from which a run has taken, by identity."""

        self.made: list[RandomState] = []  # of generators that the program made in an earlier run, and may hold

    @contextmanager
    def run(self) -> Iterator[None]:
        """Within this context the program runs as if for the first time; afterwards its state is as if it had not run.

        Raises UsedUp if an earlier run has taken from an iterator, or the like, that the program holds.
        """
        from backprobe.backends.random_states import hearing_generators, seed_python  # which import NumPy

        def made(state: RandomState) -> None:
            kept.keep(state)
            self.made.append(state)

        def took(one: Any) -> None:
            self.taken[id(one)] = one

        for one in self.state.sources if self.taken else ():
            if id(one) in self.taken:
                raise UsedUp(one)
        kept = Kept(self.state.lasting)
        try:
            self.state.keep_objects(kept)
            for state in (*self.state.random_states(), *self.made):
                kept.keep(state)
            if self.seed is not None:
                seed_python(self.seed)
            hearing = self.state.hearing(kept, self.seed)
            with hearing_takes(self.state.sources, took), hearing_generators(made), hearing:
                yield
        finally:
            try:
                kept.put_back()
            except BaseException:
                kept.put_back()  # if the first call was interrupted before it began
                raise
            self.state.lasting = kept.lasting
