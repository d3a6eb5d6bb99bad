"""Births of NaN and Inf in the backward pass: which line took a finite gradient and gave one that is not."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy

from backprobe.explain.nonfinite import mechanism
from backprobe.explain.nonfinite.forward import Forward
from backprobe.explain.nonfinite.module_births import SEE_BETWEEN, scaled, to_look_into
from backprobe.explain.nonfinite.moments import Moment
from backprobe.explain.nonfinite.sources import applied_to, parsed
from backprobe.explain.nonfinite.states import TOLD, WORDS, State, of_numbers
from backprobe.findings.report import Finding
from backprobe.record.entries import GradStatus
from backprobe.record.names import split, strip
from backprobe.source.sites import operation as operation_of

MASKING = ("where", "masked_fill", "masked_fill_", "select")
DOUBLE_WHERE = (
    "put a harmless number in before the operation, too: safe = where(condition, x, 1), then where(condition, f(safe), "
    "other); the values stay, and no zero meets an infinite derivative"
)
SEE_OPERATION = (
    "each operation of the line bound to a variable of its own; or, where it is no block, '**:*()' among what is "
    "selected: it tells which of them"
)
SEE_WHICH = "bp.probe(f, nonfinite=True, partials=True)(x), with these lines in a function f: it tells which of them"
BETWEEN = "an operation between them, a hook, or the sum of what arrives"
REENTRANT = "CheckpointFunction"
MOST = 4  # names of a headline


Following = Callable[[int], list[int]]


@dataclass(frozen=True)
class Birth:
    """An operation in the backward of the entry ``owner`` that made something worse of what came to it.

    ``operation`` is empty where it is not known which of a line's, or of a module's, it was.
    """

    owner: int
    operation: str
    towards: int | None
    given: State
    made: State
    others: tuple[int, ...] = ()  # the entries whose backward it may be as well


class Backward:
    """The backward pass of one record."""

    def __init__(self, forward: Forward) -> None:
        self.forward, self.states, self.sources = forward, forward.states, forward.sources
        self.entries, self.positions, self.moments = forward.entries, forward.positions, forward.moments
        self._known_followers: dict[int, list[int]] = {}

    @cached_property
    def made(self) -> Sequence[Birth]:
        """All of them, as backward ran."""
        visited = {at: nth for nth, at in enumerate(self.states.record.backward)}
        order = sorted(range(len(self.entries)), key=lambda at: (visited.get(at, len(visited)), -at))
        if not self.states.sees_operations:
            return list(self._between(order))
        seen = [
            Birth(at, one.operation, one.at, TOLD[one.given],
                  TOLD[one.made])
            for at in order for one in self.states.made(at)
        ]  # fmt: skip
        return [inside for birth in seen for inside in self._inside(birth, order)]

    def _inside(self, birth: Birth, order: Sequence[int]) -> list[Birth]:
        """A birth, or those inside of it: a reentrant checkpoint is one operation that runs a backward of its own."""
        if birth.operation != REENTRANT:
            return [birth]
        inside = self._between(order, self._mentioning)  # no edge leads into what was computed again
        return [one for one in inside if one.towards == birth.towards] or [birth]

    def _between(self, order: Sequence[int], following: Following | None = None) -> Iterator[Birth]:
        """Where only entries are seen: a gradient that is worse than those of all that its value flows into."""
        for at in order:
            state = self.states.grads[at]
            consumers = (following or self._followers)(at)
            given = max((self.states.grads[one] for one in consumers), default=State.FINITE)
            if state.is_bad and consumers and state > given:
                for owner, *others in self._suspects(at, consumers):
                    yield Birth(owner, self._operation(owner, at), at, given, state, tuple(others))

    def _followers(self, at: int) -> list[int]:
        """The entries that a value flows into with a gradient of theirs."""
        if at not in self._known_followers:
            name = self.entries[at].name
            self._known_followers[at] = [
                one for one in self._mentioning(at) if any(edge.name == name for edge in self.entries[one].inputs)
            ]
        return self._known_followers[at]

    def _mentioning(self, at: int) -> list[int]:
        """The same by what their expressions mention."""
        return [one for one in self.sources.consumers[at] if self.entries[one].status is GradStatus.OK]

    def _operation(self, owner: int, towards: int) -> str:
        """What an entry's line computes, if that is all that lies between its value and one that it is applied to."""
        entry = self.entries[owner]
        applied = None if entry.source is None else applied_to(entry.source.expression, self.sources.parts[owner])
        if applied is None:
            return ""
        known, unknown = applied
        may_be_unnamed = self.entries[towards].source is None and bool(set(unknown) - self._unselected)
        return entry.op if towards in known or may_be_unnamed else ""

    @cached_property
    def _unselected(self) -> Set[str]:
        """The locals that the program has, and no entry holds since they were not asked for."""
        return {split(strip(name))[1] or "" for name in self.states.record.unseen}

    def _suspects(self, at: int, consumers: Sequence[int]) -> Sequence[Sequence[int]]:
        """Those in whose backward it was, several together where one of them was: by what flowed, or by the numbers."""
        if len(consumers) == 1:
            return [consumers]
        made = [one for one in consumers if self._flow(one, at) > self.states.grads[one]]
        named = [one for one in consumers if self._pole(one, at)]
        return [[one] for one in made] or [named or consumers]

    def _flow(self, consumer: int, at: int) -> State:
        """How bad what flowed along an edge is, where that is known."""
        edges = [e for e in self.entries[consumer].inputs if e.name == self.entries[at].name]
        flow = edges[0].contribution if edges else None
        numbers = None if flow is None else self.forward.arrays.numbers(flow)
        return State.FINITE if numbers is None else of_numbers(numbers)

    def _pole(self, owner: int, at: int) -> bool:
        """Has the operation of an entry an infinite derivative where a value lies?"""
        told = self._mechanism(Birth(owner, self._operation(owner, at), at, State.FINITE, self.states.grads[at]))
        return mechanism.INFINITE in told

    # what is to be said

    def folded(self) -> Mapping[int, Sequence[str]]:
        """For entries where NaN or Inf is born forward and goes on to the output: what their backward makes, too."""
        found: dict[int, list[str]] = {}
        for birth in self.made:
            if self._is_consequence(birth) and birth.owner in self.forward.origins:
                word, given = WORDS[birth.made], WORDS.get(birth.given, "a finite gradient")
                found.setdefault(birth.owner, []).append(f"its backward makes {word} of {given} too")
        return {at: tuple(dict.fromkeys(facts)) for at, facts in found.items()}

    @cached_property
    def owners(self) -> Set[int]:
        """The entries in whose backward something is born."""
        return {owner for birth in self._kept for owner in (birth.owner, *birth.others)}

    @cached_property
    def read(self) -> Set[int]:
        """The entries that the operations of these births have read."""
        return {source for owner in self.owners for source in self.sources.direct[owner]}

    def _is_consequence(self, birth: Birth) -> bool:
        """Does it follow from NaN or Inf on the way to the output: in what its operation reads, or was given?"""
        read = {birth.owner, *self.sources.direct[birth.owner]}
        if read & self.forward.harmful:
            return True
        if birth.given is State.FINITE:
            return False
        behind = self._behind(birth.owner)
        return not any(
            one.given is State.FINITE and one.owner in behind and not self._is_consequence(one) for one in self.made
        )

    def _behind(self, at: int) -> set[int]:
        """The entries from which a gradient that is not finite came to one, itself among them."""
        found, pending = {at}, [at]
        while pending:
            for one in self._followers(pending.pop()):
                if one not in found:
                    found.add(one)
                    pending.append(one)
        return found

    def births(self) -> Iterator[tuple[Moment, Finding]]:
        """Where gradients become NaN or Inf, those left out that follow from the forward pass."""
        for birth in self._kept:
            yield self.moments.backward(birth.owner), self._unclear(birth) if birth.others else self._birth(birth)
        for at, finding in self._came_in():
            yield self.moments.backward(at), finding

    @cached_property
    def _kept(self) -> list[Birth]:
        kept: dict[tuple[int, str], Birth] = {}
        for birth in self.made:
            known = kept.get((birth.owner, birth.operation))
            if not self._is_consequence(birth) and (known is None or known.made < birth.made):
                kept[birth.owner, birth.operation] = birth
        return list(kept.values())

    def _birth(self, birth: Birth) -> Finding:
        entry, word = self.entries[birth.owner], WORDS[birth.made]
        told = self._mechanism(birth)
        of = " of Inf" if birth.given is State.INF else ""
        headline = f"{word} is born{of} in the backward of {entry.name!r}" + (f": {told}" if told else "")
        operation = f"the operation {birth.operation}" if birth.operation else "an operation of it that is not known"
        facts = [f"{operation} was given {_came(birth.given)} and made {word}", self._gradient(birth.owner)]
        if birth.towards is not None:
            facts += [
                self._gradient(birth.towards),
                self.forward.fact(repr(self.entries[birth.towards].name), birth.towards),
            ]
        if self.states.values[birth.owner].is_bad:
            facts.append(self.forward.fact(repr(entry.name), birth.owner))
            facts += self.forward.healing(birth.owner)
        masked, remedy = self._masked(birth)
        facts += masked
        if birth.made is State.INF and mechanism.INFINITE not in told:
            facts += scaled(self.states.record.scales)
        facts += self.forward.use(birth.owner)
        chain = self._chain(birth)
        return Finding("born_backward", entry.name, headline, entry.source, tuple(facts), chain,
                       remedy or self._to_look_into(birth))  # fmt: skip

    def _to_look_into(self, birth: Birth) -> str:
        """What to type to see which operation it was."""
        entry = self.entries[birth.owner]
        if birth.operation:
            return ""
        return to_look_into(entry, []) if entry.source is None else SEE_OPERATION

    def _unclear(self, birth: Birth) -> Finding:
        """One of several lines made it, and which of them is not known: none is blamed."""
        assert birth.towards is not None
        suspects, towards, word = (birth.owner, *birth.others), self.entries[birth.towards], WORDS[birth.made]
        names = [repr(self.entries[one].name) for one in suspects]
        of = " of Inf" if birth.given is State.INF else ""
        headline = f"{word} is born{of} in the backward of {' or '.join(names[:MOST])}{' …' * (len(names) > MOST)}"
        facts = [self._line(one) for one in suspects[:MOST]]
        facts += [f"what comes to them is {_came(birth.given)}", self._gradient(birth.towards)]
        facts.append(self.forward.fact(repr(towards.name), birth.towards))
        is_told = any(edge.contribution is not None for one in suspects for edge in self.entries[one].inputs)
        return Finding("unknown", towards.name, f"{headline}, on the way to {towards.name!r}", None, tuple(facts), (),
                       "" if is_told else SEE_WHICH)  # fmt: skip

    def _line(self, at: int) -> str:
        """A value and the line that computes it."""
        source = self.entries[at].source
        text = "no line of it is recorded" if source is None else source.text.strip()
        return f"{self.entries[at].name!r}{self.forward.at_line(at)}: {text}"

    def _gradient(self, at: int) -> str:
        entry = self.entries[at]
        count = entry.finiteness.grad if entry.finiteness is not None else None
        return f"the gradient of {entry.name!r}: " + ("not there" if count is None else str(count))

    def _mechanism(self, birth: Birth) -> str:
        if not birth.operation:
            return ""
        if birth.towards is None:
            return mechanism.backward(birth.operation, WORDS[birth.made].lower(), mechanism.Place(None, None), "")
        grad = self.grad_numbers(birth.towards)
        if grad is None:
            return ""
        bad = ~numpy.isfinite(grad)
        values, given = self.forward.numbers(birth.towards), self.grad_numbers(birth.owner)
        place = mechanism.Place(mechanism.at(values, bad), mechanism.at(given, bad))
        return mechanism.backward(
            birth.operation, WORDS[birth.made].lower(), place, self.entries[birth.towards].dtype or ""
        )

    def grad_numbers(self, at: int) -> Any:
        """The numbers of a gradient; None where there is none."""
        grad = self.entries[at].grad_or_none
        return None if grad is None else self.forward.arrays.numbers(grad)

    def _masked(self, birth: Birth) -> tuple[list[str], str]:
        """For a birth behind a ``where``: the branch that it lies in, which the condition did not select there."""
        seen, pending = {birth.owner}, [birth.owner]
        while pending:
            at = pending.pop(0)
            branch = self._branch(at, seen, birth.operation.lower() if at == birth.owner else "")
            if branch:
                where = f"{self.entries[at].op}{self.forward.at_line(at)}"
                return [
                    f"it lies in the branch {branch} of {where}, to which the unselected places give a zero gradient"
                ], DOUBLE_WHERE
            for consumer in self.sources.consumers[at]:
                if consumer not in seen:
                    seen.add(consumer)
                    pending.append(consumer)
        return [], ""

    def _branch(self, at: int, behind: Set[int], operation: str) -> str:
        """The text of the argument of a ``where`` that a birth lies in: an entry behind it, or a part of that line."""
        entry = self.entries[at]
        expression = "" if entry.source is None else entry.source.expression
        tree = parsed(expression) if any(word in expression for word in MASKING) else None
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.Call) and operation_of(node) in MASKING:
                parts = self.sources.parts[at]
                for argument in node.args:
                    inside = {parts.get(ast.unparse(one)) for one in ast.walk(argument) if isinstance(one, ast.expr)}
                    does = {operation_of(one) for one in ast.walk(argument)} - {""}
                    if inside & (behind - {at}) or operation in does:
                        return ast.unparse(argument)
        return ""

    def _chain(self, birth: Birth) -> tuple[str, ...]:
        """From the line of the birth to the leaf that its gradient comes to, as far as names go."""
        path = [birth.owner]
        at = birth.towards
        while at is not None and at not in path:
            path.append(at)
            sources = [one for one in self.sources.direct[at] if self.states.grads[one].is_bad]
            at = sources[0] if sources else None
        return tuple(self.entries[one].name for one in path) if len(path) > 1 else ()

    def _came_in(self) -> Iterator[tuple[int, Finding]]:
        """Gradients that are not finite though no operation that is seen made them so."""
        made_for = {birth.towards for birth in self.made}  # None among them: for any
        for at, state in enumerate(self.states.grads):
            followers = self._followers(at)
            given = max((self.states.grads[one] for one in followers), default=State.FINITE)
            is_made = at in made_for or None in made_for
            is_forward = not self.forward.harmful.isdisjoint((at, *followers))  # a derivative of NaN is NaN
            if not state.is_bad or given.is_bad or is_made or is_forward or self._is_read_where_made(at):
                continue
            if at in self.states.record.outputs or self.states.sees_operations:
                yield at, self._appeared(at, WORDS[state], followers)

    def _appeared(self, at: int, word: str, followers: Sequence[int]) -> Finding:
        """A gradient that is not finite, and what may have made it so."""
        entry, kind = self.entries[at], "came_in_backward"
        facts = [self._gradient(at)]
        starts = [one for one in followers if one in self.states.record.outputs and self.entries[one].source is None]
        if at in self.states.record.outputs:
            headline = f"{word} comes in with the gradient that backward starts from, at {entry.name!r}"
        elif starts:  # the hooks of a block are there when backward comes to the first value that is recorded
            kind = "unknown"
            way = f"{entry.name!r} on the way from {self.entries[starts[0]].name!r}"
            headline = f"{word} comes to the gradient of {way}: by {BETWEEN}"
            facts += scaled(self.states.record.scales)
        else:
            headline = f"{word} comes in at the gradient of {entry.name!r}: a hook on it, or the sum of what arrives"
        remedy = SEE_BETWEEN if starts else ""
        return Finding(kind, entry.name, headline, entry.source, tuple(facts), (), remedy)

    def _is_read_where_made(self, at: int) -> bool:
        """Was a value written over, or mentioned, where NaN or Inf was made, though no edge leads there?

        So a write through a view reads the value that it replaces.
        """
        return not self._places.isdisjoint(self.sources.consumers[at])

    @cached_property
    def _places(self) -> Set[int]:
        """The entries where something is made, forward or backward."""
        return {birth.owner for birth in self.made} | set(self.forward.origins)


def _came(state: State) -> str:
    return f"{WORDS[state]}" if state.is_bad else "a finite gradient"
