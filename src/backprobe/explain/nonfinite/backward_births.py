"""Finds where NaN and Inf arise in backward: lines that received a gradient and passed on a worse one.

NaN or Inf is worse than a finite gradient, and NaN is worse than Inf.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cached_property, partial

import numpy

from backprobe.cuts.parsed import parsed_expression
from backprobe.explain.nonfinite import local_derivatives, loops, mechanism, operands
from backprobe.explain.nonfinite.backward_reasons import BackwardReasons, BackwardWhy, Birth, is_pole
from backprobe.explain.nonfinite.forward_births import ForwardPass, Moment
from backprobe.explain.nonfinite.local_derivatives import Factors
from backprobe.explain.nonfinite.selections import SelectedBranch, Selections
from backprobe.explain.nonfinite.sources import applied_to
from backprobe.explain.nonfinite.states import RECORDED, WORDS, Badness, of_numbers
from backprobe.explain.nonfinite.terms import Term
from backprobe.explain.nonfinite.text import MOST, Mechanism, born, finding, given, say, scaled, see_inside
from backprobe.explain.own_rules import rules_in
from backprobe.findings.phrasing import shorten
from backprobe.findings.report import Finding
from backprobe.record.entries import GradStatus
from backprobe.record.graph import Graph, reached
from backprobe.record.names import split, strip
from backprobe.source.sites import operation as operation_of

REENTRANT = "CheckpointFunction"


class BackwardPass:
    """Finds where the gradients of one record become NaN or Inf, given the places where its values do."""

    def __init__(self, forward: ForwardPass) -> None:
        self.forward, self.known, self.entries = forward, forward.known, forward.entries
        self.reasons = BackwardReasons(forward)

    @cached_property
    def made(self) -> Sequence[Birth]:
        """The births in the order in which backward ran, including those that follow from the forward pass."""
        visited = {at: nth for nth, at in enumerate(self.known.record.backward)}
        order = sorted(range(len(self.entries)), key=lambda at: (visited.get(at, len(visited)), -at))
        if not self.known.sees_operations:
            return list(self._between(order, self.followers))
        seen = [
            Birth(
                at,
                one.operation,
                one.at,
                RECORDED[one.given],
                RECORDED[one.made],
                local=one.local,
                decomposes=one.decomposes,
            )
            for at in order
            for one in self.known.made(at)
        ]
        return [inside for birth in seen for inside in self._inside(birth, order)]

    def _inside(self, birth: Birth, order: Sequence[int]) -> list[Birth]:
        # Return the birth itself. Only if the operation is a reentrant checkpoint, which runs a backward pass of its
        # own, return the births inside this pass, if any are found.
        if birth.operation != REENTRANT:
            return [birth]
        inside = self._between(order, self.known.consumers)  # no outer edge leads into a recomputed forward pass
        return [one for one in inside if one.wrt == birth.wrt] or [birth]

    def _between(self, order: Sequence[int], consumers: Sequence[Sequence[int]]) -> Iterator[Birth]:
        # Yield births if only entries are observed, but no operations: entries whose gradient is NaN or Inf although
        # the gradients of all their consumers are better.
        for at in order:
            state, following = self._arrived(at, at), self._differentiated(consumers[at])
            given = max((self._arrived(one, at) for one in following), default=Badness.FINITE)
            if state.is_bad and following and state > given:
                for owner, *others in self._suspects(at, following):
                    yield Birth(owner, self._operation(owner, at), at, given, state, tuple(others))

    @cached_property
    def _arrivals(self) -> Mapping[int, loops.LoopArrival]:
        return loops.arrivals(self.known)

    def _arrived(self, one: int, at: int) -> Badness:
        # Return the state of the gradient of ``one`` (finite, Inf or NaN), for a comparison with ``at``. If both are in
        # the same loop, only the first iteration with NaN or Inf counts.
        arrivals = self._arrivals
        is_beside = one in arrivals and at in arrivals and arrivals[one].loop == arrivals[at].loop
        return arrivals[one].state if is_beside else self.known.grads[one]

    @cached_property
    def followers(self) -> Sequence[Sequence[int]]:
        """For each entry, its consumers that have a gradient."""
        return [self._differentiated(consumers) for consumers in Graph.of(self.known.record).consumers]

    def _differentiated(self, places: Sequence[int]) -> Sequence[int]:
        return [at for at in places if self.entries[at].status is GradStatus.OK]

    def _operation(self, owner: int, wrt: int) -> str:
        # The operation of an entry's line if it is applied directly to the value ``wrt``; otherwise empty.
        entry = self.entries[owner]
        applied = None if entry.source is None else applied_to(entry.source.expression, self.known.parts[owner])
        if applied is None:
            return ""
        recorded, unknown = applied
        if any(self._are_spelled_alike(one, wrt) for one in recorded):  # for example in atan2(x - x, x - x)
            return entry.op
        may_be_unnamed = self.entries[wrt].source is None and bool(set(unknown) - self._unselected)
        return entry.op if wrt in recorded or may_be_unnamed else ""

    def _are_spelled_alike(self, one: int, other: int) -> bool:
        # Were two values computed by the same expression on the same line? The text then cannot distinguish them.
        sources = [self.entries[at].source for at in (one, other)]
        places = {None if source is None else (source.file, source.line, source.expression) for source in sources}
        return len(places) == 1 and None not in places and bool(sources[0] and sources[0].expression)

    @cached_property
    def _unselected(self) -> Set[str]:
        # The local variables that have no entry because they were not selected.
        return {split(strip(name))[1] or "" for name in self.known.record.unseen}

    def _suspects(self, at: int, consumers: Sequence[int]) -> Sequence[Sequence[int]]:
        # Return groups of consumers in whose backward the birth may have happened. The gradients along edges decide if
        # they are known, otherwise the numbers of the values; if these decide nothing, all consumers are one group.
        if len(consumers) == 1:
            return [consumers]
        made = [one for one in consumers if self._flow(one, at) > self.known.grads[one]]
        named = [one for one in consumers if self._has_pole(one, at)]
        named = named or [one for one in consumers if self._multiplies_by_inf(one, at)]
        return [[one] for one in made] or [named or consumers]

    def _flow(self, consumer: int, at: int) -> Badness:
        # The state of the gradient along an edge: finite, Inf or NaN. An unknown one counts as finite.
        flow = next((edge.contribution for edge in self.entries[consumer].inputs if edge.at == at), None)
        numbers = None if flow is None else self.known.arrays.numbers(flow)
        return Badness.FINITE if numbers is None else of_numbers(numbers)

    def _has_pole(self, owner: int, at: int) -> bool:
        # Is the derivative of the entry's operation not finite at the recorded value?
        birth = Birth(owner, self._operation(owner, at), at, Badness.FINITE, self.known.grads[at])
        return is_pole(self.reasons.why(birth).mechanism)

    def _multiplies_by_inf(self, owner: int, at: int) -> bool:
        # Does the backward of ``owner`` multiply the gradient by NaN or Inf? An exponential multiplies by its result.
        # In a product, the other factor must be NaN or Inf wherever the new gradient is.
        computed, operands = self.reasons.computation(owner, at), self.known.term(owner).args
        nth = next((nth for nth, one in enumerate(operands) if one.at == at), None)
        if nth is None or computed.term.op not in ("mul", *mechanism.EXPONENTIALS):
            return False
        if computed.term.op != "mul":
            return self.known.values[owner].is_bad
        grad = self.known.taken(self.known.grad_numbers(at), at, owner, self.reasons.example(owner, at))
        factor = computed.value(operands[1 - nth])
        if factor is None or grad is None or grad.shape != numpy.shape(computed.result):
            return False
        bad = ~numpy.isfinite(grad)
        return bool(bad.any()) and not (bad & numpy.isfinite(numpy.broadcast_to(factor, grad.shape))).any()

    # Methods for causes and consequences.

    @cached_property
    def owners(self) -> Set[int]:
        """The entries in whose backward NaN or Inf arises, or may arise, without following from the forward pass."""
        return {owner for birth in self._kept for owner in (birth.owner, *birth.others)}

    @cached_property
    def read(self) -> Set[int]:
        """The entries from which ``owners`` were computed directly, whether or not backward reads them. Also owners
        that a bad part of their own line made bad, and in whose backward this part met a zero gradient.
        """
        within = {birth.owner for birth in self._kept if self._meets_bad_part(birth)}
        return within | {source for owner in self.owners for source in self.known.direct[owner]}

    def _meets_bad_part(self, birth: Birth) -> bool:
        # Is a zero gradient multiplied by a bad part of the line that also makes the line's value bad?
        why = self.reasons.why(birth).mechanism
        if birth.owner not in self.known.bad_values or why is None or not why.code.startswith("zero_gradient"):
            return False
        computed = self.reasons.computation(birth.owner, birth.wrt)
        return any(part.op and computed.is_bad(part) for part in computed.term.inputs)

    def spread(self, starts: Set[int]) -> set[int]:
        """Return the bad gradients that follow from the gradients of ``starts``, back along recorded paths.

        A value that is multiplied by a bad value gets a bad gradient, too. So do the inputs of a loop iteration whose
        result has a bad gradient.
        """
        bad, direct = set(self.known.bad_grads), self.known.direct
        beside = {one for at in starts for consumer in (at, *self.known.consumers[at]) for one in direct[consumer]}
        found = reached((beside | starts) & bad, lambda at: bad.intersection(direct[at]))
        in_loops = {self._arrivals[at].loop for at in found if at in self._arrivals}
        handed = {at for at, one in self._arrivals.items() if one.loop in in_loops and not one.state.is_bad}
        return reached(found | handed, lambda at: bad.intersection(direct[at]))

    def _is_consequence(self, birth: Birth) -> bool:
        # Does the birth follow from NaN or Inf in the forward pass? It does if its operation reads a bad value that
        # does harm there, or if it was given a bad gradient and no independent birth lies behind that.
        if not self.forward.harmful.isdisjoint((birth.owner, *self.known.direct[birth.owner])):
            return not self._is_of_masked_row(birth)
        if birth.given is Badness.FINITE:
            return False
        behind = reached([birth.owner], self.followers.__getitem__)  # all entries whose gradients flowed into this one
        return not any(
            one.given is Badness.FINITE and one.owner in behind and not self._is_consequence(one) for one in self.made
        )

    def _is_of_masked_row(self, birth: Birth) -> bool:
        # Does the birth come from a row that is all -Inf? The logsumexp of such a row is correctly -Inf and has no
        # derivative.
        why = self.reasons.why(birth).mechanism if birth.given is Badness.FINITE else None
        return why is not None and why.code == "pole_of_result"

    @cached_property
    def _kept(self) -> Sequence[Birth]:
        kept: dict[tuple[int, str], Birth] = {}
        for birth in self.made:
            if not self._is_consequence(birth):
                before = kept.get((birth.owner, birth.operation), birth)
                kept[birth.owner, birth.operation] = max(before, birth, key=lambda one: one.made)
        return list(kept.values())

    @cached_property
    def overflowed(self) -> Mapping[Birth, int]:
        """The births caused by an overflow in the forward pass, each with the origin of the overflow.

        The value may have become finite again: ``exp(x) / exp(x).sum()`` may be 0, but its derivative multiplies by
        Inf.
        """
        origins = [
            (at, self.forward.spread(at))
            for at in self.forward.origins
            if at not in self.forward.harmful and self.forward.why(at).is_overflow
        ]
        found: dict[Birth, int] = {}
        for birth in self._kept if origins else ():
            near = {birth.owner, *self.known.direct[birth.owner]}
            origin = next((at for at, spread in origins if spread & near), None)
            is_by_value = birth.made is Badness.NAN and birth.given is Badness.FINITE and not birth.others
            if origin is None or not is_by_value or is_pole(self.reasons.why(birth).mechanism):
                continue
            part = self.reasons.why(birth).part or self.known.term(birth.owner)
            if not self._masked(self._left_out(birth, part)):
                found[birth] = origin
        return found

    def spoiled(self) -> Mapping[int, Sequence[str]]:
        """For each overflow in the forward pass, sentences on the births in backward that it causes."""
        found: dict[int, list[str]] = {}
        for birth, origin in self.overflowed.items():
            found.setdefault(origin, []).append(
                say("spoils", owner=self.known.name(birth.owner), word=WORDS[birth.made])
            )
        return found

    def births(self) -> Iterator[tuple[Moment, Finding]]:
        """Yield findings on births in backward that do not follow from the forward pass, and on gradients that came in
        with NaN or Inf.
        """
        for birth in self._kept:
            if birth in self.overflowed:
                continue
            if self.reasons.why(birth).hidden is not None:
                yield (birth.owner, False), self._birth(birth)
                continue
            yield (self.known.began[birth.owner], True), self._unclear(birth) if birth.others else self._birth(birth)
        yield from (((self.known.began[at], True), self._appeared(at)) for at in self._come_in())

    def _birth(self, birth: Birth) -> Finding:
        known, owner, why = self.known, birth.owner, self.reasons.why(birth)
        factors = self._factors(birth)
        facts = [*self._numbers(birth), *([] if factors is None else [factors.fact()]), *self._states(birth)]
        facts += rules_in(known.record, self.entries[owner])
        left_out = self._left_out(birth, why.hidden or why.part)
        masked = self._masked(left_out)
        facts += masked
        is_scaled = birth.made is Badness.INF and not is_pole(why.mechanism) and bool(scaled(known.record.scales))
        if is_scaled:
            facts += scaled(known.record.scales)
        facts += self.forward.use(owner)
        part = why.hidden or why.part
        if why.hidden is not None and not masked:
            return self._hidden(birth, why, facts)
        because = self._because(birth, why, factors, is_masked=bool(masked))
        is_seen = birth.operation or why.mechanism is not None or known.is_node(owner)
        found = self.forward.remedies.remedy(owner, part, why.mechanism or because, left_out=left_out)
        remedy = found or (say("lower_scale") if is_scaled else "" if is_seen else self._look(owner))
        said = {"born": born(birth.made, birth.given), "chain": self._chain(birth)}
        spelled = "" if part is None or part.at == owner else part.text
        return known.finding(owner, "born_backward", part=spelled, facts=facts, remedy=remedy, why=because, **said)

    def _states(self, birth: Birth) -> list[str]:
        # Return facts on the gradients that the operation received and passed on, and on NaN and Inf near it.
        known, owner = self.known, birth.owner
        made = {"operation": birth.operation, "given": given(birth.given), "word": WORDS[birth.made]}
        facts = [say("made" if birth.operation else "made_unknown", **made), known.gradient(owner)]
        arrival = None if birth.wrt is None else self._arrivals.get(birth.wrt)
        if arrival is not None and arrival.step is not None and arrival.state.is_bad:
            facts.append(say("begins", step=arrival.step))
        if birth.wrt is not None:
            facts += [known.gradient(birth.wrt), known.value(birth.wrt)]
        return [*facts, known.value(owner)] if owner in known.bad_values else facts

    def _because(self, birth: Birth, why: BackwardWhy, factors: Factors | None, *, is_masked: bool) -> Mechanism | None:
        # The mechanism that the numbers of the line show. If they show none, or no more than a zero gradient, it is the
        # mechanism that the framework's factors show.
        because = why.mechanism if why.hidden is None else self._of_zero(birth.owner, why)
        if factors is not None and (because is None or because.code == "zero_gradient"):
            of = self.entries[birth.owner if birth.wrt is None else birth.wrt]
            because = factors.mechanism(of.dtype or "") or because
        is_by_zero = is_masked and because is not None and because.code == "pole_nan"
        return Mechanism("pole_zero", because.fields) if is_by_zero and because is not None else because

    def _look(self, owner: int) -> str:
        # The command that shows more, if it is unknown which operation caused the birth.
        known, entry = self.known, self.entries[owner]
        if entry.source is None:
            return see_inside(split(entry.name)[0])
        is_lost = not known.was_asked and any(known.values[one] is Badness.UNKNOWN for one in known.direct[owner])
        return say("see_kept" if is_lost else "see_operation")

    def _numbers(self, birth: Birth) -> list[str]:
        # The fact with the first bad element of the gradient, and the numbers from which it was computed.
        if birth.wrt is None:
            return []
        example = self.reasons.example(birth.owner, birth.wrt)
        operand = self.reasons.operand(birth) if birth.decomposes else None
        return operands.of_gradient(self.known, birth.wrt, birth.owner, example, operand)

    def _factors(self, birth: Birth) -> Factors | None:
        # The framework's factors whose product is the first bad element.
        if birth.local is not None:
            return local_derivatives.seen(birth.local, birth.operation)
        if birth.wrt is None or birth.given is not Badness.FINITE:
            return None
        return local_derivatives.asked(self.known, birth.owner, birth.wrt)

    def _of_zero(self, owner: int, why: BackwardWhy) -> Mechanism:
        # Return the mechanism for a bad part in a branch that was not selected: 0, the gradient of that branch, times
        # Inf is NaN.
        assert why.hidden is not None
        word = WORDS[self.reasons.computation(owner, None).state(why.hidden)]
        if why.mechanism is None:
            return Mechanism("zero_gradient_nan" if word == WORDS[Badness.NAN] else "zero_gradient_inf")
        fields = {"word": word, "part": shorten(why.hidden.text), "why": str(why.mechanism)}
        return Mechanism("zero_gradient_part", fields)

    def _hidden(self, birth: Birth, why: BackwardWhy, facts: Sequence[str]) -> Finding:
        # Make the finding on a part of a line that is NaN or Inf although the value of the whole line is finite.
        known, owner, part = self.known, birth.owner, why.hidden
        assert part is not None
        word = WORDS[self.reasons.computation(owner, None).state(part)]
        facts = [say("part", text=shorten(part.text), word=word), known.value(owner), *facts]
        made = say("is_born", word=word)
        return known.finding(
            owner,
            "born_inside",
            part=part.text,
            facts=facts,
            born=made,
            why=why.mechanism,
            chain=self._chain(birth),
            remedy=self.forward.remedies.remedy(owner, part, why.mechanism),
        )

    def _unclear(self, birth: Birth) -> Finding:
        # Make the finding if one of several lines caused the birth, but it is unknown which one. None of them is
        # blamed.
        assert birth.wrt is not None
        known, suspects = self.known, (birth.owner, *birth.others)
        facts = [*map(known.line, suspects[:MOST]), say("received", given=given(birth.given))]
        facts += [known.gradient(birth.wrt), known.value(birth.wrt)]
        has_flows = any(edge.contribution is not None for one in suspects for edge in self.entries[one].inputs)
        names = " or ".join(map(known.name, suspects[:MOST])) + " …" * (len(suspects) > MOST)
        return finding(
            "born_backward_of_one",
            self.entries[birth.wrt].name,
            None,
            facts=facts,
            suspects=names,
            remedy="" if has_flows else say("see_which"),
            born=born(birth.made, birth.given),
            wrt=known.name(birth.wrt),
        )

    def _left_out(self, birth: Birth, part: Term | None) -> Sequence[SelectedBranch]:
        # Return the selections after the birth that exclude the bad element. They matter only if NaN came from a
        # product with 0.
        if birth.made is not Badness.NAN or birth.given is not Badness.FINITE:
            return []
        return list(self._selections.that_leave_out(birth.owner, birth.wrt, part))

    @cached_property
    def _selections(self) -> Selections:
        return Selections(self.known, self.followers)

    def _masked(self, left_out: Sequence[SelectedBranch]) -> list[str]:
        # The fact on a ``where`` whose condition did not select the branch of the birth at the bad element.
        one = next((one for one in left_out if one.term.op == "where"), None)
        if one is None:
            return []
        tree = parsed_expression(one.term.text)
        name = one.term.text if tree is None else operation_of(tree)
        return [say("masked", branch=shorten(one.branch.text), where=name + self.known.at_line(one.at))]

    def _chain(self, birth: Birth) -> tuple[str, ...]:
        # The chain from the line of the birth to the leaf that receives the gradient, as far as names are known.
        path, at = [birth.owner], birth.wrt
        while at is not None and at not in path:
            path.append(at)
            at = next((one for one in self.known.direct[at] if self.known.grads[one].is_bad), None)
        return self.known.chain(path)

    # Methods for bad gradients that no observed operation made.

    def _come_in(self) -> Iterator[int]:
        # Yield the entries with a bad gradient that no observed operation made bad.
        known, harmful = self.known, self.forward.harmful
        made_for = {birth.wrt for birth in self.made}  # contains None if a birth may belong to any input
        places = {birth.owner for birth in self.made}.union(self.forward.origins)
        for at in known.bad_grads:
            # a write through a view reads the old values, but the graph has no edge for this
            users = known.consumers[at]
            is_made = not made_for.isdisjoint((at, None)) or not places.isdisjoint(users)
            is_from_forward = not harmful.isdisjoint((at, *users))  # a derivative computed from NaN is NaN
            is_seen = at in known.record.outputs or known.sees_operations
            if is_seen and not (is_made or is_from_forward or known.worst_grad(self.followers[at]).is_bad):
                yield at

    def _appeared(self, at: int) -> Finding:
        # Make the finding on a gradient that no observed operation made bad, with its possible origins.
        known, facts = self.known, [self.known.gradient(at)]
        appeared = partial(known.finding, at, facts=facts, word=WORDS[known.grads[at]])
        outputs = [one for one in self.followers[at] if one in known.record.outputs]
        starts = [one for one in outputs if self.entries[one].source is None]
        if at in known.record.outputs:
            return appeared("started_bad", remedy=say("see_lines") if starts else "")
        if not starts:
            return appeared("came_in_backward")
        facts += scaled(known.record.scales)  # a hook that the program set in the block may have changed the gradient
        return appeared("came_on_the_way", start=known.name(starts[0]), remedy=say("see_lines"))
