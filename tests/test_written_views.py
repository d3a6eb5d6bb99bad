"""Views that are written to while backward needs what they are views of: the remedy keeps what the program computes."""

import pytest
import torch

import backprobe as bp
from goldens import golden
from remedied import defined

VIEWS = {
    "a slice": "v = y[:1]\n    v.zero_()",
    "a row of a matrix": "v = y.view(2, 1)[0]\n    v.mul_(3)",
    "a diagonal": "v = y.view(1, 2).diagonal()\n    v += 1",
}


def program(view, cure=""):
    return f"import torch\ndef f(x):\n    y = torch.exp(x)\n    {cure}\n    {view}\n    return (y * y).sum()\n"


@pytest.mark.parametrize("case", VIEWS)
def test_the_base_is_cloned_before_the_view_is_taken(case, tmp_path):
    view = VIEWS[case]
    with pytest.raises(RuntimeError) as caught:
        bp.probe(defined(program(view), tmp_path).f)(torch.tensor([1.0, 2.0]))
    note = caught.value.__notes__[-1]
    golden("explain", note)
    cured = defined(program(view, "y = y.clone()"), tmp_path).f
    plain = defined(program(view), tmp_path).f
    rec = bp.probe(cured)(torch.tensor([1.0, 2.0]))
    assert rec.result == plain(torch.tensor([1.0, 2.0]))
    assert rec["x"].grad is not None


def test_what_is_written_by_its_own_name_is_made_anew(tmp_path):
    text = program("v = y[:1]\n    y.mul_(2)")
    with pytest.raises(RuntimeError) as caught:
        bp.probe(defined(text, tmp_path).f)(torch.tensor([1.0, 2.0]))
    golden("explain", caught.value.__notes__[-1])
