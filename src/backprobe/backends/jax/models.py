"""Calls of models: the arrays that are differentiated, and how modules report their results."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MethodType
from typing import Any

import jax

from backprobe.backends.capabilities import ModelCall, Models, ModuleObserver
from backprobe.backends.jax.module_classes import give_path, heard_by, modules, run_reported
from backprobe.backends.jax.tensors import is_array
from backprobe.errors import BadOption

MODULES = {"flax.linen": "linen", "flax.nnx": "nnx", "equinox": "equinox"}
STATISTICS = "batch_stats"
"""The collection of Flax linen's variables that holds running statistics."""


def kind(value: Any) -> str | None:
    """Return the library to which a model belongs: linen, nnx or equinox; None for anything else.

    Equinox's wrappers of functions, such as ``filter_jit``'s, are also modules, but do not count as models.
    """
    for library, name in MODULES.items():
        loaded = sys.modules.get(library)
        if loaded is not None and isinstance(value, loaded.Module):
            return None if hasattr(value, "__wrapped__") else name
    return None


class JaxModels(Models):
    """Implements ``Models`` for Flax and Equinox."""

    replaces_parameters = True
    libraries = frozenset({"flax", "equinox", "jax"})

    def is_model(self, value: Any) -> bool:
        return kind(value) is not None

    def parameters(self, model: Any) -> Mapping[str, Any]:
        held = jax.tree_util.tree_flatten_with_path(taken_apart(model)[0] if kind(model) != "linen" else ())[0]
        return {dotted(path): leaf for path, leaf in held if is_array(leaf)}

    def call(self, model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ModelCall:
        return (LinenCall if kind(model) == "linen" else TreeCall)(model, args, kwargs)


def taken_apart(model: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return a model of Equinox or Flax NNX as a pytree, and a function that rebuilds a model from such a pytree."""
    if kind(model) != "nnx":
        return model, lambda held: held
    from flax import nnx

    graph, state = nnx.split(model)
    return state, partial(nnx.merge, graph)


def is_sparse(value: Any) -> bool:
    """Is the value a sparse array of ``jax.experimental.sparse``?"""
    sparse: Any = sys.modules.get("jax.experimental.sparse")
    return sparse is not None and isinstance(value, sparse.JAXSparse)


def opened(value: Any) -> Any:
    """Return a Flax NNX model or state, or a sparse array, as dictionaries of arrays; any other value is returned
    unchanged.
    """
    if is_sparse(value):
        return {name: held for name, held in vars(value).items() if is_array(held)}
    nnx = sys.modules.get("flax.nnx")
    if nnx is None or not isinstance(value, nnx.Module | nnx.State):
        return value
    found: dict[str, Any] = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(value)[0]:
        if is_array(leaf):
            *around, last = dotted(path).split(".")
            inside = found
            for step in around:
                inside = inside.setdefault(step, {})
            inside[last] = leaf
    return found


def variables(value: Any) -> Iterator[Any]:
    """Yield the Variables in a Flax NNX model or state that hold traced arrays."""
    nnx: Any = sys.modules.get("flax.nnx")
    if nnx is not None and isinstance(value, nnx.Module | nnx.State | nnx.Variable):
        for part in jax.tree.leaves(value, is_leaf=lambda part: isinstance(part, nnx.Variable)):
            if isinstance(part, nnx.Variable) and isinstance(part.get_raw_value(), jax.core.Tracer):
                yield part


def states(value: Any) -> Iterator[tuple[Any, str]]:
    """Yield the arrays that a Flax model holds besides its parameters, such as running statistics, each with Flax's
    name for its kind.
    """
    nnx: Any = sys.modules.get("flax.nnx")  # if flax.nnx is not loaded, nothing is a Variable

    def is_variable(part: Any) -> bool:
        return nnx is not None and isinstance(part, nnx.Variable)

    def is_state(part: Any) -> bool:
        return is_variable(part) or (isinstance(part, Mapping) and {"params", STATISTICS} <= part.keys())

    for part in jax.tree.leaves(value, is_leaf=is_state):
        if is_variable(part):
            kept = () if isinstance(part, nnx.Param) else jax.tree.leaves(part)
            yield from ((array, type(part).__name__) for array in kept)
        elif is_state(part):
            yield from ((array, STATISTICS) for array in jax.tree.leaves(part[STATISTICS]))


def changed(model: Any) -> Any:
    """Return, as a pytree, the state that a call of a model may have changed; None if a call of such a model changes
    nothing.
    """
    return taken_apart(model)[0] if kind(model) == "nnx" else None


def change(model: Any, held: Any) -> None:
    """Copy the changes that a call has made to the model's own variables."""
    if held is not None:
        sys.modules["flax.nnx"].update(model, held)


def dotted(path: Iterable[Any]) -> str:
    """Return a path through a pytree, written with dots. The attribute ``value`` of a boxed parameter is left out."""
    steps = [str(getattr(key, "name", getattr(key, "key", getattr(key, "idx", key)))) for key in path]
    return ".".join(steps[:-1] if steps and steps[-1] == "value" else steps)


def _reported(tree: Any, observer: ModuleObserver, path_of: Any = dotted) -> Any:
    # Return the tree of parameters, in which each is replaced by the observer's result for it.
    leaves, structure = jax.tree_util.tree_flatten_with_path(tree)
    return jax.tree.unflatten(
        structure,
        [observer.parameter(path_of(path), leaf) if is_array(leaf) else leaf for path, leaf in leaves],
    )


def _paths(tree: Any, path_of: Any = dotted) -> list[str]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [path_of(path) for path, leaf in leaves if is_array(leaf)]


@dataclass
class LibraryCall(ModelCall):
    """A call of a model of Flax or Equinox."""

    model: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    @property
    def inputs(self) -> Mapping[str, Any]:
        return {"args": self.args, "kwargs": dict(self.kwargs)}

    @property
    def forward(self) -> Any:
        return type(self.model).__call__

    def forwards(self) -> Mapping[str, Any]:
        return {"": MethodType(self.forward, self.model)}


@dataclass
class TreeCall(LibraryCall):
    """A call of a model that is a pytree, or that can be split into a pytree that the call may change."""

    def __post_init__(self) -> None:
        self.held, self.whole = taken_apart(self.model)
        self.after: dict[str, Any] = {}  # the state after the call; the tape replaces its tracers by arrays

    @property
    def inputs(self) -> Mapping[str, Any]:
        return {"held": self.held, **super().inputs, "after": self.after}

    def module_paths(self) -> Iterable[str]:
        return list(modules(self.model))

    def forwards(self) -> Mapping[str, Any]:
        return {path: MethodType(type(module).__call__, module) for path, module in modules(self.model).items()}

    def kinds(self) -> Mapping[str, str]:
        return {path: type(module).__name__ for path, module in modules(self.model).items()}

    def parameter_paths(self) -> Iterable[str]:
        return _paths(self.held)

    def run(self, inputs: Mapping[str, Any], observer: ModuleObserver) -> Any:
        model = self.whole(_reported(inputs["held"], observer))
        for path, module in modules(model).items():
            give_path(module, path)
        with heard_by(observer):
            result = model(*inputs["args"], **inputs["kwargs"])
        return result, changed(model)

    def finish(self, returned: Any, later: list[Callable[[], None]]) -> Any:
        result, self.after["held"] = returned
        later.append(lambda: change(self.model, self.after["held"]))
        return result


@dataclass
class LinenCall(LibraryCall):
    """A call of a linen model, which receives its parameters, as in ``probe(model)(variables, x)``, or is bound to
    them.
    """

    def __post_init__(self) -> None:
        if self.model.scope is not None:
            self.model, variables = self.model.unbind()
            self.args = (variables, *self.args)
        self.variables = self.args[0] if self.args else self.kwargs.get("variables", {})
        if (self.args or self.kwargs) and not isinstance(self.variables, Mapping):
            name = type(self.model).__name__
            raise BadOption(
                "a linen model is given its variables first, as model.apply is",
                asked=f"bp.probe({name})(...)",
                found=f"a first argument of type {type(self.variables).__name__}",
                next=f"bp.probe({name})(variables, x), or bp.probe(model.bind(variables))(x)",
            )

    def module_paths(self) -> Iterable[str]:
        paths = [""]
        leaves, _ = jax.tree_util.tree_flatten_with_path(self.variables)
        for path, _ in leaves:
            steps = dotted(path).split(".")[1:-1]  # the steps between the collection and the variable
            paths += [".".join(steps[: at + 1]) for at in range(len(steps))]
        return list(dict.fromkeys(paths))

    def parameter_paths(self) -> Iterable[str]:
        return _paths(self.variables, _without_params)

    @property
    def is_known(self) -> bool:
        return False  # modules without variables are created while the model runs

    def run(self, inputs: Mapping[str, Any], observer: ModuleObserver) -> Any:
        from flax import linen

        args, kwargs = inputs["args"], dict(inputs["kwargs"])
        if args:
            args = (_reported(args[0], observer, _without_params), *args[1:])
        elif "variables" in kwargs:
            kwargs["variables"] = _reported(kwargs["variables"], observer, _without_params)
        with linen.intercept_methods(partial(_intercepted, observer)):
            return self.model.apply(*args, **kwargs)


def _without_params(path: Iterable[Any]) -> str:
    # Return the name of a variable. Parameters are named by their module; other variables start with their collection's
    # name.
    return dotted(path).removeprefix("params.")


def _intercepted(observer: ModuleObserver, run: Any, args: Any, kwargs: Any, context: Any) -> Any:
    if context.method_name != "__call__":
        return run(*args, **kwargs)
    return run_reported(observer, ".".join(context.module.path), run, context.orig_method, args, kwargs)
