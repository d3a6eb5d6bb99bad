"""The parameters that a block was meant to train, and those that got no gradient."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from backprobe.record.positions import Position
from backprobe.record.source import Source

HOOK = "hook"
"""The ``mode`` of a ``ModuleCall`` if gradients ended in a hook on a module's forward."""

CHECKPOINT = "checkpoint"
"""The ``mode`` of a ``ModuleCall`` if gradients ended in a reentrant checkpoint, because no argument required one."""


APPLIED = "applied"
"""The ``mode`` of a ``ModuleCall`` inside a function with its own backward, in which no history is recorded."""


class ModuleRan(StrEnum):
    """How the module that holds an untrained parameter ran, or another reason why the parameter got no gradient."""

    CALLED = "called"
    PARTLY = "partly"  # some other parameter of the module got a gradient
    # the module's forward is the program's own code; ``calls`` are the lines that mention the parameter, if any
    OWN = "own"
    NOT_CALLED = "not_called"
    ASKED = "asked"  # the program requested the gradient from a tape; a separate finding explains why there was none
    REPLACED = "replaced"  # the module ran with another tensor in the parameter's place
    # a backward written in Python, on the lines in ``calls``, should have returned its gradient
    RETURNED_NONE = "returned_none"
    CUT_SHORT = "cut_short"  # backward() raised an error before it reached the parameter
    NEVER_READ = "never_read"  # the module ran, or may have run, and never read the parameter
    CAPTURED = "captured"  # the lines in ``calls`` read the same array, though not as the differentiated argument
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class ModuleCall:
    """A call in the program's own code in which a module ran: the statement, and the text of the call.

    ``mode`` is the mode that switched gradients off, or empty, and ``switched`` the line that did so, if known. For a
    hook, ``mode`` is ``HOOK`` and ``text`` is the path of its module. ``is_unread`` says that nothing reads the
    variable to which the statement assigns the result.
    """

    source: Source
    text: str
    mode: str = ""
    switched: Source | None = None
    is_unread: bool = False


@dataclass(frozen=True)
class UsedAt:
    """The statements that use the entry ``at``, a module's return value or a parameter without a gradient. They are
    known for blocks around models, whose forwards are not followed.
    """

    at: Position
    uses: tuple[ModuleCall, ...]


@dataclass(frozen=True)
class Untrained:
    """A parameter that requires a gradient and got none.

    ``name`` is the parameter's name in the program, such as ``net.enc.weight``. ``module`` is the module that contains
    the parameter, and ``kind`` the class of the module. If the module and modules around it were not called, ``module``
    is the outermost module that was not called. Both are empty for a tensor outside of modules. ``calls`` are the lines
    in which the module ran. ``carriers`` are the nearest entries that were computed from the parameter, and ``own`` is
    the parameter's own entry, if there is one. ``held_by`` is the optimizer that holds the parameter, if any.
    ``dropped`` are calls of functions with a backward written in Python: they received a value computed from the
    parameter, and nothing uses their results. ``instead`` are entries that the module used instead of the parameter, or
    entries with the parameter's numbers that replaced another parameter.
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
    """The kind of a tensor that no optimizer holds, if the tensor is not in a plain list, tuple or dict."""

    TENSOR = "tensor"  # a plain tensor that gets a gradient
    COMPUTED = "computed"  # computed once, from a leaf that gets a gradient
    CONSTANT = "constant"  # a plain tensor that requires no gradient
    BUFFER = "buffer"  # a buffer, which requires no gradient
    PARAMETER = "parameter"  # a parameter of a model that ran, which gets a gradient


@dataclass(frozen=True)
class Unregistered:
    """A tensor that is used by a module that ran, and that no optimizer holds.

    ``place`` is the attribute that holds it, such as ``net.layers``, and ``kind`` the type of the list or dict there,
    or one of ``Stray``.
    """

    name: str
    place: str
    kind: str


@dataclass(frozen=True)
class Training:
    """The census of the parameters that stepping optimizers hold. If no optimizer stepped, the census of the models'
    parameters.

    ``stepped`` says that the program itself shows what it trains: by optimizers that step, or by requesting gradients
    from a tape.

    ``count`` is the number of these parameters that require a gradient, and ``frozen`` the number of those that do not.
    ``cleared`` are the names of parameters that ``backward()`` reached and whose ``.grad`` was None when their
    optimizer stepped. ``dropped`` are calls as in ``Untrained``, but of parameters that do get their gradient.
    ``twins`` are pairs of names. The first is an untrained parameter that an optimizer holds, but that is in no model
    that ran. The second is a parameter with the same place and shape that ran and gets a gradient, but is in no
    optimizer.
    """

    count: int
    frozen: int = 0
    stepped: bool = False
    untrained: tuple[Untrained, ...] = ()
    unregistered: tuple[Unregistered, ...] = ()
    cleared: tuple[str, ...] = ()
    dropped: tuple[ModuleCall, ...] = ()
    twins: tuple[tuple[str, str], ...] = ()
