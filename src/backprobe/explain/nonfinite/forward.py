"""Births of NaN and Inf in the forward pass: which entries are worse than all that they were computed from."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import Any

import numpy

from backprobe.backends.discover import BACKENDS
from backprobe.backends.tensors import Arrays
from backprobe.explain.nonfinite import loops, mechanism
from backprobe.explain.nonfinite.module_births import (
    BEFORE,
    LOWER_SCALE,
    NOT_SEEN,
    SEE_BETWEEN,
    START,
    listed,
    scaled,
    to_look_into,
    within,
)
from backprobe.explain.nonfinite.moments import Moment, Moments
from backprobe.explain.nonfinite.sources import Sources, operands, parsed, statement
from backprobe.explain.nonfinite.states import WORDS, State, States
from backprobe.explain.nonfinite.unrecorded import LITERALS, Unrecorded
from backprobe.findings.phrasing import place
from backprobe.findings.report import Finding
from backprobe.record.entries import Entry, GradStatus
from backprobe.record.names import strip
from backprobe.source.user_code import package

HEALING = frozenset({
    "where", "nan_to_num", "nan_to_num_", "masked_fill", "masked_fill_", "clamp", "clamp_", "clip", "clip_by_value",
    "maximum", "minimum", "fmax", "fmin", "max", "min", "amax", "amin", "relu", "relu6", "nansum", "nanmean", "softmax",
    "sigmoid", "tanh", "exp", "atan", "arctan", "getitem", "reciprocal", "div", "erf", "logsumexp", "select", "gather",
    "masked_select", "multiply_no_nan", "divide_no_nan", "copysign", "sign", "hardtanh", "topk", "sort",
})  # fmt: skip
FRAMEWORKS = (*BACKENDS, "keras", "flax")
NO_HISTORY = (GradStatus.FROZEN, GradStatus.DETACHED, GradStatus.NO_GRAD)
UPDATED = "gradients held NaN or Inf before that: what was updated with them may have brought it"
BEGUN = "it begins in step {} of the loop, counted from 0"
AGAIN = ", and again in {}, where what it is computed from is finite"
HELD = "the buffer {!r} held {} before the model ran"
NOTHING = "no output and no gradient holds NaN or Inf"
NO_TENSOR = "a number, and nothing that is seen to be computed with it holds NaN or Inf"
WRITTEN = ("inf", "nan", "infinity")


class Forward:
    """The forward pass of one record."""

    def __init__(self, states: States, sources: Sources, arrays: Arrays) -> None:
        self.states, self.sources, self.arrays = states, sources, arrays
        self.moments = Moments(states, sources)
        self.entries: Sequence[Entry] = states.record.entries
        self.unrecorded = Unrecorded(states.record, sources)
        self.positions: Mapping[str, int] = {entry.name: at for at, entry in enumerate(self.entries)}

    # who is what

    @cached_property
    def origins(self) -> Mapping[int, State]:
        """The entries where something bad begins, with the worst state among what they were computed from."""
        found = {}
        for at, state in enumerate(self.states.values):
            if state.is_bad:
                sources = [*self.sources.direct[at], *self._unseen_sources(at)]
                given = max((self.states.values[one] for one in sources), default=State.FINITE)
                if state > given and not self.moments.is_read_from_gradients(at):
                    found[at] = given
        for loop, begins, follows in self._in_loops:
            for at in follows:
                found.pop(at, None)
            for at in begins:
                others = [one for one in self.sources.direct[at] if one not in loop.bad]
                found[at] = max((self.states.values[one] for one in others), default=State.FINITE)
        return dict(sorted(found.items()))

    @cached_property
    def _in_loops(self) -> Sequence[tuple[loops.Loop, Mapping[int, list[int]], Set[int]]]:
        found = loops.loops(self.states, self.numbers, self._came_in)
        return [(loop, *loops.origins(loop, self.states, self.sources)) for loop in found]

    def _begun_in(self, at: int) -> tuple[loops.Loop, list[int]] | None:
        """The loop in which something begins at an entry, and its steps."""
        return next(((loop, begins[at]) for loop, begins, _ in self._in_loops if at in begins), None)

    def _unseen_sources(self, at: int) -> list[int]:
        """What may flow into a module's output and has no history, so that the graph does not tell: bad values before.

        Only where nothing else that the module was given is recorded.
        """
        entry, names = self.entries[at], self.states.record.names
        given = [one for one in self.sources.direct[at] if self.entries[one].name not in names]
        if given or entry.source is not None or entry.name in names:
            return []
        return [
            one for one in range(at)
            if self.states.values[one].is_bad and self.entries[one].status in NO_HISTORY
        ]  # fmt: skip

    def spread(self, start: int) -> set[int]:
        """The entries with NaN or Inf that one of them leads to, itself among them."""
        found, pending = {start}, [start]
        while pending:
            for consumer in self.sources.consumers[pending.pop()]:
                if consumer not in found and self.states.values[consumer].is_bad:
                    found.add(consumer)
                    pending.append(consumer)
        return found

    @cached_property
    def harmful(self) -> Set[int]:
        """The entries whose NaN and Inf come to an output."""
        outputs = {at for at in self.states.record.outputs if self.states.values[at].is_bad}
        found, pending = set(outputs), list(outputs)
        while pending:
            for source in self.sources.direct[pending.pop()]:
                if source not in found and self.states.values[source].is_bad:
                    found.add(source)
                    pending.append(source)
        return found

    @cached_property
    def healers(self) -> Mapping[int, int]:
        """The entries that are finite, by a source of theirs that is not."""
        found = {}
        for at, state in enumerate(self.states.values):
            entry = self.entries[at]
            is_float = entry.status not in (GradStatus.NOT_FLOAT, GradStatus.NOT_TENSOR)
            inputs = {self.positions.get(edge.name) for edge in entry.inputs}
            written = {self.positions.get(way.name) for way in entry.indirect}
            for source in self.sources.direct[at] if state is State.FINITE and is_float else ():
                if self.states.values[source].is_bad and (source in inputs | written or entry.op in HEALING):
                    found[source] = at
        return found

    def ends(self, start: int) -> list[tuple[int, int]]:
        """Where what begins at an entry is healed: the last bad value and the one that is finite again."""
        return [(at, self.healers[at]) for at in sorted(self.spread(start)) if at in self.healers]

    def is_harmless(self, start: int, read: Set[int]) -> bool:
        """Is all of it healed, and was none of it read where a gradient became NaN or Inf?

        A number such as the ``inf`` that a running minimum starts from does harm by what is computed with it alone.
        Where no output and no gradient is bad, only what stays in a parameter or buffer does harm.
        """
        spread = self.spread(start)
        if spread & self.harmful or spread & read:
            return False
        loose = [at for at in spread if not self.sources.consumers[at] and not self._is_number(at)]
        if not self._ends_badly and self.states.record.outputs:
            return not any(map(self._is_written_over, loose))
        return not loose and (bool(self.ends(start)) or all(map(self._is_number, spread)))

    def _is_written_over(self, at: int) -> bool:
        """Is it a later version of what was there before, as a parameter that is updated? Others may read that."""
        own = strip(self.entries[at].name)
        return any(strip(way.name) == own for way in self.entries[at].indirect)

    @cached_property
    def _ends_badly(self) -> bool:
        """Is an output or a gradient bad, of whatever?"""
        states = self.states
        values = [states.values[at] for at in states.record.outputs]
        made = any(states.made(at) for at in range(len(states.values)))
        return made or any(state.is_bad for state in (*values, *states.grads))

    def _is_number(self, at: int) -> bool:
        return self.entries[at].status is GradStatus.NOT_TENSOR

    # findings

    def births(self, read: Set[int], folded: Mapping[int, Sequence[str]]) -> Iterator[tuple[Moment, Finding]]:
        """Where NaN and Inf begin, those left out that do no harm; with what is to be said of their backward too."""
        for at, given in self.origins.items():
            if not self.is_harmless(at, read):
                yield self.moments.forward(at), self._birth(at, given, folded.get(at, ()))

    def _birth(self, at: int, given: State, more: Sequence[str]) -> Finding:
        entry, state = self.entries[at], self._state_at_first(at)
        sources, word = self.sources.direct[at], WORDS[state]
        facts = [self.fact("its value", at), *(self.fact(repr(self.entries[one].name), one) for one in sources), *more]
        chain = self._chain(at)
        begun = self._begun_in(at)
        if begun is not None and entry.axes.count(loops.STEP) == 1:
            facts.append(_begun(*begun))
        facts += [*self.healing(at), *self.use(at)]
        if self._came_in(at):
            what = "the parameter " if entry.name in self.states.record.names else ""  # whose name is its path
            return Finding("came_in", entry.name, f"{word} comes in with {what}{entry.name!r}", entry.source,
                           tuple(facts), chain)  # fmt: skip
        if given is State.UNKNOWN:
            lost = ", ".join(repr(self.entries[one].name) for one in sources if self.states.values[one] is given)
            headline = f"{word} is born at {entry.name!r}, or came there from {lost}, whose value is not known"
            return Finding("unknown", entry.name, headline, entry.source, (*facts, *self._before(at)), chain)
        mentioned = self.unrecorded.mentioned(at)
        told = self.mechanism(at) or self._by_scale(at)
        is_told = told and not (mentioned and told.startswith(mechanism.OVERFLOW))  # of all that went in
        brought = [] if is_told else self.unrecorded.brought(at, mentioned, state)
        if brought:
            facts += [HELD.format(name, self.states.record.buffers[name]) for name in brought]
            headline = f"{word} comes in with the buffer {listed(brought)}, at {entry.name!r}"
            return Finding("came_in", entry.name, headline, entry.source, tuple(facts), chain)
        if entry.source is None or not (entry.source.expression or entry.op):
            return self._birth_within(at, word, facts, chain, told)
        of = " of Inf" if given is State.INF else ""
        if mentioned and not is_told:
            lost = f"{', '.join(mentioned)}, which {'is' if len(mentioned) == 1 else 'are'} not recorded"
            headline = f"{word} is born{of} at {entry.name!r}, or came in with {lost}"
            return Finding("unknown", entry.name, headline, entry.source, (*facts, *self._before(at)), chain)
        headline = f"{word} is born{of} at {entry.name!r}" + (f": {told}" if told else "")
        return Finding("born", entry.name, headline, entry.source, tuple(facts), chain)

    def _before(self, at: int) -> list[str]:
        """Whether a backward pass went before that may be the reason, where it is not known what was written then."""
        return [UPDATED] if at > self.moments.first_bad and not self.states.record.updates else []

    def _by_scale(self, at: int) -> str:
        """Of what backward ran from and is a multiple of a finite loss: it is the scale that makes it NaN or Inf."""
        record, sources = self.states.record, self.sources.direct[at]
        loss = self.numbers(sources[0]) if len(sources) == 1 else None
        if record.outputs != (at,) or len(record.scales) != 1 or loss is None or loss.size != 1:
            return ""
        if not numpy.isfinite(loss).all():
            return ""
        return mechanism.scaled(loss.item(), record.scales[0], self.entries[at].dtype or "")

    def _birth_within(self, at: int, word: str, facts: list[str], chain: tuple[str, ...], told: str) -> Finding:
        """A birth of which no line is known: between recorded values, as the outputs of modules are."""
        entry = self.entries[at]
        if told:
            headline = f"{word} is born at {entry.name!r}: {told}"
            return Finding("born", entry.name, headline, entry.source, tuple(facts), chain, LOWER_SCALE)
        inputs = [self.entries[one].name for one in self.sources.direct[at]]
        if entry.name.partition("#")[0] == START:
            facts += scaled(self.states.record.scales)
            headline = BEFORE.format(word=word, between=listed(inputs), name=entry.name)
            return Finding("unknown", entry.name, headline, entry.source, tuple(facts), chain, SEE_BETWEEN)
        given = [self.entries[one].name for one in self.sources.direct[at] if not self._is_weight(one)]
        kind, headline = within(word, entry, given)
        return Finding(kind, entry.name, headline, entry.source, (*facts, NOT_SEEN), chain, to_look_into(entry, inputs))

    def _is_weight(self, at: int) -> bool:
        """Is it a parameter, or a Variable that the program has no name for?"""
        entry = self.entries[at]
        is_bare = entry.source is None and not self.sources.direct[at] and not self.sources.scopes[at]
        return entry.name in self.states.record.names or is_bare

    def _came_in(self, at: int) -> bool:
        """Was it there before any operation that is recorded?"""
        source = self.entries[at].source
        if self.sources.direct[at]:
            return False
        if source is None:
            return True
        is_made = self.entries[at].op or isinstance(parsed(source.expression), ast.Call)
        return not is_made and not self._is_written(at)

    def mechanism(self, at: int) -> str:
        """The name of what happened, from the numbers that went in."""
        entry = self.entries[at]

        def numbers(one: int) -> Any:
            return self._at_first(one, at)

        result = numbers(at)
        if result is None or entry.source is None:
            return ""
        parts = self.sources.parts[at]
        given = [_operand(node, parts, numbers) for node in operands(entry.source.expression, parts)]
        if not given and entry.op:
            given = [numbers(one) for one in self.sources.direct[at]]
        with mechanism.quiet():
            told = mechanism.forward(entry.op, given, result, entry.dtype or "")
        is_guess = not told or told.startswith(mechanism.OVERFLOW)  # of the numbers that went in, and not of the line
        return "it is written there" if is_guess and self._is_written(at) else told

    def _at_first(self, one: int, at: int) -> Any:
        """The numbers of a value in the step in which something begins at an entry, where both are in one loop."""
        found, begun = self.numbers(one), self._begun_in(at)
        if begun is None or found is None or self.entries[one].axes != self.entries[at].axes:
            return found
        return begun[0].at_step(found, self.entries[at].axes, begun[1][0])

    def _state_at_first(self, at: int) -> State:
        """How bad an entry is where it begins: a loop may go on with an Inf and come to NaN."""
        if self._begun_in(at) is None:
            return self.states.values[at]
        return State.NAN if numpy.isnan(self._at_first(at, at)).any() else State.INF

    def _is_written(self, at: int) -> bool:
        """Does the line itself write NaN or Inf?"""
        source = self.entries[at].source
        assert source is not None
        tree = parsed(source.expression) if source.expression else statement(source.text)
        return tree is not None and any(
            (isinstance(node, ast.Constant) and str(node.value).lower().lstrip("+-") in WRITTEN)
            or (isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node).split(".")[-1] in LITERALS)
            for node in ast.walk(tree)
        )

    def numbers(self, at: int) -> Any:
        """The numbers of a value; None where they are not held."""
        held = self.entries[at].held_value
        if self.arrays.is_tensor(held):
            return self.arrays.numbers(held)
        return mechanism.number(held)

    # sentences

    def use(self, at: int) -> list[str]:
        """Of what no line of the user's made, a module's output or a line of a framework's: where it is used first."""
        if self._is_users(at) or self.entries[at].name in self.states.record.names:
            return []
        seen, pending = {at}, [at]
        users: list[int] = []
        while pending:
            for consumer in self.sources.consumers[pending.pop()]:
                if consumer not in seen:
                    seen.add(consumer)
                    (users if self._is_users(consumer) else pending).append(consumer)
        if not users:
            return []
        first = min(users)
        text = self.entries[first].source.text.strip()  # type: ignore[union-attr]
        return [f"it is used first by {self.entries[first].name!r}{self.at_line(first)}: {text}"]

    def _is_users(self, at: int) -> bool:
        """Is there a line for it, that is no framework's?"""
        source = self.entries[at].source
        return source is not None and package(source.file) not in FRAMEWORKS

    def fact(self, what: str, at: int) -> str:
        """What a value is: its shape, and how many numbers of it are NaN or Inf, or between which it lies."""
        entry = self.entries[at]
        shape = "" if entry.shape is None else f" of shape {entry.shape}"
        count = entry.finiteness.value if entry.finiteness is not None else None
        if count is not None and not count.is_finite:
            return f"{what}{shape}: {count}"
        if self.states.values[at] is State.UNKNOWN:
            return f"{what}{shape} is not known"
        if entry.status is GradStatus.NOT_TENSOR:
            return f"{what} is {entry.held_value}"
        numbers = self.numbers(at)
        if numbers is None or numbers.dtype.kind == "c" or not numbers.size:
            return f"{what}{shape} is finite"
        low, high = numbers.min(), numbers.max()
        return f"{what}{shape} is finite, " + (f"{low:.6g}" if low == high else f"between {low:.6g} and {high:.6g}")

    def _by(self, healer: int) -> str:
        entry = self.entries[healer]
        return (f", by {entry.op}" if entry.op else "") + self.at_line(healer)

    def at_line(self, at: int) -> str:
        """`` (file:line)``, or nothing."""
        source = self.entries[at].source
        return "" if source is None else f" ({place(source.file, source.line)})"

    def _chain(self, start: int) -> tuple[str, ...]:
        """The names from a birth to the output, or as far as it spreads."""
        path, seen = [start], {start}
        while True:
            following = [c for c in self.sources.consumers[path[-1]] if self.states.values[c].is_bad and c not in seen]
            if not following:
                return shortened([self.entries[at].name for at in path])
            path.append(min(following, key=lambda at: (at not in self.harmful, at)))
            seen.add(path[-1])

    def healing(self, at: int) -> list[str]:
        """Sentences about where what begins at an entry is taken away."""
        healers = dict.fromkeys(healer for _, healer in self.ends(at))
        return [f"{self.entries[healer].name!r} is finite again" + self._by(healer) for healer in healers]

    def healed(self, read: Set[int], owners: Set[int]) -> Iterator[Finding]:
        """Where NaN and Inf were taken away that have done harm before, or do so in backward."""
        harming = [at for at in self.origins if at in owners or not self.is_harmless(at, read)]
        for source, healer in self._ends_of(harming):
            headline = f"{self.entries[source].name!r} is healed at {self.entries[healer].name!r}" + self._op(healer)
            yield Finding("healed", self.entries[healer].name, headline, self.entries[healer].source)

    def harmless(self, read: Set[int], owners: Set[int]) -> Iterator[str]:
        """Sentences about NaN and Inf that come to nothing."""
        for at in self.origins:
            if at not in owners and self.is_harmless(at, read):
                healers = dict.fromkeys(
                    repr(self.entries[healer].name) + self._by(healer) for _, healer in self.ends(at)
                )
                what = f"{WORDS[self.states.values[at]]} at {self.entries[at].name!r}{self.at_line(at)} does no harm"
                nothing = NO_TENSOR if self._is_number(at) else NOTHING
                yield f"{what}: " + (f"finite again at {', '.join(healers)}" if healers else nothing)

    def _ends_of(self, starts: Iterable[int]) -> list[tuple[int, int]]:
        return list(dict.fromkeys(end for start in starts for end in self.ends(start)))

    def _op(self, at: int) -> str:
        return f", by {self.entries[at].op}" if self.entries[at].op else ""


def _begun(loop: loops.Loop, steps: Sequence[int]) -> str:
    """In which steps of a loop something begins, in the order in which they ran."""
    first, *others = map(loop.counted, steps)
    more = ", ".join(map(str, others[:MOST])) + ", …" * (len(others) > MOST)
    return BEGUN.format(first) + (AGAIN.format(more) if others else "")


def _operand(node: Any, parts: Mapping[str, int], numbers: Callable[[int], Any]) -> Any:
    number = mechanism.literal(node)
    at = parts.get(mechanism.text(node))
    return number if number is not None else None if at is None else numbers(at)


MOST = 8  # names of a chain; what is left out of a longer one is a mark


def shortened(names: Sequence[str]) -> tuple[str, ...]:
    """A chain of names, its middle left out where it is long; none where it leads nowhere."""
    if len(names) > MOST:
        names = [*names[: MOST - 2], "…", names[-1]]
    return tuple(names) if len(names) > 1 else ()
