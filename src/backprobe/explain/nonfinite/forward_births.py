"""Births of NaN and Inf in the forward pass: which entries are worse than all that they were computed from."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property, partial
from itertools import takewhile
from typing import Any

import numpy

from backprobe.explain.nonfinite import loops, mechanism
from backprobe.explain.nonfinite.evidence import Evidence
from backprobe.explain.nonfinite.sources import operands, parsed, reads_gradients, writes_nonfinite
from backprobe.explain.nonfinite.states import WORDS, State, number, of_numbers
from backprobe.explain.nonfinite.text import MOST, Mechanism, born, say, scaled, see_inside
from backprobe.explain.nonfinite.unrecorded import brought, unrecorded
from backprobe.findings.phrasing import quoted
from backprobe.findings.report import Finding
from backprobe.record.entries import GradStatus
from backprobe.record.graph import reached
from backprobe.record.names import split, strip
from backprobe.source.user_code import package

HEALING = frozenset({
    "where", "nan_to_num", "nan_to_num_", "masked_fill", "masked_fill_", "clamp", "clamp_", "clip", "clip_by_value",
    "maximum", "minimum", "fmax", "fmin", "max", "min", "amax", "amin", "relu", "relu6", "nansum", "nanmean", "softmax",
    "sigmoid", "tanh", "exp", "atan", "arctan", "getitem", "reciprocal", "div", "erf", "logsumexp", "select", "gather",
    "masked_select", "multiply_no_nan", "divide_no_nan", "copysign", "sign", "hardtanh", "topk", "sort",
})  # fmt: skip
NO_HISTORY = (GradStatus.FROZEN, GradStatus.DETACHED, GradStatus.NO_GRAD)
START = "backward()"  # what a block calls that which the program ran backward from

Moment = tuple[int, bool]
"""The position of the entry that was made last, and whether backward ran then: moments compare as they come."""


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

    @cached_property
    def _begun(self) -> Mapping[int, tuple[loops.Loop, list[int]]]:
        """The loop in which something begins at an entry, and its steps."""
        return {at: (loop, steps) for loop, begins, _ in self._in_loops for at, steps in begins.items()}

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

    def _ends(self, start: int) -> dict[int, int]:
        """Where what begins at an entry is healed: by the last bad value, the one that is finite again."""
        return {at: self.healers[at] for at in sorted(self.spread(start)) if at in self.healers}

    def is_harmless(self, start: int, read: Set[int]) -> bool:
        """Is all of it healed, and was none of it read where a gradient became NaN or Inf?

        A number such as the ``inf`` that a running minimum starts from does harm by what is computed with it alone.
        Where no output and no gradient is bad, only what stays in a parameter or buffer does harm.
        """
        known, spread = self.known, self.spread(start)
        if spread & self.harmful or spread & read:
            return False
        loose = [at for at in spread if not known.consumers[at] and not known.is_number(at)]
        if known.record.outputs and not known.bad_outputs and not known.bad_backward:
            return not any(map(self._is_written_over, loose))
        return not loose and (bool(self._ends(start)) or all(map(known.is_number, spread)))

    def _is_written_over(self, at: int) -> bool:
        """Is it a later version of what was there before, as a parameter that is updated? Others may read that."""
        own = strip(self.entries[at].name)
        return any(strip(self.entries[way.at].name) == own for way in self.entries[at].indirect)

    # findings

    def births(self, origins: Iterable[int]) -> Iterator[tuple[Moment, Finding]]:
        """Where NaN and Inf begin."""
        return (((at, False), self._birth(at)) for at in origins)

    def _birth(self, at: int) -> Finding:
        known, entry, given, state = self.known, self.entries[at], self.origins[at], self._state_at_first(at)
        facts = [*map(known.value, (at, *known.direct[at]))]
        if at in self._begun and entry.axes.count(loops.STEP) == 1:
            facts.append(loops.begun(*self._begun[at]))
        facts += self.use(at)
        made = born(state, given)
        finding = partial(known.finding, at, facts=facts, chain=self._chain(at), word=WORDS[state], born=made)
        if self._came_in(at):
            return finding("came_in")
        if given is State.UNKNOWN:
            lost = ", ".join(known.name(one) for one in known.direct[at] if known.values[one] is given)
            return finding("born_or_from", lost=lost)
        others, why = unrecorded(known, at), self._mechanism(at) or self._by_scale(at)
        is_certain = why is not None and not (others and why.code in mechanism.OVERFLOW)  # of all that went in
        buffers = [] if is_certain else brought(known, at, others, state)
        if buffers:
            facts += [say("buffer_held", buffer=repr(one), count=known.record.buffers[one]) for one in buffers]
            return finding("came_in_buffer", buffers=quoted(buffers, MOST))
        if entry.source is None or not (entry.source.expression or entry.op):
            return self._within(at, why, facts, finding)
        if others and not is_certain:
            return finding("born_or_with", lost=", ".join(others), verb="is" if len(others) == 1 else "are")
        return finding("born", why=why)

    def _within(self, at: int, why: Mechanism | None, facts: list[str], finding: partial[Finding]) -> Finding:
        """A birth of which no line is known: between recorded values, as the outputs of modules are."""
        known, entry = self.known, self.entries[at]
        if why is not None:
            return finding("born", why=why, remedy=say("lower_scale"))
        inputs = known.names(known.direct[at])
        if entry.name.partition("#")[0] == START:
            facts += scaled(known.record.scales)
            given = quoted(inputs, MOST) or say("what_is_recorded")
            return finding("born_before_backward", given=given, remedy=say("see_lines"))
        facts.append(say("inputs_unseen"))
        paths = [split(name)[0].split(".") for name in (entry.name, *inputs)]
        shared = takewhile(lambda steps: len(set(steps)) == 1, zip(*paths, strict=False))
        path = ".".join(step for step, *_ in shared)
        place = say("module", path=repr(path)) if path else say("model")
        given = quoted(known.names(one for one in known.direct[at] if not self._is_weight(one)), MOST)
        code = "born_within" if given else "born_within_or_before"  # with an input of the module that is not recorded
        return finding(code, place=place, given=given, remedy=see_inside(path))

    def _is_weight(self, at: int) -> bool:
        """Is it a parameter, or a Variable that the program has no name for?"""
        entry, known = self.entries[at], self.known
        is_bare = entry.source is None and not known.direct[at] and not known.sources.scopes[at]
        return entry.name in known.record.names or is_bare

    def _came_in(self, at: int) -> bool:
        """Was it there before any operation that is recorded?"""
        entry = self.entries[at]
        if self.known.direct[at] or entry.source is None:
            return not self.known.direct[at]
        is_made = entry.op or isinstance(parsed(entry.source.expression), ast.Call)
        return not is_made and not writes_nonfinite(entry.source)

    # what happened

    def _mechanism(self, at: int) -> Mechanism | None:
        """What happened, by the numbers that went in."""
        entry, result = self.entries[at], self._at_first(at, at)
        if result is None or entry.source is None:
            return None
        given = [self._operand(node, at) for node in operands(entry.source.expression, self.known.parts[at])]
        if not given and entry.op:
            given = [self._at_first(one, at) for one in self.known.direct[at]]
        with numpy.errstate(all="ignore"):
            why = mechanism.forward(entry.op, given, result, entry.dtype or "")
        is_guess = why is None or why.code in mechanism.OVERFLOW  # of the numbers that went in, and not of the line
        return Mechanism("written_out") if is_guess and writes_nonfinite(entry.source) else why

    def _operand(self, node: ast.expr, at: int) -> Any:
        """The numbers of an operand of an entry's line; None where they are not known."""
        try:
            return number(ast.literal_eval(node))
        except (ValueError, TypeError):  # it writes out no number
            one = self.known.parts[at].get(ast.unparse(node))
            return None if one is None else self._at_first(one, at)

    def _by_scale(self, at: int) -> Mechanism | None:
        """Of what backward ran from and is a multiple of a finite loss: it is the scale that makes it NaN or Inf."""
        record, sources = self.known.record, self.known.direct[at]
        if record.outputs != (at,) or len(record.scales) != 1 or len(sources) != 1:
            return None
        loss, (scale,) = self.known.numbers(sources[0]), record.scales
        if scale is None or loss is None or loss.size != 1 or not numpy.isfinite(loss).all():
            return None
        return mechanism.scaled(loss.item(), scale, self.entries[at].dtype or "")

    def _at_first(self, one: int, at: int) -> Any:
        """The numbers of a value in the step in which something begins at an entry, where both are in one loop."""
        found = self.known.numbers(one)
        if at not in self._begun or found is None or self.entries[one].axes != self.entries[at].axes:
            return found
        loop, steps = self._begun[at]
        return loop.at_step(found, self.entries[at].axes, steps[0])

    def _state_at_first(self, at: int) -> State:
        """How bad an entry is where it begins: a loop may go on with an Inf and come to NaN."""
        return of_numbers(self._at_first(at, at)) if at in self._begun else self.known.values[at]

    # sentences

    def use(self, at: int) -> list[str]:
        """Of what no line of the program made, a module's output or a library's line: where it is used first."""
        if self._is_users(at) or self.entries[at].name in self.known.record.names:
            return []
        first = min(filter(self._is_users, reached([at], self.known.consumers.__getitem__)), default=None)
        return [] if first is None else [say("first_used", line=self.known.line(first))]

    def _is_users(self, at: int) -> bool:
        """Is there a line for it, outside of libraries?"""
        source = self.entries[at].source
        return source is not None and package(source.file) is None

    def _chain(self, start: int) -> tuple[str, ...]:
        """The names from a birth to the output, or as far as it spreads; the middle of a long chain is left out."""
        path = [start]
        while following := self.known.bad_values.intersection(self.known.consumers[path[-1]]).difference(path):
            path.append(min(following, key=lambda at: (at not in self.harmful, at)))
        return self.known.chain(path)

    def healed(self, origins: Iterable[int]) -> Iterator[Finding]:
        """Where the NaN and Inf of these was taken away."""
        for bad, healer in dict.fromkeys(end for start in origins for end in self._ends(start).items()):
            yield self.known.finding(healer, "healed", bad=self.known.name(bad), healer=self.known.by_op(healer))

    def notes(self, origins: Iterable[int]) -> Iterator[str]:
        """Sentences about NaN and Inf that come to nothing."""
        known = self.known
        for at in origins:
            healers = [known.by_op(one) + known.at_line(one) for one in dict.fromkeys(self._ends(at).values())]
            said = {"word": WORDS[known.values[at]], "at": known.name(at) + known.at_line(at)}
            yield say("harmless_healed" if healers else "harmless", **said, healers=", ".join(healers))
