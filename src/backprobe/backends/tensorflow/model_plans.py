"""Caches the structure of models, for as long as the structure does not change.

A plan holds paths, ids and weak references, so it keeps no part of a model alive. An id identifies an object only while
the object is alive, so a plan is discarded once any of its objects is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import finalize, ref

import keras

from backprobe.backends.tensorflow import model_paths

OWN_VARIABLES = "_trainable_variables", "_non_trainable_variables"


@dataclass(frozen=True)
class Structure:
    """The modules of a model and its Variables, each with its path. A module that is held twice occurs twice."""

    modules: Sequence[tuple[str, Any]]
    variables: Sequence[tuple[str, Any]]

    @cached_property
    def known(self) -> dict[int, tuple[Any, list[str]]]:
        """The modules by id, each with its paths."""
        found: dict[int, tuple[Any, list[str]]] = {}
        for path, module in self.modules:
            found.setdefault(id(module), (module, []))[1].append(path)
        return found


class HeldAttributes:
    """The contents of a layer: the names and types of its attributes, and the ids of its parts and Variables."""

    def __init__(self, layer: Any) -> None:
        self.layer = ref(layer)
        self.holders = model_paths.holders(vars(layer))
        self.is_model = isinstance(layer, keras.Model)
        self.held = self._held(layer)

    def is_same(self) -> bool:
        layer = self.layer()
        return layer is not None and self._held(layer) == self.held

    def _held(self, layer: Any) -> tuple[Any, ...]:
        # Return the contents as a tuple, because tuples are compared in C. Types are referred to weakly, because a
        # class may refer to a model.
        own = dict(vars(layer))  # a copy, because another thread may change the original
        own.pop("call", None)  # ``call`` is patched during a call
        return (
            getattr(layer, "name", None),
            list(own),
            list(map(ref, map(type, own.values()))),
            [
                (path, id(one))
                for name in self.holders
                if name in own
                for path, one in model_paths.held(name, own[name])
            ],
            [list(map(id, own.get(name, ()))) for name in OWN_VARIABLES],
            [(one.name, id(one)) for one in model_paths.named_in(layer)] if self.is_model else (),
        )


class ModelPlan:
    """The structure of a model at the time when it was searched, in weak references."""

    def __init__(self, structure: Structure) -> None:
        self.modules = [(path, ref(module)) for path, module in structure.modules]
        self.variables = [(path, ref(variable)) for path, variable in structure.variables]
        modules = [module for module, _ in structure.known.values()]
        self.held = [HeldAttributes(module) for module in modules if isinstance(module, keras.layers.Layer)]

    def structure(self) -> Structure | None:
        """Return the structure of the model; None if it may have changed."""
        modules = [(path, module()) for path, module in self.modules]
        variables = [(path, variable()) for path, variable in self.variables]
        is_gone = [one is None for _, one in (*modules, *variables)]
        return (
            None if any(is_gone) or not all(map(HeldAttributes.is_same, self.held)) else Structure(modules, variables)
        )


PLANS: dict[int, ModelPlan] = {}
"""The latest plan of each living model, by id, because a model may define its own comparison and hash."""


def structure_of(model: Any) -> Structure:
    """Return the modules and Variables of a model. The model is searched again only if it has changed."""
    plan = PLANS.get(id(model))
    structure = None if plan is None else plan.structure()
    if structure is None:
        whole = model_paths.dismantle(model)
        modules = [(path, part.module) for path, part in model_paths.modules(whole)]
        structure = Structure(modules, list(model_paths.parameters(whole)))
        if plan is None:
            finalize(model, PLANS.pop, id(model), None).atexit = False
        PLANS[id(model)] = ModelPlan(structure)
    return structure
