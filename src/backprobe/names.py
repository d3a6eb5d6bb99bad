"""Names of values: the grammar, patterns over names, and the nearest names to a misspelled one.

    NAME  := SCOPE | [SCOPE] ":" LOCAL ["#" K] {"." LEAF}
    SCOPE := MODULE ["#" K] {"/" FUNCTION ["#" K]}

Inside backprobe a name is always *full*: every scope and local carries its ``#K``. ``strip`` takes the counts away,
and a printed name has only those counts that tell several apart. Text between back-quotes or brackets is literal.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from backprobe.errors import BadName

SPECIAL = frozenset(":#/*![`.")
COUNT = re.compile(r"#(-?\d+)")
QUOTED = re.compile(r"`((?:[^`]|``)*)`")
LITERAL = frozenset("`[(")
OPENING, CLOSING = "[(", "])"


@lru_cache(65536)
def quote(segment: str) -> str:
    """Back-quote one segment of a path where it holds a character that the grammar uses.

    >>> quote("attn"), quote("a:b"), quote("tick`")
    ('attn', '`a:b`', '`tick```')
    """
    return "`" + segment.replace("`", "``") + "`" if SPECIAL & set(segment) or not segment else segment


def canonical(name: str) -> str:
    """The name with back-quotes only where they are needed.

    >>> canonical("`h`.0.`a:b`:u")
    'h.0.`a:b`:u'
    """
    outside(name)  # which refuses a quote that is not closed
    return QUOTED.sub(lambda found: quote(found[1].replace("``", "`")), name) if "`" in name else name


GRAPH_TENSOR = re.compile(r"(.+?)(?::(\d+))?")  # no local of a program is a bare number


def of_graph(tensor: str) -> str:
    """What a tensor is called that a graph names by an operation and the number of its output.

    >>> of_graph("dense/kernel:0"), of_graph("u"), of_graph("split:1")
    (':`dense/kernel`', ':u', ':split.1')
    """
    found = GRAPH_TENSOR.fullmatch(tensor)
    operation, output = (found[1], found[2]) if found is not None else (tensor, None)
    return f":{quote(operation)}" + (f".{int(output)}" if output is not None and int(output) else "")


def outside(text: str) -> list[bool]:
    """For each character: does the grammar read it (True), or is it literal, in back-quotes, brackets or a string?"""
    if not LITERAL & set(text):
        return [True] * len(text)
    flags, quoted, depth = [], "", 0
    for character in text:
        if quoted:
            flags.append(False)
            quoted = "" if character == quoted else quoted
        elif character == "`" or (depth and character in "'\""):
            flags.append(False)
            quoted = character
        elif character in OPENING:
            flags.append(False)
            depth += 1
        elif character in CLOSING and depth:
            flags.append(False)
            depth -= 1
        else:
            flags.append(not depth)
    if quoted == "`":
        raise BadName(
            f"the name {text!r} opens a back-quote and does not close it",
            asked=repr(text),
            why="a segment that holds one of : # / * ! . [ is written between back-quotes",
            next=repr(text + "`"),
        )
    return flags


@lru_cache(65536)
def split(name: str) -> tuple[str, str | None]:
    """Scope and local of a name; the local is None where the name is a scope alone.

    >>> split("h.0/rotate#2:q#1"), split("h.0.attn"), split(":d['a:b']")
    (('h.0/rotate#2', 'q#1'), ('h.0.attn', None), ('', "d['a:b']"))
    """
    for at, (character, read) in enumerate(zip(name, outside(name), strict=True)):
        if character == ":" and read:
            return name[:at], name[at + 1 :]
    return name, None


@lru_cache(65536)
def strip(name: str) -> str:
    """The name without its counts.

    >>> strip("h.0#1/rotate#0:q#3.0")
    'h.0/rotate:q.0'
    """
    if "`" not in name and "[" not in name:
        return COUNT.sub("", name)
    read = outside(name)
    return COUNT.sub(lambda count: "" if read[count.start()] else count[0], name)


def counts_agree(asked: str, full: str) -> bool:
    """Does a full name carry every count that was asked for? Both are equal once stripped.

    >>> counts_agree("f#1:u", "f#1:u#0"), counts_agree("f:u#1", "f#0:u#0")
    (True, False)
    """
    if "#" not in asked:
        return True
    return bool(re.fullmatch(_with_optional_counts(asked, re.escape), full))


def _with_optional_counts(text: str, translate: Callable[[str], str]) -> str:
    """A regular expression for full names: ``text`` translated, and a count allowed wherever one may stand."""
    scope, local = split(text)
    pieces = [_counted(part, translate) for part in partition(scope, "/")] if scope else []
    result = "/".join(pieces)
    return result if local is None else f"{result}:{_counted_local(local, translate)}"


@lru_cache(65536)
def partition(text: str, separator: str) -> tuple[str, ...]:
    """``text`` cut at each readable separator."""
    parts, start = [], 0
    for at, read in enumerate(outside(text)):
        if read and text[at] == separator:
            parts.append(text[start:at])
            start = at + 1
    return (*parts, text[start:])


def _counted(segment: str, translate: Callable[[str], str]) -> str:
    if not segment or any(read and segment[at] == "#" for at, read in enumerate(outside(segment))):
        return translate(segment)
    return translate(segment) + r"(?:#\d+)?"


def _counted_local(local: str, translate: Callable[[str], str]) -> str:
    if any(read and local[at] == "#" for at, read in enumerate(outside(local))):
        return translate(local)
    # where the local ends and its leaves begin, the text does not tell (self.cache): the count may follow any segment
    return r"(?:#\d+)?\.".join(translate(part) for part in partition(local, ".")) + r"(?:#\d+)?"


WITHIN = r"(?:`[^`]*`|[^./:#`(])*"
ACROSS_MODULES = r"(?:`[^`]*`|[^:/`])*"  # functions below a module are meant only where a pattern says "/" or ":"
ACROSS = r"(?:`[^`]*`|\[[^\]]*\]|[^:`])*"  # not from a scope into its locals
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

    @property
    def asks_operations(self) -> bool:
        """Does it ask for unnamed operations, such as ``mul()``?"""
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
                f"the pattern {text!r} is no regular expression", asked=repr(text), found=str(error)
            ) from error
    if "#-1" in "".join(character for character, read in zip(body, outside(body), strict=True) if read):
        raise BadName(
            f"the pattern {text!r} asks for the last one", asked=repr(text),
            why="which one is the last is known only when the program is over",
            next=f"the pattern {body.replace('#-1', '')!r}, and then rec[{body!r}]",
        )  # fmt: skip
    scope, local = split("**:**" if in_function and body == "**" else body)
    leaves = r"(?:\..*)?"
    if local is not None:
        expression = _with_optional_counts(f"{scope}:{local}", _glob) + leaves
    else:
        scopes = _with_optional_counts(body, _glob if "/" in body else _glob_of_modules)
        # a scope alone means what it returns; a parameter or buffer of a model has a path and no local
        expression = rf"(?:{scopes}:return(?:#\d+)?{leaves}|{scopes})"
        if in_function and "/" not in body:
            expression = rf"(?:{expression}|:{_counted_local(body, _glob)}{leaves})"
            scope, local = "", body
    if in_function:
        expression = rf"(?:{expression}{_of_graph(body)})"
    return Pattern(text, excludes, re.compile(expression), scope, local)


def _of_graph(pattern: str) -> str:
    """What else a pattern matches that is written as graphs write: ``dense/*`` for back-quoted names, ``u:0``."""
    found = GRAPH_TENSOR.fullmatch(pattern)
    if found is None or "`" in pattern or ("/" not in pattern and found[2] is None) or ":" in found[1]:
        return ""
    pieces = {"**": r"[^`]*", "*": r"[^/`]*"}
    operation = "".join(pieces.get(part, re.escape(part)) for part in re.split(r"(\*\*|\*)", found[1]))
    leaf = {None: r"(?:\.\d+)?", "0": ""}.get(found[2], rf"\.{found[2]}")
    return rf"|:`?{operation}`?(?:#\d+)?{leaf}"


@lru_cache(64)
def selection(patterns: str | tuple[str, ...] | None, in_function: bool) -> Selection:
    """The selection of these patterns; what it has decided is kept from one recording to the next."""
    return Selection(patterns, in_function=in_function)


class Selection:
    """Which names are wanted: a list of patterns, ``!`` ones taking away. None wants whatever is the form's default."""

    def __init__(self, patterns: str | Sequence[str] | None, *, in_function: bool) -> None:
        texts = [] if patterns is None else [patterns] if isinstance(patterns, str) else list(patterns)
        for text in texts:
            if not isinstance(text, str):
                raise BadName(f"a pattern is a text, not {type(text).__name__}", asked=repr(text), next="'u'")
        self.in_function = in_function
        self.patterns = [compile_pattern(text, in_function=in_function) for text in texts]
        self.positive = [p for p in self.patterns if not p.excludes]
        self.negative = [p for p in self.patterns if p.excludes]
        self.everything = not self.positive
        loose = [compile_pattern(strip(text), in_function=in_function) for text in texts]
        self.loose_positive = [p for p in loose if not p.excludes]
        self.loose_negative = [p for p, text in zip(loose, texts, strict=True) if p.excludes and strip(text) == text]
        self.asks_operations = any(p.asks_operations for p in self.positive)
        # what has been decided, by name: programs have the same names at each step
        self._wanted: dict[str, bool] = {}
        self._might: dict[str, bool] = {}
        self._returns: dict[str, bool] = {}
        self._locals: dict[str, bool] = {}
        self._calls: dict[str, bool] = {}
        self._scopes: dict[str, Wanted] = {}

    def wants(self, full: str) -> bool:
        """Is this full name selected?"""
        known = self._wanted.get(full)
        if known is None:
            if len(self._wanted) > MOST_DECISIONS:  # counts make ever new names
                self._wanted.clear()
            known = self._wanted[full] = self._decide(full, self.positive, self.negative)
        return known

    def might_want(self, stripped: str) -> bool:
        """Is a name selected under some count?"""
        known = self._might.get(stripped)
        if known is None:
            known = self._might[stripped] = self._decide(stripped, self.loose_positive, self.loose_negative)
        return known

    def of_scope(self, stripped: str) -> Wanted:
        """Which locals of a scope (without counts) are selected under some count."""
        known = self._scopes.get(stripped)
        if known is None:
            known = self._scopes[stripped] = Wanted(self, stripped)
        return known

    def _decide(self, name: str, positive: list[Pattern], negative: list[Pattern]) -> bool:
        operation = re.search(r"\(\)(#\d+)?(\.|$)", name) is not None
        wanted = self.everything and not operation and (self.in_function or _by_default(name))
        wanted = wanted or any(p.matches(name) and (p.asks_operations or not operation) for p in positive)
        return wanted and not any(p.matches(name) for p in negative)

    def wants_return(self, scope: str) -> bool:
        """Might what this scope (without counts) returns, or a leaf of that, be selected?"""
        known = self._returns.get(scope)
        if known is None:
            known = self._returns[scope] = self._decide_return(scope)
        return known

    def _decide_return(self, scope: str) -> bool:
        return self.might_want(f"{scope}:return") or any(
            p.scope is None
            or (p.local is not None and p.local.startswith("return") and re.fullmatch(_glob(strip(p.scope)), scope))
            for p in self.positive
        )

    def wants_locals(self, scope: str) -> bool:
        """Might a local of this scope (without counts) be selected? Then its source must be rewritten."""
        known = self._locals.get(scope)
        if known is None:
            known = self._locals[scope] = self._decide_locals(scope)
        return known

    def _decide_locals(self, scope: str) -> bool:
        if self.everything:
            return self.in_function
        return any(
            p.scope is None or (p.local is not None and re.fullmatch(_glob(strip(p.scope)), scope) is not None)
            for p in self.positive
        )

    def wants_calls(self, scope: str) -> bool:
        """Might a function called from this scope hold something selected? Then its calls are followed."""
        known = self._calls.get(scope)
        if known is None:
            known = self._calls[scope] = self._decide_calls(scope)
        return known

    def _decide_calls(self, scope: str) -> bool:
        if self.everything:
            return self.in_function
        return any(
            p.scope is None or ((p.local is not None or "/" in p.scope) and _reaches_below(p.scope, scope))
            for p in self.positive
        )

    def unmatched(self, names: Iterable[str]) -> list[Pattern]:
        """The positive patterns that none of these full names matches."""
        names = list(names)
        return [p for p in self.positive if not any(p.matches(name) for name in names)]


class Wanted(dict[str, bool]):
    """Which locals of one scope are selected under some count: each is decided once, and its whole name made then."""

    def __init__(self, selection: Selection, stripped: str) -> None:
        super().__init__()
        self.selection, self.prefix = selection, f"{stripped}:"

    def __missing__(self, local: str) -> bool:
        wanted = self[local] = self.selection.might_want(self.prefix + strip(local))
        return wanted


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


def nearest(name: str, names: Iterable[str], *, most: int = 5) -> list[str]:
    """The names most alike to a misspelled one, best first; likeness of the last segment counts too."""
    pool = sorted(set(names))
    last = re.split(r"[:/.]", name)[-1]
    by_last: dict[str, list[str]] = {}
    for candidate in pool:
        by_last.setdefault(re.split(r"[:/.]", strip(candidate))[-1], []).append(candidate)
    close = difflib.get_close_matches(name, pool, n=most, cutoff=0.6)
    for segment in difflib.get_close_matches(last, by_last, n=most, cutoff=0.6):
        ranked = difflib.get_close_matches(name, by_last[segment], n=most, cutoff=0.0)
        close += [candidate for candidate in ranked if candidate not in close]
    return close[:most]
