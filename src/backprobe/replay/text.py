"""The texts that ``replay`` prints and raises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backprobe.backends.captures import CapturedStep, MisfitParameter, RanCalls
from backprobe.findings.phrasing import listed, plural, quoted
from backprobe.record.names import nearest
from backprobe.record.stamp import stamp

BESIDE_THE_STEP = (
    "; the forward reads something that is not in the step, such as an attribute, or an operation of it is not "
    "deterministic"
)


def misfits(found: Sequence[MisfitParameter]) -> str:
    """Return a text about the parameters that do not fit, with the most similar names."""
    missing = [one.name for one in found if one.captured is None]
    said = []
    for one in found:
        if one.captured is not None and one.held is None:
            near = nearest(one.name, missing)
            of_shape = f" of shape {one.captured}" if one.captured else ""
            said.append(
                f"the step has {one.name!r}{of_shape}, and the model does not"
                + (f"; it has {near[0]!r}" if near else "")
            )
        elif one.captured is not None:
            said.append(f"{one.name!r} is of shape {one.captured} in the step, and of {one.held} in the model")
    said += [f"the model has {name!r}, and the step does not" for name in missing]
    more = [f"and {len(said) - FEW} more"] if len(said) > FEW else []
    return "\n".join([*said[:FEW], *more])


FEW = 4


def sizes(found: Sequence[MisfitParameter]) -> str:
    """Return a text about the parameters and sizes that the model should have."""
    return listed(
        [f"{one.name} {one.captured}" for one in found if one.captured][:2] or [one.name for one in found][:2]
    )


@dataclass(frozen=True)
class ComparedBits:
    """The outputs and gradients that are bitwise equal to those of the original step, and those that differ."""

    same_outputs: int
    other_outputs: Sequence[str]
    same_gradients: int
    other_gradients: Sequence[str]

    @classmethod
    def of(cls, step: CapturedStep, ran: RanCalls) -> ComparedBits:
        """Compare all outputs and gradients of the original step. One that the new run lacks counts as different."""
        outputs = [
            (f"{call.path}:return{path}", known["digest"] == now.get(path, {}).get("digest"))
            for call, now in zip(step.calls, ran.returned, strict=True)
            for path, known in call.returned.items()
        ]
        gradients = [
            (name, known["digest"] == ran.gradients.get(name, {}).get("digest"))
            for name, known in step.gradients.items()
        ]
        return cls(
            sum(same for _, same in outputs),
            [name for name, same in outputs if not same],
            sum(same for _, same in gradients),
            [name for name, same in gradients if not same],
        )

    @property
    def is_bitwise(self) -> bool:
        """Was anything compared, and was everything that was compared equal?"""
        return not self.other_outputs and not self.other_gradients and bool(self.same_outputs + self.same_gradients)

    def sentence(self, otherwise: Sequence[str]) -> str:
        """Return a sentence about the outputs and gradients that were reproduced, and those that were not."""
        if not (self.same_outputs or self.same_gradients or self.other_outputs or self.other_gradients):
            return "nothing could be compared with what the step gave when it failed"
        same = [
            plural(count, name)
            for count, name in ((self.same_outputs, "output"), (self.same_gradients, "gradient"))
            if count
        ]
        if self.is_bitwise:
            return f"the same in every bit as when it failed: {listed(same)}"
        said = f"the same in every bit: {listed(same)}; " if same else ""
        if self.other_outputs:
            because = "" if otherwise else BESIDE_THE_STEP
            return f"{said}not the same in every bit: {quoted(list(self.other_outputs), 4)}{because}"
        return (
            f"{said}not the same in every bit: the gradients of {quoted(list(self.other_gradients), 4)}, to which "
            "something else than this model's calls may have added, such as a penalty on weights"
        )


def versions(said: Mapping[str, Any], backend: str) -> list[str]:
    """Return a text for each package whose version has changed since the capture, and one if the system has."""
    before, now = said["stamp"]["packages"], stamp().packages
    changed = [
        f"{name} {before[name]} then, and {now[name]} now"
        for name in (backend, "keras", "numpy")
        if name in before and name in now and before[name] != now[name]
    ]
    system = (said["stamp"]["system"], stamp().system)
    return [*changed, *([f"it ran on {system[0]}, and now on {system[1]}"] if system[0] != system[1] else [])]


def own_parameters(step: CapturedStep) -> list[str]:
    """Return a note if parameters or buffers were not written to the folder, so that those of the model were used."""
    missing = [name for name, one in step.parameters.items() if one.tensor is None]
    states = [name for call in step.calls for name, one in call.state.items() if one.tensor is None]
    if not missing and not states:
        return []
    kinds = " and ".join(name for name, found in (("parameters", missing), ("buffers", states)) if found)
    return [f"the {kinds} were left out, as they are large: it ran with those of the model that was given"]
