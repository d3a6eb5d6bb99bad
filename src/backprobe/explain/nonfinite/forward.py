"""Births of NaN and Inf in the forward pass: which entries are worse than all that they were computed from."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import Any, NamedTuple

import numpy

from backprobe.backends.discover import BACKENDS
from backprobe.explain.nonfinite import loops, mechanism
from backprobe.explain.nonfinite.evidence import Evidence
from backprobe.explain.nonfinite.module_births import common, to_look_into
from backprobe.explain.nonfinite.sources import operands, parsed, reads_gradients, writes_nonfinite
from backprobe.explain.nonfinite.states import WORDS, State
from backprobe.explain.nonfinite.text import (
    BEFORE,
    HELD,
    LOWER_SCALE,
    NO_TENSOR,
    NOT_SEEN,
    NOTHING,
    SEE_BETWEEN,
    UPDATED,
    begun,
    scaled,
    some,
)
from backprobe.explain.nonfinite.unrecorded import brought, mentioned
from backprobe.findings.report import Finding
from backprobe.record.entries import GradStatus
from backprobe.record.graph import reached
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
START = "backward()"  # what a block calls that which the program ran backward from
MOST = 8  # names of a chain; what is left out of a longer one is a mark

Moment = tuple[int, bool]
"""The position of the entry that was made last, and whether backward ran then: moments compare as they come."""


class Verdict(NamedTuple):
    """How NaN or Inf came to an entry."""

    kind: str
    headline: str
    facts: Sequence[str] = ()
    remedy: str = ""


class ForwardPass:
    """Where NaN and Inf begin in the values of one record, where they go, and where they are healed."""

    def __init__(self, known: Evidence) -> None:
        self.known, self.entries = known, known.entries

    # who is what

    @cached_property
    def origins(self) -> Mapping[int, State]:
        """The entries where something bad begins, with the worst state among what they were computed from."""
        known, found = self.known, {}
        for at in known.bad_values:
            given = known.worst_value([*known.direct[at], *self._unseen_sources(at)])
            if known.values[at] > given and not self._is_read_from_gradients(at):
                found[at] = given
        for loop, begins, follows in self._in_loops:
            for at in follows:
                found.pop(at, None)
            for at in begins:
                found[at] = known.worst_value(one for one in known.direct[at] if one not in loop.bad)
        return dict(sorted(found.items()))

    @cached_property
    def _in_loops(self) -> Sequence[tuple[loops.Loop, Mapping[int, list[int]], Set[int]]]:
        return [(loop, *loops.origins(loop, self.known)) for loop in loops.loops(self.known, self._came_in)]

    def _begun_in(self, at: int) -> tuple[loops.Loop, list[int]] | None:
        """The loop in which something begins at an entry, and its steps."""
        return next(((loop, begins[at]) for loop, begins, _ in self._in_loops if at in begins), None)

    def _is_read_from_gradients(self, at: int) -> bool:
        """Is it computed from gradients, as the norm that ``clip_grad_norm_`` gives, after something was bad?

        Of the values in a loop of JAX, of which each is there for all steps, none comes after another.
        """
        source, axes = self.entries[at].source, self.entries[at].axes
        return source is not None and not axes and at > self.known.first_bad and reads_gradients(source)

    def _unseen_sources(self, at: int) -> list[int]:
        """What may flow into a module's output and has no history, so that the graph does not tell: bad values before.

        Only where nothing else that the module was given is recorded.
        """
        entry, names = self.entries[at], self.known.record.names
        given = [one for one in self.known.direct[at] if self.entries[one].name not in names]
        if given or entry.source is not None or entry.name in names:
            return []
        return [one for one in self.known.bad_values if one < at and self.entries[one].status in NO_HISTORY]

    def spread(self, start: int) -> set[int]:
        """The entries with NaN or Inf that one of them leads to, itself among them."""
        return reached([start], lambda at: self.known.bad_values.intersection(self.known.consumers[at]))

    @cached_property
    def harmful(self) -> Set[int]:
        """The entries whose NaN and Inf come to an output."""
        bad, direct = self.known.bad_values, self.known.direct
        return reached(self.known.bad_outputs, lambda at: bad.intersection(direct[at]))

    @cached_property
    def healers(self) -> Mapping[int, int]:
        """The entries that are finite, by a source of theirs that is not."""
        found: dict[int, int] = {}
        for at, entry in enumerate(self.entries):
            is_float = entry.status not in (GradStatus.NOT_FLOAT, GradStatus.NOT_TENSOR)
            if self.known.values[at] is State.FINITE and is_float:
                flowing = {edge.at for edge in entry.inputs} | {way.at for way in entry.indirect}
                bad = self.known.bad_values.intersection(self.known.direct[at])
                found |= {source: at for source in bad if source in flowing or entry.op in HEALING}
        return found

    def ends(self, start: int) -> list[tuple[int, int]]:
        """Where what begins at an entry is healed: the last bad value and the one that is finite again."""
        return [(at, self.healers[at]) for at in sorted(self.spread(start)) if at in self.healers]

    def is_harmless(self, start: int, read: Set[int]) -> bool:
        """Is all of it healed, and was none of it read where a gradient became NaN or Inf?

        A number such as the ``inf`` that a running minimum starts from does harm by what is computed with it alone.
        Where no output and no gradient is bad, only what stays in a parameter or buffer does harm.
        """
        known, spread = self.known, self.spread(start)
        if spread & self.harmful or spread & read:
            return False
        loose = [at for at in spread if not known.consumers[at] and not known.is_number(at)]
        if not self._ends_badly and known.record.outputs:
            return not any(map(self._is_written_over, loose))
        return not loose and (bool(self.ends(start)) or all(map(known.is_number, spread)))

    def _is_written_over(self, at: int) -> bool:
        """Is it a later version of what was there before, as a parameter that is updated? Others may read that."""
        own = strip(self.entries[at].name)
        return any(strip(self.entries[way.at].name) == own for way in self.entries[at].indirect)

    @cached_property
    def _ends_badly(self) -> bool:
        """Is an output or a gradient bad, of whatever?"""
        known = self.known
        is_made = any(map(known.made, range(len(self.entries))))
        return is_made or bool(known.bad_outputs) or any(state.is_bad for state in known.grads)

    # findings

    def births(self, read: Set[int], folded: Mapping[int, Sequence[str]]) -> Iterator[tuple[Moment, Finding]]:
        """Where NaN and Inf begin, those left out that do no harm; with what is to be said of their backward too."""
        for at, given in self.origins.items():
            if not self.is_harmless(at, read):
                yield (at, False), self._birth(at, given, folded.get(at, ()))

    def _birth(self, at: int, given: State, more: Sequence[str]) -> Finding:
        known, loop = self.known, self._begun_in(at)
        facts = [known.value(at, "its value"), *map(known.value, known.direct[at]), *more]
        if loop is not None and self.entries[at].axes.count(loops.STEP) == 1:
            facts.append(begun(*loop))
        verdict = self._verdict(at, given)
        facts += [*self.healing(at), *self.use(at), *verdict.facts]
        return known.finding(verdict.kind, at, verdict.headline, facts, self._chain(at), verdict.remedy)

    def _verdict(self, at: int, given: State) -> Verdict:
        known, entry, state = self.known, self.entries[at], self._state_at_first(at)
        name, word, of = known.name(at), WORDS[state], " of Inf" if given is State.INF else ""
        if self._came_in(at):
            what = "the parameter " if entry.name in known.record.names else ""  # whose name is its path
            return Verdict("came_in", f"{word} comes in with {what}{name}")
        if given is State.UNKNOWN:
            lost = ", ".join(known.name(one) for one in known.direct[at] if known.values[one] is given)
            headline = f"{word} is born at {name}, or came there from {lost}, whose value is not known"
            return Verdict("unknown", headline, self._before(at))
        others, told = mentioned(known, at), self.mechanism(at) or self._by_scale(at)
        is_told = told and not (others and told.startswith(mechanism.OVERFLOW))  # of all that went in
        buffers = [] if is_told else brought(known, at, others, state)
        if buffers:
            held = [HELD.format(buffer, known.record.buffers[buffer]) for buffer in buffers]
            return Verdict("came_in", f"{word} comes in with the buffer {some(buffers)}, at {name}", held)
        if entry.source is None or not (entry.source.expression or entry.op):
            return self._verdict_within(at, word, told)
        if others and not is_told:
            lost = f"{', '.join(others)}, which {'is' if len(others) == 1 else 'are'} not recorded"
            return Verdict("unknown", f"{word} is born{of} at {name}, or came in with {lost}", self._before(at))
        return Verdict("born", f"{word} is born{of} at {name}" + (f": {told}" if told else ""))

    def _before(self, at: int) -> list[str]:
        """Whether a backward pass went before that may be the reason, where it is not known what was written then."""
        return [UPDATED] if at > self.known.first_bad_backward and not self.known.record.updates else []

    def _verdict_within(self, at: int, word: str, told: str) -> Verdict:
        """A birth of which no line is known: between recorded values, as the outputs of modules are."""
        known, entry = self.known, self.entries[at]
        if told:
            return Verdict("born", f"{word} is born at {entry.name!r}: {told}", remedy=LOWER_SCALE)
        inputs = known.names(known.direct[at])
        if entry.name.partition("#")[0] == START:
            headline = BEFORE.format(word=word, between=some(inputs), name=entry.name)
            return Verdict("unknown", headline, scaled(known.record.scales), SEE_BETWEEN)
        given = known.names(one for one in known.direct[at] if not self._is_weight(one))
        path, remedy = common(entry, given), to_look_into(entry, inputs)
        place = f"the module {path!r}" if path else "the model"
        if not given:  # where nothing that a module was given is recorded, it may have come in with that
            headline = f"{word} comes out of {place}: created inside it, or already in its inputs"
            return Verdict("unknown", headline, [NOT_SEEN], remedy)
        headline = f"{word} is born inside {place}, between {some(given)} and its output {entry.name!r}"
        return Verdict("born", headline, [NOT_SEEN], remedy)

    def _is_weight(self, at: int) -> bool:
        """Is it a parameter, or a Variable that the program has no name for?"""
        entry, known = self.entries[at], self.known
        is_bare = entry.source is None and not known.direct[at] and not known.sources.scopes[at]
        return entry.name in known.record.names or is_bare

    def _came_in(self, at: int) -> bool:
        """Was it there before any operation that is recorded?"""
        entry = self.entries[at]
        if self.known.direct[at]:
            return False
        if entry.source is None:
            return True
        is_made = entry.op or isinstance(parsed(entry.source.expression), ast.Call)
        return not is_made and not writes_nonfinite(entry.source)

    # what happened

    def mechanism(self, at: int) -> str:
        """The name of what happened, from the numbers that went in."""
        entry, parts = self.entries[at], self.known.parts[at]

        def numbers(one: int) -> Any:
            return self._at_first(one, at)

        result = numbers(at)
        if result is None or entry.source is None:
            return ""
        given = [_operand(node, parts, numbers) for node in operands(entry.source.expression, parts)]
        if not given and entry.op:
            given = [numbers(one) for one in self.known.direct[at]]
        with mechanism.quiet():
            told = mechanism.forward(entry.op, given, result, entry.dtype or "")
        is_guess = not told or told.startswith(mechanism.OVERFLOW)  # of the numbers that went in, and not of the line
        return "it is written there" if is_guess and writes_nonfinite(entry.source) else told

    def _by_scale(self, at: int) -> str:
        """Of what backward ran from and is a multiple of a finite loss: it is the scale that makes it NaN or Inf."""
        record, sources = self.known.record, self.known.direct[at]
        loss = self.known.numbers(sources[0]) if len(sources) == 1 else None
        if record.outputs != (at,) or len(record.scales) != 1 or loss is None or loss.size != 1:
            return ""
        if not numpy.isfinite(loss).all():
            return ""
        return mechanism.scaled(loss.item(), record.scales[0], self.entries[at].dtype or "")

    def _at_first(self, one: int, at: int) -> Any:
        """The numbers of a value in the step in which something begins at an entry, where both are in one loop."""
        found, loop = self.known.numbers(one), self._begun_in(at)
        if loop is None or found is None or self.entries[one].axes != self.entries[at].axes:
            return found
        return loop[0].at_step(found, self.entries[at].axes, loop[1][0])

    def _state_at_first(self, at: int) -> State:
        """How bad an entry is where it begins: a loop may go on with an Inf and come to NaN."""
        if self._begun_in(at) is None:
            return self.known.values[at]
        return State.NAN if numpy.isnan(self._at_first(at, at)).any() else State.INF

    # sentences

    def use(self, at: int) -> list[str]:
        """Of what no line of the program made, a module's output or a line of a framework's: where it is used first."""
        if self._is_users(at) or self.entries[at].name in self.known.record.names:
            return []
        consumers = self.known.consumers
        every = reached([at], lambda one: () if one != at and self._is_users(one) else consumers[one])
        users = [one for one in every - {at} if self._is_users(one)]
        if not users:
            return []
        first = min(users)
        text = self.entries[first].source.text.strip()  # type: ignore[union-attr]
        return [f"it is first used by {self.known.name(first)}{self.known.at_line(first)}: {text}"]

    def _is_users(self, at: int) -> bool:
        """Is there a line for it, outside the frameworks?"""
        source = self.entries[at].source
        return source is not None and package(source.file) not in FRAMEWORKS

    def _chain(self, start: int) -> tuple[str, ...]:
        """The names from a birth to the output, or as far as it spreads; the middle of a long chain is left out."""
        path = [start]
        while following := self.known.bad_values.intersection(self.known.consumers[path[-1]]).difference(path):
            path.append(min(following, key=lambda at: (at not in self.harmful, at)))
        names = self.known.names(path)
        if len(names) > MOST:
            names = [*names[: MOST - 2], "…", names[-1]]
        return tuple(names) if len(names) > 1 else ()

    def healing(self, at: int) -> list[str]:
        """Sentences about where what begins at an entry is taken away."""
        return [f"{self.known.name(one)} is finite again{self._by(one)}" for one in self._healers_of(at)]

    def _healers_of(self, start: int) -> Mapping[int, None]:
        return dict.fromkeys(healer for _, healer in self.ends(start))

    def _by(self, healer: int) -> str:
        return self._op(healer) + self.known.at_line(healer)

    def _op(self, at: int) -> str:
        return f", by {self.entries[at].op}" if self.entries[at].op else ""

    def healed(self, read: Set[int], owners: Set[int]) -> Iterator[Finding]:
        """Where NaN and Inf were taken away that have done harm before, or do so in backward."""
        harming = [at for at in self.origins if at in owners or not self.is_harmless(at, read)]
        for source, healer in dict.fromkeys(end for start in harming for end in self.ends(start)):
            headline = f"{self.known.name(source)} is healed at {self.known.name(healer)}{self._op(healer)}"
            yield self.known.finding("healed", healer, headline, ())

    def harmless(self, read: Set[int], owners: Set[int]) -> Iterator[str]:
        """Sentences about NaN and Inf that come to nothing."""
        for at in self.origins:
            if at not in owners and self.is_harmless(at, read):
                healers = [self.known.name(healer) + self._by(healer) for healer in self._healers_of(at)]
                what = f"{WORDS[self.known.values[at]]} at {self.known.name(at)}{self.known.at_line(at)} does no harm"
                nothing = NO_TENSOR if self.known.is_number(at) else NOTHING
                yield f"{what}: " + (f"finite again at {', '.join(healers)}" if healers else nothing)


def _operand(node: Any, parts: Mapping[str, int], numbers: Callable[[int], Any]) -> Any:
    number = mechanism.literal(node)
    at = parts.get(mechanism.text(node))
    return number if number is not None else None if at is None else numbers(at)
