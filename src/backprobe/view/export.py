"""The page as one text: for a server, which it asks, or with all answers in it, for a file and for a notebook.

No name or value of a program is ever parsed as HTML or run. What is in the page is JSON whose signs ``<``, ``>`` and
``&`` are escaped, scripts write it as text, and the page's own policy lets no script run but those that are in it.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import urlencode

from backprobe.show.text import printable
from backprobe.storage.runs.merged import LOGGED
from backprobe.view.answers import Answers, fields_of, measured_names, names_of
from backprobe.view.packing import plain
from backprobe.view.runs import OpenRun, Runs

ESCAPED = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}
SHOWN = ("grad.rms", "value.rms", "param.rms", "update.ratio", "grad.absmax", "value.absmax")
CELLS, FEWEST_BINS = 400_000, 40  # of a field in a file, and bins of very many names
MOST_STEPS, MOST_MAGNITUDES = 12, 24  # that are in a file with all their numbers


def live_page(circuits: Sequence[str] = ()) -> tuple[str, str]:
    """The page for a server, and its policy.

    The pages of circuits are shown in frames, which have the policy of what is around them beside their own: so it
    names their scripts and styles too.
    """
    return _page({"live": True}, "backprobe", circuits)


def page_of(runs: Runs, *, bins: int = 300, fields: tuple[str, ...] = SHOWN, title: str = "") -> str:
    """The page with what it may ask for in it: every run with some fields in so many bins of steps."""
    answers = Answers(runs, is_rounded=True)
    store = {question: _zipped(answer) for question, answer in _answers(answers, bins, fields)}
    names = ", ".join(one.label for one in runs.all())
    return _page({"live": False, "runs": answers.brief(), "store": store}, title or f"backprobe: {names}")[0]


def _answers(answers: Answers, bins: int, fields: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    # Each question with its answer.
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
            known, logged = fields_of(reader), names_of(reader, LOGGED)
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


def _asked(answers: Answers, question: str, run: OpenRun, **query: Any) -> tuple[str, bytes]:
    texts = {"run": str(run.number), **{name: str(value) for name, value in query.items()}}
    return f"{question}?{urlencode(texts)}", answers.answer(question, texts)


def _steps_of_alerts(run: OpenRun) -> list[int]:
    with run.judging() as (_, judge):
        return [one.step for rule in judge.now().rules for one in rule.alerts()]


def _zipped(answer: bytes) -> str:
    return base64.b64encode(gzip.compress(answer, 9, mtime=0)).decode()


def _page(data: Mapping[str, Any], title: str, inner: Sequence[str] = ()) -> tuple[str, str]:
    # The text, and the policy that is in it too.
    hashes = {kind: {one for page in inner for one in _hashes(page, kind)} for kind in ("style", "script")}
    style, script = _file("page.css"), _script()
    allowed = {
        "default-src": "'none'",
        "style-src": " ".join([_hash(style), *sorted(hashes["style"])]),
        "script-src": " ".join([_hash(script), *sorted(hashes["script"])]),
        "img-src": "data:", "connect-src": "'self'" if data["live"] else "'none'",
        "base-uri": "'none'", "form-action": "'none'",
    }  # fmt: skip
    policy = "; ".join(f"{name} {value}" for name, value in allowed.items())
    parts = {
        "title": html.escape(printable(title)), "style": style, "script": script, "policy": policy,
        "data": json.dumps(plain(data), separators=(",", ":")).translate(ESCAPED),
    }  # fmt: skip
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _file("page.html")), policy


@cache
def _hashes(page: str, kind: str) -> list[str]:
    # Those that a page of ours allows itself.
    own = html.unescape(re.findall(r'Content-Security-Policy" content="(.*?)"', page)[0])
    return re.findall(r"'sha256-[\w+/=]+'", next(part for part in own.split(";") if part.strip().startswith(kind)))


@cache
def _script() -> str:
    # As ``make page`` bundles it, of the sources in tools/page; zipped, since an installed package may not be large.
    zipped = resources.files("backprobe.view.page").joinpath("page.js.gz").read_bytes()
    return gzip.decompress(zipped).decode()


def _file(name: str) -> str:
    return resources.files("backprobe.view.page").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"
