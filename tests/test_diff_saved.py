"""Saved recordings are compared where they lie: neither is read into memory as a whole."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import backprobe as bp

X = torch.linspace(-2, 3, 24).reshape(4, 6)

PEAK = """
import os, resource, sys
import backprobe as bp

def peak():
    if not os.path.exists("/proc/self/status"):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with open("/proc/self/status") as status:  # ru_maxrss is that of the parent as well
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) << 10

bp.diff(sys.argv[3], sys.argv[3])  # imports what it needs
before = peak()
report = bp.diff(sys.argv[1], sys.argv[2])
print(report.first.name, report.first.measure.size, peak() - before)
"""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_recordings_need_a_part_of_the_memory_that_they_fill_on_disk(tmp_path, dtype):
    def f(x):
        u = x * 2
        v = u.T * 1.0
        return v.sum()

    def g(x):
        u = x * 2
        v = u.T * 1.5
        return v.sum()

    x = torch.randn(2_000, 2_000).to(dtype)
    bp.probe(f)(x).save(tmp_path / "a")
    bp.probe(g)(x).save(tmp_path / "b")
    bp.probe(f)(torch.ones(2, 2)).save(tmp_path / "small")
    size = (tmp_path / "a" / "storage.safetensors").stat().st_size
    out = subprocess.run(
        [sys.executable, "-c", PEAK, *map(str, (tmp_path / "a", tmp_path / "b", tmp_path / "small"))],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    name, elements, peak = out.split()
    assert (name, int(elements)) == ("v", 4_000_000)
    assert size >= 4_000_000 * dtype.itemsize * 3 and int(peak) < size / 2  # of each of the two


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.complex64])
def test_what_lies_on_disk_is_compared_as_what_is_in_memory(tmp_path, dtype):
    def f(x, factor):
        u = x * 2
        v = u.T * factor
        w = v[:, 1:3].abs()
        return w.sum()

    a, b = (bp.probe(f, wrt="x")(X.to(dtype), factor) for factor in (1.0, 1.25))
    a.save(tmp_path / "a")
    b.save(tmp_path / "b")
    whole = bp.diff(a, b)
    for pair in ((tmp_path / "a", tmp_path / "b"), (tmp_path / "a", b), (a, str(tmp_path / "b"))):
        report = bp.diff(*pair)
        assert report.first.measure == whole.first.measure and report.heading == whole.heading
        bp.diff(pair[0], pair[0]).assert_ok(strict=True)
        held = report.rows[-1].a.value
        assert isinstance(held, torch.Tensor) or np.asarray(held).shape == ()
        assert "differs" in bp.draw(report)._repr_svg_()


def test_sparse_tensors_and_views_lie_on_disk_as_well(tmp_path):
    def f(x):
        first = x[1:]
        sparse = (first * first.gt(0)).to_sparse()
        return sparse.to_dense().sum() + first.sum()

    rec = bp.probe(f)(X)
    rec.save(tmp_path / "a")
    assert not bp.diff(tmp_path / "a", rec).findings


def test_a_recording_that_was_changed_is_refused_before_it_is_compared(tmp_path):
    bp.probe(lambda x: x.sum())(X).save(tmp_path / "a")
    file = tmp_path / "a" / "storage.safetensors"
    data = bytearray(file.read_bytes())
    for at in (3, 20, len(data) - 1):
        changed = bytearray(data)
        changed[at] ^= 1
        file.write_bytes(changed)
        with pytest.raises(bp.BadRecording, match="changed since it was saved"):
            bp.diff(tmp_path / "a", tmp_path / "a")
    file.write_bytes(data[:-8])
    with pytest.raises(bp.BadRecording):
        bp.diff(tmp_path / "a", tmp_path / "a")
