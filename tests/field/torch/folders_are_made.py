# from: own
# ask: python
# Whatever is written, a folder that is not there is made; a file in its place is an error that names it.
import tempfile
from pathlib import Path

import torch

import backprobe as bp


def f(x):
    u = x * 2
    return u.sum()


rec = bp.probe(f)(torch.ones(2))
writers = {
    "r.safetensors": rec.save,
    "r.csv": rec.to_csv,
    "r.svg": lambda path: bp.draw(rec, path),
    "r.html": lambda path: bp.draw(rec, path),
}
with tempfile.TemporaryDirectory() as folder:
    for at, (name, write) in enumerate(writers.items()):
        path = Path(folder, f"new{at}", "deep", name)
        write(str(path))
        assert path.exists(), path
    (Path(folder) / "file").write_text("")
    for name, write in writers.items():
        try:
            write(f"{folder}/file/{name}")
        except bp.BackprobeError as error:
            assert "file" in str(error), error
        else:
            raise AssertionError(name)
