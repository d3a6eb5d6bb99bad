"""Functions and models whose gradients are useless, and healthy ones (``tests/useless/recorded``), asked once each."""

import re
import runpy
from pathlib import Path

import backprobe as bp

HERE = Path(__file__).parent / "useless" / "recorded"


def paths(framework):
    """The programs of a framework."""
    return sorted((HERE / framework).glob("*.py"))


def check(path):
    """A healthy one has no finding; another one at the marked line, or a note with that where it is 0 for now."""
    text = path.read_text()
    kind = re.search(r"^# kind: (.*)$", text, re.MULTILINE)[1]
    known = runpy.run_path(str(path))
    report = bp.explain(bp.probe(known["PROBED"], **known.get("OPTIONS", {}))(*known["GIVEN"]))
    lines = [number for number, line in enumerate(text.splitlines(), 1) if line.endswith("# <- here")]
    if kind == "healthy":
        assert report.ok, report
    elif kind == "zero":
        assert f"{path.name}:{lines[0]}" in str(report), report
    else:
        assert any(one.source is not None and one.source.line in lines for one in report), report
        assert not re.match(r"\d+ of \d+ values with a gradient$", report.heading), report
