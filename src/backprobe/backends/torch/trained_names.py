"""Names of parameters in the user's code: the variable that holds the model, and the path in it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple
from weakref import ref

from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer

from backprobe.backends.torch.optimizer_steps import parameters
from backprobe.backends.torch.parameter_updates import variables
from backprobe.backends.torch.structure import named, parts
from backprobe.backends.user_lines import users_frames


class HeldParameter(NamedTuple):
    """A tensor that a module had as its parameter when it ran: its own, or that of a functional call.

    Within a transformation as ``vmap`` it is a part of another, the ``whole``.
    """

    tensor: ref[Tensor]
    module: Module
    name: str
    whole: ref[Tensor]


class TrainedNames:
    """The names of the parameters of the modules that ran, and of what the running frames hold.

    Frames are looked into only where a name is needed: before Python 3.13 what is read of one stays alive with it.
    """

    def __init__(self, ran: Iterable[Module], held: Mapping[int, HeldParameter]) -> None:
        self.ran, self.held = [*ran], held

    @cached_property
    def variables(self) -> list[tuple[str, Any]]:
        """The variables of the program's running functions, the innermost first."""
        return [*variables([*users_frames(sys._getframe(1))])]

    @cached_property
    def globals(self) -> list[tuple[str, Any]]:
        """The variables of the modules that these functions stand in."""
        modules = {id(frame.f_globals): frame.f_globals for frame in users_frames(sys._getframe(1))}
        return [pair for each in modules.values() for pair in [*each.items()]]

    @cached_property
    def models(self) -> list[Module]:
        """The modules that ran and are part of no other that did."""
        inside = {id(part) for one in self.ran for part in one.modules() if part is not one}
        return [one for one in self.ran if id(one) not in inside]

    @cached_property
    def roots(self) -> list[tuple[str, Module]]:
        """Models with what the program calls them: variables, or their class; a part of another comes after that."""
        named = [(name, held) for name, held in self.variables if isinstance(held, Module)]
        known = {id(held) for _, held in named}
        others = [(type(one).__name__, one) for one in self.models if id(one) not in known]
        inside = {id(part) for _, one in (*named, *others) for part in one.modules() if part is not one}
        return sorted((*named, *others), key=lambda root: id(root[1]) in inside)

    @cached_property
    def modules(self) -> dict[int, tuple[str, Module, tuple[Module, ...]]]:
        """By identity: the path of each module, the module, and those around it, from inside to outside."""
        found: dict[int, tuple[str, Module, tuple[Module, ...]]] = {}
        for name, root in self.roots:
            by_path = dict(parts(root))
            for path, module in by_path.items():
                steps = path.split(".") if path else []
                around = [by_path[".".join(steps[:length])] for length in range(len(steps))]
                found.setdefault(id(module), (joined(name, path), module, tuple(reversed(around))))
        return found

    @cached_property
    def owners(self) -> dict[int, tuple[str, Module]]:
        """By identity of a parameter: its name and the module that it lies in."""
        found: dict[int, tuple[str, Module]] = {}
        for path, module, _ in self.modules.values():
            for own, parameter in named(module.named_parameters, recurse=False):
                found.setdefault(id(parameter), (joined(path, own), module))
        return found

    def parameters(self) -> Iterator[Tensor]:
        """Those of the models that ran."""
        return (one for model in self.models for one in model.parameters())

    def only_passed(self, is_reached: Callable[[Iterable[Tensor]], bool]) -> set[int]:
        """By identity: the parameters of models that no optimizer has, where a variable holds one that has a leaf which
        backward came to, as the candidates that are moved on a surrogate model.
        """
        held = [[*parameters(one)] for _, one in self.variables if isinstance(one, Optimizer)]
        given = {id(one) for own in held for one in own}
        if not any(map(is_reached, held)):
            return set()
        every = [{id(one) for one in model.parameters()} for model in self.models]
        return {one for own in every if given.isdisjoint(own) for one in own}

    def of(self, parameter: Tensor) -> str:
        """The name of a parameter; of one that no model has, that of a variable or of an item of a dict, that which
        it had in a functional call, or its place in its optimizer.
        """
        known = self.owners.get(id(parameter))
        if known is not None:
            return known[0]
        return next(self._other_names(parameter), f"a parameter of shape {tuple(parameter.shape)}")

    def _other_names(self, parameter: Tensor) -> Iterator[str]:
        # What the program calls one that lies in no model, the plainest first.
        yield from (name for name, value in (*self.variables, *self.globals) if value is parameter)
        yield from (
            f"{name}[{key!r}]"
            for name, value in self.variables
            if type(value) is dict
            for key, item in value.items()
            if item is parameter and isinstance(key, str | int)
        )
        called = self._called_with(parameter)
        if called is not None:
            yield joined(self.path(called.module), called.name)
        yield from (
            f"{name}.param_groups[{group}]['params'][{at}]"
            for name, one in self.variables
            if isinstance(one, Optimizer)
            for group, each in enumerate(one.param_groups)
            for at, own in enumerate(each["params"])
            if own is parameter
        )

    def owner(self, parameter: Tensor) -> Module | None:
        """The module that it lies in, or that ran with it in the place of its own."""
        known, called = self.owners.get(id(parameter)), self._called_with(parameter)
        return known[1] if known is not None else called.module if called is not None else None

    def _called_with(self, parameter: Tensor) -> HeldParameter | None:
        # The functional call that had it, of a module that has a name.
        found = self.held.get(id(parameter))
        is_it = found is not None and found.tensor() is parameter and id(found.module) in self.modules
        return found if is_it else None

    def path(self, module: Module) -> str:
        return self.modules[id(module)][0]

    def around(self, module: Module) -> Sequence[Module]:
        return self.modules[id(module)][2]

    def held_by(self, parameter: Tensor, optimizers: Iterable[Optimizer]) -> str:
        """The optimizer that has a parameter, by its class and what the program calls it."""
        for one in optimizers:
            if any(own is parameter for own in parameters(one)):
                names = [name for name, held in self.variables if held is one]
                return f"{names[0]} ({type(one).__name__})" if names else type(one).__name__
        return ""


def inside(name: str, value: Any, depth: int = 0) -> Iterator[tuple[str, Tensor]]:
    """The parameters in a container, with their names."""
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, Module):
        yield from ((f"{name}.{path}", one) for path, one in value.named_parameters())
    elif isinstance(value, list | tuple | dict) and depth < 3:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from inside(f"{name}[{key!r}]", item, depth + 1)


def joined(*steps: str) -> str:
    return ".".join(step for step in steps if step)
