"""Whatever fails in an experiment, the report is the one that there was before it, with a note; nothing stays changed.

Each function of ours that an experiment calls raises an error once. Those of scripts are in
``test_script_experiments.py``.
"""

import random

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

import backprobe as bp
from faults import Faults

OF_FUNCTIONS = (
    "experiments",
    "remedies",
    "probe/rerun.py",
    "backends/replay.py",
    "backends/kept.py",
    "backends/undoing.py",
    "backends/held_objects.py",
    "backends/torch/state.py",
    "backends/torch/bridging.py",
    "backends/side_effects.py",
)


def lost(x, w):
    hidden = x * w + STATE["calls"].pop()
    kept = hidden.detach()
    return (kept * w).sum()


STATE = {"calls": [1.0, 2.0]}


def test_a_report_of_a_function_is_what_it_was_whatever_fails():
    rec = bp.probe(lost)(torch.ones(3), torch.full((3,), 2.0))
    plain = bp.explain(rec, experiments=False)
    whole = bp.explain(rec)
    faults = Faults(OF_FUNCTIONS)
    again = faults.during(lambda: bp.explain(rec))
    assert whole.findings[0].tried
    assert again == whole
    assert len(faults.called) > 80
    before = random.getstate(), torch.get_rng_state()
    for name in faults.called:
        fault = Faults(OF_FUNCTIONS, name)
        report = fault.during(lambda: bp.explain(rec))
        assert fault.has_raised, name
        assert [(one.kind, one.source) for one in report] == [(one.kind, one.source) for one in plain], name
        assert random.getstate() == before[0] and torch.equal(torch.get_rng_state(), before[1]), name
        assert STATE == {"calls": [1.0]}, name
        assert _get_current_dispatch_mode() is None, name
        assert report.notes or report.findings[0].tried, name
