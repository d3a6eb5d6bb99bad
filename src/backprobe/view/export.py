"""The text of the page that shows runs: for a server, of which the page asks questions, or for a file that includes the
answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from backprobe.storage.runs.merged import LOGGED
from backprobe.view.answers import Answers, measured_names
from backprobe.view.packing import Packed
from backprobe.view.runs import OpenRun, ShownRuns
from backprobe.view.shown import Shown
from backprobe.view.template import assembled, script_of, text_of, zipped

SHOWN = ("grad.rms", "value.rms", "param.rms", "update.ratio", "grad.absmax", "value.absmax")
CELLS, FEWEST_BINS = 400_000, 40  # the most cells of a field in a file, but at least FEWEST_BINS bins
MOST_STEPS, MOST_MAGNITUDES = 12, 24  # steps and histograms that a file includes in full


def live_page() -> tuple[str, str]:
    """The page for a server, and its content security policy. The page requests the script of circuits when
    it needs it.
    """
    return assembled(
        "backprobe", {"live": True}, text_of("page.css"), script_of("page"), later=[script_of("circuit")], asks=True
    )


def page_of(
    runs: ShownRuns,
    shown: Sequence[Shown] = (),
    *,
    bins: int = 300,
    fields: tuple[str, ...] = SHOWN,
    start: Mapping[str, Any] | None = None,
) -> str:
    """The page with its answers included: for each run ``fields``, and those of alerts, in at most ``bins`` bins of
    steps, the logged numbers, the alerts, and some steps in full; and each item in ``shown``.
    """
    answers = Answers(runs, shown, is_rounded=True)
    found = [*_answers(answers, bins, fields), *_of_shown(answers)]
    store = {question: zipped(b"".join(answer)) for question, answer in found}
    data = {"live": False, "start": start or {}, "runs": answers.brief(), "store": store}
    names = ", ".join([*(one.label for one in runs.all()), *(one.title for one in shown)])
    later = [script_of("circuit")] if any(one.kind != "sweep" for one in shown) else []
    return assembled(f"backprobe: {names}", data, text_of("page.css"), script_of("page"), later=later)[0]


def _of_shown(answers: Answers) -> Iterator[tuple[str, Packed]]:
    # The answers about items that are shown with the runs, and the script that draws them.
    if answers.shown:
        yield "others?", answers.answer("others", {})
    for number in range(len(answers.shown)):
        for question in ("other", "names"):
            yield f"{question}?other={number}", answers.answer(question, {"other": str(number)})
    if any(one.kind != "sweep" for one in answers.shown):
        yield "circuit?", answers.answer("circuit", {})


def _answers(answers: Answers, bins: int, fields: tuple[str, ...]) -> Iterator[tuple[str, Packed]]:
    # The questions about runs that a file answers, each with its answer.
    runs = answers.runs.all()
    wanted = sorted({step for run in runs for step in _steps_of_alerts(run)})
    for run in runs:
        yield _asked(answers, "about", run)
        yield _asked(answers, "alerts", run)
        yield _asked(answers, "nonfinite", run)
        for other in runs:
            if other is not run:
                yield _asked(answers, "parting", run, **{"with": other.number})
        with run.judging() as (reader, judge):
            alerts = [one for rule in judge.now().rules for one in rule.alerts()]
            known, logged = reader.fields(), reader.names_of(LOGGED)
            steps, count = reader.info()["step"].tolist(), len(measured_names(reader))
            counted = MOST_MAGNITUDES if reader.has_exponents() else 0
        for name in logged:
            yield _asked(answers, "series", run, name=name, field=LOGGED, bins=1000)
        fitting = max(FEWEST_BINS, min(bins, CELLS // max(1, count)))
        for field in dict.fromkeys([*fields, *(one.field for one in alerts)]):
            if field in known and field != LOGGED:
                yield _asked(answers, "grid", run, field=field, bins=fitting)
        for step in list(dict.fromkeys([*steps[-1:], *wanted]))[:MOST_STEPS]:
            yield _asked(answers, "step", run, step=step)
        for one in alerts[:counted]:
            kind = one.field.partition(".")[0]
            if kind in ("value", "grad", "param", "update"):
                yield _asked(answers, "magnitudes", run, name=one.name, kind=kind)


def _asked(answers: Answers, question: str, run: OpenRun, **query: Any) -> tuple[str, Packed]:
    texts = {"run": str(run.number), **{name: str(value) for name, value in query.items()}}
    return f"{question}?{urlencode(texts)}", answers.answer(question, texts)


def _steps_of_alerts(run: OpenRun) -> list[int]:
    with run.judging() as (_, judge):
        return [one.step for rule in judge.now().rules for one in rule.alerts()]
