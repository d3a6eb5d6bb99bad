"""Patterns over names: which values a selection wants."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NoReturn, TypeVar

from backprobe.errors import BadName, NothingMatched
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
# runs of characters, with what is quoted between them: a run is matched faster than a group for each character
WITHIN = r"[^./:#`(]*(?:`[^`]*`[^./:#`(]*)*"
ACROSS_MODULES = r"[^:/`]*(?:`[^`]*`[^:/`]*)*"  # functions below a module only where a pattern says "/" or ":"
ACROSS = r"[^:`]*(?:(?:`[^`]*`|\[[^\]]*\])[^:`]*)*"  # not from a scope into its locals
MOST_DECISIONS = 65536
GLOB = re.compile(r"\*\*|\*")


def _glob_of_modules(text: str) -> str:
    return _glob(text, ACROSS_MODULES)


def _glob(text: str, across: str = ACROSS) -> str:
    """The regular expression of a glob: ``*`` stays within a segment, ``**`` goes across; brackets are literal."""
    read, pieces, at = outside(text), [], 0
    for star in GLOB.finditer(text):
        if read[star.start()]:
            pieces += [re.escape(text[at : star.start()]), across if star[0] == "**" else WITHIN]
            at = star.end()
    return "".join([*pieces, re.escape(text[at:])])


@dataclass(frozen=True)
class Pattern:
    """One pattern of a selection, ready to match full names."""

    text: str
    excludes: bool
    expression: re.Pattern[str]
    scope: str | None  # its scope part, None for a regular expression
    local: str | None

    @cached_property
    def asks_operations(self) -> bool:
        """Does it select unnamed operations, such as ``mul()``?"""
        return r"\(" in self.text if self.scope is None else bool(self.local and re.search(r"\(\)(#\d+)?$", self.local))

    def matches(self, full: str) -> bool:
        if self.scope is None and self.expression.fullmatch(strip(full)):
            return True
        return bool(self.expression.fullmatch(full))


def compile_pattern(text: str, *, in_function: bool) -> Pattern:
    """Read one pattern. In the function form a bare ``u`` means the local ``:u`` of the function itself."""
    excludes, body = text.startswith("!"), text.removeprefix("!")
    if not body:
        raise BadName(f"the pattern {text!r} is empty", asked=repr(text), next="'**' for everything, or a name")
    body = body if body.startswith("re:") else canonical(body)
    if body.startswith("re:"):
        try:
            return Pattern(text, excludes, re.compile(body[3:]), None, None)
        except re.error as error:
            raise BadName(
                f"the pattern {text!r} is not a valid regular expression", asked=repr(text), found=str(error)
            ) from error
    if "#-1" in "".join(character for character, read in zip(body, outside(body), strict=True) if read):
        raise BadName(
            f"the pattern {text!r} asks for the last one", asked=repr(text),
            why="which one is last is known only after the program has run",
            next=f"the pattern {body.replace('#-1', '')!r}, and then rec[{body!r}]",
        )  # fmt: skip
    scope, local = split("**:**" if in_function and body == "**" else body)
    leaves = r"(?:\..*)?"
    if local is not None:
        expression = with_optional_counts(f"{scope}:{local}", _glob) + leaves
    else:
        scopes = with_optional_counts(body, _glob if "/" in body else _glob_of_modules)
        # a scope alone means what it returns; a parameter or buffer of a model has a path and no local
        expression = rf"(?:{scopes}:return(?:#\d+)?{leaves}|{scopes})"
        if in_function and "/" not in body:
            expression = rf"(?:{expression}|:{counted_local(body, _glob)}{leaves})"
            scope, local = "", body
    if in_function:
        expression = rf"(?:{expression}{_of_graph(body)})"
    return Pattern(text, excludes, re.compile(expression), scope, local)


def _of_graph(pattern: str) -> str:
    """Further names that a pattern in a graph's own spelling matches: ``dense/*`` for back-quoted names, ``u:0``."""
    found = GRAPH_TENSOR.fullmatch(pattern)
    if found is None or "`" in pattern or ("/" not in pattern and found[2] is None) or ":" in found[1]:
        return ""
    pieces = {"**": r"[^`]*", "*": r"[^/`]*"}
    operation = "".join(pieces.get(part, re.escape(part)) for part in re.split(r"(\*\*|\*)", found[1]))
    leaf = {None: r"(?:\.\d+)?", "0": ""}.get(found[2], rf"\.{found[2]}")
    return rf"|:`?{operation}`?(?:#\d+)?{leaf}"


class Decisions(dict[str, T]):
    """Decisions by name, each made once: programs have the same names at every step."""

    def __init__(self, decide: Callable[[str], T]) -> None:
        super().__init__()
        self.decide = decide
        self.of = self.__getitem__

    def __missing__(self, name: str) -> T:
        if len(self) > MOST_DECISIONS:  # counts make ever new names
            self.clear()
        decided = self[name] = self.decide(name)
        return decided


@lru_cache(64)
def selection(patterns: str | tuple[str, ...] | None, in_function: bool) -> Selection:
    """The selection of these patterns, which remembers its decisions from one recording to the next."""
    return Selection(patterns, in_function=in_function)


class Selection:
    """A list of patterns that select names; ``!`` excludes. None selects the default of the form."""

    wants: Callable[[str], bool]
    """Is this full name selected?"""
    might_want: Callable[[str], bool]
    """Is a name (without counts) selected under some count?"""
    wants_return: Callable[[str], bool]
    """Might what this scope (without counts) returns, or a leaf of that, be selected?"""
    wants_locals: Callable[[str], bool]
    """Might a local of this scope (without counts) be selected? Then its source must be rewritten."""
    wants_calls: Callable[[str], bool]
    """Might a function called from this scope hold something selected? Then its calls are followed."""
    of_scope: Callable[[str], Decisions[bool]]
    """Which locals of a scope (without counts) are selected under some count."""

    def __init__(self, patterns: str | Sequence[str] | None, *, in_function: bool) -> None:
        texts = [] if patterns is None else [patterns] if isinstance(patterns, str) else list(patterns)
        for text in texts:
            if not isinstance(text, str):
                raise BadName(f"a pattern is a string, not {type(text).__name__}", asked=repr(text), next="'u'")
        self.in_function = in_function
        self.patterns = [compile_pattern(text, in_function=in_function) for text in texts]
        self.positive = [p for p in self.patterns if not p.excludes]
        self.negative = [p for p in self.patterns if p.excludes]
        self.everything = not self.positive
        loose = [compile_pattern(strip(text), in_function=in_function) for text in texts]
        self.loose_positive = [p for p in loose if not p.excludes]
        self.loose_negative = [p for p, text in zip(loose, texts, strict=True) if p.excludes and strip(text) == text]
        self.asks_operations = any(p.asks_operations for p in self.positive)
        self.wants = Decisions(lambda name: self._decide(name, self.positive, self.negative)).of
        self.might_want = Decisions(lambda name: self._decide(name, self.loose_positive, self.loose_negative)).of
        self.wants_return = Decisions(self._decide_return).of
        self.wants_locals = Decisions(self._decide_locals).of
        self.wants_calls = Decisions(self._decide_calls).of
        self.of_scope = Decisions(self._locals_of).of
        self.kinds: dict[Any, Any] = {}  # see ``backprobe.tracing.log.ScopeKind``
        self.followed: dict[Any, tuple[set[Any], set[Any]]] = {}  # see ``backprobe.tracing.followed_calls``
        self.bare: set[type] = set()  # types of values that are neither tensors nor containers, seen so far
        self.schemas: list[Any] = []  # see ``backprobe.tracing.schema``, the last used first

    def _decide(self, name: str, positive: list[Pattern], negative: list[Pattern]) -> bool:
        operation = "()" in name and re.search(r"\(\)(#\d+)?(\.|$)", name) is not None
        wanted = self.everything and not operation and (self.in_function or _by_default(name))
        wanted = wanted or any(p.matches(name) and (p.asks_operations or not operation) for p in positive)
        return wanted and not any(p.matches(name) for p in negative)

    def _decide_return(self, scope: str) -> bool:
        return self.might_want(f"{scope}:return") or any(
            p.scope is None
            or (p.local is not None and p.local.startswith("return") and re.fullmatch(_glob(strip(p.scope)), scope))
            for p in self.positive
        )

    def _decide_locals(self, scope: str) -> bool:
        if self.everything:
            return self.in_function
        return any(
            p.scope is None or (p.local is not None and re.fullmatch(_glob(strip(p.scope)), scope) is not None)
            for p in self.positive
        )

    def _decide_calls(self, scope: str) -> bool:
        if self.everything:
            return self.in_function
        return any(
            p.scope is None or ((p.local is not None or "/" in p.scope) and _reaches_below(p.scope, scope))
            for p in self.positive
        )

    def _locals_of(self, scope: str) -> Decisions[bool]:
        return Decisions(lambda local: self.might_want(f"{scope}:{strip(local)}"))

    def unmatched(self, names: Iterable[str]) -> list[Pattern]:
        """The positive patterns that none of these full names matches."""
        names = list(names)
        return [p for p in self.positive if not any(p.matches(name) for name in names)]


def _by_default(full: str) -> bool:
    """A model's default selection: what its modules return, and its parameters."""
    scope, local = split(full)
    return len(partition(scope, "/")) == 1 and (local is None or re.match(r"return(#\d+)?(\.|$)", local) is not None)


def _reaches_below(pattern_scope: str, scope: str) -> bool:
    """Can a pattern's scope name a function below ``scope``?"""
    if "**" in pattern_scope:
        return True
    asked, here = partition(strip(pattern_scope), "/"), partition(scope, "/")
    return len(asked) > len(here) and all(
        re.fullmatch(_glob(a), h) is not None for a, h in zip(asked, here, strict=False)
    )


def refuse_unmatched(
    pattern: str, known: Collection[str], subject: str, spelled: Callable[[str | None], str], why: str = ""
) -> NoReturn:
    """Raise NothingMatched with the nearest names. ``spelled`` says how the subject is asked for a pattern, or none."""
    close = nearest(pattern, known)
    raise NothingMatched(
        f"the pattern {pattern!r} matches nothing in {subject}",
        asked=spelled(pattern),
        found=f"{len(known)} names" + (f", the nearest: {', '.join(close)}" if close else ""),
        why=why,
        next=spelled(close[0]) if close else f"{spelled(None)}, for every name",
    )
