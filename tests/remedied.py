"""Programs that make NaN or Inf, and the same with the remedy of their report put into their text as it is."""

import importlib.util
import re
import uuid

import backprobe as bp

INSTEAD = re.compile(r"`(?P<instead>[^`]+)` instead of `(?P<formula>[^`]+)`")
STANDS = re.compile(r"; (?P<name>\w+) stands for `(?P<what>[^`]+)`")


def defined(text, folder):
    """What a program defines that is written to a file of its own."""
    path = folder / f"program_{uuid.uuid4().hex}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def function(text, folder, framework):
    """The function ``f`` of a program that is written to a file of its own."""
    return defined(f"{framework}\n\n{text}", folder).f


def remedy_of(report):
    """The first remedy that a report has, as its two formulas, and the finding."""
    return next((INSTEAD.match(one.remedy).groupdict(), one) for one in report.findings if INSTEAD.match(one.remedy))


def applied(text, report):
    """A program after what a report says."""
    remedy, finding = remedy_of(report)
    assert text.count(remedy["formula"]), (remedy, text)
    stands = STANDS.search(finding.remedy)
    instead = remedy["instead"] if stands is None else remedy["instead"].replace(stands["name"], f"({stands['what']})")
    return text.replace(remedy["formula"], instead)


def explained(program, *args):
    return bp.explain(bp.probe(program, nonfinite=True)(*args))
