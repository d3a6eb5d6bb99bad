"""The remedy for a branch that is not selected: a harmless operand in that branch, known as the double ``where``.

``torch.where(x > 0, torch.sqrt(x), 0.0)`` selects 0 where the derivative of the root is Inf, and the gradient there is
0 times Inf, which is NaN. With ``torch.sqrt(torch.where(x > 0, x, 1.0))`` no infinite derivative is computed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy

from backprobe.backends.dialects import dialect_of
from backprobe.backends.dialects.dialect import Dialect
from backprobe.cuts.parsed import parsed, parsed_expression, with_parts
from backprobe.explain.nonfinite.arithmetic import Shape, broadcast
from backprobe.explain.nonfinite.computation import Array, Computation
from backprobe.explain.nonfinite.evidence import Evidence
from backprobe.explain.nonfinite.mechanism import BESIDE, POLES
from backprobe.explain.nonfinite.selections import CASTS, SelectedBranch
from backprobe.explain.nonfinite.statements import local_names
from backprobe.explain.nonfinite.terms import DRAWING, Term
from backprobe.explain.nonfinite.text import WrittenInstead, say
from backprobe.findings.phrasing import shorten
from backprobe.record.source import expression_of
from backprobe.source.user_code import package

HARMLESS = (1.0, 0.5, 2.0)
"""Numbers to try, in this order. No single number fits all operations: the arccosine, for example, has a pole at 1."""

DEEP, LONGEST = 12, 160


def harmless_operand(
    known: Evidence, owner: int, part: Term | None, selections: Sequence[SelectedBranch]
) -> WrittenInstead:
    """The rewritten line of an entry whose bad part was not selected; empty if there is none."""
    at, term = _origin(known, owner, known.term(owner) if part is None else part)
    conditions = _conditions(known, selections, at)
    if not conditions or not term.text or known.is_node(at):
        return WrittenInstead()
    for nth in _likely(term):
        for condition in conditions:
            made = _with_harmless(known, at, term, nth, condition)
            if made:
                said = say("instead", instead=made, formula=shorten(term.text, LONGEST), because=say("left_out"))
                return WrittenInstead(said, term.text, made)
    return WrittenInstead()


def in_words(known: Evidence, owner: int, part: Term | None) -> WrittenInstead:
    """The remedy of a harmless operand in words, for a line or condition that cannot be written as code."""
    _, term = _origin(known, owner, known.term(owner) if part is None else part)
    operand = next((term.args[nth].text for nth in _likely(term)), "") or "x"
    where = f"{dialect_of(known.record.framework).prefix}where"
    return WrittenInstead(say("double_where", where=where, operand=shorten(operand, LONGEST)))


def _origin(known: Evidence, owner: int, term: Term) -> tuple[int, Term]:
    # The bad term in which NaN or Inf began, as far as bad operands lead back to it, and the entry whose line contains
    # it.
    for _ in range(DEEP):
        computed = known.example(owner)
        bad = next((one for one in term.args if computed.is_bad(one)), None)
        if bad is None:
            break
        if bad.op:
            term = bad
        elif bad.at is not None and known.term(bad.at).op:
            owner, term = bad.at, known.term(bad.at)
        else:
            break
    return owner, term


def _likely(term: Term) -> Iterator[int]:
    # Yield the positions of operands that may be replaced by a harmless number, the one at the operation's pole first.
    pole = POLES.get(term.op)
    first = pole.shown if pole is not None and 0 <= pole.shown < len(term.args) else 0
    order = [first, *(nth for nth in range(len(term.args)) if nth != first)] if term.args else []
    yield from (nth for nth in order if term.args[nth].text and not term.args[nth].is_constant)


def _with_harmless(known: Evidence, at: int, term: Term, nth: int, condition: _Condition) -> str:
    # Return the text of a term with the operand replaced; empty if no number is harmless, or no condition fits its
    # shape.
    computed, operand = known.example(at), term.args[nth]
    tree = ast.parse(term.text, mode="eval").body
    place, value = _operand(tree, term, nth), computed.value(operand)
    fitted = condition.fitted(computed, term, operand)
    if place is None or fitted is None:
        return ""
    text, leaves_out = fitted
    is_whole = value is not None and numpy.asarray(value).dtype.kind in "iu"
    for number in HARMLESS:
        if _is_harmless(computed, term, operand, leaves_out, number):
            spelled = repr(int(number) if is_whole and number.is_integer() else number)
            kept = (operand.text, spelled) if condition.taken_where else (spelled, operand.text)
            return with_parts(tree, {place: f"{condition.where}({text}, {', '.join(kept)})"})
    return ""


def _is_harmless(computed: Computation, term: Term, operand: Term, leaves_out: Array, number: float) -> bool:
    # Is the term finite with this number, and with numbers beside it, so that its derivative is finite too? Also True
    # if this cannot be computed.
    value = computed.value(operand)
    if value is None or leaves_out is None:
        return True
    for moved in (0.0, BESIDE, -BESIDE):
        with numpy.errstate(all="ignore"):
            given = numpy.where(leaves_out, number + moved, value).astype(numpy.result_type(value, numpy.float32))
        made = computed.with_value([operand], given).value(term)
        if made is not None and not _are_finite(made, leaves_out):
            return False
    return True


def _are_finite(made: Array, leaves_out: Array) -> bool:
    numbers = numpy.asarray(made)
    is_alike = broadcast(numbers.shape, leaves_out.shape) is not None and numbers.ndim >= leaves_out.ndim
    there = numbers[numpy.broadcast_to(leaves_out, numbers.shape)] if is_alike else numbers
    return bool(numpy.isfinite(there).all())


def _operand(tree: ast.expr, term: Term, nth: int) -> ast.expr | None:
    # The node of a term's text that spells the operand.
    match tree:
        case ast.BinOp(left=left, right=right) | ast.Compare(left=left, comparators=[right]):
            spelled = [left, right]
        case ast.UnaryOp(operand=inside):
            spelled = [inside]
        case ast.Call(func=ast.Attribute(value=owner), args=args) if len(term.args) == len(args) + 1:
            spelled = [owner, *args]
        case ast.Call(args=[], keywords=words):
            spelled = [one.value for one in words]
        case ast.Call(args=args):
            spelled = args
        case _:
            return None
    return next((one for one in spelled[nth : nth + 1] if ast.unparse(one) == term.args[nth].text), None)


@dataclass(frozen=True)
class _Condition:
    """A condition as a line can spell it, the elements that it excludes, and how ``where`` is spelled there."""

    text: str
    where: str
    taken_where: bool
    leaves_out: Array
    taken_from: Shape
    dialect: Dialect
    is_of_examples: bool = False
    is_all: bool = True

    def fitted(self, computed: Computation, term: Term, operand: Term) -> tuple[str, Array] | None:
        """The condition's text and the elements it excludes, in a shape that fits an operand; None if none fits.

        The elements are None if they are unknown.
        """
        if self.is_of_examples:
            return self.text, None  # inside a vmap, the line computes a single example
        made, value = (computed.result if term is computed.term else computed.value(term)), computed.value(operand)
        if self.leaves_out.ndim == 0 or made is None or value is None:
            return self.text, self.leaves_out if self.leaves_out.ndim == 0 else None
        given, taken = numpy.shape(value), self.taken_from
        if len(given) == len(taken) or (len(given) < len(taken) and numpy.shape(made) == taken):
            return (self.text, self.leaves_out) if broadcast(self.leaves_out.shape, given) is not None else None
        axis = _axis(computed, term, taken, given)
        if axis is None or self.leaves_out.shape != taken:
            return None
        text = self.dialect.spelled["unsqueeze"].format(self.text, axis - len(given))
        return text, numpy.expand_dims(self.leaves_out, axis)


def _conditions(known: Evidence, selections: Sequence[SelectedBranch], at: int) -> Sequence[_Condition]:
    # Return the conditions of these selections that exclude every bad element, as far as their text is valid in the
    # line of an entry. If there are none, return one condition that combines the others, or the others if they are
    # fewer than two or their shapes differ.
    found = [one for each in selections for one in _condition(known, each, at)]
    whole = [one for one in found if one.is_all]
    if whole or len(found) < 2 or len({one.leaves_out.shape for one in found}) > 1:
        return whole or found
    text = " & ".join(f"({one.text})" if one.taken_where else f"~({one.text})" for one in found)
    left_out = numpy.any([one.leaves_out for one in found], axis=0)
    return [replace(found[0], text=text, taken_where=True, leaves_out=left_out)]


def _condition(known: Evidence, one: SelectedBranch, at: int) -> Iterator[_Condition]:
    dialect, source = dialect_of(known.record.framework), known.entries[at].source
    is_near = source is not None and package(source.file) is None and known.home(at) == known.home(one.at)
    if is_near and (text := _spelled_before(known, _truth(known, one), one.at, at)):
        where = _own_where(one.term) or f"{dialect.prefix}where"
        are_many = bool(known.entries[one.at].axes)
        shape = numpy.shape(known.computation(one.at).value(one.branch))
        yield _Condition(text, where, one.taken_where, one.leaves_out, shape, dialect, are_many, one.is_all)


def _axis(computed: Computation, term: Term, shape: Shape, given: Shape) -> int | None:
    # The axis that must be removed from an operand's shape ``given`` to get ``shape``; None if it is ambiguous.
    said = None if "dim" not in term.keywords else computed.value(term.keywords["dim"])
    axes = [said % len(given)] if isinstance(said, int) and given else range(len(given))
    found = [axis for axis in axes if given[:axis] + given[axis + 1 :] == shape]
    return found[0] if len(found) == 1 else None


def _truth(known: Evidence, selection: SelectedBranch) -> str:
    # Return the condition as a boolean expression: ``x > 0`` for ``h * (x > 0).float()``, and ``keep != 0`` for ``h *
    # keep``.
    term, text = selection.condition, selection.condition.text
    if selection.term.op != "mul":
        return text
    at, inner = (selection.at, term) if term.op or term.at is None else (term.at, known.term(term.at))
    if inner.op in CASTS and inner.args and not text.isidentifier() and _is_truth(known, at, inner.args[0]):
        return inner.args[0].text
    return text if _is_truth(known, selection.at, term) else f"({text}) != 0"


def _is_truth(known: Evidence, at: int, term: Term) -> bool:
    # Does a part of an entry's expression have boolean values?
    value = known.computation(at).value(term)
    return value is not None and numpy.asarray(value).dtype.kind == "b"


def _own_where(term: Term) -> str:
    # Return the function ``where`` as the program spells it, such as ``np.where``. Return an empty text if the program
    # calls it as a method or not at all.
    match parsed_expression(term.text):
        case ast.Call(func=ast.Attribute(attr="where") as called, args=[_, _, _]):
            return ast.unparse(called)
    return ""


def _spelled_before(known: Evidence, text: str, since: int, at: int, deep: int = DEEP) -> str:
    # Rewrite a text from one entry's line for the line of an earlier entry, by replacing later names with their
    # expressions. Empty if a name is bound to several values, because the text means only one of them.
    tree, stands = parsed(text), dict[str, str]()
    if tree is None or not deep or DRAWING.search(text):
        return ""
    for name in {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}:
        bound = _bound(known, name, since)
        if bound and bound[-1] >= at:
            expression = expression_of(known.entries[bound[0]].source)
            stands[name] = _spelled_before(known, expression, bound[0], at, deep - 1) if len(bound) == 1 else ""
            if not stands[name]:
                return ""
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in stands)
    return with_parts(tree, {node: stands[node.id] for node in names})


def _bound(known: Evidence, name: str, before: int) -> list[int]:
    # The entries to which a name is bound before the line of another entry, in the same scope, in order.
    home = known.home(before)
    return [one for one in range(before) if name in local_names(known.entries[one]) and known.home(one) == home]
