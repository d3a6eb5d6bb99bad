"""The text of a memory report."""

from __future__ import annotations

from typing import Any

from backprobe.backends.memory import KeptObject
from backprobe.findings.phrasing import plural
from backprobe.record.brief import place
from backprobe.record.source import Source

UNITS = ("bytes", "kB", "MB", "GB", "TB")


def size(count: int) -> str:
    """A number of bytes in the unit that fits.

    >>> size(12), size(1_234_567)
    ('12 bytes', '1.2 MB')
    """
    number, unit = float(count), 0
    while number >= 1000 and unit < len(UNITS) - 1:
        number, unit = number / 1000, unit + 1
    return f"{number:.0f} {UNITS[unit]}" if unit == 0 else f"{number:.1f} {UNITS[unit]}"


def where(source: Source | None) -> str:
    """A line as its file and number."""
    return "–" if source is None else place(source.file, source.line)


def heading(report: Any) -> str:
    """The heading of a report: how much memory was kept, in how many steps."""
    kept = f"{size(report.nbytes)} kept for backward" + (" in the largest step" if report.steps > 1 else "")
    device = "" if report.device_peak is None else f", at most {size(report.device_peak)} on the GPU"
    return f"{kept}, at most {size(report.peak)} at once{device}; {plural(report.steps, 'step')}"


def about_cycle(steps: int, kept: int, source: Source | None) -> tuple[str, str]:
    """The finding and advice for tensors that only a cycle of references keeps alive."""
    at = "" if source is None else f" at {where(source)}: `{source.text}`"
    said = f"no variable leads to the graphs of {steps:,} earlier steps, {size(kept)}, made{at}"
    return (
        f"{said}: they hold each other, up to the next run of Python's collector, or the framework does",
        "in a custom function ctx.save_for_backward(result), in the place of an attribute of ctx",
    )


def about_hooks(kept: KeptObject) -> tuple[str, str]:
    """The finding and advice for hooks that are registered in each step."""
    at = "" if kept.source is None else f", {where(kept.source)}: `{kept.source.text}`"
    return (
        f"modules have more hooks after each step, {kept.count:,} after the last: {kept.name}{at}",
        "handle = module.register_forward_hook(...) once, or handle.remove() at the end of the step",
    )


def about_gradients(kept: KeptObject) -> tuple[str, str]:
    """The finding and advice for gradients that are set to zero instead of None."""
    at = "" if kept.source is None else f"; the step ended at {where(kept.source)}"
    return (
        f"gradients of {size(kept.nbytes)} are zeros when a step begins, and stay through its forward{at}",
        "optimizer.zero_grad(), whose set_to_none is True by default, or model.zero_grad()",
    )
