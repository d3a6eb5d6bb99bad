"""Implements ``Captures`` for TensorFlow: stores a Keras model's calls of a failed step, and runs them again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy
import tensorflow as tf

from backprobe.backends.captures import (
    CapturedCall,
    CapturedStep,
    Captures,
    KeptTensor,
    MisfitParameter,
    RanCalls,
    Result,
    misfits_of,
    under,
)
from backprobe.backends.numpy import fingerprint
from backprobe.backends.random_states import OF_PYTHON, RandomNumbers, put_back
from backprobe.backends.replay import Replay
from backprobe.backends.tensorflow import private
from backprobe.backends.tensorflow.block_guards import flat
from backprobe.backends.tensorflow.guarded_calls import (
    CallState,
    TensorflowGuardedCall,
    floating,
    unfit,
    variables,
)
from backprobe.backends.tensorflow.model_plans import structure_of
from backprobe.backends.tensorflow.state import TensorflowState
from backprobe.backends.tensorflow.tensors import describe, is_eager, numbers_of, read, variable_of
from backprobe.record.containers import leaves, refilled
from backprobe.record.reasons import Reason

RANDOM = ("python", "numpy", "operations")


def kept(tensor: Any, **facts: Any) -> KeptTensor:
    """Return a tensor in the form in which a file stores it."""
    about = describe(tensor)
    size = int(numpy.prod(about.shape or ())) * tf.as_dtype(about.dtype).size
    return KeptTensor(tensor, size, {"device": about.device, **facts})


def result(tensor: Any) -> Result:
    """Return the facts by which two tensors are compared: the bits of the numbers, with all NaN treated as equal."""
    return fingerprint(numpy.asarray(tensor.numpy()))


def named(path: str, module: Any) -> list[tuple[str, Any]]:
    """Return the Variables of a module, each with its path. A Variable without a path of its own, such as the state of
    a random generator, is called ``state`` with a number.
    """
    known = {id(variable_of(one)): under(path, name) for name, one in structure_of(module).variables}
    found = variables(module)
    return [(known.get(id(one), under(path, f"state.{at}")), one) for at, one in enumerate(found)]


class TensorflowCaptures(Captures):
    """Implements ``Captures`` for TensorFlow."""

    def captured(self, model: Any, calls: Sequence[TensorflowGuardedCall], *, is_backward: bool) -> CapturedStep:
        parameters: dict[str, KeptTensor] = {}
        found, left_out = [], list[str]()
        for call in calls:
            values = {id(variable): value for variable, value in call.state.values}
            state: dict[str, KeptTensor] = {}
            for name, variable in named(call.path, call.module):
                if (
                    id(variable) not in values and not variable.trainable
                ):  # the call itself created the Variable, so its initial value is gone
                    left_out.append(f"{name}: the call made it as it ran")
                    continue
                value = values.get(id(variable))
                one = kept(private.unrecorded(read, variable) if value is None else value)
                (parameters if variable.trainable else state).setdefault(name, one)
            if call.is_within:
                left_out.append(
                    f"whether {call.path or 'the model'} was to train: another layer that called it said so"
                )
            found.append(self._captured(call, state))
        devices = sorted({str(one.facts["device"]) for one in parameters.values()})
        left = calls[-1].left if is_backward else {}
        gradients = {name: result(one) for name, one in left.items()}
        return CapturedStep(
            "tensorflow", type(model).__name__, found, is_backward, parameters, gradients, {}, devices, left_out
        )

    def _captured(self, call: TensorflowGuardedCall, state: Mapping[str, KeptTensor]) -> CapturedCall:
        random = {name: one for name, (_, one) in zip(RANDOM, call.state.random.states, strict=True) if one is not None}
        return CapturedCall(
            call.path,
            refilled(call.given, lambda one: kept(one) if is_eager(one) else one),
            state,
            {path: kept(numbers_of(one)) for path, one in call.gradients.items()},
            random,
            {},
            {path: result(one) for path, one in call.returned.items()},
        )

    def misfits(self, model: Any, step: CapturedStep) -> Sequence[MisfitParameter]:
        found = []
        for path in dict.fromkeys(call.path for call in step.calls):
            module = module_at(model, path)
            if module is None:
                found.append(MisfitParameter(path, (), None))
                continue
            calls = [call for call in step.calls if call.path == path]
            _build(module, calls[0])
            held = {name: tuple(one.shape) for name, one in named(path, module)}
            states = [each for call in calls for each in call.state.items()]
            captured = {
                name: tuple(one.facts["shape"] if one.tensor is None else one.tensor.shape)
                for name, one in (*step.parameters.items(), *states)
                if not path or name.startswith(f"{path}.")
            }
            trained = [name for name, one in named(path, module) if one.trainable]
            found += misfits_of(captured, held, trained if captured else ())
        return found

    def calls(self, model: Any, step: CapturedStep) -> Sequence[TensorflowReplayedCall]:
        return [TensorflowReplayedCall(module_at(model, call.path), call, step) for call in step.calls]

    def run(self, model: Any, step: CapturedStep, calls: Sequence[Any]) -> RanCalls:
        with Replay(_Tensorflow, model, draws_anew=False).run(), tf.GradientTape(persistent=True) as tape:
            outputs = []
            for call in calls:
                call.state.restore()
                args, kwargs = call.arguments()
                outputs.append(dict(floating(call.module(*args, **kwargs))))
            returned = [{path: result(one) for path, one in each.items()} for each in outputs]
            if not step.is_backward:
                return RanCalls(
                    returned, {}, unfit({f":return{p}": one for each in outputs for p, one in each.items()})
                )
            pairs = [call.outputs_and_gradients(each) for call, each in zip(calls, outputs, strict=True)]
            targets, came = ([one for pair in pairs for one in pair[at]] for at in (0, 1))
            known = {name: one for call in calls for name, one in named(call.path, call.module) if one.trainable}
        gradients = flat(tape.gradient(targets, [*known.values()], came))
        found = {
            name: numbers_of(one)
            for name, one in zip(known, gradients, strict=True)
            if one is not None and (not step.gradients or name in step.gradients)
        }
        return RanCalls(returned, {name: result(one) for name, one in found.items()}, unfit(found))

    def otherwise(self, step: CapturedStep) -> Sequence[str]:
        names = [one.name for one in tf.config.list_logical_devices()]
        here = {describe(tf.zeros(())).device, *(name.removeprefix("/device:").lower() for name in names)}
        return [f"it ran on {one}, which is not here" for one in step.devices if one not in here]

    def spelled(self, value: Any) -> str | None:
        return f"dtype {value.name}" if isinstance(value, tf.DType) else None

    def unspelled(self, text: str) -> Any:
        kind, _, rest = text.partition(" ")
        if kind == "dtype":
            return tf.as_dtype(rest)
        raise ValueError(f"a value {text!r}")


class _Tensorflow:
    # The part of a backend that ``Replay`` needs.
    state = TensorflowState


def module_at(model: Any, path: str) -> Any:
    """Return the module at a path; None if there is none."""
    return next((module for one, module in structure_of(model).modules if one == path), None)


def _build(module: Any, call: CapturedCall) -> None:
    # Make a layer create its Variables now, if it normally creates them in its first call. That needs the arguments of
    # the call, so nothing is done if one of them was not stored.
    is_built = all(layer.built for layer in module._flatten_layers())
    if not is_built and not any(_is_gone(one) for _, one in leaves(call.given)):
        args, kwargs = refilled(call.given, _tensor_of)
        # the initial values are overwritten later, so creating them must not advance the random states
        with put_back(TensorflowState(module).random_states()):
            module(*args, **kwargs)


def _is_gone(one: Any) -> bool:
    return isinstance(one, KeptTensor) and one.tensor is None


def _tensor_of(one: Any) -> Any:
    return one.tensor if isinstance(one, KeptTensor) else one


class ReplayedState(CallState):
    """The state from which a stored call starts."""

    def __init__(self, module: Any, call: CapturedCall, step: CapturedStep) -> None:
        states = dict(zip(RANDOM, [*OF_PYTHON, private.operation_seeds()], strict=True))
        self.random = RandomNumbers(())
        self.random.states = [(states[name][1], one) for name, one in call.random.items()]
        known = {**step.parameters, **call.state}
        pairs = [(variable, known[name].tensor) for name, variable in named(call.path, module) if name in known]
        self.values = [(variable, value) for variable, value in pairs if value is not None]


class TensorflowReplayedCall(TensorflowGuardedCall):
    """A stored call in the form that guards use."""

    def __init__(self, module: Any, call: CapturedCall, step: CapturedStep) -> None:
        self.module, self.path, self.is_within, self.came = module, call.path, False, lambda *came: None
        self.given = refilled(call.given, _tensor_of)
        self.state = ReplayedState(module, call, step)
        self.has_ended, self.returned, self.left = True, {}, {}
        self.gradients = {path: one.tensor for path, one in call.gradients.items()}

    def why_not_again(self) -> Reason | None:
        return None

    @contextmanager
    def restored(self) -> Iterator[None]:
        self.state.restore()
        yield
