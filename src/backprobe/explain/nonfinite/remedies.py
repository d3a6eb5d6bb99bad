"""Finds tested remedies: for each mechanism of NaN or Inf, what to write instead in the framework's spelling.

Most remedies come from ``remedy_table.py``. A row of the table is proposed only if it gives finite results at the
recorded numbers, if these are known, and leaves finite results unchanged, unless the row allows other results.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy

from backprobe.backends.dialects import dialect_of
from backprobe.backends.dialects.dialect import Dialect
from backprobe.cuts.operation_names import MODULES
from backprobe.cuts.parsed import parsed
from backprobe.explain.nonfinite.arithmetic import FAILING
from backprobe.explain.nonfinite.computation import Computation
from backprobe.explain.nonfinite.evidence import Evidence
from backprobe.explain.nonfinite.formulas import FormulaMatch, formula, given_to, matches, written
from backprobe.explain.nonfinite.harmless_operands import harmless_operand, in_words
from backprobe.explain.nonfinite.remedy_table import CHAINS, NEGATIVE, NUMBERS, SINGLE, Remedy
from backprobe.explain.nonfinite.selections import SelectedBranch
from backprobe.explain.nonfinite.statements import local_names
from backprobe.explain.nonfinite.terms import DRAWING, Term, is_update, known_as
from backprobe.explain.nonfinite.text import Mechanism, WrittenInstead, say
from backprobe.findings.phrasing import shorten
from backprobe.record.entries import Entry
from backprobe.record.quoted_errors import first_line
from backprobe.source.sites import operation as operation_of
from backprobe.source.user_code import package

OWNER, WORD = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\."), re.compile(r"[A-Za-z_]\w*")
LONGEST = 80  # characters; a longer text is bound to a name first
NEAR = 4
"""A formula that contains the birth may end at most this many values after it."""


class Remedies:
    """Finds what to write instead of the lines of one record that made NaN or Inf."""

    def __init__(self, known: Evidence) -> None:
        self.known, self.dialect = known, dialect_of(known.record.framework)

    def remedy(
        self, at: int, part: Term | None, why: Mechanism | None, *, left_out: Sequence[SelectedBranch] = ()
    ) -> WrittenInstead:
        """Return a remedy for a birth in a part of an entry's expression; empty if none is known to help.

        ``left_out`` are the selections that do not take the bad part, such as the condition of a ``where``.
        """
        term = self.known.term(at) if part is None else part
        why, nothing = why if term.op else None, WrittenInstead()
        chain = nothing if why is None else next(self._chains(at, term, why), nothing)
        if chain:
            return chain
        harmless = harmless_operand(self.known, at, part, left_out) if left_out else nothing
        if harmless or any(one.term.op == "where" for one in left_out):
            return harmless or in_words(self.known, at, part)
        return nothing if why is None else next(self._singles(at, term, why), self._of_negative(at, term, why))

    def _of_negative(self, at: int, term: Term, why: Mechanism) -> WrittenInstead:
        # Return the remedy for a number that must not be negative and is more negative than rounding explains, because
        # no formula can correct it.
        operand = term.args[0] if term.args else None
        numbers = None if operand is None else self.known.computation(at).value(operand)
        is_below_zero = why.code in NEGATIVE and why.fields.get("limit", "") in ("", "0")
        if operand is None or numbers is None or not is_below_zero:
            return WrittenInstead()
        if not (numpy.asarray(numbers) < 0).any() or not numpy.isfinite(numbers).all():
            return WrittenInstead()
        softplus = self.dialect.spelled["softplus"].format("...")
        low = f"{numpy.min(numbers):.6g}"
        return WrittenInstead(say("see_negative", name=f"`{operand.text}`", low=low, softplus=softplus))

    def _chains(self, at: int, term: Term, why: Mechanism) -> Iterator[WrittenInstead]:
        roots = [(place, one) for place in self._near(at) for one in reversed([*self.known.term(place)])]
        for row in CHAINS:
            for place, root in roots if self._is_for(row, why) else ():
                for found in self._found(row, place, root):
                    if found.holds(term) or root is term:
                        yield self._said(row, place, found)

    def _singles(self, at: int, term: Term, why: Mechanism) -> Iterator[WrittenInstead]:
        for row in SINGLE:
            if self._is_for(row, why):
                for found in self._found(row, at, term):
                    yield self._said(row, at, found)

    def _is_for(self, row: Remedy, why: Mechanism) -> bool:
        return (not row.codes or why.code in row.codes) and self.dialect.has(row.instead)

    def _near(self, at: int) -> list[int]:
        # The entry and the entries computed from it, the nearest first.
        found = [at]
        for _ in range(NEAR):
            found += sorted({one for place in found for one in self.known.consumers[place]}.difference(found))
        return found

    def _found(self, row: Remedy, at: int, root: Term) -> Iterator[FormulaMatch]:
        # Yield what ``_cured`` yields. If an error ends the evaluation, a note says that the remedy was not judged.
        try:
            yield from self._cured(row, at, root)
        except FAILING as error:
            where = self.known.name(at) + self.known.at_line(at)
            self.known.unjudged[say("remedy_unjudged", at=where, error=shorten(first_line(error), LONGEST))] = None

    def _cured(self, row: Remedy, at: int, root: Term) -> Iterator[FormulaMatch]:
        # Yield the match of a formula with a term, if the remedy suits it and is finite at the numbers there, as far as
        # they are known.
        computed = self.known.example(at)
        is_other = root.op != known_as(operation_of(formula(row.formula))) or not root.text
        if is_other or _writes(root, is_nested=True) or is_update(_as_tree(root.text)):
            return
        for found in matches(row.formula, at, root, self.known.term, computed.value):
            made = computed.value(written(row.instead, found, self._numbers(at, found)))
            before = computed.result if root is computed.term else computed.value(root)
            is_cured = made is None or (numpy.isfinite(made).all() and _is_kept(row, before, made))
            is_cured = is_cured and not (made is not None and self._moves_on(at, root, made))
            dimension = self._dimension(row, found, computed)
            is_suited = self._is_for_divisor(row, found, computed) and _is_rounding(row, found, computed)
            if is_cured and dimension is not None and is_suited:
                found.words |= {"dim": Term(text=dimension)} if dimension else {}
                yield found

    def _moves_on(self, at: int, root: Term, made: Any) -> bool:
        # With this remedy, would NaN or Inf only begin later, in a value computed from this one? For example, a
        # quotient of 0 may be followed by a logarithm.
        changed = self.known.example(at).with_value([root], made)
        if changed.is_born_around([root]) or changed.result is None:
            return changed.result is not None
        for one in self.known.consumers[at]:
            if self.known.entries[one].axes != self.known.entries[at].axes:
                continue  # the entry holds all examples or steps together
            computed = self.known.example(one, at)
            parts = [part for part in computed.term if part.at == at]
            if parts and computed.with_value(parts, changed.result).is_born_around(parts):
                return True
        return False

    def _is_for_divisor(self, row: Remedy, found: FormulaMatch, computed: Computation) -> bool:
        # Does the remedy of a division suit its divisor? A constant stays as it is, and ``where`` accepts no plain
        # Python number. Only a count is clamped from below, because other divisors may be negative in another run.
        if row.because != "division_by_zero":
            return True
        divisor = [*found.letters.values()][-1]
        value = computed.value(divisor)
        is_count = value is not None and numpy.asarray(value).dtype.kind in "iub"
        is_clamped = "maximum" in row.instead
        return not divisor.is_constant and (is_count if is_clamped else not isinstance(value, int | float))

    def _dimension(self, row: Remedy, found: FormulaMatch, computed: Computation) -> str | None:
        # Return the dimension argument that the function in the remedy needs, if the program writes none. Return an
        # empty text if none is needed, and None if no function is equivalent.
        goes_over_one = any(f"{name}(" in row.instead for name in ("softmax", "logsumexp"))
        if "log_of_others(" in row.instead:
            return self._last_dimension(found, computed)
        if not goes_over_one or "dim" in found.words:
            return ""
        value = computed.value(found.letters["a"])
        if value is not None and numpy.ndim(value) == 1:
            return "0" if self.dialect.takes_one_dimension else ""
        if not self.dialect.takes_one_dimension and "logsumexp" in row.instead and "dim" not in found.words:
            return ""  # without the argument, both reduce over all dimensions
        is_softmax = "softmax" in row.formula  # a layer already received its dimension
        return None if not is_softmax else "dim" if self.dialect.takes_one_dimension else ""

    def _last_dimension(self, found: FormulaMatch, computed: Computation) -> str | None:
        # Return an empty text if the program reduces over the last dimension, else None.
        value, dim = computed.value(found.letters["a"]), found.words.get("dim")
        given = -1 if dim is None else computed.value(dim)
        last = None if value is None else numpy.ndim(value) - 1
        is_said = dim is not None or not self.dialect.takes_one_dimension
        return "" if given in (-1, last) and (is_said or last == 0) else None

    def _numbers(self, at: int, found: FormulaMatch) -> Mapping[str, float]:
        # The values of a formula's constants in the dtype of an entry. A divisor that is a count is at least 1.
        numbers = NUMBERS.get(self.known.entries[at].dtype or "", NUMBERS[""])
        divisor = self.known.example(at).value(found.letters["b"]) if "b" in found.letters else None
        is_count = found.root.op == "div" and divisor is not None and numpy.asarray(divisor).dtype.kind in "iub"
        return {**numbers, "tiny": 1} if is_count else numbers

    def _said(self, row: Remedy, at: int, found: FormulaMatch) -> WrittenInstead:
        named: list[str] = []
        is_repeated = "log_of_others(" in row.instead
        letters = {letter: self._spelled(letter, found, named, is_repeated) for letter in found.letters}
        is_node = self.known.is_node(at)
        trees = {letter: ast.Name(text) if is_node else _as_tree(text) for letter, text in letters.items()}
        value = self.known.example(at).value
        plain = {letter for letter, one in found.letters.items() if isinstance(value(one), int | float)}
        spelling = _Spelling(self.dialect, trees, found, self._numbers(at, found))
        tree: ast.expr = spelling.visit(_with_python(formula(row.instead), plain))
        for one in reversed(found.selections):
            tree = _selected(one, tree)
        if _writes(found.root):
            target = found.root.args[0].text
            tree = _as_tree(f"{target}.copy_({_with_copy(tree, target)})")
        instead, before = ast.unparse(tree), found.root.text
        augmented = _augmented(self.known.entries[at], before)
        if augmented is not None:
            target = ast.unparse(augmented.target)
            instead = instead if isinstance(augmented.target, ast.Name) else _with_copy(tree, target)
            instead, before = f"{target} = {instead}", ast.unparse(augmented)
        whole, before = before, shorten(before, 2 * LONGEST)
        said = say("instead", instead=instead, formula=before, because=say(row.because))
        also = getattr(self.dialect, row.also).format_map(letters) if row.also else ""
        said = say("or_else", said=said, also=also) if also else said
        made = "; ".join([said, *named])
        return WrittenInstead(made) if named else WrittenInstead(made, whole, instead)

    def _spelled(self, letter: str, found: FormulaMatch, named: list[str], is_repeated: bool) -> str:
        # Return how to write a value at the line of the formula. A value without a spelling there, or one that is
        # needed several times, gets a new name with an explanation.
        known, term, owner = self.known, found.letters[letter], found.owners[letter]
        if known.is_node(owner) and term.at is not None:
            # the name of a graph node is no expression, although "layer/add" looks like a division
            return known.node(term.at)
        name = "logits" if letter == "a" else f"x_{letter}"
        if term.before:
            named.append(say("stands_for_input", name=name, call=shorten(term.text, LONGEST), layer=term.before))
            return name
        is_elsewhere = self._is_elsewhere(owner, found.at) or not self._is_known_at(term, found)
        # evaluating the text again would draw other random numbers
        is_again = owner != found.at and DRAWING.search(term.text) is not None
        is_short = term.text.isidentifier() or (not (is_repeated or is_again) and len(term.text) <= LONGEST)
        if is_short and not is_elsewhere and not self._is_rebound(term, owner, found.at):
            return term.text
        text = known.computed_by(term)
        what = known.name(term.at) if not text and term.at is not None else f"`{text}`"
        named.append(say("stands_for", name=name, what=what + known.at_line(owner if term.at is None else term.at)))
        return name

    def _is_elsewhere(self, owner: int, at: int) -> bool:
        # Is an entry's line in another function than the formula's line, or in a library?
        source, home = self.known.entries[owner].source, self.known.home
        return owner != at and (home(owner) != home(at) or (source is not None and package(source.file) is not None))

    def _is_known_at(self, term: Term, found: FormulaMatch) -> bool:
        # Can the line of the formula use the objects whose attributes a term reads, such as ``self``?
        source, known = self.known.entries[found.at].source, self.known.names_by_home[self.known.home(found.at)]
        spelled = {*WORD.findall(found.root.text), *WORD.findall("" if source is None else source.statement)}
        return set(OWNER.findall(term.text)) <= {*spelled, *known, *MODULES}

    def _is_rebound(self, term: Term, owner: int, at: int) -> bool:
        # Has a name in the expression been rebound before the line of a later entry?
        names = {one.text for one in term if not (one.op or one.is_constant)}
        since = {name for one in range(owner, at) for name in local_names(self.known.entries[one])}
        return not names.isdisjoint(since)


class _Spelling(ast.NodeTransformer):
    # Replaces the letters of a formula by the program's expressions, and its functions by those of the framework.
    def __init__(
        self, dialect: Dialect, letters: Mapping[str, ast.expr], found: FormulaMatch, numbers: Mapping[str, float]
    ) -> None:
        self.dialect, self.letters, self.found, self.numbers = dialect, letters, found, numbers

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Name(f"{self.numbers[node.id]:g}") if node.id in self.numbers else self.letters[node.id]

    def visit_Call(self, node: ast.Call) -> ast.expr:
        op_name = operation_of(node)
        texts = [ast.unparse(self.visit(one)) for one in node.args]
        given = "".join(f", {word.arg}={ast.unparse(word.value)}" for word in node.keywords)
        # the dimension arguments with the framework's keywords
        names, terms = self.dialect.arguments, given_to(op_name, self.found)
        words = "".join(f", {names[word]}={term.text}" for word, term in terms.items() if word in names)
        template = self.dialect.spelled.get(op_name)
        standard = f"{self.dialect.prefix}{op_name}({', '.join(texts)}{words}{given})"
        return ast.Name(standard if template is None else template.format(*texts, words=words, given=given))


def _is_rounding(row: Remedy, found: FormulaMatch, computed: Computation) -> bool:
    # Of a row for negative numbers: are they as small as rounding errors of 0? Only then may a remedy clamp them away.
    # The answer is yes for all other rows.
    if row.codes is not NEGATIVE:
        return True
    value = computed.value(found.letters["a"])
    numbers = None if value is None else numpy.asarray(value)
    if numbers is None or numbers.dtype.kind != "f" or not numpy.isfinite(numbers).all():
        return False
    rounding = float(numpy.finfo(numbers.dtype).eps) ** 0.5
    return bool(-numbers.min() <= rounding * max(1.0, float(abs(numbers).max())))


def _is_kept(row: Remedy, before: Any, made: Any) -> bool:
    # Does the remedy leave the finite results unchanged, up to the small constants that it may add?
    if before is None or not row.keeps:
        return True
    if numpy.shape(before) != numpy.shape(made):
        return False
    finite = numpy.isfinite(before)
    return bool(numpy.allclose(numpy.asarray(before)[finite], numpy.asarray(made)[finite], 1e-3, 5e-3))


def _with_python(tree: ast.expr, plain: set[str]) -> ast.expr:
    # The formula with Python numbers compared by Python functions, because ``torch.clamp`` accepts only tensors.
    functions: dict[int, ast.Name] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="maximum" | "minimum" as name) as function, args=[ast.Name(id=one), *_]):
                functions |= {id(function): ast.Name(f"{name[:3]}_of_numbers")} if one in plain else {}
    return copy.deepcopy(tree, functions)


def _writes(term: Term, *, is_nested: bool = False) -> bool:
    # Is the operation in place? With ``is_nested``, does it also write into the result of another in-place operation?
    tree = _as_tree(term.text)
    if not isinstance(tree, ast.Call) or not operation_of(tree).endswith("_"):
        return False
    target = _as_tree(term.args[0].text)
    # (x * 2).div_(y) writes into a temporary result only, so it is the same as x * 2 / y
    is_into_nothing_else = isinstance(target, ast.BinOp | ast.UnaryOp | ast.Compare)
    return not is_into_nothing_else and (not is_nested or "(" in term.args[0].text)


def _augmented(entry: Entry, text: str) -> ast.AugAssign | None:
    # The statement ``h /= s`` of an entry, if it computes the formula's ``h / s`` in place.
    tree = None if entry.source is None else parsed(entry.source.statement.strip())
    match tree:
        case ast.Module(body=[ast.AugAssign(target=target, op=op, value=value) as statement]):
            computed = ast.BinOp(_as_tree(ast.unparse(target)), op, value)
            return statement if ast.unparse(computed) == text else None
    return None


def _with_copy(tree: ast.expr, target: str) -> str:
    # The formula with a copy of the variable that is overwritten, because the derivative needs the old value.
    return re.sub(rf"(?<![\w.]){re.escape(target)}(?![\w(])", f"{target}.clone()", ast.unparse(tree))


def _selected(selection: Term, tree: ast.expr) -> ast.expr:
    # Apply the program's selection to another value. If its text does not show what it selects from, the other value is
    # returned as it is.
    inner = selection.args[0].text

    class Selected(ast.NodeTransformer):
        found = False

        def generic_visit(self, node: ast.AST) -> ast.AST:
            if not self.found and isinstance(node, ast.expr) and ast.unparse(node) == inner:
                self.found = True
                return tree
            return super().generic_visit(node)

    whole = Selected()
    made = whole.visit(_as_tree(selection.text))
    return made if whole.found else tree


def _as_tree(text: str) -> ast.expr:
    # Parse a text as an expression, in parentheses if needed. Text that cannot be parsed is used unchanged.
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:
        return ast.Name(text)
