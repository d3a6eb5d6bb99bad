"""One batch in several parts: micro-batches, and processes that train together. Parameters are compared, and agree."""

from pathlib import Path

import pytest

import backprobe as bp
import prepared
from commands import DISTRIBUTED
from diff_processes import batch, made

PROCESS = Path(__file__).parent / "diff_processes.py"
PARAMETERS = ["first.weight", "first.bias", "second.weight", "second.bias"]


def whole():
    model = made()
    with bp.probe(model) as rec:
        model(batch()).square().mean().backward()
    return rec


def in_parts(count, factor=1.0):
    model = made()
    with bp.probe(model) as rec:
        for part in batch().chunk(count):
            (model(part).square().mean() * factor / count).backward()
    return rec


def compared(report):
    return {row.a.name: row.gradient.measure is not None for row in report.rows if row.a.name in PARAMETERS}


@pytest.mark.parametrize("count", [2, 4])
def test_micro_batches_give_the_gradients_of_the_batch(count):
    report = bp.diff(whole(), in_parts(count))
    assert report.findings == (), str(report)
    assert compared(report) == dict.fromkeys(PARAMETERS, True)


def test_micro_batches_whose_loss_is_not_divided_are_found():
    report = bp.diff(whole(), in_parts(2, 2.0))
    assert report.first is None and report.first_backward.name in PARAMETERS
    assert "the second is 2 × the first" in [fact for one in report.findings for fact in one.facts]


def recorded(folder, *halves):
    """What two processes record, each of one half of the batch."""
    folder.mkdir()
    started = [prepared.start(DISTRIBUTED, PROCESS, rank, folder, half) for rank, half in enumerate(halves)]
    for ended in [process.ended() for process in started]:
        assert ended.returncode == 0, ended.stderr
    return folder


def test_two_processes_give_the_gradients_of_one(tmp_path):
    right, wrong = recorded(tmp_path / "right", 0, 1), recorded(tmp_path / "wrong", 0, 0)
    for rank in (0, 1):
        report = bp.diff(whole(), right / f"rank{rank}", rename={"**": "module.**"})
        assert report.findings == (), str(report)
        assert compared(report) == dict.fromkeys(PARAMETERS, True)
        other = bp.diff(whole(), wrong / f"rank{rank}", rename={"**": "module.**"})
        assert {row.a.name for row in other.rows if row.gradient.kind} == set(PARAMETERS)
