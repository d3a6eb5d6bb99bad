"""Finds the values from which a statement computes its result: those that it mentions, and those that it gets
indirectly.

A tensor may be computed from a name that holds no tensor, such as a NumPy array, a filled list or a text. Then it has
no inputs of its own, but it depends on the values from which that name was computed. Only names inside a function and
its return value are followed.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Container, Sequence
from functools import lru_cache

from backprobe.cuts.cutting_operations import may_cut
from backprobe.record.names import partition
from backprobe.source.sites import Origin, Site
from backprobe.tracing.values import NO_SITE, RETURNED, Carried, ScopeId, ScopeNames, Slot, Value

FILLED = (list, dict, set, deque, defaultdict)
FILLING = ("append", "appendleft", "extend", "insert", "add", "update", "setdefault", "put", "push")
"""Methods that put something into an object. The object counts as a container even if its creation was not observed."""
MOST = 64  # the most values that one name passes on, because a long loop may fill a list with very many


class Parameters:
    """The captured parameters of a model, sorted by module."""

    def __init__(self) -> None:
        self.named: list[tuple[str, int]] = []
        self.slots: dict[str, Slot] = {}  # by path of the parameter
        self.placed = 0  # how many parameters are sorted by module so far; others are sorted on demand
        self.by_module: dict[str, list[int]] = {}

    def add(self, path: str, number: int, value: Value) -> None:
        self.named.append((path, number))
        self.slots[path] = (("", value),)

    def of(self, scope: ScopeId, name: str) -> Slot:
        """Return the parameter that a name such as ``self.weight`` means in the code of a module; empty if it means no
        parameter.
        """
        owner, _, attribute = name.partition(".")
        module = scope.stripped.partition("/")[0]
        return self.slots.get(f"{module}.{attribute}" if module else attribute, ()) if owner == "self" else ()

    def inside(self, module: str) -> Sequence[int]:
        for path, number in self.named[self.placed :]:
            segments = partition(path, ".")
            for length in range(len(segments)):  # the model itself has the path ""
                self.by_module.setdefault(".".join(segments[:length]), []).append(number)
        self.placed = len(self.named)
        return self.by_module.get(module, ())


# Functions that find the values that a statement mentions.


def mentions(parameters: Parameters, names: ScopeNames, site: Site) -> tuple[Sequence[int], bool]:
    """Return the captures that a statement mentions. The second result: does it mention a differentiated value that was
    not selected?

    The statement that computes a module's return value is unknown, so all parameters of the module count as mentioned.
    """
    scope = names.id
    if site is RETURNED or (site is NO_SITE and scope.path and scope.parent is None):
        return parameters.inside(scope.stripped), False
    held = [names.sees(name) or parameters.of(scope, name) for name in site.reads]
    reads = [value.number for slot in held for _, value in slot if value.number is not None]
    return reads, any(names.has_passed_over(name) for name in site.reads if names.sees(name) is None)


def seen(names: ScopeNames, reads: Sequence[str]) -> list[tuple[str, Slot]]:
    """Return the names that hold values, among those that an expression reads, each with its values."""
    return [(name, held) for name in reads if (held := names.sees(name)) is not None]


def _spelled(named: Sequence[tuple[str, Slot]]) -> list[tuple[str, Value]]:
    # Return the values under these names, each with its name and the path of its leaf.
    return [(name + leaf, value) for name, slot in named for leaf, value in slot]


def explain(value: Value, origin: Origin, names: ScopeNames, parameters: Parameters, renewed: Container[Value]) -> None:
    """Store the expression that computes a value, and the values that it mentions.

    If the value is in ``renewed``, the statement has written to it. The expression then mentions its version before the
    write.
    """
    value.expression = origin.expression
    if names.calls:
        value.calls = tuple(names.calls)
    if names.carried:
        value.passages = through(names, origin.reads)
    mentioned = seen(names, origin.reads) if origin.reads else []
    # If lists are concatenated, a new item is not computed from the other items of these lists.
    if origin.joined and not origin.expression:
        mentioned = [(name, held) for name, held in mentioned if name not in origin.joined or not _is_container(held)]
    if parameters.slots:
        known = {name for name, _ in mentioned}
        mentioned += [(name, parameters.of(value.scope, name)) for name in origin.reads if name not in known]
    if mentioned or names.returned:
        value.reads = [
            (spelled, before)
            for spelled, read in _spelled([*mentioned, *names.returned])
            if (before := read.previous if read in renewed else read) is not None and before is not value
        ]


def _is_container(held: Slot) -> bool:
    return not held or held[0][0] != ""


def explain_returned(value: Value, names: ScopeNames, site: Site) -> None:
    """Store the values that a statement mentions if it binds the result of a call, because the call may cut the graph.

    For a function this is rarely needed, because the lines of the function explain the result. In a module, the
    argument has another name, and the module's lines are not recorded.
    """
    is_modules = value.scope.parent is None
    if is_modules or may_cut(site.origin.expression) or not (value.reads or value.passages):
        named = _spelled([*seen(names, site.reads), *names.returned])
        given = [(spelled, Carried(spelled, one, names.id, site)) for spelled, one in named if one is not value]
        value.passages = [*value.passages, *given]


def explain_written(value: Value, names: ScopeNames, site: Site, local: str, before: Value) -> None:
    """Store the values that a statement mentions if it writes in place. The value before the write is also
    mentioned.
    """
    named = _spelled(seen(names, site.reads))
    held = [(local, Carried(spelled, one, names.id, site)) for spelled, one in named if one is not before]
    own = local if local in site.reads else next((spelled for spelled, one in named if one is before), local)
    value.passages = [(local, Carried(own, before, names.id, site)), *held, *through(names, site.reads)]


# Functions that follow values through names without tensors.


def carry(names: ScopeNames, local: str, is_container: bool, site: Site) -> None:
    """Record that a statement has bound a local to an object without tensors. The object may be a container that will
    be filled.
    """
    found = _mentioned(names, site)
    if found or is_container:
        names.carried[local] = found
    else:
        names.carried.pop(local, None)


def fill(names: ScopeNames, site: Site) -> list[str]:
    """Record a statement that binds nothing. It may have put a value that it mentions into a container that it
    mentions.

    Returns the names of containers that have become too large to be followed.
    """
    full = []
    filled = [*_filled(site.reads), *(name for name in site.reads if name in names.carried)]
    for name in dict.fromkeys(filled):
        if name not in names.slots and not names.passed_over.get(name):
            before = names.carried.get(name, ())
            if len(before) == MOST:
                full.append(name)
            else:
                names.carried[name] = _distinct([*before, *_mentioned(names, site, but=name)])
    return full


def put_in(names: ScopeNames, key: str, by: ScopeNames, site: Site, *, is_known: bool) -> None:
    """Record that a statement has changed the contents of a container of tensors. Some new contents may have no
    name.
    """
    if is_known:
        names.carried.pop(key, None)
        return
    before = names.carried.get(key, ()) if key in names.items else ()
    given = () if site is NO_SITE else _mentioned(by, site, but=key)
    names.carried[key] = _distinct([*before, *given])


@lru_cache(4096)
def _filled(reads: Sequence[str]) -> tuple[str, ...]:
    # Return the names of objects into which a statement puts something by a method such as ``append``.
    return tuple(name for name in reads if any(f"{name}.{method}" in reads for method in FILLING))


def hand_over(names: ScopeNames) -> None:
    """Record that a called function is over. The statement that called it now mentions the function's return value."""
    caller, called = names.parent, f"{names.id.path[1:]}()"
    if caller is not None and "return" in names.slots:
        caller.returned.append((called, names.slots["return"]))
    if names.carried:
        returned = names.carried.pop("return", ())
        if returned and caller is not None:
            caller.carried[called] = returned
        names.carried.clear()


def through(names: ScopeNames, reads: Sequence[str]) -> list[tuple[str, Carried]]:
    """Return the values that flow indirectly into an expression that mentions these names. They flow through names that
    hold no tensor, or whose contents have changed. What called functions have handed over is returned only once.
    """
    called = [name for name in names.carried if name.endswith("()")]
    mentioned = [name for name in reads if name in names.carried and (name not in names.slots or name in names.items)]
    found = [(name, one) for name in (*mentioned, *called) for one in names.carried[name]]
    for name in called:
        del names.carried[name]
    return found


def _mentioned(names: ScopeNames, site: Site, but: str = "") -> tuple[Carried, ...]:
    carried = [one for name, one in through(names, site.reads) if name != but]
    known = {id(one.value) for one in carried}  # a called function has already listed these values
    named = _spelled([(name, slot) for name, slot in seen(names, site.reads) if name != but])
    held = [Carried(spelled, value, names.id, site) for spelled, value in named if id(value) not in known]
    return _distinct([*carried, *held])


def _distinct(carried: Sequence[Carried]) -> tuple[Carried, ...]:
    found = {(id(one.value), id(one.site)): one for one in carried}
    return tuple(list(found.values())[:MOST])
