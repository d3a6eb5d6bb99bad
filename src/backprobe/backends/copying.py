"""Lets objects be copied and pickled without the methods that are patched on them for a while.

Such methods are in the object's dictionary, so a copy would keep them. ``copy`` and ``pickle`` look up the class of an
object in ``copyreg.dispatch_table`` to learn how the object is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copyreg import dispatch_table
from typing import Any

PROTOCOL = 4
"""The protocol of pickle for which objects are reduced. The result can be written in every other protocol."""

IsOnLoan = Callable[[Any], bool]
"""Is this value of an object's dictionary there only for a while?"""

ENTERED: dict[type, int] = {}
"""The classes that this module has added to ``dispatch_table``, each with the number of contexts that need it."""


def enter(kinds: Iterable[type], is_on_loan: IsOnLoan) -> list[type]:
    """Leave patched methods out of copies of these classes' instances. Returns the classes to give to ``leave``.

    A class is left alone if the program has registered its own function for copying its instances.
    """
    entered = []
    for kind in kinds:
        if kind in ENTERED:
            ENTERED[kind] += 1
        elif kind not in dispatch_table:
            ENTERED[kind], dispatch_table[kind] = 1, lambda instance: _reduced(instance, is_on_loan)
        else:
            continue
        entered.append(kind)
    return entered


def leave(kinds: Iterable[type]) -> None:
    """Undo one call of ``enter``."""
    for kind in kinds:
        ENTERED[kind] -= 1
        if not ENTERED[kind]:
            del ENTERED[kind]
            dispatch_table.pop(kind, None)


def _reduced(instance: Any, is_on_loan: IsOnLoan) -> Any:
    # Return the object's own ``__reduce_ex__`` value. Meanwhile the patches are taken out of its dictionary.
    held = vars(instance)
    lent = {name: value for name, value in held.items() if is_on_loan(value)}
    for name in lent:
        del held[name]
    try:
        reduced = instance.__reduce_ex__(PROTOCOL)
        return reduced if isinstance(reduced, str) else tuple([_detached(part, held) for part in reduced])
    finally:
        held.update(lent)


def _detached(part: Any, held: dict[str, Any]) -> Any:
    # Return a copy of the object's dictionary, or of a tuple that begins with it; return anything else unchanged.
    if part is held:
        return dict(held)
    if type(part) is tuple and part and part[0] is held:
        return dict(held), *part[1:]
    return part
