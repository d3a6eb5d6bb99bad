"""Replay runs a program again. Each run begins in the same state, and that state is restored afterwards.

The following is restored after each run, also if the run ends with an error or is interrupted:

- random states: of Python, NumPy and the framework, and of generators that the program holds or receives
- of modules, when the program reaches them: buffers, modes, hooks, attributes, and the set of their parameters
- of parameters, and of tensors that the program holds or receives: their numbers, ``.grad`` and ``requires_grad``
- of optimizers: their state and their parameter groups
- of Variables in TensorFlow and Flax NNX: their values
- of Python objects that the program holds or receives: attributes, items, globals, closure cells, and NumPy arrays

Other state is not restored: files that the program writes; state that a compiled or C++ module changes; tensors and
arrays of more than 64 MB that are not parameters. Results and errors of the program are returned and raised as usual.
Items that a run takes from an iterator, a queue or a file are gone. Then no other run is made, because it would get
other items.

This file has the contract, and the part that is the same in every framework. The rest is in each backend's
``state.py``.
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
    """The state of a program that a run may change. Some of it is found before the run, some when the run reaches
    it.
    """

    def __init__(self, target: Any, given: Any = (), *, draws_anew: bool = True) -> None:
        self.target, self.given, self.draws_anew = target, given, draws_anew
        self.lasting: dict[int, Any] = {}
        """The saved numbers of tensors, by identity. They are kept from one run to the next."""

    @cached_property
    def held(self) -> Sequence[Any]:
        """The values that the program holds or receives."""
        return [*held_by(self.target, *(leaf for _, leaf in leaves(self.given)))]

    @cached_property
    def reached(self) -> Sequence[Any]:
        """The values in ``held``, and the objects that they refer to, also through objects of libraries: see
        ``reached_from``.
        """
        from backprobe.backends.held_objects import reached_from  # imported here because it imports NumPy

        given = list(self.given)
        return [*reached_from([self.target, *given, *self.held, *self.further()], self.is_known)]

    @cached_property
    def sources(self) -> Sequence[Any]:
        """The objects in ``reached`` that return another item at each request, such as iterators."""
        return sources(self.reached)

    @cached_property
    def holders(self) -> Sequence[Any]:
        """The objects that can be reached without looking into iterators that can be copied; empty if there are no such
        iterators.
        """
        from backprobe.backends.held_objects import reached_from  # imported here because it imports NumPy

        if not any(map(is_copyable, self.reached)):
            return ()
        roots = [*self.given, *self.held, *self.further()]
        return [*reached_from([self.target, *roots], lambda one: self.is_known(one) or is_copyable(one))]

    @cached_property
    def lost(self) -> Sequence[Any]:
        """The held objects whose state cannot be restored, such as generators, streams, and iterators that cannot be
        copied.
        """
        from backprobe.backends.held_objects import places  # imported here because it imports NumPy

        copies = copies_of(self.holders, places)
        return [one for one in self.held if is_lost(one) and id(one) not in copies]

    def further(self) -> Iterable[Any]:
        """Return other objects that the framework's objects hold, such as functions called in backward."""
        return ()

    def keep_objects(self, kept: Kept) -> None:
        """Save the state of Python objects that a run may change. Until ``kept`` restores them, copies replace their
        iterators, where these can be copied.
        """
        from backprobe.backends.held_objects import keep_object, places  # imported here because it imports NumPy

        for one in self.reached:
            if not self.is_known(one):
                keep_object(one, kept)
        exchange(self.holders, places, kept.undo)

    @staticmethod
    def modes() -> Callable[[], AbstractContextManager[object]]:
        """Return a factory of contexts that set the framework's present modes, so that a later run begins with the same
        modes.
        """
        return nullcontext

    def random_states(self) -> Sequence[RandomState]:
        """Return the random states that the program may draw from."""
        from backprobe.backends.random_states import OF_PYTHON, generators_of_numpy  # late: it imports NumPy

        return [*OF_PYTHON, *generators_of_numpy(self.reached)]

    def effect(self) -> str:
        """Return the side effect outside of the process that another run would have; empty if none is known."""
        return ""

    def is_known(self, value: Any) -> bool:
        """Is the value an object of the framework? Its state is saved elsewhere, or it has none."""
        return False

    def hearing(self, kept: Kept, seed: int | None) -> AbstractContextManager[None]:
        """Within this context ``kept`` receives state that the program reaches and may change, before it changes.

        With a seed, the framework's random numbers begin with this seed. Without one, each run draws the same random
        numbers, even if a run takes a seed from the framework, which would give the next run another one. If the caller
        restores random numbers itself, it passes ``draws_anew=False``, and random numbers are left alone here.
        """
        return nullcontext()


class HasState(Protocol):
    """The part of a backend that replay needs."""

    @property
    def state(self) -> type[State]:
        """The class that saves and restores the state of this backend's programs."""


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
        """``taken`` may be shared with another program that runs before this one, because both may read from the same
        iterator.
        """
        self.state = backend.state(target, (tuple(args), tuple((kwargs or {}).values())), draws_anew=draws_anew)
        self.seed = seed
        self.taken = {} if taken is None else taken
        """The iterators, queues and files from which a run has taken items, by identity."""

        self.made: list[RandomState] = []  # states of generators that the program created in an earlier run

    @contextmanager
    def run(self) -> Iterator[None]:
        """Within this context the program runs as if for the first time; afterwards its state is as if it had not run.

        Raises UsedUp if an earlier run has taken items from an iterator, queue or file that the program holds.
        """
        from backprobe.backends.random_states import hearing_generators, seed_python  # late: they import NumPy

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
                kept.put_back()  # again, if an interrupt came before the first call began
                raise
            self.state.lasting = kept.lasting
