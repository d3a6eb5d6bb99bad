"""``backprobe explain script.py``: a whole script, recorded iteration by iteration of its training loop."""

import re
import sys

import pytest
import torch

from commands import COMMAND, forked, invoked, printed, refused

NET = """\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(3, 3) for _ in range(3)])

    def forward(self, x):
        total = x.sum(1, keepdim=True)
        h = x / total
        for layer in self.layers:
            h = layer(h).tanh()
        return h
"""
TRAIN = """\
import argparse
import torch
from net import Net

def step(model, optimizer, x):
    optimizer.zero_grad()
    out = model(x)
    loss = out.square().mean()
    loss.backward()
    for p in model.parameters():
        p.grad.clamp_(-1, 1)
    optimizer.step()
    return loss

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bad", type=int, default=100)
    parser.add_argument("--status", type=int, default=0)
    given = parser.parse_args()
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.rand(4, 3)
    for epoch in range(8):
        if epoch == given.bad:
            x[0] = 0
        loss = step(model, optimizer, x)
        print("epoch", epoch)
    return given.status

if __name__ == "__main__":
    raise SystemExit(main())
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Write a script and explain it in this process: exit status, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)  # torch.distributed puts one of its own, and leaves it
    (tmp_path / "net.py").write_text(NET)
    before = list(sys.path), sys.argv, sys.modules["__main__"], sys.gettrace()
    known = set(sys.modules)

    def explain(text, *words, options=()):
        (tmp_path / "train.py").write_text(text)
        ran = invoked("explain", *options, "train.py", *words)
        assert (list(sys.path), sys.argv, sys.modules["__main__"], sys.gettrace()) == before, "nothing is left behind"
        return ran

    yield explain
    for name in set(sys.modules) - known:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def test_the_first_bad_turn_is_explained_and_the_script_stopped(script, tmp_path):
    out = printed(script(TRAIN, "--bad", "5", options=["--nonfinite"]), 1)
    assert re.findall(r"^epoch (\d)", out, re.M) == list("01234")
    assert "NaN or Inf begins at 1 place, first at '/step/Net:h#0' (net.py:10)" in out
    assert "NaN is born at '/step/Net:h#0' (net.py:10): 0/0" in out
    assert "note: this is iteration 6 of those that run backward(); the script was stopped after it" in out


def test_a_script_in_which_nothing_is_found_runs_to_its_end(script):
    out = printed(script(TRAIN, options=["--nonfinite"]))
    assert out.count("epoch") == 8
    assert re.search(
        r"^no NaN or Inf comes to an output or a gradient: \d+ values and \d+ gradients were checked, "
        r"in 8 iterations$",
        out,
        re.M,
    )


def test_the_exit_status_is_that_of_the_script(script):
    assert script(TRAIN, "--status", "3", options=["--nonfinite"])[0] == 3
    assert (
        script("import sys, torch\ntorch.ones(2)\nx = torch.ones(2)\nsys.exit('no')\n", options=["--nonfinite"])[0] == 1
    )


def test_it_runs_as_the_main_program(script, tmp_path):
    code, out, err = script(
        "import sys, pickle, torch\nclass Own: pass\n"
        "x = torch.ones(2)\n"
        "print(__name__, sys.argv, sys.path[0] == FOLDER, __file__ == FOLDER + '/train.py')\n"
        "print(type(pickle.loads(pickle.dumps(Own()))) is Own)\n".replace("FOLDER", repr(str(tmp_path))),
        "--",
        "-s",
        "--nonfinite",
        "a",
        "--select",
    )
    assert err == ""
    assert out.splitlines()[:2] == ["__main__ ['train.py', '-s', '--nonfinite', 'a', '--select'] True True", "True"]


CUT = """\
import torch
x = torch.tensor([1.0, 2.0], requires_grad=True)
w = torch.tensor([3.0, 4.0], requires_grad=True)
for turn in range(3):
    u = x * w
    d = u.detach()
    loss = (d * w).sum()
    loss.backward()
    print("turn", turn)
"""


def test_without_nonfinite_the_first_turn_with_backward_is_explained(script):
    out = printed(script(CUT), 1)
    assert [line for line in out.splitlines() if line.startswith("turn")] == ["turn 0"]
    assert "d = u.detach()" in out
    assert "`u.detach()` at train.py:6 cuts 'd' off from 'u': no gradient comes to x, u" in out.splitlines()[2]
    assert "this is iteration 1 of those that run backward(); the script was stopped after it" in out


def test_parameters_that_are_clipped_after_backward_are_no_finding(script):
    out = printed(script(TRAIN))
    assert "all 6 parameters got a gradient" in out.splitlines()
    assert out.count("note:") == 1
    assert "this is iteration 2 of those that run backward(); the script was stopped after it" in out
    assert out.rstrip().endswith(
        "stopped after it, and later ones were not looked at: backprobe explain --steps 10 train.py looks at up to ten"
    )


def test_an_error_comes_out_with_a_note_and_what_was_recorded_until_then(script, tmp_path):
    text = CUT.replace("    d = u.detach()\n", "    d = u.exp()\n    u.sqrt_()\n    d.mul_(-1).log_()\n")
    code, out, err = script(text, options=["--nonfinite"])
    assert code == 3
    lines = err.splitlines()
    assert lines[:2] == [
        "Traceback (most recent call last):",
        f'  File "{tmp_path / "train.py"}", line 10, in <module>',
    ]
    assert "RuntimeError: one of the variables needed for gradient computation" in err
    assert "backprobe: raised while running the script under a probe" in err
    assert "written: 'd#1' (" in err
    assert "NaN is born at 'd#1'" in out


def test_a_loss_that_a_loop_differentiates_twice_is_to_be_computed_again(script):
    made, again = "import torch\nw = torch.ones(2, requires_grad=True)\n", "loss = (w * w).sum()"
    code, out, _ = script(f"{made}{again}\nfor i in range(3):\n    loss.backward()\n")
    assert code == 3 and "not seen here" not in out and "inner probe" not in out
    assert "freed the graph behind 'loss': it was made before this recording, or this iteration, began\n" in out
    assert "next:     compute loss again before each backward();\n" in out
    assert "or retain_graph=True in the earlier call, if nothing that loss is computed from changes in between\n" in out
    printed(script(f"{made}{again}\nfor i in range(3):\n    loss.backward(retain_graph=True)\n"))
    printed(script(f"{made}for i in range(3):\n    {again}\n    loss.backward()\n"))


def test_an_error_before_anything_was_recorded(script):
    err = refused(script("import nowhere_at_all\n", options=["--nonfinite"]), 3)
    assert "\nModuleNotFoundError: No module named 'nowhere_at_all'\n" in err
    code, out, err = script("import torch\ndef f(:\n")
    assert (code, out) == (3, "")
    assert err.splitlines()[-1] == "SyntaxError: invalid syntax"


def test_a_script_without_backward(script):
    out = printed(script("import torch\nx = torch.zeros(2)\ny = x / 0\n", options=["--nonfinite"]), 1)
    assert "NaN is born at 'y' (train.py:3): 0/0" in out
    assert "note: no backward() ran" in out


def test_what_is_said_of_a_script_speaks_of_no_block_and_of_no_recording_of_its_own(script):
    trains = "import torch\nm = torch.nn.Linear(2, 1)\no = torch.optim.SGD(m.parameters(), lr=0.1)\n"
    out = printed(script(f"{trains}for i in range(3):\n    loss = m(torch.ones(4, 2)).sum()\n    o.step()\n"), 1)
    assert "next:  loss.backward() in this thread, before the recording ends\n" in out and "block" not in out
    cut = "import torch\nw, v = (torch.ones(2, requires_grad=True) for _ in range(2))\nd = (v * 2).detach()\n"
    out = printed(script(f"{cut}loss = (w / 0 * d).sum()\nloss.backward()\n", options=["--nonfinite"]), 1)
    assert "explain without nonfinite says why, or bp.explain(rec, name) of a recording\n" in out


@pytest.mark.sweep
def test_what_was_born_without_backward_is_told_with_what_follows(script):
    out = printed(
        script(
            "import torch\nw = torch.ones(2, requires_grad=True)\n"
            "def data():\n    for turn in range(1010):\n        x = torch.zeros(2) / torch.zeros(2)\n    return x\n"
            "x = data()\n"
            "loss = (w * x).sum()\nloss.backward()\n",
            options=["--nonfinite"],
        ),
        1,
    )
    assert "NaN comes in with 'x'" in out
    assert "note: earlier, in an iteration without backward(): NaN is born at 'x#0': 0/0 (train.py:5)" in out


def test_nothing_of_earlier_turns_is_kept(script):
    code, out, err = script(
        "import torch, weakref\nw = torch.ones(2, requires_grad=True)\nkept = []\n"
        "def step():\n    u = w * 2\n    u.sum().backward()\n    return weakref.ref(u)\n"
        "for turn in range(20):\n    kept.append(step())\n    print('alive', sum(ref() is not None for ref in kept))\n",
        options=["--nonfinite"],
    )
    assert (code, err) == (0, "")
    assert set(re.findall(r"^alive (\d+)", out, re.M)) == {"1"}


def test_an_evaluation_without_backward_is_not_kept(script):
    code, out, err = script(
        "import torch, weakref\nw = torch.ones(2, requires_grad=True)\nkept = []\n"
        "with torch.no_grad():\n    for turn in range(3000):\n        u = w.detach() * 2\n"
        "        kept.append(weakref.ref(u))\n"
        "print('alive', sum(ref() is not None for ref in kept))\n",
        options=["--nonfinite"],
    )
    assert (code, err) == (0, "")
    assert int(re.search(r"^alive (\d+)", out, re.M)[1]) < 1100


def test_the_turns_before_one_backward_are_told_apart(script):
    out = printed(
        script(
            "import torch\nw = torch.tensor([0.5, 2.0], requires_grad=True)\n"
            "for epoch in range(3):\n    h = w\n    for t in range(3):\n        h = torch.log(h * epoch)\n"
            "    h.sum().backward()\n",
            options=["--nonfinite"],
        ),
        1,
    )
    assert "Inf is born at 'h#1'" in out
    assert "NaN is born of Inf" in out or "NaN is born at 'h#2'" in out
    assert "this is iteration 1 of those that run backward()" in out


STEP = "(p - 0.1 * g).detach().requires_grad_()"


@pytest.mark.parametrize(
    "made",
    [
        f"[{STEP}\n            for p, g in zip(held, slopes)]",
        f"[{STEP} for p, g in zip(held, slopes)]",
        f"[{STEP} for pairs in [zip(held, slopes)] for p, g in pairs]",
        f"list({{at: {STEP} for at, (p, g) in enumerate(zip(held, slopes))}}.values())",
    ],
)
def test_a_comprehension_behind_a_gradient_ends_no_turn(script, made):
    """From Python 3.12 on it runs in the frame around it, and jumps back as a loop does."""
    out = printed(
        script(
            "import torch\nheld = [torch.ones(2, requires_grad=True) for _ in range(3)]\n"
            "meta = torch.optim.SGD(held, lr=0.1)\n"
            "for turn in range(2):\n    inner = sum(p.square().sum() for p in held)\n"
            "    slopes = torch.autograd.grad(inner, held)\n"
            f"    fast = {made}\n    loss = sum(p.square().sum() for p in fast)\n    loss.backward()\n    meta.step()\n"
        ),
        1,
    )
    assert "this is iteration 1 of those that run backward()" in out
    assert "it copies the values and not the gradient history" in out


CHECKPOINTED = """\
import torch
from torch.utils.checkpoint import checkpoint
w = torch.tensor([1.0, 2.0], requires_grad=True)
def part(x):
    for turn in range(4):
        x = torch.tanh(x * w)
    return x
for turn in range(3):
    h = checkpoint(part, w * 1, use_reentrant=REENTRANT)
    g = torch.sqrt(h - h)
    g.sum().backward()
"""


@pytest.mark.parametrize("reentrant", ["True", "False"])
def test_a_loop_that_backward_runs_again_ends_no_turn(script, reentrant):
    out = printed(script(CHECKPOINTED.replace("REENTRANT", reentrant), options=["--nonfinite"]), 1)
    assert "in the backward of 'g'" in out
    assert "this is iteration 1 of those that run backward()" in out


def test_a_block_of_the_script_itself_works(script):
    out = printed(
        script(
            "import torch\nimport backprobe as bp\nw = torch.tensor([1.0, 2.0], requires_grad=True)\n"
            "for turn in range(3):\n    with bp.probe() as rec:\n        for again in range(3):\n"
            "            u = w * 2\n            u.sum().backward()\n"
            "    print([rec[f'u#{k}'].grad.tolist() for k in range(3)])\n",
            options=["--nonfinite"],
        )
    )
    assert out.count("[[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]") == 3
    assert "in 3 iterations" in out


def test_a_script_that_catches_everything_runs_on_unwatched(script):
    code, out, err = script(
        "import torch\nw = torch.zeros(2, requires_grad=True)\n"
        "for turn in range(5):\n    try:\n        for again in range(2):\n            (w / w).sum().backward()\n"
        "    except BaseException as error:\n        print('caught', type(error).__name__)\n"
        "print('end')\n",
        options=["--nonfinite"],
    )
    assert code == 1
    assert out.count("caught Stopped") == 1
    assert "end\n" in out
    assert "NaN" in out


LOADER = """\
import torch
from torch.utils.data import DataLoader, Dataset

class Data(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        s = torch.zeros(3)
        for k in range(5):
            s = s + k
        return s + i

def main():
    model = torch.nn.Linear(3, 1)
    for batch in DataLoader(Data(), batch_size=4, num_workers=2):
        loss = sum(model(row).square().sum() for row in batch)
        loss.backward()

if __name__ == "__main__":
    main()
"""


def test_workers_that_load_data_are_left_alone(tmp_path):
    (tmp_path / "loader.py").write_text(LOADER)
    out = printed(forked(COMMAND, "explain", "--nonfinite", "loader.py", cwd=tmp_path))
    assert out.endswith(" gradients were checked, in 2 iterations\n")


@pytest.mark.parametrize("option", ["--wrt", "--select", "--of", "--cotangent", "--backend", "--partials"])
def test_options_that_are_for_functions(script, option):
    err = refused(script(CUT, options=[option, "full" if option == "--partials" else "x"]))
    assert err.startswith(f"BadOption: {option} is for functions, and train.py runs as a script\n")
    assert f"backprobe explain train.py {option} ..." in err


def test_nothing_that_can_be_explained(script):
    code, out, err = script("print('hello')\n")
    assert (code, out) == (2, "hello\n")
    assert err.startswith("BadOption: no gradient of PyTorch, TensorFlow or JAX was seen in train.py\n")
    assert refused(invoked("explain", "nowhere.py")).startswith("BadOption: there is no script 'nowhere.py'\n")


def test_a_function_that_runs_backward_itself_is_pointed_to_its_script(script):
    script("import torch\ndef main():\n    torch.ones(2, requires_grad=True).sum().backward()\n")
    assert "run its file as a script: backprobe explain train.py" in refused(invoked("explain", "train.py:main"))


def test_health_takes_a_whole_script(script):
    script(TRAIN)
    code, out, err = invoked("health", "train.py")
    assert (code, err) == (0, "")
    assert out.count("epoch") == 1  # two iterations, as of explain
    assert re.search(r"^no problems found: \d+ values and \d+ gradients were checked", out, re.M)
    assert "this is iteration 2 of those that run backward(); the script was stopped after it" in out


def test_probe_shows_the_first_iteration_of_a_whole_script(script):
    script(TRAIN)
    code, out, err = invoked("probe", "train.py")
    assert (code, err) == (0, "") and "epoch 1" not in out
    assert "note: these are of the first iteration of the script that takes gradients; it was stopped in the" in out


# faults of a later iteration

STATE = """\
import torch
rnn, head = torch.nn.RNN(3, 4), torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
h = torch.zeros(1, 2, 4)
for step in range(4):
    out, h = rnn(torch.randn(5, 2, 3), h)
    loss = head(out).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step)
"""
LEFT_OFF = """\
import torch
net = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

def validate():
    torch.set_grad_enabled(False)
    print("validated", net(torch.randn(4, 3)).mean().item() < 100)

for epoch in range(3):
    for step in range(2):
        loss = net(torch.randn(4, 3)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    validate()
"""
FROZEN_LATER = """\
import torch
enc, head = torch.nn.Linear(3, 3), torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD([*enc.parameters(), *head.parameters()], lr=0.1)
for step in range(5):
    h = enc(torch.randn(4, 3))
    if step == 2:
        h = h.detach()
    loss = head(h).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step)
"""


def test_a_state_that_is_carried_over_fails_in_the_second_iteration(script):
    assert "step 1" not in printed(script(STATE, options=["--steps", "1"]))
    code, out, err = script(STATE)
    assert code == 3 and "Trying to backward through the graph a second time" in out
    assert "step 0" in out and "step 1" not in out
    assert "survived: 'h#0'" in out
    assert "h = h.detach() before it is used again" in out


def test_gradients_that_a_validation_left_off(script):
    out = printed(script(LEFT_OFF))
    assert "validated" not in out
    try:
        code, out, err = script(LEFT_OFF, options=["--steps", "9"])
    finally:
        torch.set_grad_enabled(True)
    assert code == 3 and "validated True" in out
    assert "under torch.no_grad() or set_grad_enabled(False)" in out


def test_the_first_of_several_iterations_in_which_a_gradient_is_missing(script):
    assert "the script was stopped after it" in printed(script(FROZEN_LATER, options=["--steps", "2"]))
    out = printed(script(FROZEN_LATER, options=["--steps", "5"]), 1)
    assert "this is iteration 3 of those that run backward(); the script was stopped after it\n" in out
    assert "step 3" not in out and "h = h.detach()" in out


def test_a_script_that_ends_before_as_many_iterations(script):
    out = printed(script(TRAIN, options=["--steps", "20"]))
    assert out.count("epoch") == 8
    assert "all 8 iterations of the script that run backward() were looked at, and this is the last" in out


def test_steps_are_for_scripts_without_nonfinite(script):
    script(TRAIN)
    refusal = refused(invoked("explain", "--nonfinite", "--steps", "3", "train.py"))
    assert refusal.startswith("BadOption: --nonfinite looks at all iterations, up to the first with NaN or Inf\n")
    assert "--steps is for scripts, and train.py:main is recorded once" in refused(
        invoked("explain", "train.py:main", "--steps", "3")
    )
