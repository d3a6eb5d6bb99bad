"""The interface between rewritten code and its listener: one method for each kind of report."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Protocol

from backprobe.source.sites import CallSite, Site, operator_of

NO_CALL = -1  # used instead of the site of a call, in code that does not number calls


class CodeListener(Protocol):
    """Receives the reports of rewritten code during one call of a function.

    Sites are given by their index in ``sites``. The rewritten code continues with the return value of a method instead
    of the reported value. The methods here do what the original code does. A listener overrides those that it needs.
    """

    sites: Sequence[Site]
    slice: ClassVar[type[Any]] = builtins.slice

    def bind(self, at: int, value: Any, /) -> Any:
        """Called when a statement binds ``value`` to the local of a site."""
        return value

    def name(self, at: int, value: Any, /) -> Any:
        """Like ``bind``, but called inside a statement: for a walrus, or for an operation that gets a name of
        its own.
        """
        return value

    def done(self, at: int, value: Any, /) -> Any:
        """Called when a statement that binds nothing has ended. ``value`` is the value of its expression."""
        return value

    def writing(self, value: Any, /) -> None:
        """Called before a statement writes into ``value``, as ``u += 1`` may and ``u[0] = 1`` does."""
        return

    def written(self, value: Any, /) -> None:
        """Called when the statement has written into the value without binding a name."""
        return

    def wrote(self, at: int, value: Any, /) -> Any:
        """Called when the statement has written and binds ``value`` to the local of a site. It may be the same object
        or a new one.
        """
        return value

    def storing(self, at: int, owner: Any, value: Any, /) -> Any:
        """Called before ``owner[...] = value``."""
        return value

    def stored(self, at: int, owner: Any, /) -> None:
        """Called after ``owner[...] = value``."""
        return

    def expose(self, value: Any, /) -> Any:
        """Called when ``value.data`` is read. A write to the result is a write to the value."""
        return value

    def each(self, template: Any, values: Any, /) -> Iterator[Any]:
        """Return the items of a comprehension's iterable. ``template`` has the sites of the targets, nested like the
        targets.
        """
        return iter(values)

    def forget(self, *names: str) -> None:
        """Called when the code has deleted these names."""
        return

    def call(self, function: Any, may_write: bool = False, at: int = NO_CALL, /) -> Any:
        """Return the function to call instead of ``function``.

        With ``may_write``, the call has a keyword such as ``out=``, by which it may write.
        """
        return function

    def operate(self, at: int, /, *operands: Any) -> Any:
        """Apply the operator at a site. Only rewritten code that numbers its calls reports operators."""
        site = self.sites[at]
        assert isinstance(site, CallSite)
        return operator_of(site)(*operands)

    def attribute(self, at: int, owner: Any, name: str, /) -> Any:
        """Read an attribute. Only code that numbers its calls reports this."""
        return getattr(owner, name)

    def iterate(self, at: int, value: Any, /) -> Any:
        """Called before ``value`` is iterated or unpacked. Only code that numbers its calls reports this."""
        return value

    def put(self, at: int, owner: Any, index: Any, value: Any, /) -> None:
        """Run ``owner[index] = value``. Only code that numbers its calls reports this."""
        owner[index] = value

    def __enter__(self) -> CodeListener:
        return self

    def __exit__(self, *error: object) -> None:
        return


class ModuleListener(CodeListener, Protocol):
    """Receives the reports of a module's code. Temporary values of the code are attributes of it, whose names begin
    with ``@``.
    """

    def reads(self, *names: str) -> None:
        """Called before a statement reads these names. Only announced names are reported."""
        return

    def last(self, at: int, value: Any, /) -> None:
        """Called with the value of the last expression."""
        return


Opener = Callable[[str, str, tuple[Site, ...]], Callable[[], CodeListener]]
"""Called with the name of a function, its file and its sites. Returns a function that is called whenever the first one
is entered, and returns a listener.
"""
