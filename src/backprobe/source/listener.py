"""The interface between rewritten code and its listener: one method for each kind of report."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Protocol

from backprobe.source.sites import CallSite, Site, operator_of

NO_CALL = -1  # stands for a call's site in code that does not number its calls


class CodeListener(Protocol):
    """One call of a function, from its first line to its last, as reported by its rewritten code.

    Sites are given by their index in ``sites``. The return value of a method replaces the reported value. The methods
    here do what the original code does; a listener overrides those that it needs.
    """

    sites: Sequence[Site]
    slice: ClassVar[type[Any]] = builtins.slice

    def bind(self, at: int, value: Any, /) -> Any:
        """A statement binds ``value`` to the local of a site."""
        return value

    def name(self, at: int, value: Any, /) -> Any:
        """Like ``bind``, but in the middle of a statement: a walrus, or an operation that gets its own name."""
        return value

    def done(self, at: int, value: Any, /) -> Any:
        """A statement that binds nothing has ended; ``value`` is the value of its expression."""
        return value

    def writing(self, value: Any, /) -> None:
        """A statement is about to write into ``value``, as ``u += 1`` may."""
        return

    def written(self, value: Any, /) -> None:
        """The statement has written into the value, and binds no name."""
        return

    def wrote(self, at: int, value: Any, /) -> Any:
        """The statement has written and binds ``value``, the same object or a new one, to the local of a site."""
        return value

    def storing(self, at: int, owner: Any, value: Any, /) -> Any:
        """``owner[...] = value`` is about to run."""
        return value

    def stored(self, at: int, owner: Any, /) -> None:
        """``owner[...] = value`` is over."""
        return

    def expose(self, value: Any, /) -> Any:
        """``value.data`` is read. Writes to the result are writes to the value."""
        return value

    def each(self, template: Any, values: Any, /) -> Iterator[Any]:
        """The items of a comprehension's iterable. ``template`` has the sites of its targets, nested like these."""
        return iter(values)

    def forget(self, *names: str) -> None:
        """The code has deleted these names."""
        return

    def call(self, function: Any, may_write: bool = False, at: int = NO_CALL, /) -> Any:
        """Returns the function to call in place of ``function``. With ``may_write``, the call has a keyword, such as
        ``out=``, by which it may write.
        """
        return function

    def operate(self, at: int, /, *operands: Any) -> Any:
        """Apply the operator at a site. Only rewritten code that numbers its calls reports operators."""
        site = self.sites[at]
        assert isinstance(site, CallSite)
        return operator_of(site)(*operands)

    def attribute(self, at: int, owner: Any, name: str, /) -> Any:
        """Read an attribute. This report and the next two come only from code that numbers its calls."""
        return getattr(owner, name)

    def iterate(self, at: int, value: Any, /) -> Any:
        """``value`` is about to be iterated or unpacked."""
        return value

    def put(self, at: int, owner: Any, index: Any, value: Any, /) -> None:
        """Run ``owner[index] = value``."""
        owner[index] = value

    def __enter__(self) -> CodeListener:
        return self

    def __exit__(self, *error: object) -> None:
        return


class ModuleListener(CodeListener, Protocol):
    """The listener of a module's code. The code's temporaries are attributes of the listener that begin with ``@``."""

    def reads(self, *names: str) -> None:
        """A statement is about to read these names, which are among those announced."""
        return

    def last(self, at: int, value: Any, /) -> None:
        """The value of the last expression."""
        return


Opener = Callable[[str, str, tuple[Site, ...]], Callable[[], CodeListener]]
"""(function name, file, its sites) -> a function that returns a listener each time the function is entered."""
