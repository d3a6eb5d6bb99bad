"""Calls of PyTorch heard and made again: on detached copies in double precision, with the same random numbers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import BuiltinFunctionType, MethodType, MethodWrapperType
from typing import Any

import numpy
import torch
import torch.nn.modules.module as module_file
from torch import Tensor
from torch.nn.utils.parametrize import is_parametrized

from backprobe.backends.pure_calls import closed_over, is_python_computing, why_not_given, why_not_python
from backprobe.backends.recheck import (
    CAPTURED,
    DERIVES,
    HELD,
    Input,
    Operation,
    Recheck,
    UncheckedCalls,
    first_line,
    repeatable,
)
from backprobe.backends.torch import effects, models
from backprobe.backends.torch.arguments import lift
from backprobe.backends.torch.coverage import Coverage, now
from backprobe.backends.torch.graph import has_custom
from backprobe.backends.torch.module_copies import BACKWARD_HOOKS, GLOBAL_HOOKS, HOOKS, Lent, ModuleCopy
from backprobe.backends.torch.precision import Coarsest
from backprobe.backends.torch.tape import is_wrapped
from backprobe.record.containers import leaves, refilled
from backprobe.record.reasons import Reason
from backprobe.source.user_code import innermost, package

BACKWARD = (torch.autograd.grad, torch.autograd.backward, Tensor.backward)
DIFFERENTIATES = Reason("computes_derivatives")
DOUBLE = {torch.complex32: torch.complex128, torch.complex64: torch.complex128}
TRANSFORMS = torch.func.__file__.replace("func/__init__.py", "_functorch/")
"""The folder of the wrappers that ``torch.func`` makes around functions."""
MAPPING = ("vmap", "chunk_vmap", "functionalize", "functional_call", "stack_module_state")
"""Those of them that do not differentiate."""
REQUIRES = "inputs of a model are differentiated only if they require a gradient: x.requires_grad_()"


class TorchRecheck(Recheck):
    """PyTorch's ``Recheck``."""

    def __init__(self) -> None:
        self.inside: dict[torch.nn.Module, bool] = {}  # does it contain the user's own modules?
        self.coverage = Coverage()
        self.hooked: dict[str, None] = {}  # what has hooks that are not called again
        self.remedy = ""

    def run(self, program: Callable[[Any, Mapping[str, Any]], Any], target: Any, inputs: Mapping[str, Any]) -> None:
        undo: list[Callable[[], None]] = []
        try:
            with torch.enable_grad():
                # of a model, the flags of parameters and inputs stand
                is_model = isinstance(target, torch.nn.Module)
                given = inputs if is_model else lift(inputs, None, undo)
                self.remedy = REQUIRES if is_model else ""
                self.coverage = Coverage()  # lifting is not part of the program
                self.coverage.look(_tensors(program(target, given)))
        finally:
            for put_back in reversed(undo):
                put_back()

    def paths(self, model: Any) -> Mapping[int, str]:
        if not isinstance(model, torch.nn.Module):
            return {}
        return {id(module): path for path, module in reversed(models.parts(model))}

    def opens(self, function: Any) -> bool:
        if not isinstance(function, torch.nn.Module):
            return False
        if function not in self.inside:
            self.inside[function] = any(map(_is_users, _computing(function)))
        return self.inside[function]

    def is_whole(self, function: Any) -> bool:
        """What ``torch.func`` has made around a function: inside, values have no numbers of their own."""
        code = getattr(function, "__code__", None)
        return code is not None and code.co_filename.startswith(TRANSFORMS)

    def is_compiled(self, function: Any) -> bool:
        return models.is_compiled(function)

    def called(self, function: Any, modules_too: bool) -> tuple[Any, Callable[..., Any]] | None:
        if not isinstance(function, torch.nn.Module):
            return None
        if any(vars(function).get(name) for name in BACKWARD_HOOKS):
            self.hooked[type(function).__name__] = None
        return models.original_forward(function), partial(models.call_with, function)

    def hear(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> HeardCall | Reason | None:
        if isinstance(function, partial):
            return self.hear(function.func, (*function.args, *args), {**function.keywords, **kwargs})
        if isinstance(function, type) or not torch.is_grad_enabled():
            return None
        owner = _owner(function)
        held = [tensor for value in (owner, *args, *kwargs.values()) for tensor in _tensors(value)]
        if any(map(is_wrapped, held)):
            return Reason("inside_transform")
        self.coverage.look(held)
        self.hooked |= dict.fromkeys(_hooked(function, held))
        reason = _why_not_again(function) or why_not_given(args, kwargs, _is_copied)
        if reason is not None:
            return reason
        is_given = isinstance(function, torch.nn.Module) or any(map(_is_differentiated, held))
        if not is_given:  # a custom function differentiates nothing else
            return None if _is_custom(function) else HELD
        return HeardCall(function, owner, args, kwargs)

    def now(self) -> int:
        return now()

    def account_for(self, since: int) -> None:
        self.coverage.account_for(since)

    def unaccounted(self) -> UncheckedCalls:
        return replace(self.coverage.unaccounted(), hooked=tuple(self.hooked), remedy=self.remedy)

    def release(self) -> None:
        self.inside.clear()


class HeardCall:
    """A call that is about to be made."""

    def __init__(self, function: Any, owner: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.function, self.owner = function, owner
        self.given = (args, dict(kwargs))
        self.tensors: dict[int, Tensor] = {}  # copies, by identity of what they are copies of
        for value in (owner, *args, *kwargs.values()):
            for _, leaf in leaves(value):
                if isinstance(leaf, Tensor) and id(leaf) not in self.tensors:
                    self.tensors[id(leaf)] = _kept(leaf)
        copy = ModuleCopy.of(function) if isinstance(function, torch.nn.Module) else None
        self.uncopied = copy if isinstance(copy, Reason) else None
        self.module = copy if isinstance(copy, ModuleCopy) else None
        self.states = random_states(self.given)

    def returned(self, result: Any) -> Operation | Reason | None:
        outputs = [place for place, leaf in leaves(result) if _is_differentiated(leaf)]
        if not outputs:
            return None
        if self.uncopied is not None:
            return self.uncopied
        if any(tensor.is_meta for tensor in self.tensors.values()):
            return Reason("meta_device")
        odd = next((t for t in self.tensors.values() if t.layout is not torch.strided or t.is_nested), None)
        if odd is not None:
            return Reason("layout", {"layout": str(odd.layout)})
        notes = []
        if not same_states(self.states, random_states(self.given)):
            notes.append(Reason("random_restored"))
        called = None if self.owner is not None else self.function  # the tensor of a method is an input
        if any(map(_is_trained, closed_over((called, *self.given)))):
            notes.append(CAPTURED)
        if _derives((self.function, *self.given)):
            notes.append(DERIVES)
        found = repeatable(partial(TorchOperation, self, outputs), notes)
        return found if isinstance(found, Reason) or found.inputs else None


class TorchOperation:
    """PyTorch's ``Operation``."""

    def __init__(self, heard: HeardCall, outputs: Sequence[str], double: bool, notes: Sequence[Reason]) -> None:
        self.heard, self.outputs, self.double, self.notes = heard, frozenset(outputs), double, notes
        self.is_custom = _is_custom(heard.function)
        if heard.module is not None:
            heard.module.become(double)
        self.constants = {key: self._cast(tensor) for key, tensor in heard.tensors.items()}
        self.places: list[tuple[int | str, torch.dtype]] = []  # of the inputs: a tensor, or a parameter of the module
        self.inputs: list[Input] = []
        args, kwargs = heard.given
        positional = {str(at): value for at, value in enumerate(args)}
        for place, value in {"": heard.owner, **positional, **kwargs}.items():
            for path, leaf in leaves(value):
                if _is_differentiated(leaf) and id(leaf) not in [key for key, _ in self.places]:
                    self._add(place, path, id(leaf), self.constants[id(leaf)])
        for path, parameter in heard.module.parameters() if heard.module is not None else ():
            self._add("", f".{path}", path, parameter)
        self.epsilon = max((torch.finfo(dtype).eps for _, dtype in self.places), default=0.0)

    def _add(self, place: str, path: str, key: int | str, tensor: Tensor) -> None:
        self.places.append((key, tensor.dtype))
        self.inputs.append(Input(place, path, to_numpy(tensor).copy()))

    def _cast(self, tensor: Tensor) -> Tensor:
        if not self.double or not (tensor.is_floating_point() or tensor.is_complex()):
            return tensor
        return tensor.to(DOUBLE.get(tensor.dtype, tensor.dtype if tensor.is_complex() else torch.float64))

    def why_it_fails(self) -> Reason | None:
        """Make the call once. What fails, or None; the precision of its outputs is known then."""
        try:
            with Coarsest() as within, self._call([held.value for held in self.inputs]) as (outputs, _):
                self.is_custom = self.is_custom or has_custom(outputs)
        except Exception as error:  # noqa: BLE001  # whatever it is: it is the program's, and reported
            return Reason("raises", {"error": first_line(error)})
        if len(outputs) != len(self.outputs) or not all(output.requires_grad for output in outputs):
            return Reason("other_outputs")
        self.epsilon = max([self.epsilon, within.epsilon, *(torch.finfo(output.dtype).eps for output in outputs)])
        return None

    def run(self, values: Sequence[Any]) -> list[Any]:
        with self._call(values) as (outputs, _):
            return [to_numpy(output.detach()) for output in outputs]

    def pull(self, values: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        with self._call(values) as (outputs, inputs):
            given = [
                torch.as_tensor(cotangent).to(dtype=output.dtype, device=output.device)
                for cotangent, output in zip(cotangents, outputs, strict=True)
            ]
            pulled = torch.autograd.grad(outputs, inputs, given, allow_unused=True)
        return [None if gradient is None else to_numpy(gradient.detach()) for gradient in pulled]

    @contextmanager
    def _call(self, values: Sequence[Any]) -> Iterator[tuple[list[Tensor], list[Tensor]]]:
        """Make the call at these values: its outputs, and the leaves with respect to which they are differentiated.

        Within this context they may be differentiated, which may call functions once more.
        """
        heard, made, inputs = self.heard, dict(self.constants), []
        parameters: dict[str, Tensor] = {}
        for (key, dtype), value in zip(self.places, values, strict=True):
            leaf = torch.tensor(value, dtype=dtype)
            if isinstance(key, str):
                parameters[key] = leaf
            else:
                leaf = leaf.to(made[key].device)
                made[key] = leaf.requires_grad_()
                inputs.append(leaf)
        lent = Lent(heard.given, self.double)
        with torch.enable_grad(), random_states_kept(heard.given, heard.states), lent.while_called():
            # a copy of each, which is not a leaf: a call may write to what it is given
            own = {key: tensor.clone() for key, tensor in made.items()}
            args, kwargs = refilled(heard.given, lambda leaf: own.get(id(leaf), leaf))
            if heard.module is not None:
                lent.keep(heard.module.module)
                inputs += heard.module.fill(parameters)
                result = heard.module.module(*args, **kwargs)
            else:
                result = _function_on(heard.function, heard.owner, own)(*args, **kwargs)
            yield [leaf for place, leaf in leaves(result) if place in self.outputs], inputs


# what is called


def _owner(function: Any) -> Any:
    """The tensor that a method belongs to; None for any other function."""
    owner = (
        getattr(function, "__self__", None)
        if isinstance(function, BuiltinFunctionType | MethodType | MethodWrapperType)
        else None
    )
    return owner if isinstance(owner, Tensor) else None


def _function_on(function: Any, owner: Any, own: Mapping[int, Tensor]) -> Any:
    """The method of the copy of its tensor."""
    return function if owner is None else getattr(own[id(owner)], function.__name__)


def _is_custom(function: Any) -> bool:
    owner = getattr(function, "__self__", None)
    return isinstance(owner, type) and issubclass(owner, torch.autograd.Function)


def _tensors(value: Any) -> list[Tensor]:
    return [leaf for _, leaf in leaves(value) if isinstance(leaf, Tensor)]


def _is_differentiated(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.requires_grad and (leaf.is_floating_point() or leaf.is_complex())


def _is_trained(value: Any) -> bool:
    """Are there tensors in it that are differentiated, or is it a module with such parameters?"""
    if isinstance(value, torch.nn.Module):
        return any(parameter.requires_grad for parameter in value.parameters())
    return any(_is_differentiated(leaf) for _, leaf in leaves(value))


def _hooked(function: Any, held: Sequence[Tensor]) -> Iterator[str]:
    """What has hooks of what a call is made of: they are not called when it is made again."""
    if isinstance(function, torch.nn.Module):
        for part in function.modules():
            if any(vars(part).get(name) for name in HOOKS):
                yield type(part).__name__
        if any(hooks for name, hooks in vars(module_file).items() if name.startswith(GLOBAL_HOOKS)):
            yield "nn.Module"
        held = [*held, *function.parameters()]
    is_hooking = _owner(function) is not None and function.__name__ == "register_hook"
    if is_hooking or any(tensor._backward_hooks for tensor in held if _is_differentiated(tensor)):
        yield "a tensor"


def _derives(value: Any) -> bool:
    """Is there a transform in it that differentiates a function, or that was made of one that does?"""
    for one in (*(leaf for _, leaf in leaves(value)), *closed_over(value)):
        code = getattr(one, "__code__", None)
        if code is not None and code.co_filename.startswith(TRANSFORMS):
            if code.co_qualname.partition(".")[0] not in MAPPING:
                return True
        elif code is not None and code.co_filename == torch.autograd.functional.__file__:
            return True
    return False


def _computing(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """A module and those in it, but for what its parameters are computed by: that is judged with it."""
    yield module
    for name, part in module.named_children():
        if name != "parametrizations" or not is_parametrized(module):
            yield from _computing(part)


def _is_users(module: torch.nn.Module) -> bool:
    inner = innermost(models.original_forward(module))
    return inner is not None and package(inner.__code__.co_filename) is None


def _why_not_again(function: Any) -> Reason | None:
    """Why a function is not called again: it might do something that is seen elsewhere. None where it may be."""
    if innermost(function) in BACKWARD:
        return DIFFERENTIATES
    if isinstance(function, torch.nn.Module) or _is_custom(function) or _owner(function) is not None:
        return None
    home = str(getattr(function, "__module__", None) or "")
    if home.startswith("torch.distributed"):
        return Reason("distributed")
    if effects.is_torchs(function) or type(function).__module__.startswith("torch."):
        return None
    code = getattr(function, "__code__", None)
    if is_python_computing(function) or (code is not None and code.co_filename.startswith(TRANSFORMS)):
        return None
    return why_not_python(function)


def _is_copied(leaf: Any) -> bool:
    """Does each repetition get its own? Of a random generator the state is put back; a dtype, a device and an operation
    have none."""
    home = type(leaf).__module__
    is_operation = home == "torch._ops" or home.startswith("torch._library.")
    return isinstance(leaf, Tensor | torch.nn.Module | torch.Generator) or home == "torch" or is_operation


# tensors and numbers


def _kept(tensor: Tensor) -> Tensor:
    if tensor.layout is not torch.strided or tensor.is_nested:
        return tensor.detach()
    return tensor.detach().clone()


def to_numpy(tensor: Tensor) -> Any:
    """The numbers of a tensor as float64 or complex128."""
    dense = tensor.to_dense() if tensor.layout is not torch.strided else tensor
    double = torch.complex128 if dense.is_complex() else torch.float64
    return dense.detach().to("cpu", double).resolve_conj().resolve_neg().contiguous().numpy()


# random numbers


def random_states(given: Any) -> list[tuple[Any, Any]]:
    """Every random state that a call may use, as (whose, state)."""
    found: list[tuple[Any, Any]] = [(torch.default_generator, torch.default_generator.get_state())]
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        found += [(generator, generator.get_state()) for generator in torch.cuda.default_generators]
    for _, leaf in leaves(given):
        if isinstance(leaf, torch.Generator):
            found.append((leaf, leaf.get_state()))
    found += [(random, random.getstate()), (numpy.random, numpy.random.get_state(legacy=True))]
    return found


def same_states(one: Sequence[tuple[Any, Any]], other: Sequence[tuple[Any, Any]]) -> bool:
    return all(_equal(before, after) for (_, before), (_, after) in zip(one, other, strict=True))


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):
        return torch.equal(one, other)
    return all(numpy.array_equal(a, b) for a, b in zip(one, other, strict=True))


def put(states: Sequence[tuple[Any, Any]]) -> None:
    for owner, state in states:
        if isinstance(owner, torch.Generator):
            owner.set_state(state)
        else:
            (owner.setstate if owner is random else owner.set_state)(state)


@contextmanager
def random_states_kept(given: Any, states: Sequence[tuple[Any, Any]]) -> Iterator[None]:
    """Within this context random numbers come as they came from these states; afterwards as if nothing had been."""
    before = random_states(given)
    put(states)
    try:
        yield
    finally:
        put(before)
