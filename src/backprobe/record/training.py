"""The parameters that a block was to train, and which of them got no gradient."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from backprobe.record.positions import Position
from backprobe.record.source import Source

HOOK = "hook"
"""In place of a mode, for a function that is hooked to a module's forward."""

CHECKPOINT = "checkpoint"
"""In place of a mode, for a reentrant checkpoint that is given nothing which requires a gradient."""


APPLIED = "applied"
"""In place of a mode, for a function with a backward of its own, in which no history is recorded."""


class ModuleRan(StrEnum):
    """Did the module that holds a parameter run?"""

    CALLED = "called"
    PARTLY = "partly"  # others of its parameters got a gradient
    OWN = "own"  # its forward is the program's own code, which mentions the parameter where ``calls`` says, if it does
    NOT_CALLED = "not_called"
    ASKED = "asked"  # a tape of the program was asked for the gradient, and why it gave none is known by itself
    REPLACED = "replaced"  # it did, with another tensor in the place of the parameter
    RETURNED_NONE = "returned_none"  # its gradient was due from a backward in Python, whose lines are in ``calls``
    CUT_SHORT = "cut_short"  # backward() raised an error before it came to it
    NEVER_READ = "never_read"  # it did, or it is not known to, and never read the parameter
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class ModuleCall:
    """A call in the program's own code in which a module ran: the statement, and the text of the call in it.

    ``mode`` is the mode in which gradients were switched off, empty where they were not, and ``switched`` the line
    that did so, if it is known; of a hook the one is ``HOOK`` and ``text`` the path of its module. ``is_unread`` says
    that nothing reads the name that the statement gives the result.
    """

    source: Source
    text: str
    mode: str = ""
    switched: Source | None = None
    is_unread: bool = False


@dataclass(frozen=True)
class UsedAt:
    """The statements in which the program takes on what a module returned, or a parameter: the entry ``at``, which has
    no gradient. They are known for blocks around models, whose forwards are not followed.
    """

    at: Position
    uses: tuple[ModuleCall, ...]


@dataclass(frozen=True)
class Untrained:
    """A parameter that requires a gradient and got none.

    ``name`` is what the program calls it: ``net.enc.weight``. ``module`` is the module that it lies in and ``kind`` the
    class of that; of a module that was not called it is the outermost such. Both are empty for a tensor of its own.
    ``calls`` are the lines in which it ran. ``carriers`` are the entries that lead back to the parameter, those nearest
    to it, and ``own`` is its own entry, if it has one. ``held_by`` is the optimizer, if one has it.
    ``dropped`` are calls of functions with a backward in Python that were given something of it, and whose results
    nothing uses. ``instead`` are the entries with which its module ran in its place, or that have its numbers among
    theirs and took the place of another parameter.
    """

    name: str
    module: str
    kind: str
    ran: ModuleRan
    held_by: str = ""
    calls: tuple[ModuleCall, ...] = ()
    carriers: tuple[Position, ...] = ()
    own: Position | None = None
    dropped: tuple[ModuleCall, ...] = ()
    instead: tuple[Position, ...] = ()


class Stray(StrEnum):
    """What a tensor that no optimizer has is, where it lies in no plain list, tuple or dict."""

    TENSOR = "tensor"  # a plain tensor, which gets a gradient
    COMPUTED = "computed"  # it was computed once, from a leaf that gets a gradient
    CONSTANT = "constant"  # a plain tensor, which requires no gradient
    BUFFER = "buffer"  # which requires none
    PARAMETER = "parameter"  # that of a model that ran, which gets a gradient


@dataclass(frozen=True)
class Unregistered:
    """A tensor that a module which ran computes with, and that no optimizer has.

    ``place`` is the attribute that holds it, ``net.layers``, and ``kind`` the type of the list or dict that this is, or
    one of ``Stray``.
    """

    name: str
    place: str
    kind: str


@dataclass(frozen=True)
class Training:
    """What became of the parameters that optimizers which stepped have, or where none did the models.

    ``stepped`` says that the program itself tells what it trains: by such optimizers, or by what it asks a tape for.

    ``count`` is how many of them require a gradient, and ``frozen`` how many parameters do not. ``cleared`` are the
    names of those that ``backward()`` came to, and that had no ``.grad`` when their optimizer stepped. ``dropped`` are
    calls as in ``Untrained``, whose arguments lead back to none that lacks its gradient.
    """

    count: int
    frozen: int = 0
    stepped: bool = False
    untrained: tuple[Untrained, ...] = ()
    unregistered: tuple[Unregistered, ...] = ()
    cleared: tuple[str, ...] = ()
    dropped: tuple[ModuleCall, ...] = ()
