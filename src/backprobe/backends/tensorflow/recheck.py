"""Repeats calls of TensorFlow eagerly, on copies of their tensors, in double precision."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from backprobe.backends.facts import Options
from backprobe.backends.immutable import rounding
from backprobe.backends.numpy import wide
from backprobe.backends.pure_calls import is_python_computing, why_not_python
from backprobe.backends.random_states import OF_PYTHON, put_back
from backprobe.backends.recheck import Given, Input, Program, Recheck, RecordedCall
from backprobe.backends.tensorflow import layers, private
from backprobe.backends.tensorflow.arguments import lift
from backprobe.backends.tensorflow.functions import TensorflowCallables
from backprobe.backends.tensorflow.hearing import OwnGradient
from backprobe.backends.tensorflow.operation_log import CARRYING, OperationLog
from backprobe.backends.tensorflow.tape import TensorflowTape
from backprobe.backends.tensorflow.tensors import is_eager, is_tensor, read, variable_of
from backprobe.record.reasons import Reason
from backprobe.source.user_code import innermost

RANDOM = Reason("random")
WRITES = Reason("writes_variable")
KEPT = {
    "Random": RANDOM,
    "Stateful": RANDOM,
    "TruncatedNormal": RANDOM,
    "ParameterizedTruncated": RANDOM,
    "Multinomial": RANDOM,
    "Assign": WRITES,
    "ResourceApply": WRITES,
    "ResourceScatter": WRITES,
}
"""Prefixes of operations that are not repeated."""
BY_HAND = "custom_gradient"
"""Added to a call's operations for each function with a custom gradient that ran, such as a py_function."""
DOUBLE = (tf.float64, tf.complex128)
OWN = frozenset({BY_HAND, "IdentityN"})  # kinds that stand for functions with custom gradients


class KindsLog(OperationLog):
    """A log that also stores the kinds of operations in the current call, and the differentiated operations outside of
    all calls.
    """

    def __init__(self) -> None:
        super().__init__()
        self.kinds: set[str] = set()
        self.flows: list[tuple[str, bool]] = []  # names, and whether they have a custom gradient
        self.coarsest = 0.0  # largest epsilon of the dtypes to which muted operations cast numbers

    def operation(self, kind: Any, inputs: Sequence[Any], attrs: Any, outputs: Any, *args: Any, **kwargs: Any) -> None:
        if not self.is_muted:
            self.kinds.add(kind.decode() if isinstance(kind, bytes) else str(kind))
        elif any(one.dtype in DOUBLE for one in inputs):
            made = (one.dtype for one in outputs or () if one.dtype.is_floating or one.dtype.is_complex)
            self.coarsest = max([self.coarsest, *(rounding(dtype.as_numpy_dtype) for dtype in made)])
        super().operation(kind, inputs, attrs, outputs, *args, **kwargs)

    def recorded(
        self, name: str, outputs: Sequence[Any], inputs: Sequence[Any], is_by_hand: bool
    ) -> OwnGradient | None:
        if is_by_hand and not self.is_muted:
            self.kinds.add(BY_HAND)
        before = len(self.flows)
        heard = super().recorded(name, outputs, inputs, is_by_hand)
        self.flows[before:] = [(name, is_by_hand) for name, _ in self.flows[before:]]
        return heard

    def _flow(self, name: str, flowing: tuple[int, ...], outputs: Sequence[Any]) -> None:
        super()._flow(name, flowing, outputs)
        if any(private.dtype_number(output) in CARRYING for output in outputs):
            self.flows.append((name, False))


class TensorflowCall(RecordedCall):
    """A call of TensorFlow. While it is repeated, the Variables that it reads are set to other values."""

    recheck: TensorflowRecheck

    def __init__(self, recheck: Recheck, function: Any, pure: Callable[..., Any], given: Given) -> None:
        super().__init__(recheck, function, pure, given)
        self.read: dict[int, Any] = {}  # inputs that are Variables, which the call reads without receiving them
        self.recheck.log.kinds.clear()

    def why_not_again(self) -> Reason | None:
        kinds = self.recheck.log.kinds
        self.is_custom |= not OWN.isdisjoint(kinds)
        kept = (why for start, why in KEPT.items() if any(kind.startswith(start) for kind in kinds))
        return None if layers.is_layer(self.function) else next(kept, None)

    def is_captured(self, leaf: Any) -> bool:
        """Return whether the leaf is a captured tensor. Variables do not count, because a call's Variables are always
        inputs.
        """
        return is_eager(leaf) and variable_of(leaf) is None and self.recheck.is_differentiated(leaf)

    def kept(self, tensor: Any) -> Any:
        variable = variable_of(tensor)
        with self.recheck.alone():
            return tensor if variable is None else read(variable)

    def cast(self, tensor: Any) -> Any:
        if not self.double or not (tensor.dtype.is_floating or tensor.dtype.is_complex):
            return tensor
        with self.recheck.alone():
            return tf.cast(tensor, tf.complex128 if tensor.dtype.is_complex else tf.float64)

    def rounding(self, tensor: Any) -> float:
        return rounding(tensor.dtype.as_numpy_dtype)

    def numbers(self, tensor: Any) -> Any:
        return wide(tf.convert_to_tensor(tensor).numpy())

    def attempt(self) -> tuple[list[Any], float]:
        log = self.recheck.log
        log.coarsest = 0.0
        with self.recheck.alone(), tf.GradientTape() as tape:
            outputs = self.call(self._made(self.values))
        coarsest = log.coarsest
        given = [variable_of(leaf) for _, leaf in self.recheck.leaves(self.given)]
        watched = [variable for variable in tape.watched_variables() if self.recheck.is_differentiated(variable)]
        self.read = {id(one): one for one in watched if not any(one is other for other in given)}
        for key, variable in self.read.items():  # the precision of a Variable cannot be changed
            with self.recheck.alone():
                self.constants[key] = tf.identity(read(variable))
            self.inputs[key] = Input(_name(variable, self.function), "")
            self.values.append(self.numbers(self.constants[key]))
        return outputs, coarsest

    def run(self, values: Sequence[Any]) -> list[Any]:
        with self.recheck.alone(), self._at(values) as made:
            return [self.numbers(output) for output in self.call(made)]

    def pull(self, values: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        with self.recheck.alone(), self._at(values) as made:
            inputs = [made[key] for key in self.inputs]
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(inputs)
                outputs = self.call(made)
            given = [tf.cast(c, output.dtype) for c, output in zip(cotangents, outputs, strict=True)]
            return self.all_numbers(tape.gradient(outputs, inputs, given))

    def pull_twice(self, values: Sequence[Any], cotangents: Sequence[Any], seconds: Sequence[Any]) -> list[Any]:
        with self.recheck.alone(), self._at(values) as made:
            inputs = [made[key] for key in self.inputs]
            with tf.GradientTape(watch_accessed_variables=False) as second:
                second.watch(inputs)
                with tf.GradientTape(watch_accessed_variables=False) as tape:
                    tape.watch(inputs)
                    outputs = self.call(made)
                given = [tf.cast(tf.constant(c), one.dtype) for c, one in zip(cotangents, outputs, strict=True)]
                second.watch(given)
                found = [
                    None if one is None else tf.convert_to_tensor(one) for one in tape.gradient(outputs, inputs, given)
                ]
            seen = [(one, tf.cast(c, one.dtype)) for one, c in zip(found, seconds, strict=True) if one is not None]
            ends, weights = zip(*seen, strict=True) if seen else ((), ())
            return self.all_numbers(second.gradient(list(ends), [*inputs, *given], list(weights)))

    @contextmanager
    def _at(self, values: Sequence[Any]) -> Iterator[dict[int, Any]]:
        # Yield the tensors for these values. Inside this context, the Variables that the call reads are set to their
        # values.
        made = self._made(values)
        try:
            yield {**made, **{key: variable.assign(made[key]) for key, variable in self.read.items()}}
        finally:
            for key, variable in self.read.items():
                variable.assign(self.constants[key])

    def _made(self, values: Sequence[Any]) -> dict[int, Any]:
        pairs = zip(self.inputs, values, strict=True)
        return {**self.constants, **{key: tf.constant(value, self.constants[key].dtype) for key, value in pairs}}


class TensorflowRecheck(TensorflowCallables, Recheck):
    """Implements ``Recheck`` for TensorFlow. The program runs eagerly under a gradient tape, which decides what is
    differentiated.
    """

    recorded = TensorflowCall

    def __init__(self) -> None:
        super().__init__()
        self.tape = TensorflowTape(Options())
        self.tape.log = self.log = KindsLog()
        self.flows = self.log.flows
        self.recording: Any = None
        self.tapes: list[Any] = []  # the program's own tapes that have computed derivatives

    def run(self, program: Program, target: Any, inputs: Mapping[str, Any], undo: list[Callable[[], None]]) -> None:
        with self.tape.recorded() as self.recording:
            program(target, lift(inputs, None, undo, self._watched))

    def _watched(self, tensor: Any) -> Any:
        self.recording.watch(tensor)
        self.tape.log.root(tensor)
        return tensor

    def is_whole(self, function: Any) -> bool:
        return private.has_own_gradient(function)

    is_custom = is_whole

    def split(self, function: Any) -> tuple[Callable[..., Any], Any]:
        if not layers.is_layer(function):
            return super().split(function)
        own = layers.variables(function)

        def stateless(held: Mapping[str, Any], /, *args: Any, **kwargs: Any) -> Any:
            values = {id(variable): held[path] for path, variable in own.items()}
            return layers.stateless(function, values, args, kwargs)[0]

        return stateless, own

    def why_not(self, function: Any, tensors: Sequence[Any]) -> Reason | None:
        if self.is_custom(function) or self.owner(function) is not None or is_python_computing(function):
            return None
        tape = getattr(function, "__self__", None)
        if isinstance(tape, tf.GradientTape) and function.__name__ in private.GIVING:
            self.differentiates_twice = True
            again = any(tape is not one for one in self.tapes)
            self.tapes.append(tape)
            return Reason("derives_again" if again else "computes_derivatives")
        if layers.is_layer(function):
            return None if function.built else Reason("layer_not_built")
        return why_not_python(function)

    def is_copied(self, leaf: Any) -> bool:
        """Is the leaf a tensor, a Variable, or another value of TensorFlow, such as a dtype? Iterators of TensorFlow do
        not count.
        """
        home = type(leaf).__module__.partition(".")[0]
        return self.is_tensor(leaf) or (home == "tensorflow" and not hasattr(leaf, "__next__"))

    is_tensor = staticmethod(is_tensor)

    def is_differentiated(self, leaf: Any) -> bool:
        return self.tape.is_tensor(leaf) and self.tape.is_floating(leaf) and self.tape.is_differentiated(leaf)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Inside this context nothing is recorded on the program's tape, and random states of Python and NumPy are
        restored afterwards.
        """
        with put_back(OF_PYTHON), self.recording.stop_recording(), self.log.muted():
            yield

    def release(self) -> None:
        self.tape.release()
        self.tapes.clear()
        self.recording = None


def _name(variable: Any, function: Any) -> str:
    # Return the name by which a function refers to a Variable that it reads, or TensorFlow's name.
    inner = innermost(inspect.unwrap(function))
    if inner is not None:
        seen = inspect.getclosurevars(inner)
        for name, value in (*seen.nonlocals.items(), *seen.globals.items()):
            if value is variable:
                return name
    return str(variable.name).partition(":")[0]
