"""Modules whose class defines its own ``__call__``. Such a call may not run the hooks through which other modules are
observed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from operator import attrgetter
from typing import Any

from torch.compiler import is_dynamo_compiling
from torch.nn import Module

from backprobe.backends.patching import patched

CALL, CALLED = "__call__", attrgetter("__call__")
Over = Callable[[Module, Any, Any], Any]
"""Is called with a module, its arguments and its result. Returns the result that the program receives instead."""


def has_own_calls(modules: Iterable[Module]) -> bool:
    """Do any of these modules have a class with its own ``__call__``? This is rare."""
    return {CALLED(kind) for kind in {*map(type, modules)}} != {Module.__call__}


def around_own_calls(modules: Iterable[Module], around: Callable[..., Any]) -> AbstractContextManager[None]:
    """Inside this context, calls of modules with their own ``__call__`` go through ``around`` if this thread makes
    them.

    ``around`` is called as around(call, module, *args, **kwargs). The original call may run the module's hooks before
    ``around`` gets the result. The class may have changed the result after the hooks have seen it.
    """
    return around_calls_of(dict.fromkeys(map(_owner, {*map(type, modules)})), around)


def around_calls_of(owners: Iterable[type | None], around: Callable[..., Any]) -> AbstractContextManager[None]:
    """Inside this context, calls go through ``around`` if one of these classes defines the module's ``__call__``."""
    return patched(
        [(owner, CALL, partial(partial, around)) for owner in owners if owner is not None], aside=is_dynamo_compiling
    )


def all_owners() -> set[type]:
    """All classes so far that define how modules are called, except PyTorch's."""
    kinds, pending = set[type](), [Module]
    while pending:
        new = {*pending.pop().__subclasses__()} - kinds
        kinds |= new
        pending += new
    return {kind for kind in kinds if CALL in vars(kind) and _owner(kind) is kind}


def _owner(kind: type) -> type | None:
    # Return the class that defines how modules of a class are called; None if that is PyTorch's.
    owner = next(one for one in kind.__mro__ if CALL in vars(one))
    return None if owner.__module__.partition(".")[0] == "torch" else owner


class OwnCalls:
    """Passes calls of modules with their own ``__call__`` to ``over``, unless hooks have already reported the calls.

    ``over`` is passed to each call instead of being stored here, because it may refer to the owner of this object.
    """

    running: Sequence[tuple[Module, list[bool]]] = ()
    """The running calls, innermost last, each with a list that is filled when a hook reports the call."""

    def listening(self, modules: Iterable[Module], over: Over) -> AbstractContextManager[None]:
        return around_own_calls(modules, partial(self._around, over))

    def heard(self, module: Module) -> None:
        """Note that a hook has reported a call of this module."""
        if self.running and self.running[-1][0] is module:
            self.running[-1][1].append(True)

    def _around(self, over: Over, following: Callable[..., Any], module: Module, /, *args: Any, **kwargs: Any) -> Any:
        before, heard = self.running, list[bool]()
        self.running = (*before, (module, heard))
        try:
            output = following(module, *args, **kwargs)
        finally:
            self.running = before
        return output if heard else over(module, args, output)
