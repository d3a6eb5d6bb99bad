"""An output that the program does not return: any named value, or an element of one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import EllipsisType
from typing import Any

from backprobe.backends.capabilities import Staging
from backprobe.errors import AmbiguousName, BadName, BadOutput
from backprobe.findings.phrasing import listed
from backprobe.probe.output import ProbedOutput, Words, differentiated
from backprobe.probe.suggestions import is_at
from backprobe.record.brief import kind
from backprobe.record.containers import at_path, children
from backprobe.record.lookup import Lookup
from backprobe.record.names import outside, strip
from backprobe.record.patterns import compile_pattern, selection
from backprobe.tracing.none_values import why_none
from backprobe.tracing.schema import Schema, schema_of
from backprobe.tracing.trace import Trace

INDEXED = re.compile(r"(.+)(\[[^\[\]]*\])", re.DOTALL)
Index = int | slice | EllipsisType | None | tuple[Any, ...]


@dataclass(frozen=True)
class Reading:
    """One way to understand a text: as a name or path, followed by indices. ``unreadable`` is the text of an index that
    cannot be read.
    """

    name: str
    indices: tuple[Index, ...] = ()
    unreadable: str = ""


def readings(of: object) -> Iterator[Reading]:
    """Yield the ways to understand a text as a value: first the whole text as a name, then a name with indices at its
    end. Yields nothing for a pattern, or for what is not a text.

    >>> [(reading.name, reading.indices) for reading in readings("h.3:scores[..., 0]")]
    [('h.3:scores[..., 0]', ()), ('h.3:scores', ((Ellipsis, 0),))]
    """
    indices: tuple[Index, ...] = ()
    while isinstance(of, str) and _is_name(of):
        yield Reading(of, indices)
        found = INDEXED.fullmatch(of)
        if found is None:
            return
        of = found[1]
        try:
            indices = (_index(ast.parse(f"_{found[2]}", mode="eval").body.slice), *indices)  # type: ignore[attr-defined]
        except (SyntaxError, ValueError):
            yield Reading(of, unreadable=found[2])
            return


def _is_name(text: str) -> bool:
    # Is this text a name, and not a pattern?
    try:
        compile_pattern(strip(text), in_function=True)
        has_star = any(read and character == "*" for character, read in zip(text, outside(text), strict=True))
    except BadName:
        return False
    return not has_star and not text.startswith(("!", "re:"))


def _index(node: ast.expr) -> Index:
    # Return an index from its expression. It may have whole numbers, slices, ``...`` and None. Raises ValueError for
    # anything else.
    if isinstance(node, ast.Tuple):
        return tuple(_index(part) for part in node.elts)
    if isinstance(node, ast.Slice):
        return slice(*(None if part is None else _index(part) for part in (node.lower, node.upper, node.step)))
    value = ast.literal_eval(node)
    if isinstance(value, bool) or not isinstance(value, int | EllipsisType | None):
        raise ValueError(value)
    return value


def names_in(of: object) -> tuple[str, ...]:
    """Return the names of values to capture, because one of these values may be the output.

    A model's own ``:return`` is printed without the colon, and may be written that way.
    """
    names = tuple(strip(reading.name) for reading in readings(of))
    return names + tuple(f":{name}" for name in names if name.partition(".")[0] == "return")


def named_output(trace: Trace, result: Any, of: Any, cotangent: Any, words: Words) -> ProbedOutput | None:
    """Return as the output the value with this name, or an element of that value or of one at a path in the result.
    None if ``of`` is not a text, or is itself such a path, or if no captured value has this name.

    Raises AmbiguousName, BadOutput or NothingToDifferentiate.
    """
    if not isinstance(of, str) or is_at(result, of):
        return None
    words = replace(words, holder=repr(of), scalar=f"of={of + '[{at}]'!r}")
    known = Captured.of(trace, of)
    for reading in readings(of):
        is_path = reading.name != of and is_at(result, reading.name)
        if is_path and (not reading.unreadable or trace.tape.is_tensor(at_path(result, reading.name))):
            return _element_of_result(trace, result, reading, of, cotangent, words)
        found = known.positions(reading)
        if found:
            tensor = _element(known.tensor(known.only(found, reading), reading), reading.name, reading, of)
            output = differentiated(tensor, None, of, [], cotangent, trace.tape, words)
            return ProbedOutput(output.tensor, None, output.cotangent, of if reading.indices else None)
    known.refuse_count()
    return None


def _element_of_result(
    trace: Trace, result: Any, reading: Reading, of: str, cotangent: Any, words: Words
) -> ProbedOutput:
    # Return an element of the value at a path in the result. The first indices may select items of tuples and lists.
    path, value, indices = reading.name, at_path(result, reading.name), list(reading.indices)
    while indices and isinstance(value, list | tuple) and isinstance(position := indices[0], int):
        inside = children(value) or []
        indices.pop(0)
        try:
            key, value = inside[position]
        except IndexError as error:
            raise BadOutput(
                f"{path!r} has no position {position}",
                asked=f"of={of!r}",
                found=f"{kind(value)} of {len(inside)}",
                next=f"of={path + '[0]'!r}",
            ) from error
        path = f"{path}.{key}"
    if not (trace.tape.is_tensor(value) and trace.tape.is_floating(value)):
        raise BadOutput(
            "the selected output is not a floating-point tensor",
            asked=f"of={of!r}",
            found=f"{path!r} is {kind(value)}",
            why="a gradient is of a floating output",
            next="the path of a tensor",
        )
    tensor = _element(value, path, replace(reading, indices=tuple(indices)), of)
    output = differentiated(tensor, None, of, [], cotangent, trace.tape, words)
    return replace(output, name=of) if indices else replace(output, path=f".{path}")


@dataclass(frozen=True)
class Captured:
    """The captured values that a text in ``of=`` may mean."""

    trace: Trace
    asked: str
    schema: Schema
    names: Lookup
    numbers: Sequence[int | None]
    """By position of a value: the number of its capture; None if the value is not a tensor."""

    @classmethod
    def of(cls, trace: Trace, asked: str) -> Captured:
        captured = selection(names_in(asked), trace.selection.in_function)
        schema = schema_of(trace.read(), captured, trace.events, ())
        numbers = [template.number for template in schema.templates]
        names = Lookup(schema.names.positions, lambda at: _is_floating(trace, numbers[at]))
        return cls(trace, asked, schema, names, numbers)

    def positions(self, reading: Reading) -> set[int]:
        """Return the positions of the values with this name. If some of them are floating-point tensors, only those.
        Empty for an unreadable index behind a name of several values.
        """
        found = self.names.at(full for each in self.names.readings(reading.name) for full in each)
        found = {at for at in found if _is_floating(self.trace, self.numbers[at])} or found
        return set() if reading.unreadable and len(found) != 1 else found

    def only(self, found: set[int], reading: Reading) -> int:
        """Return the position of the only value in ``found``. Raises AmbiguousName if there are several."""
        if len(found) > 1:
            choices = self._spelled(reading.name)
            raise AmbiguousName(
                f"{reading.name!r} means several values",
                asked=f"of={self.asked!r}",
                found=listed(choices, 12),
                why="one value is differentiated",
                next=f"of={choices[-1] + self.asked.removeprefix(reading.name)!r}",
            )
        return found.pop()

    def tensor(self, at: int, reading: Reading) -> Any:
        """Return the tensor of a capture, as it is when the program ends. Raises BadOutput if the value is not a
        tensor, was written to since, or is inside a transformation.
        """
        number = self.numbers[at]
        if number is None:
            raise BadOutput(
                f"{reading.name!r} is not a tensor",
                asked=f"of={self.asked!r}",
                found=self._plain(at, reading),
                why="a gradient is of a floating output",
                next="the name of a tensor",
            )
        return _tensor(self.trace, number, reading, self.asked)

    def _plain(self, at: int, reading: Reading) -> str:
        # Describe a value that is not a tensor. If the value is None, the text includes the reason, if known.
        template, plain = self.schema.templates[at], self.trace.log.plain
        if template.plain_at is None:
            return ""
        value = plain[template.plain_at]
        if value is not None:
            return f"the Python number {value}"
        is_computed = template.source is not None and not template.source.text.lstrip().startswith("def ")
        return str(why_none(self._spelled(reading.name)[0], template.source, is_computed))

    def refuse_count(self) -> None:
        """Raise BadOutput if a name exists, but not with the requested count."""
        for reading in readings(self.asked):
            choices = self._spelled(strip(reading.name)) if strip(reading.name) != reading.name else []
            if choices:
                raise BadOutput(
                    f"no value is named {reading.name!r}",
                    asked=f"of={self.asked!r}",
                    found=listed(choices, 12),
                    why="counts begin at 0, in the order of execution, and #-1 is the last",
                    next=f"of={choices[-1] + self.asked.removeprefix(reading.name)!r}",
                ) from KeyError(reading.name)

    def _spelled(self, name: str) -> list[str]:
        # Return the names that a text may mean, as users write them in ``of=``. A local of a model's own forward starts
        # with a colon.
        found = [full for each in self.names.readings(name) for full in each]
        printed = [(full, self.schema.names.printed[full]) for full in found]
        in_function = self.trace.selection.in_function
        return list(
            dict.fromkeys(
                text if in_function or not full.startswith(":") or text.startswith(":") else f":{text}"
                for full, text in printed
            )
        )


def _is_floating(trace: Trace, number: int | None) -> bool:
    return number is not None and trace.tape.is_floating(trace.versions.tensors[number])


def _tensor(trace: Trace, number: int, reading: Reading, of: str) -> Any:
    versions, tape = trace.versions, trace.tape
    tensor = versions.tensors[number]
    if versions.version(tensor) != versions.versions[number]:
        raise BadOutput(
            f"{reading.name!r} was modified in place after it was bound",
            asked=f"of={of!r}",
            found="a tensor that holds other values now",
            why="its own values, and the graph to them, are gone",
            next=f"the name that it has after the write, or a copy that is not written to: {reading.name}.clone()",
        )
    if isinstance(tape, Staging):
        tensor = tape.outside(versions.captures[number])
        if tensor is None:
            raise BadOutput(
                f"{reading.name!r} is inside a transformation",
                asked=f"of={of!r}",
                why="what is inside a function that is transformed as a whole has no value outside of it",
                next="return it from that function, and give its path in what is returned",
            )
    return tensor


def _element(tensor: Any, name: str, reading: Reading, of: str) -> Any:
    # Return the element of a tensor at these indices. Raises BadOutput if there is no such element.
    import numpy  # local: importing backprobe must not import NumPy

    shape = tuple(tensor.shape)
    first = f"of={name + str([0] * len(shape))!r}" if shape else f"of={name!r}"
    if reading.unreadable:
        raise BadOutput(
            f"the index of {of!r} cannot be read",
            asked=f"of={of!r}",
            found=f"{name!r}, a tensor of shape {shape}, and behind it {reading.unreadable}",
            why="an index holds whole numbers, slices, ... and None",
            next=first,
        ) from IndexError(reading.unreadable)
    for index in reading.indices:
        try:
            # raises an error for an index out of range, which JAX would silently change
            numpy.broadcast_to(0, tensor.shape)[index]
            tensor = tensor[index]
        except Exception as error:  # its type differs between frameworks
            raise BadOutput(
                f"{name!r} has no such element",
                asked=f"of={of!r}",
                found=f"shape {tuple(tensor.shape)}: {error}",
                why=f"{name!r} has the shape {shape}" if len(reading.indices) > 1 else "",
                next=first,
            ) from error
    return tensor
