"""The verdict: a probe's names, values and gradients against the oracle's."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

import backprobe as bp
from random_programs.interpreter import ARGUMENTS, Interpreter
from random_programs.names import Binding

STEP = 1e-6
RTOL, ATOL = 1e-6, 1e-7
LARGEST = 100.0  # rounding in a central difference grows with the values: LARGEST * 2.2e-16 / STEP is within ATOL


@dataclass
class Tally:
    """What was seen over many programs."""

    run: int = 0
    discarded: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    names: int = 0

    def __str__(self) -> str:
        dropped = ", ".join(f"{count} {why}" for why, count in self.discarded.items()) or "none"
        entries = ", ".join(f"{count} {status}" for status, count in self.statuses.items())
        return f"{self.run} programs run ({dropped} discarded), {self.names} names, entries: {entries}"


def load(program: str, path: Path, **names: Any) -> Callable[..., Any]:
    """The function ``f`` of this program, from a file of its own, where a probe will look for its source."""
    path.write_text(program)
    module: dict[str, Any] = {"__name__": path.stem, **names}
    exec(compile(program, path, "exec"), module)
    return module["f"]


def check(program: str, folder: Path, tally: Tally) -> bool:
    """Compare a probe of this program with the oracle.

    False where there is nothing to compare: PyTorch itself cannot differentiate the program, or its values are too
    large for differences.
    """
    tally.run += 1
    path = folder / f"program_{tally.run}.py"
    try:
        return _check(program, load(program, path), tally)
    except Exception as error:
        error.add_note(program)
        raise
    finally:
        path.unlink()


def _check(program: str, function: Callable[..., Any], tally: Tally) -> bool:
    arguments = [torch.tensor(v, dtype=torch.float64) for v in ARGUMENTS[: function.__code__.co_argcount]]
    oracle = Interpreter()
    output, expected = plain_output(function, arguments), oracle.run(program)
    if output is None or not oracle.memory.largest < LARGEST:
        tally.discarded["refused by PyTorch" if output is None else "too large"] += 1
        return False
    assert np.allclose(output, expected[0], 1e-9, 1e-12), "the oracle is wrong"
    recording = bp.probe(function)(*[argument.clone() for argument in arguments])
    bindings = oracle.names.bindings
    return compare(program, bindings, recording, tally)


def plain_numpy(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().numpy()


def compare(
    program: str,
    bindings: Sequence[Binding],
    recording: Any,
    tally: Tally,
    numpy: Callable[[Any], np.ndarray] = plain_numpy,
    interpreter: type[Interpreter] = Interpreter,
) -> bool:
    """Names, values and gradients, each against the oracle's. False where no difference quotient judges them."""
    entries = compare_names(bindings, recording, numpy)
    numeric = differences(program, bindings, interpreter=interpreter)
    try:
        for binding in bindings:
            if binding.moment is not None:
                compare_gradient(binding, entries[binding.name], numeric[binding.moment], numpy)
    except AssertionError:
        if settled(numeric, differences(program, bindings, 2 * STEP, interpreter)):
            raise
        tally.discarded["too steep for a difference quotient"] += 1
        return False
    tally.names += len(bindings)
    tally.statuses.update(entry.status for entry in recording.values())
    return True


def plain_output(function: Callable[..., Any], arguments: Sequence[torch.Tensor]) -> float | None:
    """What the program returns without a probe; None where PyTorch refuses the backward pass."""
    output = function(*[argument.clone().requires_grad_().clone() for argument in arguments])
    try:
        output.backward()
    except RuntimeError as error:
        if "modified by an inplace operation" not in str(error):
            raise
        return None
    return output.item()


def settled(numeric: dict[int, np.ndarray], coarse: dict[int, np.ndarray]) -> bool:
    """Does the difference quotient of twice the step agree with this one? If not, neither can judge a gradient."""
    return all(np.allclose(numeric[moment], coarse[moment], RTOL, ATOL) for moment in numeric)


def differences(
    program: str, bindings: Sequence[Binding], step: float = STEP, interpreter: type[Interpreter] = Interpreter
) -> dict[int, np.ndarray]:
    """The central difference of the output by every element of what these names mean, by moment, all in one run.

    A row of the arrays is one element of one object, moved up or down.
    """
    values = {binding.moment: binding.value for binding in bindings if binding.moment is not None}
    rows, nudges = 0, {}
    for moment, value in values.items():
        elements, size = np.arange(value.size), value.size
        nudges[moment] = (np.arange(rows, rows + 2 * size), np.tile(elements, 2), np.repeat([step, -step], size))
        rows += 2 * size
    output = interpreter(nudges, rows).run(program)
    moved = {moment: output[at].reshape(2, *values[moment].shape) for moment, (at, _, _) in nudges.items()}
    return {moment: (up - down) / (2 * step) for moment, (up, down) in moved.items()}


def compare_names(
    bindings: Sequence[Binding], recording: Any, numpy: Callable[[Any], np.ndarray] = plain_numpy
) -> dict[str, Any]:
    """Every binding has its entry with its value, the names of one object share one, and there is no other name."""
    entries, by_moment = {}, {}
    for binding in bindings:
        name, value = binding.name, binding.value
        assert name in recording, f"{name} is missing"
        entry = entries[name] = recording[name]
        if binding.moment is None:
            assert (entry.status, entry.value) == ("not_tensor", value), f"{name} is {entry.value} and not {value}"
            continue
        first = by_moment.setdefault(binding.moment, entry)
        assert first is entry, f"{name} is another entry, {entry.name}, than {first.name}"
        found = numpy(entry.value)
        same = found.shape == entry.shape == value.shape and np.allclose(found, value, 1e-9, 1e-12)
        assert same, f"{name} has value\n{found}\nand not\n{value}"
    assert len({id(entry) for entry in by_moment.values()}) == len(by_moment), "values in one"
    names = [name for entry in recording.values() for name in (entry.name, *entry.aliases)]
    assert len(names) == len(bindings), f"{sorted(names)}\nand not\n{sorted(entries)}"
    return entries


def compare_gradient(
    binding: Binding, entry: Any, numeric: np.ndarray, numpy: Callable[[Any], np.ndarray] = plain_numpy
) -> None:
    """A gradient is the difference quotient, to the accuracy of one; what is not connected changes nothing at all."""
    if entry.status == "not_connected":
        agrees, found = not numeric.any(), "not_connected"
    elif entry.status == "ok":
        found = numpy(entry.grad)
        agrees = np.allclose(found, numeric, RTOL, ATOL)
    else:
        agrees, found = False, f"{entry.status}: {entry.reason}"
    assert agrees, f"{binding.name} has gradient\n{found}\nand not\n{numeric}"
