"""Gradients that came back as None: from tapes and sessions that the program calls, and from ``.grad`` that it
reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from backprobe.record.positions import Position
from backprobe.record.source import Source


class WhyNone(StrEnum):
    """Why one of the program's own tapes returned None, or zeros."""

    NOT_WATCHED = "not_watched"  # the source was not passed to watch(), and the tape does not watch it by itself
    NOT_TRAINABLE = "not_trainable"  # the source is a Variable with ``trainable=False``
    OUTSIDE = "outside"  # a value on the path was computed while the tape did not record
    NOT_FLOAT = "not_float"  # the source has a dtype without derivatives
    CUT = "cut"  # an operation on the path lets no gradient through
    NOTHING = "nothing"  # no gradient was requested from the tape
    NO_WAY = "no_way"  # no path leads from the source to the target of the tape
    UNKNOWN = "unknown"
    WATCHED_LATE = "watched_late"  # a value was computed from the source before the tape watched it
    WATCHED_AFTER = "watched_after"  # the target was computed before the tape watched the source
    CONSTANT = "constant"  # the target was computed from no value that has a gradient
    HELD = "held"  # there are paths, but ``stop_gradients=`` held a value on each of them constant
    ZERO = "zero"  # the tape returned zeros instead of None: each path has an operation with a derivative of 0


class CutBy(StrEnum):
    """Why an operation of a framework lets no gradient through."""

    DTYPE = "dtype"  # the operation's result has a dtype without derivatives
    # the call chose a dtype without derivatives for the result; with another dtype it would have a derivative
    CAST = "cast"
    STOP_GRADIENT = "stop_gradient"
    STOPPED = "stopped"  # the tape did not record when the operation ran
    ASSIGNED = "assigned"  # the operation writes into a Variable
    NO_DERIVATIVE = "no_derivative"  # the framework defines no derivative for the operation
    ZERO_DERIVATIVE = "zero_derivative"  # the operation's derivative is 0 everywhere
    LEFT = "left"  # the operation's numbers left the framework for Python code, as in ``tf.numpy_function``
    OWN_NONE = "own_none"  # the gradient function that the program defines for the operation returned None
    # the gradient function that the program defines for the operation returned zeros for a gradient that was not zero
    OWN_ZERO = "own_zero"
    # the operation runs a Python function, which is differentiated separately and gave zeros
    INSIDE_ZERO = "inside_zero"


@dataclass(frozen=True)
class CutOperation:
    """An operation that lets no gradient through, by the framework's name, and the user's line that ran it.

    ``values`` are the nearest entries that go into it; ``dtype`` is the dtype of its result.
    """

    operation: str
    by: CutBy
    dtype: str
    source: Source
    values: tuple[Position, ...] = ()


@dataclass(frozen=True)
class NoneGiven:
    """A gradient that the program requested from one of its own tapes, at ``source``, and that came back as None, or as
    zeros with a known cause.

    ``name`` is the printed name of the entry ``at`` whose gradient was requested, or the framework's name for a
    Variable without an entry. ``outside`` are entries on the path that were computed while the tape was not recording,
    and ``cuts`` are operations on the path that let no gradient through. ``targets`` are the outputs of which the
    gradient was requested, and ``dtype`` is the dtype of the source. ``variables`` are the Variables from which a
    source that is not watched was computed. ``in_graph`` is True if ``tf.gradients`` was called in a session's graph,
    instead of a tape.
    """

    at: Position | None
    name: str
    source: Source
    why: WhyNone
    outside: tuple[Position, ...] = ()
    cuts: tuple[CutOperation, ...] = ()
    targets: tuple[Position, ...] = ()
    dtype: str = ""
    is_variable: bool = False
    in_graph: bool = False
    variables: tuple[Position, ...] = ()


class WhyEmpty(StrEnum):
    """Why a tensor's ``.grad`` was None when the program read it."""

    COMPUTED = "computed"  # the tensor is not a leaf, and does not retain its gradient
    FROZEN = "frozen"  # the tensor does not require a gradient
    NOT_RUN = "not_run"  # no recorded pass had run before
    # Only passes that return gradients had run. These do not set ``.grad``.
    GRADIENTS_RETURNED = "gradients_returned"
    CLEARED = "cleared"  # a pass had set the gradient, and it was cleared again
    LIMITED = "limited"  # a pass went through the tensor, but was asked only for the gradients of other tensors
    # retain_grad() was called too late: after the pass, or although the pass was limited to other tensors
    RETAINED_LATE = "retained_late"
    NOT_REACHED = "not_reached"  # the passes so far did not reach the tensor
    ITEM = "item"  # the program read an item of the tensor, which is a new tensor each time
    GIVEN = "given"  # a pass that returns gradients returned None for the tensor
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class NoneRead:
    """A gradient that the program read at ``source`` and found to be None.

    ``text`` is the expression that the program read, such as ``u.grad``. For a gradient that a call returned, ``text``
    is the argument to which the gradient belongs. ``at`` is the entry of the tensor, if there is one, and ``cause`` is
    the line to which the missing gradient is due, if known.
    """

    at: Position | None
    text: str
    source: Source
    why: WhyEmpty
    cause: Source | None = None
