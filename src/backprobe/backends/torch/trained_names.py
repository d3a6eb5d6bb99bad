"""Names of parameters in the user's code: the variable that holds the model, and the path within the model."""

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
    """A tensor that a module used as its parameter when it ran: its own parameter, or one from a functional call.

    Inside a transform such as ``vmap`` the tensor is a part of another tensor, the ``whole``.
    """

    tensor: ref[Tensor]
    module: Module
    name: str
    whole: ref[Tensor]


class TrainedNames:
    """Finds names of parameters in the modules that ran, and in the variables of running frames.

    Frames are read only if a name is needed: before Python 3.13 the values read from a frame stay alive as long as the
    frame.
    """

    def __init__(
        self, ran: Iterable[Module], held: Mapping[int, HeldParameter], callers: Iterable[Module] = ()
    ) -> None:
        self.ran, self.held, self.callers = [*ran], held, [*callers]

    @cached_property
    def variables(self) -> list[tuple[str, Any]]:
        """The variables of the program's running functions and attributes of ``self``, the innermost function first."""
        return [*variables([*users_frames(sys._getframe(1))])]

    @cached_property
    def globals(self) -> list[tuple[str, Any]]:
        """The global variables of the program's running functions."""
        modules = {id(frame.f_globals): frame.f_globals for frame in users_frames(sys._getframe(1))}
        return [pair for each in modules.values() for pair in [*each.items()]]

    @cached_property
    def models(self) -> list[Module]:
        """The modules that ran and are not inside another module that ran."""
        inside = {id(part) for one in self.ran for part in one.modules() if part is not one}
        return [one for one in self.ran if id(one) not in inside]

    @cached_property
    def roots(self) -> list[tuple[str, Module]]:
        """The models in the program's variables, those that ran, and those whose methods called them, with their names:
        the variable that holds the model, or else its class. Modules inside other models come last.
        """
        named = [(name, held) for name, held in self.variables if isinstance(held, Module)]
        known = {id(held) for _, held in named}
        others = [(type(one).__name__, one) for one in (*self.models, *self.callers) if id(one) not in known]
        inside = {id(part) for _, one in (*named, *others) for part in one.modules() if part is not one}
        return sorted((*named, *others), key=lambda root: id(root[1]) in inside)

    @cached_property
    def modules(self) -> dict[int, tuple[str, Module, tuple[Module, ...]]]:
        """By the id of a module: its path, the module, and the modules that contain it, from inside to outside."""
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
        """By the id of a parameter: the parameter's name, and the module that holds it."""
        found: dict[int, tuple[str, Module]] = {}
        for path, module, _ in self.modules.values():
            for own, parameter in named(module.named_parameters, recurse=False):
                found.setdefault(id(parameter), (joined(path, own), module))
        return found

    def parameters(self) -> Iterator[Tensor]:
        """Return the parameters of the models that ran."""
        return (one for model in self.models for one in model.parameters())

    def only_passed(self, is_reached: Callable[[Iterable[Tensor]], bool]) -> set[int]:
        """Return the ids of the parameters of models that the optimizers in the program's variables do not train at
        all, if one of these optimizers owns a leaf which backward reached.

        This happens, for example, if candidates are optimized through a surrogate model.
        """
        held = [[*parameters(one)] for _, one in self.variables if isinstance(one, Optimizer)]
        given = {id(one) for own in held for one in own}
        if not any(map(is_reached, held)):
            return set()
        every = [{id(one) for one in model.parameters()} for model in self.models]
        return {one for own in every if given.isdisjoint(own) for one in own}

    def of(self, parameter: Tensor) -> str:
        """Return the name of a parameter.

        If no model holds the parameter, this is the name of a variable or of an item of a dict, its name in a
        functional call, or its place in its optimizer. If it has none of these, this is a text with its shape.
        """
        known = self.owners.get(id(parameter))
        if known is not None:
            return known[0]
        return next(self._other_names(parameter), f"a parameter of shape {tuple(parameter.shape)}")

    def _other_names(self, parameter: Tensor) -> Iterator[str]:
        # Yield the program's names for a parameter that no model holds, the simplest first.
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
        """Return the module that holds the parameter, or that ran with it instead of its own; None if there is none."""
        known, called = self.owners.get(id(parameter)), self._called_with(parameter)
        return known[1] if known is not None else called.module if called is not None else None

    def _called_with(self, parameter: Tensor) -> HeldParameter | None:
        # Return the functional call that used the parameter, if its module has a name.
        found = self.held.get(id(parameter))
        is_it = found is not None and found.tensor() is parameter and id(found.module) in self.modules
        return found if is_it else None

    def path(self, module: Module) -> str:
        return self.modules[id(module)][0]

    def around(self, module: Module) -> Sequence[Module]:
        return self.modules[id(module)][2]

    def held_by(self, parameter: Tensor, optimizers: Iterable[Optimizer]) -> str:
        """Return the first of these optimizers that owns a parameter: its class and, if known, the program's name for
        it. "" if none owns it.
        """
        for one in optimizers:
            if any(own is parameter for own in parameters(one)):
                names = [name for name, held in self.variables if held is one]
                return f"{names[0]} ({type(one).__name__})" if names else type(one).__name__
        return ""


def inside(name: str, value: Any, depth: int = 0) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors in a value, and the parameters of modules in it, with their names. Lists, tuples and dicts are
    opened three levels deep.
    """
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
