"""Calls of TensorFlow heard and made again: eagerly, on tensors of their own, in double precision."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import BuiltinFunctionType, MethodType
from typing import Any

import numpy
import tensorflow as tf

from backprobe.backends.facts import Options
from backprobe.backends.pure_calls import closed_over, is_python_computing, why_not_given, why_not_python
from backprobe.backends.recheck import CAPTURED, HELD, Input, Operation, Recheck, UncheckedCalls, first_line, repeatable
from backprobe.backends.tensorflow import layers, private
from backprobe.backends.tensorflow.arguments import lift
from backprobe.backends.tensorflow.operation_log import CARRYING, OperationLog
from backprobe.backends.tensorflow.tape import TensorflowTape
from backprobe.backends.tensorflow.tensors import is_eager, read, variable_of
from backprobe.record.containers import leaves, refilled
from backprobe.record.reasons import Reason
from backprobe.source.user_code import innermost

RANDOM = Reason("random")
WRITES = Reason("writes_variable")
KEPT = {
    "Random": RANDOM, "Stateful": RANDOM, "TruncatedNormal": RANDOM, "ParameterizedTruncated": RANDOM,
    "Multinomial": RANDOM, "Assign": WRITES, "ResourceApply": WRITES, "ResourceScatter": WRITES,
}  # fmt: skip
"""Operations that are not run again, by how their name starts."""
BY_HAND = "custom_gradient"
"""Stands among the operations of a call for each function with a gradient of its own that ran, as in a py_function."""
OWN = frozenset({BY_HAND, "IdentityN"})  # what wraps one in a graph
DOUBLE = {tf.complex64: tf.complex128, tf.complex128: tf.complex128}


class TensorflowRecheck(Recheck):
    """TensorFlow's ``Recheck``: the program runs eagerly under a gradient tape, which says what is differentiated."""

    def __init__(self) -> None:
        self.tape = TensorflowTape(Options())
        self.tape.log = self.log = KindsLog()
        self.recording: Any = None

    def run(self, program: Callable[[Any, Mapping[str, Any]], Any], target: Any, inputs: Mapping[str, Any]) -> None:
        undo: list[Callable[[], None]] = []
        try:
            with self.tape.recorded() as self.recording:
                program(target, lift(inputs, None, undo, self._watched))
        finally:
            for put_back in reversed(undo):
                put_back()

    def _watched(self, tensor: Any) -> Any:
        self.recording.watch(tensor)
        self.tape.log.root(tensor)
        return tensor

    def called(self, function: Any, modules_too: bool) -> tuple[Any, Callable[..., Any]] | None:
        return self.tape.called(function, modules_too)

    def higher_order(self, function: Any) -> Callable[..., Any] | None:
        return self.tape.higher_order(function)

    def is_whole(self, function: Any) -> bool:
        return private.has_own_gradient(function)

    def hear(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> HeardCall | Reason | None:
        if isinstance(function, partial):
            return self.hear(function.func, (*function.args, *args), {**function.keywords, **kwargs})
        if isinstance(function, type):
            return None
        is_given = any(map(self.is_differentiated, _held(function, args, kwargs)))
        if not is_given and not private.has_own_gradient(function):  # which may be that of Variables that it reads
            return HELD
        why_not = _why_not_again(function) or why_not_given(args, kwargs, _is_copied)
        return why_not or HeardCall(self, function, args, kwargs)

    def now(self) -> int:
        return len(self.log.flows)

    def account_for(self, since: int) -> None:
        del self.log.flows[since:]

    def unaccounted(self) -> UncheckedCalls:
        return UncheckedCalls.of(self.log.flows)

    def is_differentiated(self, leaf: Any) -> bool:
        return self.tape.is_tensor(leaf) and self.tape.is_floating(leaf) and self.tape.is_differentiated(leaf)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Within this context nothing is on the program's tape; random numbers of Python and NumPy stay as they are."""
        states = random.getstate(), numpy.random.get_state(legacy=True)
        try:
            with self.recording.stop_recording(), self.log.muted():
                yield
        finally:
            random.setstate(states[0])
            numpy.random.set_state(states[1])

    def release(self) -> None:
        self.tape.release()
        self.recording = None


class KindsLog(OperationLog):
    """The log of a run that also knows what the call that is being made consists of, and what no call accounts for."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds: set[str] = set()
        self.flows: list[tuple[str, bool]] = []  # names; has it a gradient of its own?

    def operation(self, kind: Any, *args: Any, **kwargs: Any) -> None:
        if not self.is_muted:
            self.kinds.add(kind.decode() if isinstance(kind, bytes) else str(kind))
        super().operation(kind, *args, **kwargs)

    def recorded(self, name: str, outputs: Sequence[Any], inputs: Sequence[Any], is_by_hand: bool) -> None:
        if is_by_hand and not self.is_muted:
            self.kinds.add(BY_HAND)
        before = len(self.flows)
        super().recorded(name, outputs, inputs, is_by_hand)
        self.flows[before:] = [(name, is_by_hand) for name, _ in self.flows[before:]]

    def _flow(self, name: str, flowing: tuple[int, ...], outputs: Sequence[Any]) -> None:
        super()._flow(name, flowing, outputs)
        if any(output.dtype in CARRYING for output in outputs):
            self.flows.append((name, False))


class HeardCall:
    """A call that is about to be made; Variables among its arguments may be written to."""

    def __init__(
        self, calls: TensorflowRecheck, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        self.calls, self.function, self.given = calls, function, (args, dict(kwargs))
        self.owner = _owner(function)
        calls.log.kinds.clear()
        self.kinds: frozenset[str] = frozenset()
        self.is_custom = private.has_own_gradient(function)
        self.layer = function if layers.is_layer(function) else None
        self.tensors = {id(leaf): leaf for leaf in _held(function, args, kwargs) if calls.tape.is_tensor(leaf)}
        with calls.alone():
            self.values = {key: _value(tensor) for key, tensor in self.tensors.items()}

    def returned(self, result: Any) -> Operation | Reason | None:
        outputs = [place for place, leaf in leaves(result) if self.calls.is_differentiated(leaf)]
        if not outputs:
            return None
        notes = [CAPTURED] if any(map(self._is_kept_from, self._closed_over())) else []
        self.kinds = frozenset(self.calls.log.kinds)
        self.is_custom |= bool(OWN & self.kinds)
        kept = next((why for start, why in KEPT.items() if any(kind.startswith(start) for kind in self.kinds)), None)
        if kept is not None and self.layer is None:
            return kept
        found = repeatable(partial(TensorflowOperation, self, outputs), notes)
        return found if isinstance(found, Reason) or found.inputs else HELD

    def _closed_over(self) -> list[Any]:
        called = inspect.unwrap(self.function) if self.owner is None and self.layer is None else None
        return [leaf for held in closed_over((called, *self.given)) for _, leaf in leaves(held)]

    def _is_kept_from(self, leaf: Any) -> bool:
        """Is it a tensor that is differentiated? Variables are inputs, wherever a call has them from."""
        return is_eager(leaf) and variable_of(leaf) is None and self.calls.is_differentiated(leaf)


class TensorflowOperation:
    """TensorFlow's ``Operation``."""

    def __init__(self, heard: HeardCall, outputs: Sequence[str], double: bool, notes: Sequence[Reason]) -> None:
        self.heard, self.outputs, self.double, self.notes = heard, frozenset(outputs), double, notes
        self.is_custom = heard.is_custom
        with heard.calls.alone():
            self.constants = {key: self._cast(value) for key, value in heard.values.items()}
        args, kwargs = heard.given
        positional = {str(at): value for at, value in enumerate(args)}
        self.places: list[int] = []
        self.read: dict[int, Any] = {}  # of these the Variables that the call reads without being given them
        self.inputs: list[Input] = []
        own = heard.owner if heard.layer is None else layers.variables(heard.layer)
        for place, value in {"": own, **positional, **kwargs}.items():
            for path, leaf in leaves(value):
                if heard.calls.is_differentiated(leaf) and id(leaf) not in self.places:
                    self.places.append(id(leaf))
                    self.inputs.append(Input(place, path, to_numpy(self.constants[id(leaf)])))
        self.epsilon = max((_epsilon(self.constants[key]) for key in self.places), default=0.0)

    def _cast(self, tensor: Any) -> Any:
        if not self.double or not (tensor.dtype.is_floating or tensor.dtype.is_complex):
            return tensor
        return tf.cast(tensor, DOUBLE.get(tensor.dtype, tf.float64))

    def why_it_fails(self) -> Reason | None:
        try:
            with self.heard.calls.alone(), tf.GradientTape() as tape:
                outputs = self._call(self._tensors([held.value for held in self.inputs]))
        except Exception as error:  # noqa: BLE001  # whatever it is: it is the program's, and reported
            return Reason("raises", {"error": first_line(error)})
        if len(outputs) != len(self.outputs):
            return Reason("other_outputs")
        self.epsilon = max([self.epsilon, *map(_epsilon, outputs)])
        for variable in tape.watched_variables():
            self._add(variable)
        return None

    def _add(self, variable: Any) -> None:
        """An input that is a Variable which the call reads: it has the precision that it has."""
        given = [variable_of(tensor) for tensor in self.heard.tensors.values()]
        if not self.heard.calls.is_differentiated(variable) or any(variable is one for one in given):
            return
        key = id(variable)
        self.read[key] = variable
        with self.heard.calls.alone():
            self.constants[key] = tf.identity(read(variable))
        self.places.append(key)
        self.inputs.append(Input(_name(variable, self.heard.function), "", to_numpy(self.constants[key])))
        self.epsilon = max(self.epsilon, _epsilon(self.constants[key]))

    def run(self, values: Sequence[Any]) -> list[Any]:
        with self.heard.calls.alone(), self._at(values) as inputs:
            return [to_numpy(output) for output in self._call(inputs)]

    def pull(self, values: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        with self.heard.calls.alone(), self._at(values) as inputs:
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(inputs)
                outputs = self._call(inputs)
            given = [tf.cast(c, output.dtype) for c, output in zip(cotangents, outputs, strict=True)]
            pulled = tape.gradient(outputs, inputs, given)
            return [None if gradient is None else to_numpy(tf.convert_to_tensor(gradient)) for gradient in pulled]

    @contextmanager
    def _at(self, values: Sequence[Any]) -> Iterator[list[Any]]:
        """The inputs with these values; within this context the Variables that the call reads have theirs."""
        inputs = self._tensors(values)
        try:
            for at, key in enumerate(self.places):
                if key in self.read:
                    inputs[at] = self.read[key].assign(inputs[at])
            yield inputs
        finally:
            for key, variable in self.read.items():
                variable.assign(self.constants[key])

    def _tensors(self, values: Sequence[Any]) -> list[Any]:
        return [tf.constant(value, self.constants[key].dtype) for key, value in zip(self.places, values, strict=True)]

    def _call(self, inputs: Sequence[Any]) -> list[Any]:
        made = {**self.constants, **dict(zip(self.places, inputs, strict=True))}
        args, kwargs = refilled(self.heard.given, lambda leaf: made.get(id(leaf), leaf))
        owner, function = self.heard.owner, self.heard.function
        if self.heard.layer is not None:
            result, _ = layers.stateless(function, made, args, kwargs)
        else:
            result = (function if owner is None else getattr(made[id(owner)], function.__name__))(*args, **kwargs)
        return [leaf for place, leaf in leaves(result) if place in self.outputs]


def _owner(function: Any) -> Any:
    """The tensor that a method belongs to; None for any other function."""
    owner = getattr(function, "__self__", None) if isinstance(function, MethodType | BuiltinFunctionType) else None
    return owner if is_eager(owner) or variable_of(owner) is not None else None


def _name(variable: Any, function: Any) -> str:
    """What a function calls a Variable that it reads, as far as it has one name for it."""
    inner = innermost(inspect.unwrap(function))
    if inner is not None:
        seen = inspect.getclosurevars(inner)
        for name, value in (*seen.nonlocals.items(), *seen.globals.items()):
            if value is variable:
                return name
    return str(variable.name).partition(":")[0]


def _held(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
    own = layers.variables(function) if layers.is_layer(function) else {"": _owner(function)}
    return [leaf for value in (own, *args, *kwargs.values()) for _, leaf in leaves(value)]


def _value(tensor: Any) -> Any:
    variable = variable_of(tensor)
    return tensor if variable is None else read(variable)


def _why_not_again(function: Any) -> Reason | None:
    """Why a function is not called again: it might do something that is seen elsewhere. None where it may be."""
    if private.has_own_gradient(function) or _owner(function) is not None or is_python_computing(function):
        return None
    if layers.is_layer(function):
        return None if function.built else Reason("layer_not_built")
    return why_not_python(function)


def _is_copied(leaf: Any) -> bool:
    """Is it a tensor or Variable, or a value of TensorFlow's own, as a dtype or shape? Iterators are its own, too."""
    home = type(leaf).__module__.partition(".")[0]
    return is_eager(leaf) or variable_of(leaf) is not None or (home == "tensorflow" and not hasattr(leaf, "__next__"))


def _epsilon(tensor: Any) -> float:
    return float(numpy.finfo(tensor.dtype.real_dtype.as_numpy_dtype).eps) if tensor.dtype != tf.bfloat16 else 2.0**-7


def to_numpy(tensor: Any) -> Any:
    """The numbers of a tensor as float64 or complex128."""
    found = tensor.numpy()
    return found.astype(numpy.complex128 if numpy.iscomplexobj(found) else numpy.float64)
