"""The modules and parameters of a model, found without building their paths again: each shape builds its paths once.

Every block walks its model a few times, because any module may have been replaced since the last walk. Models whose
modules and parameters have the same names share one ``Shape``, and so does one model at different times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter, call, is_, itemgetter, methodcaller
from typing import Any, TypeVar
from weakref import ReferenceType, ref

from torch.nn import Module, Parameter

from backprobe.record.names import private_segments

CHILDREN, PARAMETERS = attrgetter("_modules"), attrgetter("_parameters")
NAMES, VALUES = methodcaller("keys"), methodcaller("values")
MOST_SHAPES = 1024
NONE = type(None)
PATH = itemgetter(2)
T = TypeVar("T")

Names = tuple[tuple[str, ...], ...]
"""For each module, the names of its submodules, or the names of its parameters."""

Same = tuple[tuple[int, ...], ...]
"""For each module or parameter that occurs several times in a list, its positions there."""


@dataclass(frozen=True, eq=False)
class Shape:
    """Facts shared by all models whose modules and parameters have the same names. It holds no module."""

    paths: tuple[str, ...]
    """The path of each module, in the order of ``named_modules``. Of a module's paths the most public comes first."""

    order: tuple[int, ...]
    """For each module in the order of ``paths``, its position in a breadth-first walk."""

    parameters: tuple[tuple[int, str, str], ...]
    """For each parameter: the position of its module, its name in that module, and its path."""

    holders: tuple[int, ...]
    """The positions of the modules that have parameters."""


SHAPES: dict[tuple[Names, Names, Same], Shape] = {}


@dataclass(frozen=True, eq=False)
class Structure:
    """The current modules of a model, and its shape."""

    modules: Sequence[Module]
    """The modules in the order of ``named_modules(remove_duplicate=False)``."""

    shape: Shape

    @property
    def parts(self) -> list[tuple[str, Module]]:
        """The modules, each with its path."""
        return [*zip(self.shape.paths, self.modules, strict=True)]

    @property
    def parameters(self) -> list[tuple[str, Parameter]]:
        """The parameters, with the paths that ``named_parameters(remove_duplicate=False)`` gives them."""
        return [*zip(*self.held(self.shape.parameters), strict=True)]

    def held(self, wanted: Sequence[tuple[int, str, str]]) -> tuple[list[str], list[Parameter]]:
        """Return the paths of these parameters, and the parameters. A parameter is left out if its module now holds
        None instead.
        """
        modules = self.modules
        found: list[Any] = [modules[at]._parameters[name] for at, name, _ in wanted]
        paths = [*map(PATH, wanted)]
        if NONE in map(type, found):
            there = [at for at, parameter in enumerate(found) if parameter is not None]
            return [paths[at] for at in there], [found[at] for at in there]
        return paths, found


@dataclass(frozen=True, eq=False)
class _OwnStructure(Structure):
    # A structure for models whose class overrides ``named_modules`` or ``named_parameters``.
    given: Mapping[str, Parameter]

    def held(self, wanted: Sequence[tuple[int, str, str]]) -> tuple[list[str], list[Parameter]]:
        paths = [path for _, _, path in wanted]
        return paths, [self.given[path] for path in paths]


@dataclass(frozen=True, eq=False)
class _Walk:
    # The result of the last walk over a model: its modules in breadth-first order, and the names that they use.
    modules: Sequence[ReferenceType[Module]]
    names: Sequence[str]
    counts: Sequence[int]
    shape: Shape


WALKS: dict[int, _Walk] = {}
"""The last walk of each model, by the identity of the model."""


def structure(model: Module) -> Structure:
    """Walk a model. If nothing has changed since the last walk, this is found without running Python code for each
    module.
    """
    kind, walk = type(model), WALKS.get(id(model))
    if kind.named_modules is not Module.named_modules or kind.named_parameters is not Module.named_parameters:
        return _own_structure(model)
    if walk is None:
        return _walked(model)
    found: list[Any] = [*map(call, walk.modules)]
    if NONE in map(type, found):  # a module no longer exists
        return _walked(model)
    children = [*map(CHILDREN, found)]
    held = [*children, *map(PARAMETERS, found)]
    inside = [model, *chain.from_iterable(map(VALUES, children))]
    is_same = [*map(len, held)] == walk.counts and all(map(is_, inside, found)) and len(inside) == len(found)
    if not is_same or [*chain.from_iterable(map(NAMES, held))] != walk.names:
        return _walked(model)
    return Structure([*map(found.__getitem__, walk.shape.order)], walk.shape)


def _walked(model: Module) -> Structure:
    # Return the structure of a model that is new or has changed, by a breadth-first walk.
    found: list[Module] = []
    names: list[tuple[str, ...]] = []
    level: list[Any] = [model]
    while level:
        found += level
        children: Any = [*map(CHILDREN, level)]
        level = [*chain.from_iterable(map(VALUES, filter(None, children)))]
        if None in level:
            children = [{name: one for name, one in held.items() if one is not None} for held in children]
            level = [one for one in level if one is not None]
        names += map(tuple, map(NAMES, children))
    parameters = [*map(PARAMETERS, found)]
    key = tuple(names), tuple(map(tuple, map(NAMES, parameters))), _same(found)
    shape = SHAPES.get(key)
    if shape is None:
        if len(SHAPES) > MOST_SHAPES:
            SHAPES.clear()
        shape = SHAPES[key] = _shape(*key)
    if len(WALKS) > MOST_SHAPES:
        WALKS.clear()
    held = [*map(CHILDREN, found), *parameters]
    WALKS[id(model)] = _Walk([*map(ref, found)], [*chain.from_iterable(map(NAMES, held))], [*map(len, held)], shape)
    return Structure([*map(found.__getitem__, shape.order)], shape)


def _same(parts: Sequence[Module | Parameter]) -> Same:
    # The positions of each module, or parameter, that comes several times.
    if len({*parts}) == len(parts):
        return ()
    positions: dict[Module | Parameter, list[int]] = {}
    for at, part in enumerate(parts):
        positions.setdefault(part, []).append(at)
    return tuple(tuple(several) for several in positions.values() if len(several) > 1)


def _public_first(paths: list[str], same: Iterable[Sequence[int]]) -> None:
    # Sort the paths that belong to the same module, so that those with the fewest private segments come first.
    for positions in same:
        chosen = sorted([paths[at] for at in positions], key=private_segments)
        for at, path in zip(positions, chosen, strict=True):
            paths[at] = path


def _shape(children: Names, parameters: Names, same: Same) -> Shape:
    # Return the shape of a model, given the names of submodules and of parameters in breadth-first order.
    paths, below = [""], []
    for at, names in enumerate(children):
        below.append(range(len(paths), len(paths) + len(names)))
        paths += [_inside(paths[at], name) for name in names]
    order, pending = list[int](), [0]
    while pending:
        at = pending.pop()
        order.append(at)
        pending += reversed(below[at])
    places = {at: place for place, at in enumerate(order)}
    _public_first(paths, [sorted(positions, key=places.__getitem__) for positions in same])
    held = [(place, name, _inside(paths[at], name)) for place, at in enumerate(order) for name in parameters[at]]
    return _made([paths[at] for at in order], order, held)


def _made(paths: Sequence[str], order: Sequence[int], held: Sequence[tuple[int, str, str]]) -> Shape:
    return Shape(tuple(paths), tuple(order), tuple(held), tuple(dict.fromkeys([at for at, _, _ in held])))


def named(ask: Callable[..., Iterable[tuple[str, T]]], **options: Any) -> list[tuple[str, T]]:
    """Return the named modules or parameters of a model, with duplicates if the model's own method supports
    ``remove_duplicate``.
    """
    try:
        return [*ask(remove_duplicate=False, **options)]
    except TypeError:
        return [*ask(**options)]


def _own_structure(model: Module) -> Structure:
    modules = named(model.named_modules)
    given = dict(named(model.named_parameters))
    paths, parameters = [path for path, _ in modules], [*given]
    _public_first(paths, _same([part for _, part in modules]))
    _public_first(parameters, _same([*given.values()]))
    holders = {path: at for at, path in reversed([*enumerate(paths)])}
    held = [(holders.get(path.rpartition(".")[0], 0), path.rpartition(".")[2], path) for path in parameters]
    return _OwnStructure([part for _, part in modules], _made(paths, range(len(paths)), held), given)


def _inside(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def parts(model: Module) -> list[tuple[str, Module]]:
    """Return the modules of a model by path, as ``named_modules(remove_duplicate=False)`` does. That method is slower,
    because it nests a generator for each level.

    If a module has several paths, those with the fewest private segments come first.
    """
    return structure(model).parts
