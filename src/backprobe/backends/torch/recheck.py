"""Repeats calls of PyTorch on detached copies, in double precision if possible, with the same random numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import numpy
import torch
import torch.nn.modules.module as module_file
from torch import Tensor
from torch.nn import parameter
from torch.nn.utils.parametrize import is_parametrized

from backprobe.backends.framework_code import FrameworkFunctions
from backprobe.backends.patching import original
from backprobe.backends.pure_calls import closed_over, is_python_computing, is_users, why_not_python
from backprobe.backends.random_states import OF_PYTHON, RandomNumbers, RandomState, put_back
from backprobe.backends.recheck import Given, Program, Recheck, RecordedCall
from backprobe.backends.torch import effects, models
from backprobe.backends.torch.arguments import lift
from backprobe.backends.torch.graph import has_custom
from backprobe.backends.torch.lent_modules import BACKWARD_HOOKS, GLOBAL_HOOKS, HOOKS, Lent, ModuleState
from backprobe.backends.torch.precision import Coarsest
from backprobe.backends.torch.private import is_wrapped
from backprobe.backends.torch.state import generators
from backprobe.backends.torch.structure import parts
from backprobe.backends.torch.tensors import is_floating, wide
from backprobe.backends.torch.unaccounted_nodes import Coverage, now
from backprobe.record.containers import leaves
from backprobe.record.reasons import Reason
from backprobe.source.user_code import innermost

BACKWARD = FrameworkFunctions(torch.autograd.grad, torch.autograd.backward, Tensor.backward)
TRANSFORMS = torch.func.__file__.replace("func/__init__.py", "_functorch/")
"""The folder of the files that define the wrappers of ``torch.func``."""
MAPPING = ("vmap", "chunk_vmap", "functionalize", "functional_call", "stack_module_state")
"""The names of wrappers of ``torch.func`` that do not differentiate."""
REQUIRES = "inputs of a model are differentiated only if they require a gradient: x.requires_grad_()"


class TorchCall(RecordedCall):
    """A call of PyTorch that can be repeated with the same random numbers as the original call."""

    def __init__(self, recheck: Recheck, function: Any, pure: Callable[..., Any], given: Given) -> None:
        super().__init__(recheck, function, pure, given)
        self.module = function if isinstance(function, torch.nn.Module) else None
        self.state = ModuleState(self.module)
        self.random = random_states(given)
        self.begun = RandomNumbers(self.random)

    def why_not_again(self) -> Reason | None:
        odd = next((t for t in self.tensors.values() if t.layout is not torch.strided or t.is_nested), None)
        if odd is not None:
            return Reason("layout", {"layout": str(odd.layout)})
        if not all(_same(read(), state) for (read, _), (_, state) in zip(self.random, self.begun.states, strict=True)):
            self.notes.append(Reason("random_restored"))
        self.derives = _derives((self.function, *self.given))
        if self.derives and self.recheck.differentiated_by(self.function, *self.given[1:]) is None:
            self.notes.append(Reason("derives"))
        return None

    def is_captured(self, leaf: Any) -> bool:
        held = leaf.parameters() if isinstance(leaf, torch.nn.Module) else [leaf]
        return any(map(self.recheck.is_differentiated, held))

    def kept(self, tensor: Tensor) -> Tensor:
        is_odd = tensor.layout is not torch.strided or tensor.is_nested
        return tensor.detach() if is_odd else tensor.detach().clone()

    def cast(self, tensor: Tensor) -> Tensor:
        return wide(tensor) if self.double and is_floating(tensor) else tensor

    def rounding(self, tensor: Tensor) -> float:
        return torch.finfo(tensor.dtype).eps

    def numbers(self, tensor: Tensor) -> Any:
        dense = tensor.to_dense() if tensor.layout is not torch.strided else tensor
        return wide(dense.detach().cpu()).resolve_conj().resolve_neg().contiguous().numpy()

    def attempt(self) -> tuple[list[Tensor], float]:
        with Coarsest() as within, self._made(self.values) as (outputs, _):
            self.is_custom = self.is_custom or has_custom(outputs)
        return [output for output in outputs if output.requires_grad], within.epsilon

    def run(self, values: Sequence[Any]) -> list[Any]:
        with self._made(values) as (outputs, _):
            return [self.numbers(output) for output in outputs]

    def pull(self, values: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        with self._made(values) as (outputs, inputs):
            given = [torch.as_tensor(c).to(output) for c, output in zip(cotangents, outputs, strict=True)]
            pulled = torch.autograd.grad(outputs, inputs, given, allow_unused=True)
        return self.all_numbers(pulled)

    def pull_twice(self, values: Sequence[Any], cotangents: Sequence[Any], seconds: Sequence[Any]) -> list[Any]:
        with self._made(values) as (outputs, inputs):
            pairs = zip(cotangents, outputs, strict=True)
            given = [torch.as_tensor(c).to(output).requires_grad_() for c, output in pairs]
            first = torch.autograd.grad(outputs, inputs, given, allow_unused=True, create_graph=True)
            seen = [
                (one, torch.as_tensor(c).to(one))
                for one, c in zip(first, seconds, strict=True)
                if one is not None and one.requires_grad
            ]
            ends, weights = zip(*seen, strict=True) if seen else ((), ())
            given_to = [*inputs, *given]
            pulled = torch.autograd.grad(ends, given_to, weights, allow_unused=True) if ends else [None] * len(given_to)
        return self.all_numbers(pulled)

    @contextmanager
    def _made(self, values: Sequence[Any]) -> Iterator[tuple[list[Tensor], list[Tensor]]]:
        # Make the call again with these values. Yields the call's outputs, and the leaves with respect to which the
        # outputs are differentiated.
        #
        # The caller must differentiate inside this context, because backward may call functions of the program again.
        made = dict(self.constants)
        for key, value in zip(self.inputs, values, strict=True):
            made[key] = torch.tensor(value).to(made[key]).requires_grad_()
        own = {key for key, one in self.inputs.items() if self.module is not None and not one.place}
        made |= {key: torch.nn.Parameter(made[key].detach()) for key in own}
        lent = Lent((self.module, self.given), self.double, self.state, {key: made[key] for key in own})
        with torch.enable_grad(), put_back(self.random), lent.while_called():
            self.begun.restore()
            # copies, which are not leaves: the call may write to its arguments, which PyTorch forbids for leaves
            outputs = self.call({key: tensor.clone() for key, tensor in made.items()})
            yield outputs, [made[key] for key in self.inputs]


class TorchRecheck(Recheck):
    """Implements ``Recheck`` for PyTorch."""

    recorded = TorchCall

    def __init__(self) -> None:
        super().__init__()
        self.inside: dict[torch.nn.Module, bool] = {}  # by module: did the user write its forward, or one inside it?
        self.coverage = Coverage()
        self.is_again = False  # did the last differentiation go through the nodes of an earlier derivative?

    def run(self, program: Program, target: Any, inputs: Mapping[str, Any], undo: list[Callable[[], None]]) -> None:
        with torch.enable_grad():
            # The parameters and inputs of a model keep their ``requires_grad`` flags, so they are not replaced by
            # ``lift``.
            is_model = isinstance(target, torch.nn.Module)
            given = inputs if is_model else lift(inputs, None, undo)
            self.remedy = REQUIRES if is_model else ""
            self.coverage = Coverage()  # operations of ``lift`` are not part of the program
            result = program(target, given)
            self.coverage.look(leaf for _, leaf in leaves(result) if isinstance(leaf, Tensor))

    def paths(self, model: Any) -> Mapping[int, str]:
        if not isinstance(model, torch.nn.Module):
            return {}
        return {id(module): path for path, module in reversed(parts(model))}

    def opens(self, function: Any) -> bool:
        if not isinstance(function, torch.nn.Module):
            return False
        if function not in self.inside:
            self.inside[function] = any(is_users(original(part, "forward")) for part in _computing(function))
        return self.inside[function]

    def is_whole(self, function: Any) -> bool:
        """Was the function made by ``torch.func`` around another function? The values inside it are placeholders
        without numbers.
        """
        code = getattr(function, "__code__", None)
        return code is not None and code.co_filename.startswith(TRANSFORMS)

    def is_compiled(self, function: Any) -> bool:
        return models.is_compiled(function)

    def called(self, function: Any, modules_too: bool) -> tuple[Any, Callable[..., Any]] | None:
        if not isinstance(function, torch.nn.Module):
            return None
        if any(vars(function).get(name) for name in BACKWARD_HOOKS):
            self.hooked[type(function).__name__] = None
        return original(function, "forward"), partial(models.call_with, function)

    def record(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> RecordedCall | Reason | None:
        if kwargs.get("create_graph") and innermost(function) in BACKWARD:
            self.differentiates_twice = True
            self.is_again = self.coverage.differentiate(*_ends(function, args, kwargs))
        return super().record(function, args, kwargs) if torch.is_grad_enabled() else None

    def split(self, function: Any) -> tuple[Callable[..., Any], Any]:
        if isinstance(function, torch.nn.Module):
            own = {path: held for path, held in function.named_parameters() if self.is_differentiated(held)}
            return lambda held, /, *args, **kwargs: function(*args, **kwargs), own
        return super().split(function)

    def why_not(self, function: Any, tensors: Sequence[Tensor]) -> Reason | None:
        if any(map(is_wrapped, tensors)):
            return Reason("inside_transform")
        self.coverage.look(tensors)
        self.hooked |= dict.fromkeys(self._hooked(function, tensors))
        if function in BACKWARD or innermost(function) in BACKWARD:
            return Reason("derives_again" if self.is_again else "computes_derivatives")
        if isinstance(function, torch.nn.Module):
            is_lazy = any(map(parameter.is_lazy, (*function.parameters(), *function.buffers())))
            return Reason("initialises_parameters") if is_lazy else None
        if self.is_custom(function) or self.owner(function) is not None:
            return None
        if str(getattr(function, "__module__", None) or "").startswith("torch.distributed"):
            return Reason("distributed")
        if effects.is_torchs(function) or type(function).__module__.startswith("torch."):
            return None
        return None if is_python_computing(function) or self.is_whole(function) else why_not_python(function)

    def _hooked(self, function: Any, tensors: Sequence[Tensor]) -> Iterator[str]:
        # Yield the types of the parts of a call that have hooks. Hooks are not called when the call is repeated.
        if isinstance(function, torch.nn.Module):
            for part in function.modules():
                if any(vars(part).get(name) for name in HOOKS):
                    yield type(part).__name__
            tables = [table for name, table in vars(module_file).items() if name.startswith(GLOBAL_HOOKS) and table]
            if any(callable(hook) for table in tables for hook in table.values()):  # others hold flags
                yield "nn.Module"
        is_hooking = self.owner(function) is not None and function.__name__ == "register_hook"
        if is_hooking or any(tensor._backward_hooks for tensor in tensors if self.is_differentiated(tensor)):
            yield "a tensor"

    def is_copied(self, leaf: Any) -> bool:
        """Can the leaf be copied for a repetition of the call?

        A generator's state is restored. Dtypes, devices and operations have no state.
        """
        home = type(leaf).__module__
        is_operation = home == "torch._ops" or home.startswith("torch._library.")
        return isinstance(leaf, Tensor | torch.nn.Module | torch.Generator) or home == "torch" or is_operation

    def is_custom(self, function: Any) -> bool:
        owner = getattr(function, "__self__", None)
        return isinstance(owner, type) and issubclass(owner, torch.autograd.Function)

    def is_tensor(self, leaf: Any) -> bool:
        return isinstance(leaf, Tensor)

    def is_differentiated(self, leaf: Any) -> bool:
        return isinstance(leaf, Tensor) and leaf.requires_grad and is_floating(leaf)

    def unnoticed(self) -> AbstractContextManager[None]:
        return put_back(random_states(()))

    def is_differentiated_twice(self, since: int, until: int) -> bool:
        return any(since <= number < until for number in self.coverage.differentiated)

    def differentiated_by(
        self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Any, tuple[Any, ...], Mapping[str, Any]] | None:
        code = getattr(function, "__code__", None)
        if code is None:
            return None
        if code.co_filename == torch.autograd.functional.__file__ and len(args) > 1:
            return args[0], args[1] if isinstance(args[1], tuple) else (args[1],), {}
        inside = getattr(function, "__wrapped__", None) if code.co_filename.startswith(TRANSFORMS) else None
        return None if inside is None or code.co_qualname.partition(".")[0] in MAPPING else (inside, args, kwargs)

    def now(self) -> int:
        return now()

    def account_for(self, since: int) -> None:
        self.coverage.account_for(since)

    def unaccounted(self) -> Sequence[tuple[str, bool]]:
        return self.coverage.unaccounted()

    def release(self) -> None:
        self.inside.clear()


def _derives(value: Any) -> bool:
    # Does the value contain a transform that differentiates a function, or a function that such a transform returned?
    for one in (*(leaf for _, leaf in leaves(value)), *closed_over(value)):
        code = getattr(one, "__code__", None)
        if code is not None and code.co_filename.startswith(TRANSFORMS):
            if code.co_qualname.partition(".")[0] not in MAPPING:
                return True
        elif code is not None and code.co_filename == torch.autograd.functional.__file__:
            return True
    return False


def _ends(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[list[Tensor], list[Tensor]]:
    # Return the outputs and the inputs between which a call of ``autograd.grad`` or ``backward`` differentiates.
    owner = getattr(function, "__self__", None)
    if isinstance(owner, Tensor):
        return [owner], []
    named = dict(zip(("outputs", "inputs"), args, strict=False)) | dict(kwargs)
    outputs = named.get("outputs", named.get("tensors"))
    return [leaf for _, leaf in leaves(outputs)], [leaf for _, leaf in leaves(named.get("inputs"))]


def _computing(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    # Yield a module and the modules inside it, except parametrizations, which are examined together with their module.
    yield module
    for name, part in module.named_children():
        if name != "parametrizations" or not is_parametrized(module):
            yield from _computing(part)


def random_states(given: Any) -> list[RandomState]:
    """Return the random states that a call may use: those of PyTorch, Python, NumPy and generators in its arguments."""
    found = generators(leaf for _, leaf in leaves(given))
    return [*((generator.get_state, generator.set_state) for generator in found), *OF_PYTHON]


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):
        return torch.equal(one, other)
    return all(numpy.array_equal(a, b) for a, b in zip(one, other, strict=True))
