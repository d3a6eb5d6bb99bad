"""Lets objects be copied and pickled without the methods that are patched on them for a while.

Such methods are in the object's dictionary, so a copy would keep them. Python asks ``copyreg.dispatch_table`` by the
class of an object, in ``copy`` as in each kind of ``pickle``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copyreg import dispatch_table
from typing import Any

PROTOCOL = 4
"""The protocol of pickle that objects are asked for. Its answer can be written in every other protocol."""

IsOnLoan = Callable[[Any], bool]
"""Is this value of an object's dictionary there only for a while?"""

ENTERED: dict[type, int] = {}
"""The classes that are in ``dispatch_table`` because of this module, and how many contexts need them there."""


def enter(kinds: Iterable[type], is_on_loan: IsOnLoan) -> list[type]:
    """Leave patched methods out of copies of these classes' instances. Returns the classes to give to ``leave``.

    A class is left alone if the program has said itself how its instances are copied.
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
    # Return what the object itself says about how it is copied, while its dictionary is as without the patches.
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
    # Return a copy of the object's dictionary, alone or beside the values of its slots, and anything else as it is.
    if part is held:
        return dict(held)
    if type(part) is tuple and part and part[0] is held:
        return dict(held), *part[1:]
    return part
