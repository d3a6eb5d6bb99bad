"""Which frameworks a program has imported."""

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

import torch

import backprobe as bp


def test_a_folder_that_is_named_like_a_framework_is_none(tmp_path, monkeypatch):
    """As where a program keeps its scripts by framework: Python imports such a folder as a package without a file."""
    (tmp_path / "jax").mkdir()
    spec = PathFinder.find_spec("jax", [str(tmp_path)])
    monkeypatch.setitem(sys.modules, "jax", module_from_spec(spec))
    rec = bp.probe(lambda x: x.square().sum())(torch.tensor([2.0], requires_grad=True))
    assert rec["x"].grad == 4
    with bp.probe() as rec:
        y = torch.tensor([3.0], requires_grad=True)
        y.square().sum().backward()
    assert rec["y"].grad == 6
