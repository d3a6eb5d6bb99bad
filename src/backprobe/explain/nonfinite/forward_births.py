"""Finds where NaN and Inf arise in the forward pass: entries that are worse than all of their inputs.

NaN or Inf is worse than finite numbers, and NaN is worse than Inf. Entries that are bad at elements where their inputs
are finite count as well.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import cached_property, partial
from typing import Any

import numpy

from backprobe.cuts.parsed import parsed_expression
from backprobe.explain.nonfinite import arithmetic, loops, mechanism, operands
from backprobe.explain.nonfinite.computation import Computation
from backprobe.explain.nonfinite.evidence import OF, Evidence
from backprobe.explain.nonfinite.mechanism import Why
from backprobe.explain.nonfinite.remedies import Remedies
from backprobe.explain.nonfinite.sources import reads_gradients, written_kinds
from backprobe.explain.nonfinite.states import WORDS, Badness, of_numbers
from backprobe.explain.nonfinite.terms import Term
from backprobe.explain.nonfinite.text import MOST, Mechanism, WrittenInstead, born, say, scaled, see_inside
from backprobe.explain.nonfinite.unrecorded import brought, held, named_first, unrecorded
from backprobe.findings.phrasing import quoted, shorten
from backprobe.findings.report import Finding
from backprobe.record.entries import Entry, GradStatus
from backprobe.record.graph import reached
from backprobe.record.names import common_path, split, strip
from backprobe.record.source import place_of
from backprobe.source.user_code import package

NO_HISTORY = (GradStatus.FROZEN, GradStatus.DETACHED, GradStatus.NO_GRAD)
START = "backward()"  # the name in a block of the tensor on which the program called backward

Moment = tuple[int, bool]
"""A moment of the run: the position of the entry that was computed last, and whether backward was running. A comparison
of two moments says which was earlier.
"""


class ForwardPass:
    """Finds where NaN and Inf begin in the values of one record, where they spread, and where they vanish."""

    def __init__(self, known: Evidence) -> None:
        self.known, self.entries = known, known.entries
        self._whys: dict[int, Why] = {}
        self.remedies = Remedies(known)

    # Methods for the role of each entry.

    @cached_property
    def origins(self) -> Mapping[int, Badness]:
        """The entries where NaN or Inf begins, with the worst state of the values they were computed from.

        The state is FINITE if it begins at elements where these values are finite.
        """
        known, found = self.known, {}
        for at in known.bad_values:
            given = known.worst_value([*known.direct[at], *self._unseen_sources(at)])
            if known.values[at] > given and not self._is_read_from_gradients(at):
                found[at] = given
            elif self._has_its_own(at):
                found[at] = Badness.FINITE
        for loop, begins, follows in self._in_loops:
            for at in follows:
                found.pop(at, None)
            for at in begins:
                found[at] = known.worst_value(one for one in known.direct[at] if one not in loop.bad)
        return dict(sorted(found.items()))

    def _has_its_own(self, at: int) -> bool:
        # Is the entry bad at elements where everything that it was computed from is finite?
        entry = self.entries[at]
        if entry.axes or entry.source is None or not self.known.term(at).op or self._is_read_from_gradients(at):
            return False
        if any(math.prod(self.entries[one].shape or ()) > arithmetic.MOST for one in (at, *self.known.direct[at])):
            return False
        computed = self.known.computation(at)
        return computed.is_reproduced and bool(computed.births)

    @cached_property
    def _in_loops(self) -> Sequence[tuple[loops.Loop, Mapping[int, list[int]], Set[int]]]:
        return [(loop, *loops.origins(loop, self.known)) for loop in loops.loops(self.known)]

    @cached_property
    def following(self) -> Set[int]:
        """The bad entries that only pass NaN or Inf on, although no edge shows this.

        They were computed from gradients, or from a loop's previous step.
        """
        read = {at for at in self.known.bad_values if self._is_read_from_gradients(at)}
        return read.union(*(follows for _, _, follows in self._in_loops))

    @cached_property
    def _begun(self) -> Mapping[int, tuple[loops.Loop, list[int]]]:
        # For each entry where NaN or Inf begins inside a loop: the loop and the steps.
        return {at: (loop, steps) for loop, begins, _ in self._in_loops for at, steps in begins.items()}

    def _is_read_from_gradients(self, at: int) -> bool:
        # Is the entry computed from gradients after something became bad, such as the norm that ``clip_grad_norm_``
        # returns? This is not decided inside JAX loops, because their values hold all steps together, without an order
        # of time.
        entry = self.entries[at]
        # excluded: values that no line computes, such as parameters, and values inside JAX loops
        if entry.source is None or entry.axes or (entry.is_leaf and not entry.op):
            return False
        return at > self.known.first_bad and reads_gradients(entry.source)

    def _unseen_sources(self, at: int) -> list[int]:
        # Return earlier bad values without a history, which may flow into a module's output without an edge. They count
        # only if no other input of the module is recorded.
        entry, names = self.entries[at], self.known.record.names
        given = [one for one in self.known.direct[at] if self.entries[one].name not in names]
        if given or entry.source is not None or entry.name in names:
            return []
        return [one for one in self.known.bad_values if one < at and self.entries[one].status in NO_HISTORY]

    def spread(self, start: int) -> set[int]:
        """The entries with NaN or Inf that are computed from ``start``, including itself."""
        return reached([start], lambda at: self.known.bad_values.intersection(self.known.consumers[at]))

    @cached_property
    def harmful(self) -> Set[int]:
        """The entries whose NaN and Inf reach an output."""
        bad, direct = self.known.bad_values, self.known.direct
        return reached(self.known.bad_outputs, lambda at: bad.intersection(direct[at]))

    @cached_property
    def healers(self) -> Mapping[int, int]:
        """For bad entries, the last entry that is computed from them and finite again, if there is one."""
        found: dict[int, int] = {}
        for at, entry in enumerate(self.entries):
            is_float = entry.status not in (GradStatus.NOT_FLOAT, GradStatus.NOT_TENSOR)
            if self.known.values[at] is Badness.FINITE and is_float:
                flowing = {edge.at for edge in entry.inputs} | {way.at for way in entry.indirect}
                bad = self.known.bad_values.intersection(self.known.direct[at])
                # entries computed with gradients disabled have no edges
                is_off = entry.status is GradStatus.NO_GRAD or entry.is_because("frozen_no_grad")
                found |= dict.fromkeys(bad if is_off else bad & flowing, at)
        return found

    def _ends(self, start: int) -> dict[int, int]:
        # Return where NaN or Inf that began at an entry vanishes: for each bad entry before such a place, the finite
        # entry that is computed from it.
        return {at: self.healers[at] for at in sorted(self.spread(start)) if at in self.healers}

    def is_harmless(self, start: int, read: Set[int]) -> bool:
        """Does NaN or Inf from this entry vanish everywhere, without being read where a gradient became NaN or Inf?

        A written constant, such as the ``inf`` at the start of a running minimum, is harmful only through values
        computed from it. If no output and no gradient is bad, a bad value is harmful only if it stays in a parameter or
        buffer.
        """
        known, spread = self.known, self.spread(start)
        if spread & self.harmful or spread & read or self._meets_bad_gradients(start):
            return False
        loose = [at for at in spread if not known.consumers[at] and not known.is_number(at)]
        if known.record.outputs and not known.bad_outputs and not known.bad_backward:
            return not any(map(self._is_written_over, loose))
        return not loose and (bool(self._ends(start)) or all(map(known.is_number, spread)))

    def _meets_bad_gradients(self, start: int) -> bool:
        # Does an input of a loop value have a bad gradient in a step in which the loop value itself is bad?
        known, axes = self.known, self.entries[start].axes
        if loops.STEP not in axes:
            return False
        bad = loops.by_step(known.numbers(start), axes)
        beside = [one for one in known.direct[start] if known.grads[one].is_bad and self.entries[one].axes == axes]
        masks = (loops.by_step(known.grad_numbers(one), axes) for one in beside)
        return bad is not None and any(bool((bad & mask).any()) for mask in masks if mask is not None)

    @cached_property
    def masks(self) -> Set[int]:
        """The entries whose Inf the program itself writes, if NaN begins at each bad entry that they flow into.

        Such a mask is harmless in a softmax, unless it masks a whole row.
        """
        known = self.known
        into = {
            at: known.bad_values.intersection(known.consumers[at])
            for at in self.origins
            if known.values[at] is Badness.INF and known.consumers[at]
        }
        nan = {at for at in self.origins if known.values[at] is Badness.NAN}
        return {
            at
            for at, targets in into.items()
            if targets and targets <= nan and (why := self.why(at).mechanism) is not None and why.code == "written_out"
        }

    def _is_written_over(self, at: int) -> bool:
        # Is the entry a new version of an earlier value, such as an updated parameter? Unrecorded code may read it
        # later.
        own = strip(self.entries[at].name)
        return any(strip(self.entries[way.at].name) == own for way in self.entries[at].indirect)

    def births(self, origins: Iterable[int], spoiled: Mapping[int, Sequence[str]]) -> Iterator[tuple[Moment, Finding]]:
        """Yield findings on births among the values, with the effects that some of them have in backward."""
        return (((at, False), self._birth(at, spoiled.get(at, ()))) for at in origins)

    def _birth(self, at: int, spoiled: Sequence[str]) -> Finding:
        known, given, state, why = self.known, self.origins[at], self._state_at_first(at), self.why(at)
        shown = self.numbers(at)
        facts = [*shown, *self._states(at), *self.use(at), *spoiled]
        if why.state.is_bad and (why.part or known.worst_value(known.direct[at]) >= state):
            state = why.state  # only this state arises here; other bad elements came in with the inputs
        finding = partial(
            known.finding,
            at,
            part=why.part,
            facts=facts,
            chain=self._chain(at),
            word=WORDS[state],
            born=born(state, Badness.FINITE if why.is_of_finite else given),
            numbers="shown" if shown else "",
        )
        if self._came_in(at):
            return finding("came_in")
        if given is Badness.UNKNOWN and not why.is_certain:
            lost = ", ".join(known.name(one) for one in known.direct[at] if known.values[one] is given)
            return finding("born_or_from", lost=lost)
        others, because = unrecorded(known, at), why.mechanism or self._by_scale(at)
        is_certain = why.is_certain or (because is not None and not (others and because.code in mechanism.OVERFLOW))
        came = None if is_certain else self._came_with(at, others, state, facts, finding)
        if came is not None:
            return came
        facts += why.facts
        return self._born_here(at, state, because, others, is_certain, facts, finding)

    def _states(self, at: int) -> list[str]:
        # Return facts: the NaN and Inf in the value and its inputs, the first bad step of a loop, and which inputs are
        # masks.
        known, entry = self.known, self.entries[at]
        facts = [*map(known.value, (at, *filter(known.may_matter, known.direct[at])))]
        if at in self._begun and entry.axes.count(loops.STEP) == 1:
            facts.append(loops.begun(*self._begun[at]))
        masks = [one for one in known.direct[at] if one in self.masks]
        return facts + [say("mask", name=known.name(one), line=known.at_line(one)) for one in masks]

    def _came_with(
        self, at: int, others: Sequence[str], state: Badness, facts: list[str], finding: partial[Finding]
    ) -> Finding | None:
        # Make the finding on a bad value that the line reads but that has no entry: a buffer, or a parameter of a
        # module.
        known = self.known
        if buffers := brought(known, at, others, state):
            facts += [say("buffer_held", buffer=repr(one), count=known.record.buffers[one]) for one in buffers]
            is_statistic = any(one.rpartition(".")[2].startswith("running_") for one in buffers)
            remedy = say("reset_statistics") if is_statistic else ""
            return finding("came_in_buffer", buffers=quoted(buffers, MOST), remedy=remedy)
        if parameters := held(known, at, others, state):
            facts.append(say("held_before", names=quoted(parameters, MOST), word=WORDS[state]))
            return finding("came_in_held", held=quoted(parameters, MOST))
        return None

    def _born_here(
        self,
        at: int,
        state: Badness,
        why: Mechanism | None,
        others: Sequence[str],
        is_certain: bool,
        facts: list[str],
        finding: partial[Finding],
    ) -> Finding:
        # Make the finding on a birth in a line. If no cause is certain, other values that the line reads, but that were
        # not recorded, may be bad as well. A NaN that the recorded inputs do not give may come from an unseen write.
        known, verb = self.known, "is" if len(others) == 1 else "are"
        if not self._is_computed(at):
            return self._within(at, why, facts, finding)
        if state is Badness.NAN and why is None and self._is_finite_by_recorded(at):
            read = quoted([known.entries[one].name for one in known.direct[at]], MOST)
            return finding("born_or_written", read=read)
        if others and not is_certain:
            lost, remedy = ", ".join(others), named_first(known, at, others)
            return finding("born_or_with", lost=lost, verb=verb, remedy=remedy, numbers="")
        if others and why is not None and why.code == "by_nearly_zero":
            names = ", ".join(f"`{one}`" for one in others)
            facts.append(say("not_recorded", names=names, verb=verb))
            return finding("born", why=why, remedy=say("see_divisor", names=names))
        return finding("born", why=why, remedy=self._remedy(at, why))

    def _is_computed(self, at: int) -> bool:
        # Is it known how a line computes the entry?
        entry = self.entries[at]
        is_spelled = entry.source is not None and bool(entry.source.expression or entry.op or self.known.term(at).op)
        return entry.name != OF and is_spelled

    def _within(self, at: int, why: Mechanism | None, facts: list[str], finding: partial[Finding]) -> Finding:
        # Make the finding on a birth whose line is unknown, because it lies between recorded values such as module
        # outputs.
        known, entry = self.known, self.entries[at]
        if why is not None:
            return finding("born", why=why, remedy=self._remedy(at, why))
        inputs = known.names(known.direct[at])
        if entry.name.partition("#")[0] == START:
            facts += scaled(known.record.scales)
            given = quoted(inputs, MOST) or say("what_is_recorded")
            return finding("born_before_backward", given=given, remedy=say("see_lines"))
        if entry.name == OF:
            given = quoted(inputs, MOST) or say("what_is_recorded")
            return finding("born_in_output", given=given, remedy=say("see_lines"))
        if self._is_written_over(at):
            line = say("unseen_line") if entry.source is None else f"`{entry.source.text}`"
            return finding("written_unknown", line=line)
        facts.append(say("inputs_unseen"))
        path = common_path(split(name)[0] for name in (entry.name, *inputs))
        place = say("module", path=repr(path)) if path else say("model")
        given = quoted(known.names(one for one in known.direct[at] if not self._is_weight(one)), MOST)
        code = "born_within" if given else "born_within_or_before"  # "before" means in an input that is not recorded
        return finding(code, place=place, given=given, remedy=see_inside(path))

    def _remedy(self, at: int, because: Mechanism | None) -> str | WrittenInstead:
        # The remedy: what to write instead, or a smaller loss scale.
        is_scaled = because is not None and because.code in mechanism.BY_SCALE
        return say("lower_scale") if is_scaled else self.remedies.remedy(at, self.why(at).term, because)

    def _is_weight(self, at: int) -> bool:
        # Is the entry a parameter, or a Variable that has no name in the program?
        entry, known = self.entries[at], self.known
        is_bare = entry.source is None and not known.direct[at] and not known.graph.scopes[at]
        return entry.name in known.record.names or is_bare

    def _came_in(self, at: int) -> bool:
        # Did the value come from outside, instead of being computed or written out by a recorded line?
        entry = self.entries[at]
        # the tensor that backward started from was computed, even if from nothing recorded
        if entry.name.partition("#")[0] == START:
            return False
        if self.known.direct[at] or entry.source is None:
            return not self.known.direct[at]
        is_made = entry.op or isinstance(parsed_expression(entry.source.expression), ast.Call)
        return not is_made and not written_kinds(entry.source)

    # Methods for the cause of a nonfinite value.

    def computed(self, at: int) -> Computation:
        """The computation of an entry, with the numbers of the first step in which it is bad."""
        return self.known.computation(at, lambda one: self._at_first(one, at))

    def why(self, at: int) -> Why:
        """Return the cause of a birth, by the numbers of the inputs.

        It does not depend on whether parts of the line have entries of their own.
        """
        if at not in self._whys:
            self._whys[at] = self._found_out(at)
        return self._whys[at]

    def _found_out(self, at: int) -> Why:
        entry, computed = self.entries[at], self.computed(at).supposed[0]
        if computed.result is None or entry.source is None or computed.is_contradicted:
            return Why()
        as_well = self._written_as_well(at) if not (computed.term.op or entry.source.expression) else None
        if as_well is not None:
            return as_well
        found = [(term, self.mechanism(computed, term, at)) for term in computed.births or [computed.term]]
        term, because = found[0]
        said = [
            say("part", text=shorten(one.text), word=WORDS[computed.born(one)]) + ("" if why is None else f": {why}")
            for one, why in found
            if (one is not computed.term or len(found) > 1) and computed.state(one).is_bad
        ]
        part = "" if term is computed.term else term.text
        is_known = bool(computed.births)
        state = computed.born(term) if is_known else Badness.UNKNOWN
        is_of_finite = is_known and computed.is_of_finite(term)
        return Why(because, part, tuple(said), because is not None and is_known, term, state, is_of_finite)

    def numbers(self, at: int) -> list[str]:
        """Return facts on the first element that is not finite and the numbers that it was computed from, if they are
        known.
        """
        known, why = self.known, self.why(at)
        read = ((known.entries[one].name, self._at_first(one, at)) for one in known.direct[at])
        # numbers whose shapes do not fit together give no fact
        with numpy.errstate(all="ignore"), suppress(*arithmetic.FAILING):
            sources = [(name, numbers) for name, numbers in read if numbers is not None]
            entry = self.entries[at]
            line = "" if entry.source is None else entry.source.text
            same = self.computed(at).supposed
            said = [operands.forward(one, why.term, why.mechanism, entry.name, line, sources) for one in same]
            return said[0] if all(one == said[0] for one in said) else []
        return []

    def _is_finite_by_recorded(self, at: int) -> bool:
        # Would the value be finite if it were computed from the recorded inputs in their own precision?
        computed, direct = self.computed(at), self.known.direct[at]
        if {self.entries[one].dtype for one in direct} != {self.entries[at].dtype} or not computed.term.op:
            return False
        made = computed.value(computed.term)
        return isinstance(made, numpy.ndarray | numpy.generic) and bool(numpy.isfinite(made).all())

    def _written_as_well(self, at: int) -> Why | None:
        # If the entry was changed by a write into one of its views, return the cause at the view, which is recorded
        # next to it.
        entry = self.entries[at]
        for other in range(at - 1, -1, -1), range(at + 1, len(self.entries)):
            for one in other:
                if not _are_of_one_write(self.entries[one], entry):
                    break
                if self.known.term(one).op and one in self.known.bad_values:
                    return self.why(one)
        return None

    def mechanism(self, computed: Computation, term: Term, at: int) -> Mechanism | None:
        """The mechanism in one part of an entry's expression."""
        is_whole, entry = term is computed.term, self.entries[at]
        result = computed.result if is_whole else numpy.asarray(computed.value(term))
        # leave out strings, such as the "ij,jk->ik" of einsum
        read = map(computed.value, (one for one in term.args if not isinstance(one.constant, str)))
        given = [None if one is None else numpy.asarray(one) for one in read]
        given = [None if one is None or one.dtype.kind not in "fciub" else one for one in given]
        with numpy.errstate(all="ignore"):
            dtype = (entry.dtype or "") if is_whole else str(result.dtype)
            why = mechanism.forward(term.op or entry.op, given, result, dtype, partial(computed.widened, term))
        # these mechanisms are inferred from the inputs' numbers, without evaluating the line
        is_guess = why is None or why.code in mechanism.OVERFLOW
        source = entry.source if is_whole else None
        kinds = written_kinds(term.text if source is None else source)
        is_written = is_guess and computed.born(term) in kinds and computed.is_written(term)
        return Mechanism("written_out") if is_written else why

    def _by_scale(self, at: int) -> Mechanism | None:
        # Return the mechanism if backward started from a multiple of a finite loss: the loss scale then caused NaN or
        # Inf.
        record, sources = self.known.record, self.known.direct[at]
        if record.outputs != (at,) or len(record.scales) != 1 or len(sources) != 1:
            return None
        loss, (scale,) = self.known.numbers(sources[0]), record.scales
        if scale is None or loss is None or loss.size != 1 or not numpy.isfinite(loss).all():
            return None
        return mechanism.scaled(loss.item(), scale, self.entries[at].dtype or "")

    def _at_first(self, one: int, at: int) -> Any:
        # Return a value's numbers in the first step or example in which ``at`` is bad. A value without steps or
        # examples is returned whole.
        if at not in self._begun:
            return self.known.in_example(one, at)
        found = self.known.numbers(one)
        if found is None or self.entries[one].axes != self.entries[at].axes:
            return found
        loop, steps = self._begun[at]
        return loop.at_step(found, self.entries[at].axes, steps[0])

    def _state_at_first(self, at: int) -> Badness:
        # The state of an entry where it first becomes bad: a loop may start with Inf and end with NaN.
        return of_numbers(self._at_first(at, at)) if at in self._begun else self.known.values[at]

    def use(self, at: int) -> list[str]:
        """Return where a value is first used, if it was computed outside of the program's lines, as by a module."""
        if self._is_users(at) or self.entries[at].name in self.known.record.names:
            return []
        first = min(filter(self._is_users, reached([at], self.known.consumers.__getitem__)), default=None)
        return [] if first is None else [say("first_used", line=self.known.line(first))]

    def _is_users(self, at: int) -> bool:
        # Was the entry computed on a line of the program, outside of libraries?
        source = self.entries[at].source
        return source is not None and package(source.file) is None

    def _chain(self, start: int) -> tuple[str, ...]:
        # The chain of names from a birth to the output, or as far as it spreads, shortened in the middle.
        path = [start]
        while following := self.known.bad_values.intersection(self.known.consumers[path[-1]]).difference(path):
            path.append(min(following, key=lambda at: (at not in self.harmful, at)))
        return self.known.chain(path)

    def healed(self, origins: Iterable[int]) -> Iterator[Finding]:
        """Yield findings on where the NaN and Inf of these origins vanish."""
        for bad, healer in dict.fromkeys(end for start in origins for end in self._ends(start).items()):
            yield self.known.finding(healer, "healed", bad=self.known.name(bad), healer=self.known.by_op(healer, bad))

    def notes(self, origins: Iterable[int]) -> Iterator[str]:
        """Yield notes on NaN and Inf that have no effect."""
        known = self.known
        for at in origins:
            ends = {healer: bad for bad, healer in self._ends(at).items()}
            healers = [known.by_op(healer, bad) + known.at_line(healer) for healer, bad in ends.items()]
            said = {"word": WORDS[known.values[at]], "at": known.name(at) + known.at_line(at)}
            why = self.why(at)
            code = "harmless" if not healers else "overflow_healed" if why.is_overflow else "harmless_healed"
            yield say(code, **said, healers=", ".join(healers), why=why.mechanism)


def _are_of_one_write(one: Entry, other: Entry) -> bool:
    # Were two entries changed by the same write of a statement, because both are views of one storage?
    return place_of(one.source) == place_of(other.source) and one.op == other.op
