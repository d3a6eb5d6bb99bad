"""Steps with a probe around them, in each form; what is selected; and what people do by hand instead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from memory import bytes_behind
from models import Program
from torch import Tensor
from torch.nn.modules.module import register_module_forward_hook

import backprobe as bp

Step = Callable[[], Any]
PARAMETERS = ["**.weight", "**.bias"]
OUTPUTS, LOCALS, EVERYTHING = "every module's output", "two locals a layer", "everything: every local too"
SELECTIONS = {
    OUTPUTS: ["**", *(f"!{pattern}" for pattern in PARAMETERS)],
    LOCALS: [f"transformer.h.*.attn:{local}#0" for local in ("query_states", "key_states")],
    EVERYTHING: ["**", "**:*"],
}


def grads(rec: bp.Recording) -> Any:
    """All gradients at once, as with hooks by hand."""
    return rec.grads()


def each_entry(rec: bp.Recording) -> Any:
    """The value and the gradient of every entry."""
    return [(entry.value, entry.grad_or_none) for entry in rec.values()]


class BlockForm:
    """``with bp.probe(model, patterns) as rec:`` around the user's own step."""

    title = "block form, beside backward()"
    bare = staticmethod(Program.bare)

    @staticmethod
    def step(
        program: Program, patterns: Sequence[str], *, read: Callable[[bp.Recording], Any] = grads, **options: Any
    ) -> Step:
        def step() -> Any:
            with bp.probe(program.model, patterns, **options) as rec:
                program.loss().backward()
            found = read(rec)
            program.model.zero_grad()
            return rec, found

        return step

    @classmethod
    def asked(cls, program: Program, patterns: Sequence[str]) -> int:
        """The bytes behind the values and gradients recorded, the model's own parameters and ``.grad`` left out."""
        with bp.probe(program.model, patterns) as rec:
            program.loss().backward()
        parameters = list(program.model.parameters())
        total = bytes_behind(recorded(rec), [*parameters, *(parameter.grad for parameter in parameters)])
        program.model.zero_grad()
        return total


class GradForm:
    """The same block around a step that takes the gradients of all parameters by ``autograd.grad``."""

    title = "block form, beside autograd.grad"
    bare = staticmethod(Program.bare_functional)

    @staticmethod
    def step(program: Program, patterns: Sequence[str], **options: Any) -> Step:
        parameters = list(program.model.parameters())

        def step() -> Any:
            with bp.probe(program.model, patterns, **options) as rec:
                torch.autograd.grad(program.loss(), parameters)
            return rec, rec.grads()

        return step


class ModelForm:
    """``bp.probe(model, patterns, of="loss")(**inputs)``, which is asked for all parameters too."""

    title = "model form, beside autograd.grad"
    bare = staticmethod(Program.bare_functional)

    @staticmethod
    def step(
        program: Program,
        patterns: Sequence[str],
        *,
        read: Callable[[bp.Recording], Any] = grads,
        parameters: Sequence[str] = PARAMETERS,
        **options: Any,
    ) -> Step:
        patterns = [*(pattern for pattern in patterns if pattern.removeprefix("!") not in parameters), *parameters]

        def step() -> Any:
            rec = bp.probe(program.model, patterns, of="loss", **options)(**program.inputs)
            return rec, read(rec)

        return step

    @classmethod
    def asked(cls, program: Program, patterns: Sequence[str]) -> int:
        """The bytes behind the values and gradients recorded and the result, which a recording has too.

        Left out are parameters and their gradients, which the bare step has alive at its end as well.
        """
        rec, _ = cls.step(program, patterns)()
        parameters = dict(program.model.named_parameters())
        known = [*parameters.values(), *(rec[name].grad for name in parameters if name in rec)]
        return bytes_behind([*recorded(rec), rec.result.loss, rec.result.logits], known)


class FunctionForm:
    """``bp.probe(f)(x, w)`` of a function that binds 200 values, without a module."""

    title = "function form, beside autograd.grad"

    @staticmethod
    def chain(x: Tensor, w: Tensor) -> Tensor:
        h = x
        for _ in range(66):
            u = h * w
            v = u + x
            h = torch.tanh(v)
        loss = h.sum()
        return loss

    @classmethod
    def bare(cls, *arguments: Tensor) -> Step:
        return lambda: torch.autograd.grad(cls.chain(*arguments), arguments)

    @classmethod
    def step(cls, *arguments: Tensor, **options: Any) -> Step:
        return lambda: bp.probe(cls.chain, **options)(*arguments).grads()

    @staticmethod
    def arguments() -> tuple[Tensor, Tensor]:
        torch.manual_seed(0)
        return torch.randn(32, 64, requires_grad=True), torch.randn(32, 64, requires_grad=True)


def recorded(recording: bp.Recording) -> list[Tensor]:
    """The tensors that a recording holds."""
    held = [tensor for entry in recording.values() for tensor in (entry.held_value, entry.grad_or_none)]
    return [tensor for tensor in held if torch.is_tensor(tensor)]


def by_hand(program: Program) -> Step:
    """What people paste: a hook on every module that keeps its output and has its gradient retained."""

    def step() -> Any:
        kept, handles = {}, []
        for name, module in program.model.named_modules():

            def keep(module: Any, args: Any, output: Any, name: str = name) -> None:
                tensor = first_tensor(output)
                if tensor is not None and tensor.requires_grad:
                    tensor.retain_grad()
                    kept[name] = tensor

            handles.append(module.register_forward_hook(keep))
        program.loss().backward()
        gradients = {name: tensor.grad for name, tensor in kept.items()}
        for handle in handles:
            handle.remove()
        program.model.zero_grad()
        return kept, gradients

    return step


def least(program: Program) -> Step:
    """The least that every module's output costs: an alias, and a prehook of its node that is written in C.

    There is no name, no status, no second tensor of an output; and a gradient does not say whose it is.
    """

    def step() -> Any:
        values: list[Tensor] = []
        gradients: list[Any] = []
        handles: list[Any] = []

        def keep(module: Any, args: Any, output: Any) -> None:
            tensor = first_tensor(output)
            if tensor is not None and tensor.grad_fn is not None:
                values.append(tensor.detach())
                handles.append(tensor.grad_fn.register_prehook(gradients.append))

        handles.append(register_module_forward_hook(keep))
        program.loss().backward()
        for handle in handles:
            handle.remove()
        program.model.zero_grad()
        return values, gradients

    return step


def first_tensor(output: Any) -> Tensor | None:
    """What a module returns, or the first thing in it."""
    tensor = output if torch.is_tensor(output) else next(iter(_parts(output)), None)
    return tensor if torch.is_tensor(tensor) else None


def _parts(output: Any) -> Iterable[Any]:
    return output.values() if hasattr(output, "values") else output if isinstance(output, tuple | list) else ()
