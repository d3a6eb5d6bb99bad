"""The verdict on a program: the findings of its report or the note on its error, and how they print."""

import contextlib
import functools
import re
import warnings
from dataclasses import dataclass

import backprobe as bp
from threads import WORDS

CONSEQUENCES = ("propagated", "healed")
"""What a report lists after the births: where NaN and Inf went."""
PLACE = r"\S*[\\/]\w+\.py:(?P<line>\d+): (?P<text>.*)"
INSIDE, ALONE = re.compile(rf"\({PLACE}\)(?P<rest>, for .*)?$"), re.compile(rf"(?<= ){PLACE}$(?P<rest>)")


@dataclass(frozen=True)
class Verdict:
    """``kinds`` and ``lines`` are what a thread states; ``rows`` what the table shows, a sentence and its line each."""

    kinds: tuple[str, ...]
    lines: dict[str, list[int]]
    rows: tuple[str, ...]
    text: str


def asked(thread):
    """Run the program, and ask backprobe about it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if thread.form == "error":
            return of_note(raised(thread, bp.probe).__notes__[-1])
        options = {"nonfinite": True} if thread.form == "nonfinite" else {}
        probe = functools.partial(bp.probe, **options)
        recording = probe(thread.program)(*thread.args) if thread.args else thread.program(probe)
    report = bp.explain(recording, thread.asked) if thread.asked else bp.explain(recording)
    return of_report(report)


def raised(thread, probe):
    """The error of a program."""
    try:
        thread.program(probe)
    except RuntimeError as error:
        return error
    raise ValueError(f"{thread.name} raises nothing")


def bare(thread):
    """Run a program without backprobe."""
    with warnings.catch_warnings(), contextlib.suppress(RuntimeError):
        warnings.simplefilter("ignore")
        return thread.program(*thread.args) if thread.args else thread.program(lambda *_: contextlib.nullcontext())


def of_report(report):
    causes = [finding for finding in report.findings if finding.kind not in CONSEQUENCES]
    rows = [
        finding.headline + (f", at `{without_mark(finding.source.text)}`" if finding.source else "")
        for finding in causes
    ] or [report.heading]
    remedies = dict.fromkeys(finding.remedy.replace("\n", " ") for finding in causes if finding.remedy)
    lines = sorted({finding.source.line for finding in causes if finding.source})
    return Verdict(
        tuple(finding.kind for finding in causes),
        {"here": lines},
        (*rows, *(f"next: {one}" for one in remedies)),
        str(report),
    )


def of_note(note):
    lines, rows = {}, []
    for text in note.removeprefix("backprobe: ").splitlines():
        word = next((word for word in WORDS if text.strip().startswith(word)), None)
        found = INSIDE.search(text) or ALONE.search(text)
        if word is not None and found is not None:
            lines.setdefault(word, []).append(int(found["line"]))
        if found is not None:
            text = text[: found.start()] + f"`{without_mark(found['text'])}`{found['rest'] or ''}"
        rows.append(re.sub(r"  +", " ", text.strip()))
    return Verdict((), {word: sorted(set(found)) for word, found in lines.items()}, tuple(rows), note)


def without_mark(text):
    return text.partition("  # <-")[0].strip()
