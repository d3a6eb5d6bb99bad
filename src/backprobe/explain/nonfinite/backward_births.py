"""Births of NaN and Inf in the backward pass: which line took a finite gradient and gave one that is not."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cached_property, partial

from backprobe.explain.nonfinite import mechanism
from backprobe.explain.nonfinite.forward_births import ForwardPass, Moment
from backprobe.explain.nonfinite.sources import applied_to, parsed, walk
from backprobe.explain.nonfinite.states import RECORDED, WORDS, State, of_numbers
from backprobe.explain.nonfinite.text import MOST, Mechanism, born, finding, given, say, scaled, see_inside
from backprobe.findings.report import Finding
from backprobe.record.entries import GradStatus
from backprobe.record.graph import Graph, reached
from backprobe.record.names import split, strip
from backprobe.source.sites import operation as operation_of

MASKING = ("where", "masked_fill", "masked_fill_", "select")
REENTRANT = "CheckpointFunction"


@dataclass(frozen=True)
class Birth:
    """An operation in the backward of the entry ``owner`` that made something worse of what came to it.

    ``operation`` is empty where it is not known which of a line's, or of a module's, it was. ``wrt`` is the entry whose
    gradient it made.
    """

    owner: int
    operation: str
    wrt: int | None
    given: State
    made: State
    others: tuple[int, ...] = ()  # the entries whose backward it may be as well


class BackwardPass:
    """Where the gradients of one record become NaN or Inf, given where its values do."""

    def __init__(self, forward: ForwardPass) -> None:
        self.forward, self.known, self.entries = forward, forward.known, forward.entries

    @cached_property
    def made(self) -> Sequence[Birth]:
        """All of them, as backward ran."""
        visited = {at: nth for nth, at in enumerate(self.known.record.backward)}
        order = sorted(range(len(self.entries)), key=lambda at: (visited.get(at, len(visited)), -at))
        if not self.known.sees_operations:
            return list(self._between(order, self.followers))
        seen = [
            Birth(at, one.operation, one.at, RECORDED[one.given], RECORDED[one.made])
            for at in order for one in self.known.made(at)
        ]  # fmt: skip
        return [inside for birth in seen for inside in self._inside(birth, order)]

    def _inside(self, birth: Birth, order: Sequence[int]) -> list[Birth]:
        """A birth, or those inside of it: a reentrant checkpoint is one operation that runs a backward of its own."""
        if birth.operation != REENTRANT:
            return [birth]
        inside = self._between(order, self.known.consumers)  # no edge leads into what was computed again
        return [one for one in inside if one.wrt == birth.wrt] or [birth]

    def _between(self, order: Sequence[int], consumers: Sequence[Sequence[int]]) -> Iterator[Birth]:
        """Where only entries are seen: a gradient that is worse than those of all that its value flows into."""
        for at in order:
            state, following = self.known.grads[at], self._differentiated(consumers[at])
            given = self.known.worst_grad(following)
            if state.is_bad and following and state > given:
                for owner, *others in self._suspects(at, following):
                    yield Birth(owner, self._operation(owner, at), at, given, state, tuple(others))

    @cached_property
    def followers(self) -> Sequence[Sequence[int]]:
        """For each entry those that its value flows into and that have a gradient."""
        return [self._differentiated(consumers) for consumers in Graph.of(self.known.record).consumers]

    def _differentiated(self, places: Sequence[int]) -> Sequence[int]:
        return [at for at in places if self.entries[at].status is GradStatus.OK]

    def _operation(self, owner: int, wrt: int) -> str:
        """What an entry's line computes, if that is all that lies between its value and one that it is applied to."""
        entry = self.entries[owner]
        applied = None if entry.source is None else applied_to(entry.source.expression, self.known.parts[owner])
        if applied is None:
            return ""
        recorded, unknown = applied
        may_be_unnamed = self.entries[wrt].source is None and bool(set(unknown) - self._unselected)
        return entry.op if wrt in recorded or may_be_unnamed else ""

    @cached_property
    def _unselected(self) -> Set[str]:
        """The locals that the program has, and no entry holds since they were not asked for."""
        return {split(strip(name))[1] or "" for name in self.known.record.unseen}

    def _suspects(self, at: int, consumers: Sequence[int]) -> Sequence[Sequence[int]]:
        """Those in whose backward it was, several together where one of them was: by what flowed, or by the numbers."""
        if len(consumers) == 1:
            return [consumers]
        made = [one for one in consumers if self._flow(one, at) > self.known.grads[one]]
        named = [one for one in consumers if self._has_pole(one, at)]
        return [[one] for one in made] or [named or consumers]

    def _flow(self, consumer: int, at: int) -> State:
        """How bad what flowed along an edge is, where that is known."""
        flow = next((edge.contribution for edge in self.entries[consumer].inputs if edge.at == at), None)
        numbers = None if flow is None else self.known.arrays.numbers(flow)
        return State.FINITE if numbers is None else of_numbers(numbers)

    def _has_pole(self, owner: int, at: int) -> bool:
        """Has the operation of an entry an infinite derivative where a value lies?"""
        birth = Birth(owner, self._operation(owner, at), at, State.FINITE, self.known.grads[at])
        return _is_pole(self._mechanism(birth))

    # what follows from what

    @cached_property
    def owners(self) -> Set[int]:
        """The entries in whose backward something is born."""
        return {owner for birth in self._kept for owner in (birth.owner, *birth.others)}

    @cached_property
    def read(self) -> Set[int]:
        """The entries that the operations of these births have read."""
        return {source for owner in self.owners for source in self.known.direct[owner]}

    def _is_consequence(self, birth: Birth) -> bool:
        """Does it follow from NaN or Inf on the way to the output: in what its operation reads, or was given?"""
        if not self.forward.harmful.isdisjoint((birth.owner, *self.known.direct[birth.owner])):
            return True
        if birth.given is State.FINITE:
            return False
        behind = reached([birth.owner], self.followers.__getitem__)  # whose gradients came to this one
        return not any(
            one.given is State.FINITE and one.owner in behind and not self._is_consequence(one) for one in self.made
        )

    @cached_property
    def _kept(self) -> Sequence[Birth]:
        kept: dict[tuple[int, str], Birth] = {}
        for birth in self.made:
            if not self._is_consequence(birth):
                before = kept.get((birth.owner, birth.operation), birth)
                kept[birth.owner, birth.operation] = max(before, birth, key=lambda one: one.made)
        return list(kept.values())

    # findings

    def births(self) -> Iterator[tuple[Moment, Finding]]:
        """Where gradients become NaN or Inf, those left out that follow from the forward pass."""
        for birth in self._kept:
            yield (self.known.began[birth.owner], True), self._unclear(birth) if birth.others else self._birth(birth)
        yield from (((self.known.began[at], True), self._appeared(at)) for at in self._come_in())

    def _birth(self, birth: Birth) -> Finding:
        known, owner, why = self.known, birth.owner, self._mechanism(birth)
        made = {"operation": birth.operation, "given": given(birth.given), "word": WORDS[birth.made]}
        facts = [say("made" if birth.operation else "made_unknown", **made), known.gradient(owner)]
        if birth.wrt is not None:
            facts += [known.gradient(birth.wrt), known.value(birth.wrt)]
        if owner in known.bad_values:
            facts.append(known.value(owner))
        masked = self._masked(birth)
        facts += masked
        if birth.made is State.INF and not _is_pole(why):
            facts += scaled(known.record.scales)
        facts += self.forward.use(owner)
        entry = self.entries[owner]
        look = see_inside(split(entry.name)[0]) if entry.source is None else say("see_operation")
        remedy = say("double_where") if masked else "" if birth.operation else look
        said = {"born": born(birth.made, birth.given), "chain": self._chain(birth)}
        return known.finding(owner, "born_backward", facts=facts, remedy=remedy, why=why, **said)

    def _unclear(self, birth: Birth) -> Finding:
        """One of several lines made it, and which of them is not known: none is blamed."""
        assert birth.wrt is not None
        known, suspects = self.known, (birth.owner, *birth.others)
        facts = [*map(known.line, suspects[:MOST]), say("received", given=given(birth.given))]
        facts += [known.gradient(birth.wrt), known.value(birth.wrt)]
        has_flows = any(edge.contribution is not None for one in suspects for edge in self.entries[one].inputs)
        names = " or ".join(map(known.name, suspects[:MOST])) + " …" * (len(suspects) > MOST)
        return finding(
            "born_backward_of_one", self.entries[birth.wrt].name, None, facts=facts, suspects=names,
            remedy="" if has_flows else say("see_which"), born=born(birth.made, birth.given), wrt=known.name(birth.wrt),
        )  # fmt: skip

    def _mechanism(self, birth: Birth) -> Mechanism | None:
        known, wrt = self.known, birth.wrt
        if wrt is None:
            return mechanism.backward(birth.operation, birth.made, None, None, None, "")
        value, grad, came = known.numbers(wrt), known.grad_numbers(wrt), known.grad_numbers(birth.owner)
        return mechanism.backward(birth.operation, birth.made, grad, value, came, self.entries[wrt].dtype or "")

    def _masked(self, birth: Birth) -> list[str]:
        """For a birth behind a ``where``: the branch that it lies in, which the condition did not select there."""
        behind = reached([birth.owner], self.known.consumers.__getitem__)
        for at in sorted(behind):  # the nearest first
            branch = self._branch(at, behind, birth.operation.lower() if at == birth.owner else "")
            if branch:
                return [say("masked", branch=branch, where=self.entries[at].op + self.known.at_line(at))]
        return []

    def _branch(self, at: int, behind: Set[int], operation: str) -> str:
        """The text of the argument of a ``where`` that a birth lies in: an entry behind it, or a part of that line."""
        source, parts = self.entries[at].source, self.known.parts[at]
        expression = "" if source is None else source.expression
        tree = parsed(expression) if any(word in expression for word in MASKING) else None
        for node in ast.walk(tree) if tree is not None else ():
            for argument in node.args if isinstance(node, ast.Call) and operation_of(node) in MASKING else ():
                walked = list(walk(argument, parts))
                held = {one for _, entries in walked for one in entries}
                if held & (behind - {at}) or operation in {operation_of(one) for one, _ in walked} - {""}:
                    return ast.unparse(argument)
        return ""

    def _chain(self, birth: Birth) -> tuple[str, ...]:
        """From the line of the birth to the leaf that its gradient comes to, as far as names go."""
        path, at = [birth.owner], birth.wrt
        while at is not None and at not in path:
            path.append(at)
            at = next((one for one in self.known.direct[at] if self.known.grads[one].is_bad), None)
        return self.known.chain(path)

    # gradients that no operation made so

    def _come_in(self) -> Iterator[int]:
        """The entries with a gradient that is not finite, though no operation that is seen made it so."""
        known, harmful = self.known, self.forward.harmful
        made_for = {birth.wrt for birth in self.made}  # None stands for any
        places = {birth.owner for birth in self.made}.union(self.forward.origins)
        for at in known.bad_grads:
            users = known.consumers[at]  # a write through a view reads what it replaces, and no edge leads there
            is_made = not made_for.isdisjoint((at, None)) or not places.isdisjoint(users)
            is_from_forward = not harmful.isdisjoint((at, *users))  # a derivative of NaN is NaN
            is_seen = at in known.record.outputs or known.sees_operations
            if is_seen and not (is_made or is_from_forward or known.worst_grad(self.followers[at]).is_bad):
                yield at

    def _appeared(self, at: int) -> Finding:
        """A gradient that is not finite, and what may have made it so."""
        known, facts = self.known, [self.known.gradient(at)]
        appeared = partial(known.finding, at, facts=facts, word=WORDS[known.grads[at]])
        outputs = [one for one in self.followers[at] if one in known.record.outputs]
        starts = [one for one in outputs if self.entries[one].source is None]
        if at in known.record.outputs:
            return appeared("started_bad", remedy=say("see_lines") if starts else "")
        if not starts:
            return appeared("came_in_backward")
        facts += scaled(known.record.scales)  # the hooks of a block are there when backward comes to what is recorded
        return appeared("came_on_the_way", start=known.name(starts[0]), remedy=say("see_lines"))


def _is_pole(why: Mechanism | None) -> bool:
    return why is not None and why.code in mechanism.POLE
