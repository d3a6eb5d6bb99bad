"""Finds useless gradients of a single call, by running it under a tape as a script would."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from backprobe.backends.facts import Options
from backprobe.backends.tensorflow import layers
from backprobe.backends.tensorflow.arguments import lift
from backprobe.backends.tensorflow.tape import TensorflowTape
from backprobe.backends.tensorflow.tensors import identity, is_tensor
from backprobe.backends.tensorflow.useless import TensorflowUselessGradients
from backprobe.backends.useless import RepeatedCall, in_one_call
from backprobe.record.containers import leaves
from backprobe.record.reasons import Note


def of_call(call: RepeatedCall) -> Sequence[Note]:
    """Return the useless gradients of one call. Those of the Variables that the call reads are included."""
    observer, tensors, undo = TensorflowUselessGradients(), list[Any](), list[Callable[[], None]]()

    def own(tensor: Any) -> Any:
        tensors.append(tensor)
        return tensor

    try:
        given = lift(call.arguments(), call.wrt, undo, own)
        found = _found(observer, call, given, tensors)
        if observer.passes.suspicious():  # these Variables are examined in a second run
            found = _found(observer, call, given, tensors)
    finally:
        for put_back in reversed(undo):
            put_back()
    return [in_one_call(note) for note in found]


def _found(
    observer: TensorflowUselessGradients, call: RepeatedCall, given: Mapping[str, Any], tensors: Sequence[Any]
) -> Sequence[Note]:
    # Return the notes of one run, in which these tensors replace the floating-point arguments.
    tape = TensorflowTape(Options())
    held = [(f"{name}{path}", leaf) for name, value in given.items() for path, leaf in leaves(value)]
    names = {identity(leaf): name for name, leaf in held if is_tensor(leaf)}
    if layers.is_layer(call.target):
        names |= {identity(one): path for path, one in layers.variables(call.target).items()}
    try:
        with tape.recorded() as recording, observer.observing(tape.log):
            for tensor in tensors:
                recording.watch(tensor)
                tape.log.root(tensor)
            output, cotangent = call.output(call.make(given), tape)
            sources = [*tensors, *recording.watched_variables()]
            with observer.backward():
                gradients = recording.gradient(output, sources, cotangent)
            observer.gave([(output, cotangent)], sources, gradients)
            return observer.found(lambda one: names.get(identity(one), str(getattr(one, "name", "a Variable"))))
    finally:
        tape.release()
