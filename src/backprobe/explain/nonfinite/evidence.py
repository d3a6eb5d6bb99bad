"""Everything known about NaN and Inf in one record: the state of each value and gradient, and the dependencies.

Sources and consumers come from ``sources.py``: they follow the names that lines mention, in addition to the graph's
edges.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy

from backprobe.backends.dialects import dialect_of
from backprobe.backends.tensors import Arrays
from backprobe.cuts.lines import line_of
from backprobe.explain.nonfinite import arithmetic
from backprobe.explain.nonfinite.computation import Computation
from backprobe.explain.nonfinite.copies import with_copied
from backprobe.explain.nonfinite.mechanism import BINARY
from backprobe.explain.nonfinite.sources import Sources, taken
from backprobe.explain.nonfinite.statements import computed, local_names
from backprobe.explain.nonfinite.states import Badness, number, of_grad, of_value
from backprobe.explain.nonfinite.terms import Term, constant, known_as, term_of, written
from backprobe.explain.nonfinite.text import WrittenInstead, at_line, finding, say
from backprobe.findings.report import Finding
from backprobe.record.entries import GradStatus, Record
from backprobe.record.graph import Graph, inverted
from backprobe.record.names import split, strip
from backprobe.record.nonfinite import BackwardOp
from backprobe.record.source import Source
from backprobe.tracing.finiteness import judged

FIRST = re.compile(r"#0(?!\d)")
LONG = 8  # a chain with more names is shortened
OF = "of()"  # the recorded name of an output that a function given as ``of=`` computed from a model's result
OVER_DIMENSIONS = frozenset({"sum", "prod", "mean", "max", "min", "logsumexp"})
LARGE = 2**53  # integers below this are exact as floats


Index = tuple[int, ...]
Derivative = Callable[[str, Index, str], Any]
"""Returns the derivative of one element of a value with respect to another value, from another run of the program.

The arguments are the name of the first value, the index, and the name of the second. The result is None if no such run
is possible.
"""


def not_asked(owner: str, at: Index, wrt: str) -> None:
    """Return None: the default for ``derivative``, when the program cannot be run to ask the framework."""


class Evidence:
    """One record with the state of each value and gradient, a ``Badness``, by position, and sentences about them.

    ``derivative`` is called to ask the framework for a derivative.
    """

    def __init__(self, record: Record, arrays: Arrays, derivative: Derivative = not_asked) -> None:
        self.derivative = derivative
        tensors = [entry for entry in record.entries if entry.status is not GradStatus.NOT_TENSOR]
        self.was_asked = all(entry.finiteness is not None for entry in tensors) and bool(tensors)
        # without nonfinite=True, finiteness is determined only here
        self.record = record if self.was_asked else judged(record, arrays)
        self.arrays, self.entries = arrays, self.record.entries
        self.values: Sequence[Badness] = tuple(map(of_value, self.entries))
        self.grads: Sequence[Badness] = tuple(map(of_grad, self.entries))
        self.graph, self.sources = Graph.of(self.record), Sources.of(self.record)
        self.direct = with_copied(self.sources.direct, self.entries, self.bad_values, self.numbers)
        self.consumers, self.parts = inverted(self.direct), self.sources.parts
        self._terms: dict[int, Term] = {}
        self._examples: dict[int, tuple[int, ...]] = {}
        self.unjudged: dict[str, None] = {}  # sentences about values that could not be judged, without repetitions

    @cached_property
    def bad_values(self) -> set[int]:
        return {at for at, state in enumerate(self.values) if state.is_bad}

    @cached_property
    def bad_outputs(self) -> list[int]:
        return [at for at in self.record.outputs if self.values[at].is_bad]

    @cached_property
    def bad_grads(self) -> list[int]:
        return [at for at, state in enumerate(self.grads) if state.is_bad]

    @cached_property
    def bad_backward(self) -> list[int]:
        """The entries with a bad gradient, or whose backward computed one."""
        return [at for at, state in enumerate(self.grads) if state.is_bad or self.made(at)]

    def worst_value(self, places: Iterable[int]) -> Badness:
        return max((self.values[at] for at in places), default=Badness.FINITE)

    def worst_grad(self, places: Iterable[int]) -> Badness:
        return max((self.grads[at] for at in places), default=Badness.FINITE)

    def made(self, at: int) -> tuple[BackwardOp, ...]:
        """The operations in the backward of an entry that made NaN or Inf."""
        finiteness = self.entries[at].finiteness
        return () if finiteness is None else finiteness.made or ()

    @cached_property
    def sees_operations(self) -> bool:
        """Did the framework report the operations of backward one by one?"""
        return any(entry.finiteness is not None and entry.finiteness.made is not None for entry in self.entries)

    @cached_property
    def began(self) -> Sequence[int]:
        """For each entry, the first output that it flows into, because backward reached the entry from there.

        The number of entries if it flows into none.
        """
        outputs, found = set(self.record.outputs), [len(self.entries)] * len(self.entries)
        for at in range(len(found) - 1, -1, -1):
            following = [found[consumer] for consumer in self.consumers[at] if consumer > at]
            found[at] = at if at in outputs else min(following, default=len(found))
        return found

    @cached_property
    def first_bad(self) -> int:
        """The first bad entry, or the output from which backward first computed something bad if that comes earlier.

        The number of entries if there is neither.
        """
        return min([*(self.began[at] for at in self.bad_backward), *self.bad_values], default=len(self.entries))

    def numbers(self, at: int) -> Any:
        """The numbers of a value, or None if the recording does not hold them."""
        held = self.entries[at].held
        return self.arrays.numbers(held) if self.arrays.is_tensor(held) else number(held)

    def grad_numbers(self, at: int) -> Any:
        """The numbers of a gradient, or None if there is none."""
        grad = self.entries[at].grad_or_none
        return None if grad is None else self.arrays.numbers(grad)

    def is_number(self, at: int) -> bool:
        return self.entries[at].status is GradStatus.NOT_TENSOR

    def typed(self, at: int, numbers: Any) -> Any:
        """The recorded numbers of an entry in their original dtype. A Python number usually stays as it is."""
        entry = self.entries[at]
        if not self.is_number(at):
            return arithmetic.typed(numbers, entry.dtype)
        held = entry.held
        is_plain = isinstance(held, float) or (isinstance(held, int) and abs(held) < LARGE)
        return held if is_plain and numpy.shape(numbers) == () else numbers

    # Methods for the expressions of lines.

    def term(self, at: int) -> Term:
        """The expression of an entry as a term."""
        if at not in self._terms:
            self._terms[at] = replace(self._term(at), at=at)
        return self._terms[at]

    def _term(self, at: int) -> Term:
        entry = self.entries[at]
        if entry.source is not None and entry.source.expression:
            return term_of(entry.source.expression, self.parts[at], entry.source.calls) or Term()
        found = computed(entry)
        if found is not None and entry.source is not None:
            return written(found.target, found.index, found.value, self.parts[at], entry.source.calls)
        return next(self._orders(at), Term())

    def _orders(self, at: int) -> Iterator[Term]:
        # Yield the operation of a graph node applied to its inputs, in each order that gives the recorded numbers.
        # Dimensions are tried in the same way, because the node stores them as attributes, which are not recorded. For
        # one input, the last term is the operation without a dimension, whatever numbers it gives.
        text = self.node(at) if self.is_node(at) else ""
        op, inputs = known_as(self.entries[at].op), [Term(at=one, text=self.node(one)) for one in self.direct[at]]
        if op and len(inputs) == 1 and op not in BINARY:
            result, read = self.numbers(at), lambda one: self.typed(one, self.numbers(one))
            over = self._dimensions(self.direct[at][0]) if op in OVER_DIMENSIONS and result is not None else ()
            terms = [Term(op, tuple(inputs), words, text=text) for words in over]
            yield from (one for one in terms if self._evaluated(one, read, result).is_equal)
            yield Term(op, tuple(inputs), text=text)
        elif op and 1 <= len(inputs) <= 2:
            result, read = self.numbers(at), lambda one: self.typed(one, self.numbers(one))
            for args in (inputs, inputs[::-1]) if len(inputs) == 2 else (inputs * 2,):
                term = Term(op, tuple(args), text=text)
                if self._evaluated(term, read, result).is_equal:
                    yield term

    def _dimensions(self, at: int) -> Iterator[dict[str, Term]]:
        # Yield candidate arguments of a function that reduces over a dimension, the last dimension first.
        for dim in range(len(self.entries[at].shape or ()) - 1, -1, -1):
            for keepdim in ({"keepdim": constant(True)}, {}):
                yield {"dim": constant(dim), **keepdim}

    def computation(self, at: int, numbers: Callable[[int], Any] | None = None) -> Computation:
        """The computation of an entry, with the recorded numbers or those that ``numbers`` returns."""
        read = numbers or self.numbers
        return self._evaluated(self.term(at), lambda one: self.typed(one, read(one)), self.typed(at, read(at)))

    def in_example(self, one: int, at: int) -> Any:
        """Return a value's numbers in the example or step for which ``at`` was computed, if both were recorded for all.

        A line inside a vmap or a loop computes one example at a time, without the axis over all examples.
        """
        return self.taken(self.numbers(one), one, at, self.example_of(at))

    def taken(self, numbers: Any, one: int, at: int, example: tuple[int, ...] | None) -> Any:
        """The part of ``numbers`` that belongs to another entry's example, if both have the same examples."""
        is_alike = numbers is not None and self.entries[one].axes == self.entries[at].axes
        return numbers[example] if is_alike and example and numbers.ndim >= len(example) else numbers

    def example_of(self, at: int) -> tuple[int, ...] | None:
        """The first example in which the entry, or else the gradient of one of its inputs, has NaN or Inf.

        Without NaN and Inf it is the first example; for an entry that is not in a vmap or loop it is None.
        """
        axes = self.entries[at].axes
        if axes and at not in self._examples:
            beside = [one for one in self.direct[at] if self.entries[one].axes == axes]
            found = (first_bad(numbers, len(axes)) for numbers in (self.numbers(at), *map(self.grad_numbers, beside)))
            self._examples[at] = next(filter(None, found), (0,) * len(axes))
        return self._examples.get(at)

    def example(self, at: int, beside: int | None = None) -> Computation:
        """The computation of an entry. In a vmap or loop, it uses one example: the first bad one of the entry, or of
        the entry ``beside`` if given.
        """
        return self.computation(at, lambda one: self.in_example(one, at if beside is None else beside))

    def _evaluated(self, term: Term, numbers: Callable[[int], Any], result: Any) -> Computation:
        return Computation(term, numbers, result, self.record.framework, self.arrays.evaluate)

    def finding(self, at: int, code: str, *, part: str = "", remedy: str | WrittenInstead = "", **said: Any) -> Finding:
        """Make a finding at the line of an entry, or at the line of one part of its expression."""
        entry, instead = self.entries[at], remedy if isinstance(remedy, WrittenInstead) else WrittenInstead(remedy)
        made = finding(code, entry.name, self.place(at, part), name=repr(entry.name), remedy=instead.said, **said)
        expression = part or (entry.source.expression if entry.source is not None else "")
        return replace(made, fields={**made.fields, "part": expression, "dtype": entry.dtype or "", **instead.fields})

    def place(self, at: int, part: str = "") -> Source | None:
        """Return the line of an entry.

        In a statement of several lines, this is the line of its expression, or of the given part. Returns None if there
        is no line, and for an output that a function given as ``of=`` computed.
        """
        source = self.entries[at].source
        if self.entries[at].name == OF:  # the recorded line is the model's call, which did not compute this value
            return None
        if source is None or not source.below or not (part or source.expression):
            return source
        text = part or source.expression
        return replace(source, line=line_of(source, text).line, text=text, below=())

    def names(self, places: Iterable[int]) -> list[str]:
        return [self.entries[at].name for at in places]

    def chain(self, path: Sequence[int]) -> tuple[str, ...]:
        """The names along a path. A long path is shortened in the middle, and a path of one name is empty."""
        names = self.names(path)
        shown = [*names[: LONG - 2], "…", names[-1]] if len(names) > LONG else names
        return tuple(shown) if len(shown) > 1 else ()

    def home(self, at: int) -> str:
        """Return the scope whose code computed a value.

        A value that a function returned was computed by that function, not by its caller.
        """
        names = (self.entries[at].name, *self.entries[at].aliases)
        returned = [split(name)[0] for name in names if strip(name).endswith(":return")]
        return FIRST.sub("", max(returned, key=len, default=self.graph.scopes[at]))

    @cached_property
    def names_by_home(self) -> Mapping[str, set[str]]:
        """For each scope, the local names of the values that it computed."""
        found: dict[str, set[str]] = defaultdict(set)
        for at in range(len(self.entries)):
            found[self.home(at)].update(local_names(self.entries[at]))
        return found

    def computed_by(self, term: Term) -> str:
        """The expression that computes an unnamed value; empty if the value has a name.

        For a term without an entry, this is the text of the term.
        """
        if term.at is None:
            return term.text
        entry = self.entries[term.at]
        is_unnamed = entry.name.partition("#")[0].endswith("()") and entry.source is not None
        return entry.source.expression if is_unnamed and entry.source is not None else ""

    def name(self, at: int) -> str:
        return repr(self.entries[at].name)

    def node(self, at: int) -> str:
        """The name of a graph node as the graph spells it."""
        return self.entries[at].name.strip("`")

    def is_node(self, at: int) -> bool:
        """Is the entry a graph node, which is a single operation without an expression in the source?"""
        entry = self.entries[at]
        is_bare = entry.source is not None and not entry.source.expression and bool(entry.op)
        return is_bare and dialect_of(self.record.framework).has_named_nodes and computed(entry) is None

    def by_op(self, at: int, operand: int) -> str:
        """The name of an entry, with its operation if that is applied directly to the operand."""
        entry = self.entries[at]
        is_applied = entry.source is None or operand in taken(entry.source.expression, self.parts[at])
        return say("by_op", name=self.name(at), op=entry.op) if entry.op and is_applied else self.name(at)

    def at_line(self, at: int) -> str:
        """The line of an entry in parentheses, or an empty string."""
        return at_line(self.place(at))

    def line(self, at: int) -> str:
        """The name of a value and the line that computes it."""
        source, named = self.place(at), self.name(at) + self.at_line(at)
        return say("no_line", at=named) if source is None else f"{named}: {source.text.strip()}"

    def value(self, at: int) -> str:
        """Describe a value: its shape, and how many numbers are NaN or Inf, or else their range."""
        entry, value = self.entries[at], self.name(at)
        value = value if entry.shape is None else say("of_shape", value=value, shape=entry.shape)
        count = None if entry.finiteness is None else entry.finiteness.value
        if count is not None and not count.is_finite:
            return say("holds", value=value, count=count)
        if self.values[at] is Badness.UNKNOWN:
            return say("not_known", value=value)
        if self.is_number(at):
            return say("is_number", value=value, number=entry.held)
        numbers = self.numbers(at)
        if numbers is None or numbers.dtype.kind == "c" or not numbers.size:
            return say("is_finite", value=value)
        low, high = f"{numbers.min():.6g}", f"{numbers.max():.6g}"
        return say("is_number" if low == high else "is_between", value=value, number=low, low=low, high=high)

    def may_matter(self, at: int) -> bool:
        """Can NaN or Inf reach a line through this value? It cannot through a flag or a string."""
        held = self.entries[at].held
        return not self.is_number(at) or (isinstance(held, int | float | complex) and not isinstance(held, bool))

    def gradient(self, at: int) -> str:
        """Describe a gradient: how many of its numbers are NaN or Inf."""
        finiteness = self.entries[at].finiteness
        count = None if finiteness is None else finiteness.grad
        return say("gradient", name=self.name(at), count=say("no_gradient") if count is None else count)


def first_bad(numbers: Any, axes: int, but: Any = None) -> tuple[int, ...] | None:
    """Return the index of the first example with NaN or Inf, over the first ``axes`` axes.

    Examples in which ``but`` has NaN or Inf are skipped.
    """
    if numbers is None or numbers.ndim < axes:
        return None
    bad = _bad_examples(numbers, axes)
    if but is not None and but.shape[:axes] == bad.shape:
        bad = bad & ~_bad_examples(but, axes)
    return tuple(int(one) for one in numpy.argwhere(bad)[0]) if bad.any() else None


def _bad_examples(numbers: Any, axes: int) -> Any:
    return (~numpy.isfinite(numbers)).any(axis=tuple(range(axes, numbers.ndim)))
