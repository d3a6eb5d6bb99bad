"""Exact effects of edges: the change of the output if one value is patched along a single edge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from backprobe.probe.request import name_of
from backprobe.show.progress import progress
from backprobe.sweep.result import Replaced, Sweep


def _always(given: Any) -> Callable[[Any], Any]:
    # A replacement function that ignores the computed value and always returns the given one.
    return lambda value: given


def exact_edges(runs: Any, of: str, output: float, edges: Mapping[tuple[str, str], float]) -> Sweep:
    """Run the program to find the exact effect of each edge: two runs for an edge, or one if it leads to the output.

    In the first run, the source has its value of the clean run, and all other selected values except the target have
    theirs of the corrupt run. The target therefore changes through this edge alone. The second run replaces only the
    target, by its value from the first run.
    """
    asked, keys = runs.asked, runs.keys
    clean, corrupt = (runs.recorded(given, [*keys.values()]) for given in (asked.clean_args, asked.corrupt_args))
    held = {key: _always(corrupt[key].value) for key in keys.values()}
    found = []
    with progress(f"edges of {name_of(asked.target)}", len(edges)) as advance:
        for (source, target), attribution in edges.items():
            shown = f"{source} → {target}"
            advance(shown)
            moved = {key: one for key, one in held.items() if key != keys.get(target)}
            moved[keys[source]] = _always(clean[keys[source]].value)
            recording = runs.recorded(asked.corrupt_args, keys.get(target, keys[source]), replaced=moved)
            if target in keys:
                arrived = {keys[target]: _always(recording[keys[target]].value)}
                recording = runs.recorded(asked.corrupt_args, keys[target], replaced=arrived)
            number = float(runs.arrays.numbers(recording.outputs[0].value).item())
            found.append(Replaced(shown, (), shown, number, attribution))
    return Sweep(name_of(asked.target), of, output, tuple(found), is_approximate=True, replaced="edge")
