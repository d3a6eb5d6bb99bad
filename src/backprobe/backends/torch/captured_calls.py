"""Implements ``Captures`` for PyTorch: stores the calls of a failed step as data, and runs them again elsewhere."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch.nn.parameter import is_lazy

from backprobe.backends.captures import (
    SINCE,
    CapturedCall,
    CapturedStep,
    Captures,
    KeptTensor,
    MisfitParameter,
    RanCalls,
    Result,
    under,
)
from backprobe.backends.random_states import OF_PYTHON, RandomNumbers, RandomState, put_back
from backprobe.backends.replay import Replay
from backprobe.backends.torch.guarded_calls import (
    CallState,
    GivenTensor,
    GuardedModule,
    TorchGuardedCall,
    begun_with,
    floating,
)
from backprobe.backends.torch.nonfinite import unfit
from backprobe.backends.torch.state import TorchState, generators
from backprobe.backends.torch.structure import structure
from backprobe.backends.torch.tensors import copied, describe, grad_of
from backprobe.record.containers import leaves, refilled
from backprobe.record.nonfinite import Nonfinite
from backprobe.record.reasons import Reason

Setting = tuple[Any, Any]
SETTINGS: dict[str, Setting] = {
    "threads": (torch.get_num_threads, torch.set_num_threads),
    "float32_matmul_precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "deterministic": (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
}
"""Settings of a process that may change the last bits of results, each with functions that read and set it."""

PYTHON = ("python", "numpy")
WRAPPERS = ("_orig_mod", "module")  # path segments that torch.compile and DistributedDataParallel add


def kept(tensor: Tensor, **facts: Any) -> KeptTensor:
    """Return a tensor in the form in which a file stores it."""
    size = tensor.numel() * tensor.element_size()
    return KeptTensor(tensor.detach(), size, {"device": str(tensor.device), **facts})


def result(tensor: Tensor) -> Result:
    """Return the facts by which two tensors are compared. ``digest`` is that of the numbers' bits, with all NaN treated
    as equal; an empty text if the bits of such a tensor cannot be read.
    """
    tensor = tensor.detach()
    about = describe(tensor)
    counts = unfit({"": tensor}).get("", Nonfinite(0, 0, tensor.numel()))
    return {
        "digest": _digest(tensor),
        "shape": list(about.shape or ()),
        "dtype": about.dtype,
        "nan": counts.nan,
        "inf": counts.inf,
    }


def _digest(tensor: Tensor) -> str:
    if tensor.layout is torch.sparse_coo:
        tensor = tensor.coalesce()
        return hashlib.sha256((_digest(tensor.indices()) + _digest(tensor.values())).encode()).hexdigest()
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_meta:
        return ""
    tensor = tensor.resolve_conj().resolve_neg()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if tensor.is_floating_point():
        tensor = torch.where(tensor.isnan(), torch.full((), float("nan"), dtype=tensor.dtype), tensor)
    flat = tensor.cpu().contiguous().reshape(-1)
    return hashlib.sha256(flat.view(torch.uint8).numpy().tobytes()).hexdigest() if flat.numel() else "empty"


def _plain_name(path: str) -> str:
    # Return a path without the segments of wrappers that compile or distribute a module.
    return ".".join(step for step in path.split(".") if step not in WRAPPERS)


class TorchCaptures(Captures):
    """Implements ``Captures`` for PyTorch."""

    def captured(self, model: Any, calls: Sequence[TorchGuardedCall], *, is_backward: bool) -> CapturedStep:
        parameters, left_out = self._parameters(calls)
        found = [self._captured(call, left_out) for call in calls]
        held = [one for call in found for _, one in leaves(call.given) if isinstance(one, KeptTensor)]
        gradients: dict[str, Result] = {}
        for call in calls if is_backward else ():
            for name, parameter in call.of.parameters:
                full, gradient = under(call.path, name), grad_of(parameter)
                if gradient is not None and full in call.fresh and full not in gradients:
                    gradients[full] = result(gradient)
        return CapturedStep(
            "torch",
            type(model).__name__,
            found,
            is_backward,
            parameters,
            gradients,
            settings(),
            sorted({str(one.facts["device"]) for one in (*held, *parameters.values())}),
            left_out,
        )

    def _parameters(self, calls: Sequence[TorchGuardedCall]) -> tuple[dict[str, KeptTensor], list[str]]:
        # Return the parameters of the called modules by path, and descriptions of those left out. A tied parameter has
        # only one ``KeptTensor``.
        found: dict[str, KeptTensor] = {}
        known: dict[int, KeptTensor] = {}
        left_out = []
        for call in calls:
            if call.of.versions() != call.weights or call.writes_parameters:
                left_out.append(f"the parameters of {call.path or 'the model'}: they were {SINCE} the forward")
                continue
            for name, parameter in call.of.parameters:
                if id(parameter) not in known:
                    known[id(parameter)] = kept(parameter, trained=parameter.requires_grad)
                found.setdefault(under(call.path, name), known[id(parameter)])
        return found, left_out

    def _captured(self, call: TorchGuardedCall, left_out: list[str]) -> CapturedCall:
        where = call.path or "the model"

        def leaf(path: str, one: Any) -> Any:
            path = f"{'kwargs' if path.startswith('.1') else 'args'}{path[2:]}"
            if not isinstance(one, GivenTensor):
                return one
            if one.is_written():
                left_out.append(f"{path} of {where}: it was {SINCE} the forward began")
                return None
            return kept(one.numbers, trained=one.requires_grad)

        named = iter([path for path, _ in leaves(call.given)])
        paths = {id(part): path for path, part in reversed(call.of.named)}
        state = call.state
        names = [str(one.device) for one in generators(())] + list(PYTHON)
        return CapturedCall(
            call.path,
            refilled(call.given, lambda one: leaf(next(named, ""), one)),
            {under(call.path, under(paths[id(part)], name)): kept(copy) for part, name, copy in state.buffers},
            {path: kept(gradient) for path, gradient in call.gradients.items()},
            dict(zip(names, [_tensor_kept(one) for _, one in state.random.states], strict=False)),
            {
                "training": [paths[id(part)] for part, mode in state.training if mode],
                "autocast": [[kind, on, str(dtype).removeprefix("torch.")] for kind, on, dtype in state.autocast],
                "grad": state.has_history,
                "default_dtype": str(torch.get_default_dtype()).removeprefix("torch."),
            },
            {path: result(one.numbers) for path, one in call.returned.items() if not one.is_written()},
        )

    def misfits(self, model: Any, step: CapturedStep) -> Sequence[MisfitParameter]:
        found = []
        modules = modules_by_path(model)
        for path in dict.fromkeys(call.path for call in step.calls):
            module = modules.get(_plain_name(path))
            if module is None:
                found.append(MisfitParameter(path, (), None))
                continue
            parameters = _shapes(path, structure(module).parameters)
            held = {**parameters, **_shapes(path, _buffers(module))}
            states = [each for call in step.calls if call.path == path for each in call.state.items()]
            captured = _inside(path, dict([*step.parameters.items(), *states]))
            found += [
                MisfitParameter(name, shape, held.get(name))
                for name, shape in captured.items()
                if held.get(name, ()) is not None and held.get(name) != shape
            ]
            if _inside(path, step.parameters):
                found += [
                    MisfitParameter(name, None, shape) for name, shape in parameters.items() if name not in captured
                ]
        return found

    def calls(self, model: Any, step: CapturedStep) -> Sequence[TorchReplayedCall]:
        modules = modules_by_path(model)
        parameters = {id(one): _parameter(one) for one in step.parameters.values() if one.tensor is not None}
        return [TorchReplayedCall(modules, call, step, parameters) for call in step.calls]

    def run(self, model: Any, step: CapturedStep, calls: Sequence[Any]) -> RanCalls:
        replay = Replay(_Torch, model, draws_anew=False)
        with replay.run(), ExitStack() as entered, put_back(TorchState(model).random_states()):
            outputs: list[dict[str, Tensor]] = []
            for call in calls:
                entered.enter_context(call.restored())
                args, kwargs = call.arguments()
                outputs.append(dict(floating(call.module(*args, **kwargs))))
            returned = [{path: result(one) for path, one in each.items()} for each in outputs]
            if not step.is_backward:
                bad = unfit({f":return{path}": one for each in outputs for path, one in each.items()})
                return RanCalls(returned, {}, bad)
            return RanCalls(returned, *_differentiated(calls, outputs))

    def settled(self, settings: Mapping[str, Any]) -> AbstractContextManager[None]:
        return set_to(settings)

    def otherwise(self, step: CapturedStep) -> Sequence[str]:
        gone = [one for one in step.devices if str(_device(one)) != one]
        found = [f"it ran on {one}, which is not here, and now on the CPU" for one in gone]
        here = {str(one.device) for one in generators(())}
        lost = sorted({name for call in step.calls for name in call.random if name not in here and name not in PYTHON})
        return [*found, *(f"random numbers of {one} cannot be drawn again without it" for one in lost)]

    def number(self) -> int:
        is_shared = torch.distributed.is_available() and torch.distributed.is_initialized()
        return torch.distributed.get_rank() if is_shared else 0

    def spelled(self, value: Any) -> str | None:
        if isinstance(value, torch.dtype):
            return f"dtype {str(value).removeprefix('torch.')}"
        if isinstance(value, torch.device):
            return f"device {value}"
        return f"size {' '.join(map(str, value))}" if type(value) is torch.Size else None

    def unspelled(self, text: str) -> Any:
        kind, _, rest = text.partition(" ")
        if kind == "dtype" and isinstance(getattr(torch, rest, None), torch.dtype):
            return getattr(torch, rest)
        if kind == "device":
            return _device(rest)
        if kind == "size":
            return torch.Size(map(int, rest.split()))
        raise ValueError(f"a value {text!r}")


class _Torch:
    # The part of a backend that ``Replay`` needs.
    state = TorchState


def modules_by_path(model: Module) -> dict[str, Module]:
    """Return the modules of a model by plain name: without the wrappers of compiled and distributed modules."""
    return {_plain_name(path): part for path, part in reversed(structure(model).parts)}


def _buffers(module: Module) -> list[tuple[str, Tensor]]:
    return [
        (under(path, name), one)
        for path, part in structure(module).parts
        for name, one in part._buffers.items()
        if one is not None
    ]


def _shapes(path: str, named: Sequence[tuple[str, Tensor]]) -> dict[str, tuple[int, ...] | None]:
    # Return shapes by plain names. A shape is None if it is not known before the first call.
    return {_plain_name(under(path, name)): None if is_lazy(one) else tuple(one.shape) for name, one in named}


def _inside(path: str, captured: Mapping[str, KeptTensor]) -> dict[str, tuple[int, ...]]:
    # Return the shapes of the stored tensors that belong to the module at a path, by plain names.
    around = _plain_name(path)
    shapes = {
        _plain_name(name): tuple(one.facts["shape"] if one.tensor is None else one.tensor.shape)
        for name, one in captured.items()
    }
    return {name: shape for name, shape in shapes.items() if not around or name.startswith(f"{around}.")}


class ReplayedState(CallState):
    """The state from which a stored call starts. Its parameters replace those of the model during the call."""

    def __init__(
        self, modules: Mapping[str, Module], call: CapturedCall, step: CapturedStep, parameters: Mapping[int, Parameter]
    ) -> None:
        states = {name: write for name, (_, write) in named_states(call.random).items()}
        self.random = RandomNumbers(())
        self.random.states = [(states[name], _state_of(one)) for name, one in call.random.items() if name in states]
        self.buffers = [
            (part, name, _here(call.state[full]))
            for full, part, name in _places(modules, call.state)
            if call.state[full].tensor is not None
        ]
        self.parameters = [
            (part, name, parameters[id(step.parameters[full])])
            for full, part, name in _places(modules, step.parameters)
            if id(step.parameters[full]) in parameters
        ]
        self.autocast = [_autocast(*one) for one in call.modes["autocast"]]
        training = {_plain_name(path) for path in call.modes["training"]}
        inside = structure(modules[_plain_name(call.path)]).parts
        self.training = [(part, _plain_name(path) in training) for path, part in inside]
        self.has_history = call.modes["grad"]
        self.dtype = getattr(torch, call.modes["default_dtype"])

    @contextmanager
    def restored(self) -> Iterator[None]:
        dtype = torch.get_default_dtype()
        own = [(part, name, part._parameters[name]) for part, name, _ in self.parameters]
        for part, name, parameter in self.parameters:
            part._parameters[name] = parameter
        torch.set_default_dtype(self.dtype)
        try:
            with super().restored():
                yield
        finally:
            torch.set_default_dtype(dtype)
            for part, name, one in own:
                part._parameters[name] = one


class TorchReplayedCall(TorchGuardedCall):
    """A stored call in the form that guards use."""

    def __init__(
        self, modules: Mapping[str, Module], call: CapturedCall, step: CapturedStep, parameters: Mapping[int, Parameter]
    ) -> None:
        module = modules[_plain_name(call.path)]
        self.of, self.module, self.path = GuardedModule(module, call.path), module, call.path
        self.state = ReplayedState(modules, call, step, parameters)
        self.given = refilled(call.given, lambda one: _given(one) if isinstance(one, KeptTensor) else one)
        self.gradients = {path: _here(one) for path, one in call.gradients.items()}
        self.known = {_plain_name(name): name for name in step.parameters}
        self.handles, self.returned = [], {}

    def why_not_again(self) -> Reason | None:
        return None

    def named_gradients(self) -> dict[str, Tensor]:
        """Return the present gradients of the module's parameters, by name. Parameters in the file have the names that
        they have there.
        """
        found = {}
        for name, parameter in structure(self.module).parameters:
            gradient, full = grad_of(parameter), under(self.path, name)
            if gradient is not None:
                found[self.known.get(_plain_name(full), full)] = gradient
        return found


def _differentiated(
    calls: Sequence[TorchReplayedCall], outputs: Sequence[Mapping[str, Tensor]]
) -> tuple[dict[str, Result], Any]:
    # Run one backward pass through all calls. It starts from their outputs for which gradients are stored, with
    # these gradients. The ``.grad`` of the modules' parameters is set to None first. Return the gradients that they
    # get, and which of them have NaN or Inf.
    begun: list[Tensor] = []
    came: list[Tensor] = []
    for call, each in zip(calls, outputs, strict=True):
        tensors, gradients = call.outputs_and_gradients(each)
        for tensor, gradient in zip(tensors, gradients, strict=True):
            # one output may be computed from another, so the gradient that arrives here is replaced by the stored one
            if tensor.grad_fn is not None:
                tensor.grad_fn.register_prehook(partial(_exchanged, tensor.output_nr, gradient))
        begun += tensors
        came += gradients
    for call in calls:
        for _, parameter in structure(call.module).parameters:
            parameter.grad = None
    with torch.enable_grad():
        begun_with(came, begun).backward()
    found = {name: one for call in calls for name, one in call.named_gradients().items()}
    return {name: result(one) for name, one in found.items()}, unfit(found)


def _exchanged(number: int, gradient: Tensor, gradients: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    return tuple([gradient if at == number else one for at, one in enumerate(gradients)])


def settings() -> dict[str, Any]:
    """Return the present settings of this process."""
    return {name: read() for name, (read, _) in SETTINGS.items()}


@contextmanager
def set_to(wanted: Mapping[str, Any]) -> Iterator[None]:
    """Within this context the process has these settings."""
    before = settings()
    _set({**before, **wanted})
    try:
        yield
    finally:
        _set(before)


def _set(wanted: Mapping[str, Any]) -> None:
    for name, (read, write) in SETTINGS.items():
        if read() != wanted[name]:
            write(wanted[name])


def named_states(wanted: Mapping[str, Any]) -> dict[str, RandomState]:
    """Return the random states of this process, by name. CUDA is initialized if random numbers of a GPU are wanted."""
    if any(name.startswith("cuda") for name in wanted) and torch.cuda.is_available():
        torch.zeros(0, device="cuda")
    own = {str(one.device): (one.get_state, one.set_state) for one in generators(())}
    return {**own, **dict(zip(PYTHON, OF_PYTHON, strict=True))}


def _tensor_kept(state: Any) -> Any:
    return kept(state) if isinstance(state, Tensor) else state


def _state_of(state: Any) -> Any:
    return copied(state.tensor) if isinstance(state, KeptTensor) else state


def _places(modules: Mapping[str, Module], wanted: Iterable[str]) -> Iterator[tuple[str, Module, str]]:
    # Yield each name in a file whose module the model has, with that module and the tensor's name in it.
    for full in wanted:
        around, _, name = full.rpartition(".")
        part = modules.get(_plain_name(around))
        if part is not None:
            yield full, part, name


def _device(name: str) -> torch.device:
    device = torch.device(name)
    if device.type == "cpu" or device.type == "meta":
        return device
    kind = getattr(torch, device.type, None)
    is_here = kind is not None and kind.is_available() and (device.index or 0) < kind.device_count()
    return device if is_here else torch.device("cpu")


def _here(one: KeptTensor) -> Tensor:
    tensor: Tensor = one.tensor
    return tensor.to(_device(str(one.facts["device"])))


def _given(one: KeptTensor) -> GivenTensor:
    return GivenTensor(_here(one).requires_grad_(bool(one.facts["trained"])))


def _parameter(one: KeptTensor) -> Parameter:
    return Parameter(_here(one), requires_grad=bool(one.facts["trained"]))


def _autocast(kind: str, is_enabled: bool, dtype: str) -> tuple[str, bool, torch.dtype]:
    # Return the autocast settings for this machine. Without a GPU, enabled settings for CUDA apply to the CPU.
    known: torch.dtype = getattr(torch, dtype)
    gone = kind == "cuda" and is_enabled and not torch.cuda.is_available()
    return ("cpu" if gone else kind), is_enabled, known
