"""Runs a program whose gradients are differentiated again, either unchanged or with something added to named values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from operator import add
from typing import Any

from backprobe.backends.discover import is_model
from backprobe.backends.facts import Options
from backprobe.backends.protocol import Backend
from backprobe.backends.second_order import Vectors
from backprobe.probe.probe_class import Probe
from backprobe.record.entries import Entry, GradStatus
from backprobe.record.names import quote_path, strip
from backprobe.record.patterns import matcher
from backprobe.recording import Recording


@dataclass(frozen=True)
class NamedGradients:
    """A program with its arguments, and named values in it. ``keys`` maps each name to the name that ``replace`` uses.
    ``variables`` are those of the values that cannot be replaced, by name.

    ``first`` are the entries of an unchanged run, and ``output`` is the name of the output.
    """

    target: Any
    of: Any
    backend: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    keys: Mapping[str, str]
    variables: Mapping[str, Any]
    first: Mapping[str, Entry]
    output: str

    def entries(self, shifts: Vectors, *, create_graph: bool = False) -> Mapping[str, Entry]:
        """Run the program with the shifts added to the values that they name. Returns the entries of all of
        ``keys``, by name.
        """
        replace = {self.keys[name]: partial(add, shift) for name, shift in shifts.items()}
        recording = Probe(
            self.target,
            [*self.keys.values()],
            of=self.of,
            replace=replace or None,
            options=Options(create_graph=create_graph),
            backend=self.backend,
        )(*self.args, **self.kwargs)
        return {name: recording[key] for name, key in self.keys.items()}


def named_gradients(
    backend: Backend,
    target: Any,
    select: Any,
    of: Any,
    asked: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    is_name: bool = False,
) -> NamedGradients:
    """Return the program with the values that patterns select, or with the single value of a given name.

    Of the selected values, only those with a gradient count, and no outputs. Raises NothingMatched, UnknownName and
    AmbiguousName, and NoGradient for a name whose value has no gradient.
    """
    recording = Probe(target, select, of=of, backend=asked)(*args, **kwargs)
    is_function = not is_model(backend, target)
    keys = {} if is_name else _differentiated(recording, select, in_function=is_function)
    if not keys and isinstance(select, str) and (is_name or "*" not in select):
        entry = recording[select]
        _ = entry.grad  # raises NoGradient with the reason if the gradient is missing
        keys = {select: select} if is_name else {}
    variables: dict[str, Any] = {}
    models = backend.models
    if not is_function and models is not None and not models.replaces_parameters and models.parameters is not None:
        known = {quote_path(path): one for path, one in models.parameters(target).items()}
        variables = {name: known[strip(key)] for name, key in keys.items() if strip(key) in known}
    first = {name: recording[key] for name, key in keys.items()}
    output = of if isinstance(of, str) else recording.outputs[0].name
    return NamedGradients(target, of, asked, args, kwargs, keys, variables, first, output)


def _differentiated(recording: Recording, select: Any, *, in_function: bool) -> dict[str, str]:
    # Return, for each selected value that has a gradient and is no output, its printed name and the name that
    # ``replace`` uses.
    record, selects = recording.record, matcher(select, in_function=in_function)
    matched = {at: full for full, at in reversed([*record.names.items()]) if selects(full)}
    found = {}
    for at, full in sorted(matched.items()):
        if at not in record.outputs and record.entries[at].status is GradStatus.OK:
            printed = record.printed[full]
            found[record.entries[at].name] = strip(full) if strip(printed) == printed else full
    return found
