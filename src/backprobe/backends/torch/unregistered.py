"""Tensors that modules use in computations but that no optimizer owns, because they are not registered as parameters.

Modules hold them in plain lists and dicts, or as plain tensors and buffers that are used like parameters.
"""

from __future__ import annotations

import dis
import gc
import linecache
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

from torch import Tensor
from torch.fx import GraphModule
from torch.nn import Module, Parameter
from torch.optim import Optimizer

from backprobe.backends.torch import graph
from backprobe.backends.torch.forwards import forward_code, mentioned_by
from backprobe.backends.torch.optimizer_steps import parameters
from backprobe.backends.torch.trained_names import TrainedNames, inside, joined
from backprobe.record.training import Stray, Unregistered
from backprobe.source.user_code import innermost, package

OWN_USE = re.compile(r"(?:-=|sub_|add_|=.*-).*\.grad\b|\bgrad\(|\bjacobian\(|\bhessian\(")
"""Matches a handwritten step of gradient descent, or a derivative that the program computes itself. In such code,
tensors that require a gradient may not be meant for an optimizer.
"""


def unregistered(
    names: TrainedNames, leaves: Mapping[int, Tensor], stepped: Iterable[Optimizer]
) -> Iterator[Unregistered]:
    """Yield the tensors in attributes of modules that ran, if no optimizer owns them: leaves that got gradients, and
    constants.

    ``leaves`` are all leaves that got gradients, by id.
    """
    held = held_by(stepped)
    stray = {at: one for at, one in leaves.items() if at not in held}
    found = [*_in_containers(names.ran, stray), *_tensors(names.ran, stray, names.owners)] if stray else []
    if found:
        stray = {at: one for at, one in stray.items() if at not in held_by(all_optimizers())}
    for module, attribute, kind, tensors in found:
        place = joined(names.path(module), attribute)
        for name, tensor in tensors:
            if stray.pop(id(tensor), None) is not None:
                yield Unregistered(place + name, place, kind)
    for module in names.ran:
        for attribute, kind in _constants(module):
            place = joined(names.path(module), attribute)
            yield Unregistered(place, place, kind)


def not_held(names: TrainedNames, leaves: Mapping[int, Tensor]) -> Iterator[Unregistered]:
    """Yield the parameters of modules that are among these leaves and that no optimizer owns."""
    held = held_by(all_optimizers())
    for at, (name, owner) in names.owners.items():
        if at in leaves and at not in held:
            yield Unregistered(name, names.path(owner), Stray.PARAMETER)


def twins(
    names: TrainedNames, leaves: Mapping[int, Tensor], lacking: Sequence[Tensor]
) -> Sequence[tuple[Tensor, Tensor]]:
    """Return pairs of parameters: one that an optimizer owns, whose model did not run; and one of a model that ran,
    which no optimizer owns.

    Parameters are paired only if all have the same shapes and dtypes in the same order. They then probably belong to
    two modules that were created in the same way.
    """
    held = held_by(all_optimizers())
    ran = [one for one in names.parameters() if id(one) in leaves and id(one) not in held]
    is_alike = [(one.shape, one.dtype) for one in lacking] == [(one.shape, one.dtype) for one in ran]
    return [*zip(lacking, ran, strict=True)] if is_alike else []


def held_by(optimizers: Iterable[Optimizer]) -> set[int]:
    """Return the ids of tensors that optimizers own."""
    return {id(one) for optimizer in optimizers for one in parameters(optimizer)}


def all_optimizers() -> list[Optimizer]:
    """Return all optimizers that are alive, wherever the program keeps them."""
    return [one for one in gc.get_objects() if issubclass(type(one), Optimizer) and hasattr(one, "param_groups")]


Found = tuple[Module, str, str, list[tuple[str, Tensor]]]
"""A module, the name of one of its attributes, the attribute's kind, and the tensors in it. Each tensor is paired with
the rest of its name, which follows the attribute: ``[0]`` for ``layers[0]``.
"""


def _in_containers(ran: Iterable[Module], stray: Collection[int]) -> Iterator[Found]:
    for module in ran:
        for attribute, value in vars(module).items():
            if isinstance(value, list | tuple | dict) and not attribute.startswith("_"):
                tensors = [
                    (name, one)
                    for name, one in inside("", value)
                    if id(one) in stray and (isinstance(one, Parameter) or _is_kept(module, attribute))
                ]
                if tensors:
                    yield module, attribute, type(value).__name__, tensors


def _tensors(ran: Iterable[Module], stray: Collection[int], owners: Collection[int]) -> Iterator[Found]:
    # Yield the attributes that hold a plain leaf, or a tensor that was computed only once. In the second case, the
    # tensor to report is a leaf from which it was computed and that belongs to no model.
    for module in ran:
        for attribute, value in [*vars(module).items(), *module._buffers.items()]:
            if not isinstance(value, Tensor) or not value.requires_grad or not _is_kept(module, attribute):
                continue
            if value.is_leaf:
                yield module, attribute, Stray.TENSOR, [("", value)]
            else:
                leaves = [one for one in graph.leaves(graph.all_nodes(graph.roots([value]))) if id(one) in stray]
                own = [one for one in leaves if id(one) not in owners]
                yield module, attribute, Stray.COMPUTED, [("", one) for one in own[:1]]


def _constants(module: Module) -> Iterator[tuple[str, str]]:
    # Yield the attributes with floating-point tensors that a forward in the program's own code reads, and that are
    # neither trained nor written to. The forward of a GraphModule is generated, so it is not the program's own.
    if package(forward_code(module).co_filename) is not None or isinstance(module, GraphModule):
        return
    for kind, held in ((Stray.CONSTANT, vars(module)), (Stray.BUFFER, module._buffers)):
        for attribute, value in held.items():
            if not isinstance(value, Tensor) or not value.is_floating_point():
                continue
            is_as_made = not value.requires_grad and not value._version
            if is_as_made and _is_kept(module, attribute) and any(mentioned_by(module, attribute)):
                yield attribute, kind


def _is_kept(module: Module, attribute: str) -> bool:
    # Is the attribute set only by ``__init__``, or a buffer that no method sets, in a file that does not use gradients
    # itself?
    #
    # An attribute that other methods set may hold data, such as an input that requires a gradient.
    kind = type(module)
    codes = [code for base in kind.__mro__[: kind.__mro__.index(Module)] for code in _codes(base)]
    writers = {code.co_name for code in codes if attribute in _stored(code)}
    is_buffer = attribute in module._buffers
    if writers != {"__init__"} and not (is_buffer and not writers):
        return False
    text = "".join(linecache.getlines(forward_code(module).co_filename))
    return OWN_USE.search(text) is None


def _codes(kind: type[Any]) -> Iterator[CodeType]:
    for value in vars(kind).values():
        function = innermost(value)
        if function is not None:
            yield function.__code__


@lru_cache(1024)
def _stored(code: CodeType) -> frozenset[str]:
    # Return the attributes that a function sets.
    return frozenset(one.argval for one in dis.get_instructions(code) if one.opname == "STORE_ATTR")
