"""Gradients that came back as None: from the tapes and sessions that a program asks itself, and from what it reads."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from backprobe.record.positions import Position
from backprobe.record.source import Source


class WhyNone(StrEnum):
    """Why one of the program's own tapes gave None."""

    NOT_WATCHED = "not_watched"  # it is not a trainable Variable and was not given to watch()
    OUTSIDE = "outside"  # something on the way was computed while the tape did not record
    NOT_FLOAT = "not_float"  # it has no derivative
    CUT = "cut"  # an operation on the way lets no gradient through
    NOTHING = "nothing"  # it was asked for no gradient at all
    NO_WAY = "no_way"  # no way leads from it to what the tape differentiated
    UNKNOWN = "unknown"
    WATCHED_LATE = "watched_late"  # something was computed from it before the tape watched it
    WATCHED_AFTER = "watched_after"  # what the tape differentiated was there before the tape watched it
    CONSTANT = "constant"  # no operation computed what the tape differentiated from anything with a gradient
    HELD = "held"  # ways are open, but ``stop_gradients=`` held something on each of them constant
    ZERO = "zero"  # it gave zeros and not None: an operation on each way has a derivative of 0


class CutBy(StrEnum):
    """Why an operation of a framework lets no gradient through."""

    DTYPE = "dtype"  # what it makes has a dtype without derivatives
    CAST = "cast"  # the same, and made with another dtype it would have one
    STOP_GRADIENT = "stop_gradient"
    STOPPED = "stopped"  # the tape did not record when it ran
    ASSIGNED = "assigned"  # it writes into a Variable
    NO_DERIVATIVE = "no_derivative"  # the framework has none for it
    ZERO_DERIVATIVE = "zero_derivative"  # it is 0 everywhere
    LEFT = "left"  # its numbers were taken out of the framework, by no operation
    OWN_NONE = "own_none"  # the gradient function that the program wrote for it gave None
    OWN_ZERO = "own_zero"  # and gave zeros, of what was not
    INSIDE_ZERO = "inside_zero"  # what is differentiated once, as a Python function that it runs, gave zeros


@dataclass(frozen=True)
class CutOperation:
    """An operation, as the framework calls it, that lets no gradient through, and the user's line that ran it.

    ``values`` are the entries nearest to it that go into it; ``dtype`` is that of what it makes.
    """

    operation: str
    by: CutBy
    dtype: str
    source: Source
    values: tuple[Position, ...] = ()


@dataclass(frozen=True)
class NoneGiven:
    """A gradient that came back as None, or as zeros that have a cause, when the program asked one of its own tapes for
    it, at ``source``.

    ``name`` is the printed name of the entry ``at`` that it was asked for, or what the framework calls a Variable that
    has no entry. ``outside`` are the entries on the way that were computed while the tape did not record, ``cuts`` the
    operations on the way that let no gradient through, ``targets`` what the tape differentiated, and ``dtype`` that of
    what it was asked for. ``in_graph`` says that no tape was asked, and the graph that a session runs was.
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


class WhyEmpty(StrEnum):
    """Why the gradient that a tensor of the program keeps was None when the program read it."""

    COMPUTED = "computed"  # it is not a leaf, and keeps none
    FROZEN = "frozen"  # it does not require a gradient
    NOT_RUN = "not_run"  # no pass had run before, in what is recorded
    GRADIENTS_RETURNED = "gradients_returned"  # only passes had run that return gradients, and keep none in tensors
    CLEARED = "cleared"  # a pass had brought it one, which was taken away
    LIMITED = "limited"  # a pass went through it, but was asked for the gradients of other tensors alone
    RETAINED_LATE = "retained_late"  # retain_grad() was called on it only after the pass, or as for LIMITED
    NOT_REACHED = "not_reached"  # the passes until then did not come to it
    ITEM = "item"  # what was read is an item of it, which is another tensor each time
    GIVEN = "given"  # a pass that returns gradients returned None for it
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class NoneRead:
    """A gradient that the program read, at ``source``, and found None.

    ``text`` is what it read in its own words, ``u.grad``; of gradients that a call returned, what it was asked for.
    ``at`` is the entry that has the tensor, if one has, and ``cause`` the line that is the cause, where that is known.
    """

    at: Position | None
    text: str
    source: Source
    why: WhyEmpty
    cause: Source | None = None
