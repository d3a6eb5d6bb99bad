"""An output that the program does not return: any value that a probe knows by name, or an element of one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import EllipsisType
from typing import Any

from backprobe.backends.capabilities import Staging
from backprobe.errors import AmbiguousName, BadName, BadOutput
from backprobe.findings.phrasing import listed
from backprobe.probe.output import Output, Words, differentiated
from backprobe.record.containers import at_path
from backprobe.record.lookup import Lookup
from backprobe.record.names import outside, strip
from backprobe.record.patterns import compile_pattern, selection
from backprobe.tracing.schema import schema_of
from backprobe.tracing.trace import Trace

INDEXED = re.compile(r"(.+)(\[[^\[\]]*\])", re.DOTALL)
Index = int | slice | EllipsisType | None | tuple[Any, ...]


@dataclass(frozen=True)
class Reading:
    """One way to read a text: a name, and the indices behind it."""

    name: str
    indices: tuple[Index, ...] = ()


def readings(of: object) -> Iterator[Reading]:
    """A text as the name of a value: the whole of it, then with indices at its end.

    >>> [(reading.name, reading.indices) for reading in readings("h.3:scores[..., 0]")]
    [('h.3:scores[..., 0]', ()), ('h.3:scores', ((Ellipsis, 0),))]
    """
    indices: tuple[Index, ...] = ()
    while isinstance(of, str) and _is_name(of):
        yield Reading(of, indices)
        found = INDEXED.fullmatch(of)
        if found is None:
            return
        try:
            indices = (_index(ast.parse(f"_{found[2]}", mode="eval").body.slice), *indices)  # type: ignore[attr-defined]
        except (SyntaxError, ValueError):
            return
        of = found[1]


def _is_name(text: str) -> bool:
    """Is this a name, and not a pattern?"""
    try:
        compile_pattern(strip(text), in_function=True)
        has_star = any(read and character == "*" for character, read in zip(text, outside(text), strict=True))
    except BadName:
        return False
    return not has_star and not text.startswith(("!", "re:"))


def _index(node: ast.expr) -> Index:
    """An index as it is written: whole numbers, slices, ``...`` and None. Raises ValueError."""
    if isinstance(node, ast.Tuple):
        return tuple(_index(part) for part in node.elts)
    if isinstance(node, ast.Slice):
        return slice(*(None if part is None else _index(part) for part in (node.lower, node.upper, node.step)))
    value = ast.literal_eval(node)
    if not isinstance(value, int | EllipsisType | None):
        raise ValueError(value)
    return value


def names_in(of: object) -> tuple[str, ...]:
    """The names that are to be captured, so that one of them may turn out to be the output."""
    return tuple(strip(reading.name) for reading in readings(of))


def named_output(trace: Trace, result: Any, of: Any, cotangent: Any, words: Words) -> Output | None:
    """The value of this name as the output, or an element of it; None for a path into the result, or no name.

    Raises AmbiguousName, BadOutput or NothingToDifferentiate.
    """
    if not isinstance(of, str) or _is_in(result, of):
        return None
    found = _found(trace, of)
    if found is None:
        return None
    number, reading = found
    tensor = _element(_tensor(trace, number, reading, of), reading, of)
    words = replace(words, holder=repr(of), scalar=f"of={of + '[{at}]'!r}")
    output = differentiated(tensor, None, of, [], cotangent, trace.tape, words)
    return Output(output.tensor, None, output.cotangent, of if reading.indices else None)


def _is_in(result: Any, of: str) -> bool:
    """Is this a path into what was returned?"""
    try:
        at_path(result, of)
    except KeyError:
        return False
    return True


def _found(trace: Trace, of: str) -> tuple[int | None, Reading] | None:
    """The number of the value that is meant. Raises AmbiguousName."""
    captured = selection(names_in(of), trace.selection.in_function)
    schema = schema_of(trace.read(), captured, trace.events, ())
    numbers = [template.number for template in schema.templates]
    names = Lookup(schema.names.positions, lambda at: _is_floating(trace, numbers[at]))
    for reading in readings(of):
        found = [full for each in names.readings(reading.name) for full in each]
        positions = names.at(found)
        positions = {at for at in positions if _is_floating(trace, numbers[at])} or positions
        if len(positions) > 1:
            choices = list(dict.fromkeys(schema.names.printed[full] for full in found))
            raise AmbiguousName(
                f"{reading.name!r} means several values", asked=f"of={of!r}", found=listed(choices, 12),
                why="one value is differentiated", next=f"of={choices[-1] + of.removeprefix(reading.name)!r}",
            )  # fmt: skip
        if positions:
            return numbers[positions.pop()], reading
    return None


def _is_floating(trace: Trace, number: int | None) -> bool:
    return number is not None and trace.tape.is_floating(trace.versions.tensors[number])


def _tensor(trace: Trace, number: int | None, reading: Reading, of: str) -> Any:
    """The tensor of a capture as the program has it at its end. Raises BadOutput."""
    if number is None:
        raise BadOutput(
            f"{reading.name!r} is not a tensor", asked=f"of={of!r}", why="a gradient is of a floating output",
            next="the name of a tensor",
        )  # fmt: skip
    versions, tape = trace.versions, trace.tape
    tensor = versions.tensors[number]
    if versions.version(tensor) != versions.versions[number]:
        raise BadOutput(
            f"{reading.name!r} was modified in place after it was bound", asked=f"of={of!r}",
            found="a tensor that holds other values now", why="its own values, and the graph to them, are gone",
            next=f"the name that it has after the write, or a copy that is not written to: {reading.name}.clone()",
        )  # fmt: skip
    if isinstance(tape, Staging):
        tensor = tape.outside(versions.captures[number])
        if tensor is None:
            raise BadOutput(
                f"{reading.name!r} is inside a transformation", asked=f"of={of!r}",
                why="what is inside a function that is transformed as a whole has no value outside of it",
                next="return it from that function, and give its path in what is returned",
            )  # fmt: skip
    return tensor


def _element(tensor: Any, reading: Reading, of: str) -> Any:
    """The element of a tensor that the indices lead to. Raises BadOutput."""
    import numpy  # only here: importing backprobe imports no array library

    for index in reading.indices:
        try:
            numpy.broadcast_to(0, tensor.shape)[index]  # JAX takes the nearest element where there is none
            tensor = tensor[index]
        except Exception as error:  # each framework has errors of its own for an index that does not fit
            raise BadOutput(
                f"{reading.name!r} has no such element", asked=f"of={of!r}",
                found=f"shape {tuple(tensor.shape)}: {error}", next="an index within the shape",
            ) from error  # fmt: skip
    return tensor
