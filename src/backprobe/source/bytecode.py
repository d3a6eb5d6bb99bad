"""Translates bytecode to events: the effect of each instruction on the names of the source text.

The code of a running block cannot be rewritten, so it is traced instruction by instruction. Only a few instructions
matter: those that store, delete or read a name, call, write in place, or end a statement. Each belongs to the piece of
source text that ends at the same place. Names, lines and origins are those of the rewriter.
"""

from __future__ import annotations

import ast
import dis
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import lru_cache
from types import CodeType, FrameType

from backprobe.errors import NoSource
from backprobe.source.locate import is_class, is_module, locate, locate_class, locate_module
from backprobe.source.marks import Does, Marks, Place, marked
from backprobe.source.none_checks import GRADIENT, MayBeNone, clears
from backprobe.source.rewrite_expressions import MAY_WRITE
from backprobe.source.sites import Site


class To(Enum):
    """The effect of an opcode on the variable that its argument names."""

    READ = auto()
    STORE = auto()
    DELETE = auto()
    HIDE = auto()  # a comprehension without a frame of its own starts to use the slot
    CAPTURE = auto()  # reads the variable itself for a closure, not its value


VARIABLES = {
    "LOAD_NAME": (To.READ,),
    "LOAD_GLOBAL": (To.READ,),
    "LOAD_FAST": (To.READ,),
    "LOAD_DEREF": (To.READ,),
    "LOAD_FAST_CHECK": (To.READ,),
    "LOAD_CLASSDEREF": (To.READ,),
    "LOAD_FROM_DICT_OR_DEREF": (To.READ,),
    "LOAD_FROM_DICT_OR_GLOBALS": (To.READ,),
    "LOAD_FAST_LOAD_FAST": (To.READ, To.READ),
    "LOAD_CLOSURE": (To.CAPTURE,),
    "MAKE_CELL": (To.CAPTURE,),
    "LOAD_FAST_AND_CLEAR": (To.HIDE,),
    "STORE_NAME": (To.STORE,),
    "STORE_GLOBAL": (To.STORE,),
    "STORE_FAST": (To.STORE,),
    "STORE_DEREF": (To.STORE,),
    "STORE_FAST_MAYBE_NULL": (To.STORE,),
    "STORE_FAST_STORE_FAST": (To.STORE, To.STORE),
    "STORE_FAST_LOAD_FAST": (To.STORE, To.READ),
    "DELETE_NAME": (To.DELETE,),
    "DELETE_GLOBAL": (To.DELETE,),
    "DELETE_FAST": (To.DELETE,),
    "DELETE_DEREF": (To.DELETE,),
}
"""The opcodes of Python 3.11 to ``NEWEST`` that have one or two variables as argument: the effect on each of these, in
order.
"""

VALUES = {
    "LOAD_ATTR": Does.EXPOSE,
    "LOAD_METHOD": Does.EXPOSE,
    "STORE_ATTR": Does.SET_ATTRIBUTE,
    "STORE_SUBSCR": Does.SET_ITEM,
    "STORE_SLICE": Does.SET_ITEM,
    "BINARY_OP": Does.AUGMENT,
    "CALL": Does.CALL,
    "CALL_KW": Does.CALL,
    "CALL_FUNCTION_EX": Does.CALL,
    "POP_TOP": Does.END,
    "PRINT_EXPR": Does.END,
    "DELETE_SUBSCR": Does.END,
    "RETURN_VALUE": Does.RETURN,
    "RETURN_CONST": Does.RETURN,
}
"""Instructions that may belong to an expression or statement that a block reports, and the effect that they
then have.
"""

NEWEST = (3, 13)
"""The newest Python release whose opcodes are in these tables. Effects of newer opcodes are not guessed."""

ADDING = ("LIST_APPEND", "SET_ADD", "MAP_ADD")
"""Instructions that add an item to the result of a comprehension. They are also used for literals such as ``[*a, b]``,
which have no loop.
"""


@dataclass(frozen=True, eq=False)
class Event:
    """An instruction that has an effect on names: the kind of effect, its site, and the variable or expression
    (``node``).
    """

    does: Does
    site: int = -1
    name: str = ""
    node: ast.expr | None = None
    flagged: bool = False  # a call with a keyword such as out=, which may write
    read: MayBeNone | None = None  # for a read of a gradient: how the program uses the gradient
    clears: bool = False  # for a call: does it clear gradients?
    may_be_none: bool = False  # is it a call that may return None for a gradient, and whose result is used?
    then: Event | None = None  # a further effect of the same instruction


@dataclass(frozen=True)
class Events:
    """The events of one code object, by the offset of the instruction, and the sites to which they refer."""

    sites: tuple[Site, ...]
    at: Mapping[int, Event]
    arguments: tuple[tuple[str, int], ...] = ()  # the parameters, each with its site
    loads: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  # reads of variables by offset


@lru_cache(4096)
def events(code: CodeType, around: CodeType, file: str) -> Events:
    """Return the events of a code object. Raises NoSource.

    ``around`` is the code of the function or module that contains the code object. ``file`` distinguishes equal code in
    two files.
    """
    if sys.version_info[:2] > NEWEST:
        raise NoSource(
            f"the bytecode of Python {sys.version_info.major}.{sys.version_info.minor} is not known",
            found=f"a table of opcodes up to Python {NEWEST[0]}.{NEWEST[1]}",
            next="bp.probe(f)(...), which reads the source text, or an older Python",
        )
    if is_rewritten(code):
        raise NoSource(
            f"{code.co_qualname} is already being probed",
            asked="a block in a function that a probe has rewritten",
            found="the code that reports to the probe outside, and not that of the source text",
            why="names are read from the source text of the code that runs",
            next="probe the function alone, or open the block around what calls it",
        )
    return _read(code, _marks(around, file))


def is_rewritten(code: CodeType) -> bool:
    """Is this the rewritten code of a function? Such code reports to a probe by itself."""
    return any(name.startswith("@") for name in code.co_freevars)


@lru_cache(1024)
def _marks(code: CodeType, file: str) -> Marks:
    if is_module(code):
        return marked(*locate_module(code))
    if is_class(code):
        return marked(*locate_class(code))
    definition = locate(code)
    return marked(definition.node, definition.lines)


JUMPING_BACK = ("JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")


@lru_cache(4096)
def comprehension_heads(code: CodeType) -> frozenset[int]:
    """Return the offsets of the instructions at which loops of comprehensions begin. From Python 3.12 on,
    comprehensions are part of the surrounding code. Empty for code with an asynchronous loop.
    """
    heads, loops = set[int](), list[tuple[int, int]]()  # (first offset, end) of each loop that contains the instruction
    instructions = [*dis.get_instructions(code)]
    if any(instruction.opname == "GET_ANEXT" for instruction in instructions):
        return frozenset()
    for instruction in instructions:
        loops = [loop for loop in loops if instruction.offset < loop[1]]
        if instruction.opname == "FOR_ITER":
            loops.append((instruction.offset, instruction.argval))
        # The argument is 1 plus the number of loops between the instruction and the container.
        elif instruction.opname in ADDING and instruction.arg:
            heads.update(head for head, _ in loops[len(loops) - (instruction.arg - 1) :])
    return frozenset(heads)


@lru_cache(4096)
def comprehension_jumps(code: CodeType) -> frozenset[int]:
    """Return the offsets of the instructions that jump back to the beginning of a comprehension's loop."""
    heads, instructions = comprehension_heads(code), dis.get_instructions(code)
    return frozenset(one.offset for one in instructions if one.opname in JUMPING_BACK and one.argval in heads)


@lru_cache(4096)
def names_loaded(code: CodeType) -> tuple[str, ...]:
    """Return the variables that a piece of code reads, including those that its inner functions and comprehensions
    read.
    """
    own = [name for i in dis.get_instructions(code) for to, name in variables(i, code) if to is To.READ]
    inside = [name for c in code.co_consts if isinstance(c, CodeType) for name in names_loaded(c)]
    return tuple(dict.fromkeys([*own, *inside]))


@lru_cache(4096)
def names_hidden(code: CodeType) -> frozenset[str]:
    """Return the variables of comprehensions without a frame of their own, which exist from Python 3.12 on."""
    return frozenset(name for i in dis.get_instructions(code) for to, name in variables(i, code) if to is To.HIDE)


def variables(instruction: dis.Instruction, code: CodeType) -> list[tuple[To, str]]:
    """Return the effects of an instruction on variables, in order."""
    does = VARIABLES.get(instruction.opname, ())
    names = (instruction.argval,) if len(does) == 1 else instruction.argval
    is_fast = "LOAD_FAST" in instruction.opname  # in Python 3.13, LOAD_FAST also replaces LOAD_CLOSURE
    captured = (*code.co_cellvars, *code.co_freevars) if is_fast else ()
    return [
        (To.CAPTURE if to is To.READ and name in captured else to, name)
        for to, name in (zip(does, names, strict=True) if does else ())
    ]


def _read(code: CodeType, marks: Marks) -> Events:
    found: dict[int, Event] = {}
    loads: dict[int, tuple[str, ...]] = {}
    for offsets, instruction in _instructions(code):
        done = variables(instruction, code)
        event = _event(instruction, done, marks, names_hidden(code))
        reads = tuple(name for to, name in done if to is To.READ)
        for offset in offsets:
            if event is not None:
                found[offset] = event
            elif reads:
                loads[offset] = reads
    return Events(tuple(marks.sites), found, tuple(marks.arguments), loads)


def _instructions(code: CodeType) -> Iterator[tuple[list[int], dis.Instruction]]:
    # Yield each instruction with its offsets. They include the offsets of prefixes that extend the instruction's
    # argument.
    offsets: list[int] = []
    for instruction in dis.get_instructions(code):
        offsets.append(instruction.offset)
        if instruction.opname != "EXTENDED_ARG":
            yield offsets, instruction
            offsets = []


def _event(
    instruction: dis.Instruction, done: list[tuple[To, str]], marks: Marks, hidden: frozenset[str]
) -> Event | None:
    positions = instruction.positions
    place = (positions.end_lineno, positions.end_col_offset) if positions is not None else (None, None)
    if instruction.opname in VALUES:
        return _event_of_values(instruction, place, marks)
    event: Event | None = None
    if any(to in (To.STORE, To.DELETE, To.HIDE) for to, _ in done):  # otherwise the instruction only reads variables
        for at, (to, name) in reversed(list(enumerate(done))):
            mark = (marks.stored_beside if at else marks.stored)(name, place) if to is To.STORE else None
            if mark is not None:
                event = Event(mark.does, mark.site, name, then=event)
            elif to is not To.CAPTURE and (to is not To.STORE or name in hidden):
                event = Event(WITHOUT_TARGET[to], name=name, then=event)
    return event


WITHOUT_TARGET = {To.READ: Does.READ, To.DELETE: Does.DELETE, To.HIDE: Does.OPEN, To.STORE: Does.CLOSE}
"""The effect on a variable that belongs to no target in the text."""


def opcode(frame: FrameType) -> str:
    """Return the name of the instruction that a frame has reached."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]]


def _event_of_values(instruction: dis.Instruction, place: Place, marks: Marks) -> Event | None:
    does = VALUES[instruction.opname]
    match does:
        case Does.CALL if place not in marks.comprehensions:  # the code of a comprehension reports itself
            call = marks.calls.get(place)
            flagged = call is not None and any(k.arg is None or k.arg in MAY_WRITE for k in call.keywords)
            may_be_none = place in marks.allowing
            return Event(does, node=call, flagged=flagged, may_be_none=may_be_none, clears=clears(call))
        case Does.AUGMENT if place in marks.augmented and instruction.argrepr.endswith("="):
            return Event(does, node=marks.augmented[place])
        case Does.EXPOSE if place in marks.exposed and instruction.argval == "data":
            return Event(does, node=marks.exposed[place])
        case Does.EXPOSE if place in marks.gradients and instruction.argval == GRADIENT:
            return Event(Does.READ_GRADIENT, node=marks.gradients[place].node, read=marks.gradients[place])
        case Does.END if place in marks.ends:
            return Event(does, marks.ends[place])
        case Does.RETURN:
            site = marks.returns.get(place, marks.only_return)
            return None if site is None else Event(does, site)
        case Does.SET_ATTRIBUTE | Does.SET_ITEM if place in marks.stores:
            mark = marks.stores[place]
            return Event(does, mark.site, node=mark.target)
    return None
