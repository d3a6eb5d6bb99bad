"""An output that depends on nothing that is differentiated: the error has what was recorded, which can be explained."""

import json
import pickle

import numpy as np
import pytest
import torch
from torch import nn

import backprobe as bp
from commands import in_folder, invoked


def through_list(x, w):
    u = x * w
    v = torch.tensor(u.tolist())
    return (v * 2).sum()


def without_history(x):
    with torch.no_grad():
        y = x * 2
    return y.sum()


def error_of(program, *args):
    with pytest.raises(bp.NothingToDifferentiate) as caught:
        bp.probe(program)(*args)
    return caught.value


def test_what_was_recorded_is_explained_and_tried():
    error = error_of(through_list, torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    rec = error.recording
    assert {name: str(rec[name].status) for name in ("x", "w", "u")} == dict.fromkeys("xwu", "not_connected")
    (one,) = bp.explain(rec)
    assert (one.kind, one.source.text) == ("number", "v = torch.tensor(u.tolist())")
    (tried,) = one.tried
    assert tried.startswith("`v = u` at ") and tried.endswith(
        ": 2 of 2 missing gradients arrive; the output is the same"
    )
    (one,) = bp.explain(rec, "u")
    assert one.tried[0].endswith("the gradient of 'u' arrives; the output is the same")


def test_the_line_of_a_model_is_found_by_experiment():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inside = nn.Linear(2, 2)

        def forward(self, x):
            return torch.from_numpy(np.exp(self.inside(x).detach().numpy())).sum()

    (one,) = bp.explain(error_of(Net(), torch.ones(2)).recording)
    assert one.source.text == "return torch.from_numpy(np.exp(self.inside(x).detach().numpy())).sum()"
    assert "`return torch.exp(self.inside(x)).sum()`" in one.tried[0] and "2 of 2" in one.tried[0]


def test_gradients_that_were_off():
    (one,) = bp.explain(error_of(without_history, torch.ones(2)).recording)
    assert (one.kind, one.source.text) == ("no_grad", "y = x * 2")
    assert "the gradient of 'x' arrives" in one.tried[0]


def test_nothing_is_there_to_explain():
    assert error_of(lambda n: n + 1, torch.tensor(3)).recording is None
    assert error_of(lambda x: torch.ones(()), torch.tensor(3)).recording is None


def test_the_error_can_be_pickled():
    error = error_of(through_list, torch.ones(2), torch.ones(2))
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)


def test_the_command_answers(tmp_path, monkeypatch):
    text = "import torch\ndef f(x, w):\n    u = (x * w).detach()\n    return u.sum()\n"
    with in_folder(tmp_path, monkeypatch, {"a.py": text}):
        status, out, err = invoked("explain", "--json", "a.py:f", "x=[1.0, 2.0]", "w=[3.0, 4.0]")
        assert (status, err) == (1, "")
        (one,) = json.loads(out)["findings"]
        assert one["source"]["line"] == 3 and "2 of 2 missing gradients arrive" in one["tried"][0]
        status, out, _ = invoked("explain", "a.py:f", "w", "x=[1.0, 2.0]", "w=[3.0, 4.0]")
        assert status == 1 and "the gradient of 'w' arrives" in out
