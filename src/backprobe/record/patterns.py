"""Patterns over names, which decide what a selection includes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, NoReturn, TypeVar

from backprobe.errors import BadName, NothingMatched
from backprobe.record.brief import cut, kind, written
from backprobe.record.names import (
    GRAPH_TENSOR,
    canonical,
    counted_local,
    nearest,
    outside,
    partition,
    split,
    strip,
    with_optional_counts,
)

T = TypeVar("T")
# runs of characters with quoted parts in between: matching a run is faster than matching a group for each character
WITHIN = r"[^./:#`(]*(?:`[^`]*`[^./:#`(]*)*"
ACROSS_MODULES = r"[^:/`]*(?:`[^`]*`[^:/`]*)*"  # a pattern reaches functions below a module only through "/" or ":"
ACROSS = r"[^:`]*(?:(?:`[^`]*`|\[[^\]]*\])[^:`]*)*"  # does not cross from a scope into its locals
MOST_DECISIONS = 65536
FEW = 12  # names that a message lists if none is similar enough to be proposed
HOLD_NOTHING = (str, bytes, type, FunctionType, MethodType, BuiltinFunctionType)
GLOB = re.compile(r"\*\*|\*")
RANGE = re.compile(r"(\d+)\.\.(\d+)")


def glob_of_modules(text: str) -> str:
    """The regular expression of a glob over module paths."""
    return _glob(text, ACROSS_MODULES)


def _glob(text: str, across: str = ACROSS) -> str:
    # The regular expression of a glob: ``*`` matches within a segment, ``**`` across segments; brackets are literal.
    read, pieces, at = outside(text), [], 0
    for star in GLOB.finditer(text):
        if read[star.start()]:
            pieces += [re.escape(text[at : star.start()]), across if star[0] == "**" else WITHIN]
            at = star.end()
    return "".join([*pieces, re.escape(text[at:])])


@dataclass(frozen=True)
class Pattern:
    """One pattern of a selection, compiled to match full names."""

    text: str
    excludes: bool
    expression: re.Pattern[str]
    scope: str | None  # the scope part; None for a regular expression
    local: str | None

    @cached_property
    def asks_operations(self) -> bool:
        """Does the pattern select unnamed operations, such as ``mul()``?"""
        return r"\(" in self.text if self.scope is None else bool(self.local and re.search(r"\(\)(#\d+)?$", self.local))

    def matches(self, full: str) -> bool:
        if self.scope is None and self.expression.fullmatch(strip(full)):
            return True
        return bool(self.expression.fullmatch(full))


def texts_of(patterns: str | Sequence[str]) -> list[str]:
    """One or several patterns as a list, with braces expanded. Raises BadName if one is not a string or cannot be
    expanded.
    """
    several = isinstance(patterns, Iterable) and not isinstance(patterns, str | bytes)
    texts = list(patterns) if several else [patterns]
    for text in texts:
        if not isinstance(text, str):
            raise BadName(f"a pattern is a string, not {kind(text)}", asked=written(text), next="'u'")
    return [one for text in texts for one in expanded(text)]  # type: ignore[arg-type]  # each is a str by now


def expanded(text: str) -> list[str]:
    """The patterns to which a pattern with braces expands. Raises BadName if a range is too long or a back-quote is
    open.

    >>> expanded("h.{0..2,5}.{q,k}")[:3], expanded("!{u,v}"), expanded("re:u{2}")
    (['h.0.q', 'h.0.k', 'h.1.q'], ['!u', '!v'], ['re:u{2}'])
    """
    if "{" not in text or text.removeprefix("!").startswith("re:"):
        return [text]
    read = outside(text)
    start = next((at for at, char in enumerate(text) if char == "{" and read[at]), len(text))
    end = next((at for at in range(start, len(text)) if text[at] == "}" and read[at]), None)
    if end is None:
        return [text]
    rest, inside = expanded(text[end + 1 :]), text[start + 1 : end]
    choices = [RANGE.fullmatch(part) or part for part in partition(inside, ",")]
    if choices == [inside] or any(isinstance(one, str) and len(partition(one, ".")) > 1 for one in choices):
        return [text[: end + 1] + behind for behind in rest]
    if any(isinstance(one, re.Match) and int(one[2]) - int(one[1]) >= MOST_DECISIONS for one in choices):
        raise BadName(f"the pattern {text!r} stands for too many", asked=repr(text), next="* instead of the range")
    written = [
        str(each)
        for one in choices
        for each in (range(int(one[1]), int(one[2]) + 1) if isinstance(one, re.Match) else [one])
    ]
    return [text[:start] + each + behind for each in written for behind in rest]


def root_spelled_out(text: str) -> str:
    """Convert a pattern for the names of a run into a pattern for the names of a recording.

    In a run, ``return`` is the return value of the whole model. In a recording, this value is ``:return``.
    """
    body = text.removeprefix("!")
    return text.replace("return", ":return", 1) if re.match(r"return(\.|$)", body) else text


def compile_pattern(text: str, *, in_function: bool) -> Pattern:
    """Read one pattern. In the function form a bare ``u`` also means the local ``:u`` of the function itself. Raises
    BadName if the pattern is empty or not valid, or asks for the last one with ``#-1``.
    """
    excludes, body = text.startswith("!"), text.removeprefix("!")
    if not body:
        raise BadName(f"the pattern {text!r} is empty", asked=repr(text), next="'**' for everything, or a name")
    body = body if body.startswith("re:") else canonical(body)
    if body.startswith("re:"):
        try:
            return Pattern(text, excludes, re.compile(body[3:]), None, None)
        except re.error as error:
            raise BadName(
                f"the pattern {text!r} is not a valid regular expression",
                asked=repr(text),
                found=str(error),
                next=r"re: with a valid expression, such as 're:h\.\d+:u'; or a pattern without re:, such as 'h.*:u'",
            ) from error
    if "#-1" in "".join(character for character, read in zip(body, outside(body), strict=True) if read):
        raise BadName(
            f"the pattern {text!r} asks for the last one",
            asked=repr(text),
            why="which one is last is known only after the program has run",
            next=f"the pattern {body.replace('#-1', '')!r}, and then rec[{body!r}]",
        )
    scope, local = split("**:**" if in_function and body == "**" else body)
    leaves = r"(?:\..*)?"
    if local is not None:
        expression = with_optional_counts(f"{scope}:{local}", _glob) + leaves
    else:
        scopes = with_optional_counts(body, _glob if "/" in body else glob_of_modules)
        # a scope alone means its return value; a model's parameter or buffer has a path and no local
        expression = rf"(?:{scopes}:return(?:#\d+)?{leaves}|{scopes})"
        if in_function and "/" not in body:
            expression = rf"(?:{expression}|:{counted_local(body, _glob)}{leaves})"
            scope, local = "", body
    if in_function:
        expression = rf"(?:{expression}{_of_graph(body)})"
    return Pattern(text, excludes, re.compile(expression), scope, local)


def matcher(patterns: str | Sequence[str], *, in_function: bool) -> Callable[[str], bool]:
    """A function that decides whether patterns select a full name. A pattern without ``!`` must match the name, if
    there are any, and none with ``!`` may.
    """
    compiled = [compile_pattern(text, in_function=in_function) for text in texts_of(patterns)]
    wanted, unwanted = ([one for one in compiled if one.excludes is excludes] for excludes in (False, True))

    def selects(full: str) -> bool:
        is_wanted = not wanted or any(one.matches(full) for one in wanted)
        return is_wanted and not any(one.matches(full) for one in unwanted)

    return selects


def _of_graph(pattern: str) -> str:
    # Return a regular expression for names of a graph's tensors, if the pattern is spelled as TensorFlow spells them:
    # ``dense/*`` matches the name `dense/MatMul`, which is printed in back-quotes, and ``u:0`` the first output of u.
    found = GRAPH_TENSOR.fullmatch(pattern)
    if found is None or "`" in pattern or ("/" not in pattern and found[2] is None) or ":" in found[1]:
        return ""
    pieces = {"**": r"[^`]*", "*": r"[^/`]*"}
    operation = "".join(pieces.get(part, re.escape(part)) for part in re.split(r"(\*\*|\*)", found[1]))
    leaf = {None: r"(?:\.\d+)?", "0": ""}.get(found[2], rf"\.{found[2]}")
    return rf"|:`?{operation}`?(?:#\d+)?{leaf}"


class Decisions(dict[str, T]):
    """A cache of decisions by name: programs have the same names in every step."""

    def __init__(self, decide: Callable[[str], T]) -> None:
        super().__init__()
        self.decide = decide
        self.of = self.__getitem__

    def __missing__(self, name: str) -> T:
        if len(self) > MOST_DECISIONS:  # names with new counts, as in a long loop, would fill the cache without limit
            self.clear()
        decided = self[name] = self.decide(name)
        return decided


@lru_cache(64)
def selection(
    patterns: str | tuple[str, ...] | None,
    in_function: bool,
    also: tuple[str, ...] = (),
    replaced: tuple[str, ...] = (),
) -> Selection:
    """The selection of these patterns, cached so that its decisions last from one recording to the next."""
    return Selection(patterns, in_function=in_function, also=also, replaced=replaced)


class Selection:
    """A list of patterns that select names; ``!`` excludes. None selects the default of the form.

    ``also`` are further names to capture, which are selected only if one of them turns out to be the output.
    ``replaced`` are patterns of replaced values, which are always selected.
    """

    wants: Callable[[str], bool]
    """Is this full name selected?"""
    might_want: Callable[[str], bool]
    """Is a name (without counts) selected under some count?"""
    wants_return: Callable[[str], bool]
    """Might the return value of this scope (without counts), or a leaf of the return value, be selected?"""
    wants_locals: Callable[[str], bool]
    """Might a local of this scope (without counts) be selected? Then its source must be rewritten."""
    wants_calls: Callable[[str], bool]
    """Might a function that this scope calls contain selected values? Then its calls are followed."""
    of_scope: Callable[[str], Decisions[bool]]
    """For a scope (without counts): decides which of its locals are selected under some count."""

    def __init__(
        self,
        patterns: str | Sequence[str] | None,
        *,
        in_function: bool,
        also: Sequence[str] = (),
        replaced: Sequence[str] = (),
    ) -> None:
        texts = [] if patterns is None else texts_of(patterns)
        self.in_function = in_function
        self.patterns = [compile_pattern(text, in_function=in_function) for text in texts]
        self.positive = [p for p in self.patterns if not p.excludes]
        self.negative = [p for p in self.patterns if p.excludes]
        self.everything = not self.positive
        loose = [compile_pattern(strip(text), in_function=in_function) for text in texts]
        self.loose_positive = [p for p in loose if not p.excludes]
        self.loose_negative = [p for p, text in zip(loose, texts, strict=True) if p.excludes and strip(text) == text]
        self.also = [compile_pattern(name, in_function=in_function) for name in also]
        self.replaced = [compile_pattern(text, in_function=in_function) for text in replaced]
        self.loose_replaced = [compile_pattern(strip(text), in_function=in_function) for text in replaced]
        self.captured = [*self.positive, *self.also, *self.replaced]
        self.asks_operations = any(p.asks_operations for p in self.captured)
        self.wants = Decisions(self._decide_entry).of
        self.might_want = Decisions(self._decide_capture).of
        self.wants_return = Decisions(self._decide_return).of
        self.wants_locals = Decisions(self._decide_locals).of
        self.wants_calls = Decisions(self._decide_calls).of
        self.of_scope = Decisions(self._locals_of).of
        self.plan: Any = None  # a cached plan, see ``backprobe.tracing.plan``

    def _decide(self, name: str, positive: list[Pattern], negative: list[Pattern]) -> bool:
        operation = is_operation(name)
        wanted = self.everything and not operation and (self.in_function or _by_default(name))
        wanted = wanted or _names(positive, name)
        return wanted and not any(p.matches(name) for p in negative)

    def _decide_entry(self, name: str) -> bool:
        return self._decide(name, self.positive, self.negative) or _names(self.replaced, name)

    def _decide_capture(self, name: str) -> bool:
        wanted = self._decide(name, self.loose_positive, self.loose_negative)
        return wanted or any(p.matches(name) for p in self.also) or _names(self.loose_replaced, name)

    def _decide_return(self, scope: str) -> bool:
        return self.might_want(f"{scope}:return") or any(
            p.scope is None
            or (p.local is not None and p.local.startswith("return") and re.fullmatch(_glob(strip(p.scope)), scope))
            for p in self.captured
        )

    def _decide_locals(self, scope: str) -> bool:
        return (self.everything and self.in_function) or any(
            p.scope is None or (p.local is not None and re.fullmatch(_glob(strip(p.scope)), scope) is not None)
            for p in self.captured
        )

    def _decide_calls(self, scope: str) -> bool:
        return (self.everything and self.in_function) or any(
            p.scope is None or ((p.local is not None or "/" in p.scope) and _reaches_below(p.scope, scope))
            for p in self.captured
        )

    def _locals_of(self, scope: str) -> Decisions[bool]:
        return Decisions(lambda local: self.might_want(f"{scope}:{strip(local)}"))

    def unmatched(self, names: Iterable[str]) -> list[Pattern]:
        """The positive patterns that match none of these full names."""
        names = list(names)
        return [p for p in self.positive if not any(p.matches(name) for name in names)]


def is_operation(name: str) -> bool:
    """Is this the name of an unnamed operation, such as ``mul()``?"""
    return "()" in name and re.search(r"\(\)(#\d+)?(\.|$)", name) is not None


def _names(patterns: Iterable[Pattern], name: str) -> bool:
    # Does one of these patterns match the name? Unnamed operations need a pattern that asks for them.
    operation = is_operation(name)
    return any(p.matches(name) and (p.asks_operations or not operation) for p in patterns)


def _by_default(full: str) -> bool:
    # The default selection for a model: return values of its modules, and its parameters.
    scope, local = split(full)
    return len(partition(scope, "/")) == 1 and (local is None or re.match(r"return(#\d+)?(\.|$)", local) is not None)


def _reaches_below(pattern_scope: str, scope: str) -> bool:
    # Can a pattern's scope name a function below ``scope``?
    if "**" in pattern_scope:
        return True
    asked, here = partition(strip(pattern_scope), "/"), partition(scope, "/")
    return len(asked) > len(here) and all(
        re.fullmatch(_glob(a), h) is not None for a, h in zip(asked, here, strict=False)
    )


def refuse_unmatched(
    pattern: str, known: Collection[str], subject: str, spelled: Callable[[str | None], str], why: str = ""
) -> NoReturn:
    """Raise NothingMatched with the nearest names. ``spelled`` gives the call as text, with or without a pattern."""
    close = nearest(pattern, known)
    few = sorted(known) if len(known) <= FEW else difflib.get_close_matches(pattern, known, n=FEW, cutoff=0.0)
    some = f": {', '.join(few)}" + f" and {len(known) - len(few)} more" * (len(known) > len(few)) if few else ""
    raise NothingMatched(
        f"the pattern {cut(pattern)!r} matches nothing in {subject}",
        asked=spelled(cut(pattern)),
        found=f"{len(known)} name{'s' * (len(known) != 1)}" + (f", the nearest: {', '.join(close)}" if close else some),
        why=why,
        next=spelled(close[0]) if close else f"{spelled(None)}, for every name",
    )
