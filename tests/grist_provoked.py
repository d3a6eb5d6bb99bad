"""How many of GRIST's bugs ``bp.provoke`` finds from harmless numbers: ``python tests/grist_provoked.py``."""

import linecache
import os
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path

import numpy

import backprobe as bp
from grist_cases import BUGS
from grist_forms import IMPORTS, as_function, tensors
from remedied import function

BOUNDS = {"labels": None, **dict.fromkeys("xwb", (-20.0, 20.0))}


def harmless(bug):
    """The same program at small numbers."""
    random = numpy.random.default_rng(0)
    numbers = {
        name: held if name == "labels" else random.uniform(-0.9, 1.1, numpy.shape(held)).astype("float32").tolist()
        for name, held in bug.numbers.items()
    }
    return replace(bug, numbers=numbers)


def is_provoked(bug, folder):
    """Is the line that carries the bug among those that are provoked?"""
    f = function(as_function(bug), folder, IMPORTS[bug.framework])
    report = bp.provoke(f, bounds=BOUNDS)(*tensors(bug))
    lines = [linecache.getline(one.source.file, one.source.line) for one in report.findings if one.source is not None]
    return any("# born" in line for line in lines)


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name:
        missed = [bug.key for bug in BUGS if not is_provoked(harmless(bug), Path(name))]
    print(f"{len(BUGS) - len(missed)} of {len(BUGS)} provoked; not {', '.join(missed)}")
