"""``backprobe watch``: an unchanged script is watched, and ends as it would by itself."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import backprobe as bp
import prepared
from commands import DISTRIBUTED, forked, in_folder, invoked, python, refused

KINDS = ("--what", "value", "--what", "grad", "--what", "param", "--what", "update")
TRAIN = """\
import sys
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
frozen = nn.Linear(3, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loss_of = nn.MSELoss()
for x in torch.randn(5, 8, 3):
    with torch.no_grad():
        net(x)
    loss = loss_of(net(frozen(x)), x[:, :1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", loss.item(), sys.argv, __name__)
"""
GAN = """\
import torch
from torch import nn

class Maker(nn.Linear): pass
class Judge(nn.Linear): pass

maker, judge = Maker(2, 3), Judge(3, 1)
first, second = (torch.optim.Adam(one.parameters()) for one in (maker, judge))
for x in torch.randn(4, 8, 3):
    second.zero_grad()
    (judge(x) - judge(maker(torch.randn(8, 2)).detach())).mean().backward()
    second.step()
    first.zero_grad()
    judge(maker(torch.randn(8, 2))).mean().backward()
    first.step()
"""
SCALED = (
    TRAIN.replace("loss.backward()", "scaler.scale(loss).backward()")
    .replace("optimizer.step()", "scaler.step(optimizer); scaler.update()")
    .replace("loss_of =", "scaler = torch.amp.GradScaler('cpu')\nloss_of =")
)
SOLVED = """\
import torch
from torch import nn

class _Field(nn.Module):  # made for each call, as torchdiffeq makes some
    def __init__(self, model):
        super().__init__()
        self.model = model
    def forward(self, y):
        return self.model(y)

class _Given(nn.Module):  # around a function
    def __init__(self, function):
        super().__init__()
        self.function = function
    def forward(self, *given):
        return self.function(*given)

class Adjoint(torch.autograd.Function):  # forward without gradients, and once more in backward
    @staticmethod
    def forward(ctx, model, y, *parameters):
        ctx.model, ctx.parameters = model, parameters
        ctx.save_for_backward(y)
        return y + 0.1 * _Field(model)(y)
    @staticmethod
    def backward(ctx, grad):
        def derivatives(grad):
            with torch.enable_grad():
                y = ctx.saved_tensors[0].detach().requires_grad_()
                out = y + 0.1 * _Field(ctx.model)(y)
            return torch.autograd.grad(out, [y, *ctx.parameters], grad)
        return None, *_Given(derivatives)(grad)

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for x in torch.randn(4, 8, 2):
    y = Adjoint.apply(model, x, *model.parameters()) if ADJOINT else x + 0.1 * _Field(model)(x)
    optimizer.zero_grad()
    y.square().mean().backward()
    optimizer.step()
print(sum(one.sum().item() for one in model.parameters()))
"""
WRAPPED = """import torch
from torch import nn

class Wrapper(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model
    def forward(self, x):
        return self.model(x)

model = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for x in torch.randn(4, 8, 2):
    optimizer.zero_grad()
    Wrapper(model)(x).square().mean().backward()
    optimizer.step()
"""
OF_ONE_PART = """import torch
from torch import nn

class _Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2))
    def forward(self, x):
        return self.layers(x)

model = _Net()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for x in torch.randn(4, 8, 2):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
"""
MADE_AFTER_ANOTHER = """import torch
from torch import nn

class Later(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2))
    def forward(self, x):
        return self.layers(x)

first = nn.Linear(2, 2)
optimizer = torch.optim.SGD(first.parameters(), 0.1)
second = Later()
later = torch.optim.SGD(second.parameters(), 0.1)
for x in torch.randn(4, 8, 2):
    for one in (optimizer, later):
        one.zero_grad()
    second(first(x)).square().mean().backward()
    for one in (optimizer, later):
        one.step()
"""
HALVED = """
@torch.compile(fullgraph=True, backend="eager")
def halved(x):
    return Wrapper(model)(x) / 2

for x in"""
WRAPPED_IN_COMPILED = (
    WRAPPED.replace("for x in", HALVED).replace("Wrapper(model)(x).sq", "(Wrapper(model)(x) + halved(x)).sq")
    + "print(sum(p.sum().item() for p in model.parameters()))\n"
)
ENDS = {"0": "", "7": "sys.exit(7)", "1": "sys.exit('no')", "raised": "raise LookupError('mine')"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    files = {"train.py": TRAIN, "gan.py": GAN, "scaled.py": SCALED}
    files |= {f"ends{name}.py": TRAIN + f"{end}\n" for name, end in ENDS.items()}
    with in_folder(tmp_path, monkeypatch, files) as made:
        yield made


def test_a_script_is_watched_and_prints_what_it_would(folder, capfd):
    code, out, err = invoked("watch", "train.py", "--lr", "0.1")
    assert code == 0
    exec(compile(TRAIN, "train.py", "exec"), {"__name__": "__main__"})
    loss = capfd.readouterr().out.split()[1]
    assert out == f"loss {loss} ['train.py', '--lr', '0.1'] __main__\n"
    assert err == "watched Sequential for 5 steps: backprobe report train.run/Sequential\n"
    with bp.open_run("train.run/Sequential") as run:
        assert run.steps.tolist() == list(range(5))
        assert [run.at(step).backwards for step in range(5)] == [1] * 5
        assert run.at(0)["0"]["value.count"] == run.at(0)["0"]["grad.count"] == 32  # not the call under no_grad
        assert run.series("loss", "logged")[1][-1] == pytest.approx(float(loss))
        assert "2.weight" in run.names


def test_a_script_is_watched_for_selected_names(folder):
    assert invoked("watch", "--select", "0:input", "--select", "2.weight", "train.py", "--lr", "0.1")[0] == 0
    with bp.open_run("train.run/Sequential") as run:
        assert {"0:input", "2.weight"} == set(run.names) - {"loss"}


def test_each_model_has_a_run(folder):
    code, _, err = invoked("watch", "--every", "2", *KINDS, "--folder", "here", "gan.py")
    assert (code, len(err.splitlines())) == (0, 2)
    for name in ("Maker", "Judge"):
        with bp.open_run(f"here/{name}") as run:
            assert run.series("weight", "update.rms")[0].tolist() == [0, 2]
            assert "loss" not in run.names
    with bp.open_run("here/Judge") as run:
        assert run.at(2).backwards >= 1


@pytest.mark.parametrize("adjoint", [False, True])
def test_a_model_in_wrappers_that_a_library_makes_for_each_call(tmp_path, monkeypatch, adjoint):
    with in_folder(tmp_path, monkeypatch, {"solved.py": SOLVED.replace("ADJOINT", str(adjoint))}):
        code, out, err = invoked("watch", "solved.py")
        assert code == 0
        assert err == "watched Sequential for 4 steps: backprobe report solved.run/Sequential\n"
        with bp.open_run("solved.run/Sequential") as run:
            assert run.steps.tolist() == list(range(4))
            assert all(run.at(step)["2.weight"]["grad.count"] == 8 for step in range(4))


OWN_CALL = """\
import torch
from torch import nn

class Process(nn.Module):  # a class of modules that run no hooks, as GPyTorch's
    def __call__(self, *args):
        return self.forward(*args)

class Model(Process):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(2))
    def forward(self, x):
        return x * self.scale

class Likelihood(Process):
    def __init__(self, model):
        super().__init__()
        self.model = model
    def forward(self, y):
        return y.square().mean()

model = Model()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
likelihood = Likelihood(model)
for x in torch.randn(4, 8, 2):
    optimizer.zero_grad()
    likelihood(model(x)).backward()
    optimizer.step()
"""


def test_a_model_whose_class_defines_its_calls(tmp_path, monkeypatch):
    """Hooks do not run there, and the likelihood that holds the same parameters is no second model."""
    with in_folder(tmp_path, monkeypatch, {"own.py": OWN_CALL}):
        assert invoked("watch", "own.py")[2] == "watched Model for 4 steps: backprobe report own.run/Model\n"
        with bp.open_run("own.run/Model") as run:
            assert all(run.at(step)["scale"]["grad.count"] == 2 for step in range(4))
            assert all(run.at(step)["return"]["value.count"] == 16 for step in range(4))


def test_a_model_that_is_wrapped_anew_has_one_run(tmp_path, monkeypatch):
    with in_folder(tmp_path, monkeypatch, {"wrapped.py": WRAPPED}):
        said = invoked("watch", "wrapped.py")[2]
        assert said == "watched Sequential for 4 steps: backprobe report wrapped.run/Sequential\n"
        with bp.open_run("wrapped.run/Sequential") as run:
            assert all(run.at(step)["2.weight"]["grad.count"] == 8 for step in range(4))


def test_a_wrapper_that_a_compiled_function_makes(tmp_path, monkeypatch, capfd):
    with in_folder(tmp_path, monkeypatch, {"made.py": WRAPPED_IN_COMPILED}):
        torch.manual_seed(0)
        exec(compile(WRAPPED_IN_COMPILED, "made.py", "exec"), {"__name__": "__main__"})
        torch.manual_seed(0)
        code, out, err = invoked("watch", "made.py")
        assert (code, out) == (0, capfd.readouterr().out)
        assert err == "watched Sequential for 4 steps: backprobe report made.run/Sequential\n"


def test_a_model_with_one_part_and_a_private_class_is_no_wrapper(tmp_path, monkeypatch):
    with in_folder(tmp_path, monkeypatch, {"own.py": OF_ONE_PART}):
        assert invoked("watch", "own.py")[2] == "watched _Net for 4 steps: backprobe report own.run/_Net\n"
        with bp.open_run("own.run/_Net") as run:
            assert "layers.2.weight" in run.names


def test_a_model_made_after_the_optimizer_of_another_is_its_own(tmp_path, monkeypatch):
    with in_folder(tmp_path, monkeypatch, {"two.py": MADE_AFTER_ANOTHER}):
        said = invoked("watch", "two.py")[2]
        assert said.splitlines() == [
            f"watched {name} for 4 steps: backprobe report two.run/{name}" for name in ("Linear", "Later")
        ]


def test_a_warning_of_backward_has_the_line_of_the_script(folder):
    """PyTorch counts the frames above: a full hook on a module whose inputs need no gradient warns."""
    own = vars(torch.Tensor)["backward"]
    hooked = TRAIN.replace("optimizer =", "net[0].register_full_backward_hook(lambda *_: None)\noptimizer =")
    hooked = hooked.replace("frozen(x)", "x")
    Path("hooked.py").write_text(hooked)
    with pytest.warns(UserWarning, match="Full backward hook is firing") as warned:
        assert invoked("watch", "hooked.py")[0] == 0
    line = hooked.splitlines().index("    loss.backward()") + 1
    assert {(Path(one.filename).name, one.lineno) for one in warned} == {("hooked.py", line)}
    assert vars(torch.Tensor)["backward"] is own


def test_a_scaler_s_steps_are_its_own(folder):
    assert invoked("watch", "scaled.py")[0] == 0
    with bp.open_run("scaled.run/Sequential") as run:
        assert run.series("loss scale", "logged")[1].tolist() == [65536.0] * 5
        assert "loss" not in run.names


@pytest.mark.parametrize(("name", "status"), [("0", 0), ("7", 7), ("1", 1), ("raised", 1)])
def test_the_exit_status_is_the_script_s(folder, name, status):
    code, _, err = invoked("watch", f"ends{name}.py")
    assert code == status
    assert ("LookupError: mine" in err) == (name == "raised")
    with bp.open_run(f"ends{name}.run/Sequential") as run:
        assert len(run.steps) == 5


def of_torchrun(*words):
    """The command line in two processes that torchrun starts: how many of them failed, and their errors."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--no-python", sys.executable]
    code, _, err = python("-W", "default", *torchrun, "-m", "backprobe", *words)
    return len(re.findall(r"exitcode +: 7", err)) or code, err


def as_of_torchrun(*words):
    """The same of two processes that are given what torchrun gives."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        given = {**os.environ, "MASTER_ADDR": "localhost", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": "2"}
    started = [
        prepared.start(DISTRIBUTED, "-m", "backprobe", *words, env={**given, "RANK": rank, "LOCAL_RANK": rank})
        for rank in "01"
    ]
    ended = [one.ended() for one in started]
    return sum(one.returncode == 7 for one in ended), "".join(one.stderr for one in ended)


@pytest.mark.parametrize(
    "started",
    [
        pytest.param(of_torchrun, id="by torchrun", marks=pytest.mark.sweep),
        pytest.param(as_of_torchrun, id="as by torchrun"),
    ],
)
@pytest.mark.parametrize(
    "ends",
    [
        pytest.param("", id="to its end", marks=pytest.mark.sweep),
        pytest.param("sys.exit(7)", id="with a status of its own"),
    ],
)
def test_processes_that_torchrun_starts_write_one_run(folder, ends, started):
    """Under the names of the model inside of DistributedDataParallel."""
    text = TRAIN.replace("optimizer =", "dist.init_process_group('gloo')\nddp = DDP(net)\noptimizer =")
    text = text.replace("net(frozen(x))", "ddp(frozen(x[dist.get_rank() :: 2]))").replace("x[:, :1]", "x[::2, :1]")
    top = "import torch.distributed as dist\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
    (folder / "many.py").write_text(f"{top}{text}dist.destroy_process_group()\n{ends}\n")
    failed, err = started("watch", "many.py")
    assert bool(failed) == bool(ends), err
    assert err.count("watched Sequential for 5 steps: backprobe report many.run/Sequential") == 1
    with bp.open_run("many.run/Sequential") as run:
        assert run.ranks == [0, 1]
        assert run.steps.tolist() == list(range(5))
        assert run.at(0)["0"]["value.count"] == run.at(0)["0"]["grad.count"] == 32  # of both processes
        assert run.at(0)["0.weight"]["grad.count"] == 12
        assert run.gaps.ok


@pytest.mark.parametrize("compiling", ["net = torch.compile(net, {})", "net.compile({})"])
def test_a_script_that_compiles_its_model(folder, compiling):
    line = compiling.format("backend='aot_eager', fullgraph=True")
    text = TRAIN.replace("frozen =", f"{line}\nfrozen =")
    (folder / "compiles.py").write_text(text.replace("net(frozen(x))", "net(x)"))
    torch.compiler.reset()
    code, _, err = invoked("watch", "compiles.py")
    torch.compiler.reset()
    assert (code, err) == (0, "watched Sequential for 5 steps: backprobe report compiles.run/Sequential\n")
    with bp.open_run("compiles.run/Sequential") as run:
        assert run.steps.tolist() == list(range(5))
        for step in range(5):
            assert run.at(step)["0"]["value.count"] == run.at(step)["0"]["grad.count"] == 32
        assert {"0", "1", "2", "return"} <= set(run.names)


def test_a_script_s_variables_are_there_until_python_ends(folder):
    """As by itself: dropped earlier, a model in DistributedDataParallel may wait for ever for a thread of gloo."""
    says = "type('Says', (), {'__del__': functools.partial(print, 'dropped')})()"
    text = f"import atexit, functools\n{TRAIN}atexit.register(print, 'at exit')\nit = {says}\n"
    (folder / "held.py").write_text(text)
    code, out, err = forked("-m", "backprobe", "watch", "held.py")
    assert (code, out.splitlines()[1]) == (0, "at exit"), (out, err)


def test_nothing_is_left_behind(folder):
    before = vars(torch.optim.Optimizer)["__init__"], vars(torch.Tensor)["backward"]
    hooks = len(torch.nn.modules.module._global_forward_hooks), len(torch.nn.modules.module._global_forward_pre_hooks)
    invoked("watch", "train.py")
    assert (vars(torch.optim.Optimizer)["__init__"], vars(torch.Tensor)["backward"]) == before
    after = len(torch.nn.modules.module._global_forward_hooks), len(torch.nn.modules.module._global_forward_pre_hooks)
    assert after == hooks


def test_a_run_that_is_there_is_not_mixed(folder):
    invoked("watch", "train.py")
    assert refused(invoked("watch", "train.py", "-x")) == (
        "BadOption: train.run is there already\n  asked: backprobe watch train.py -x\n"
        "  why:   another training would go on behind its last step\n"
        "  next:  backprobe watch --folder train-2.run train.py -x, or backprobe watch --append train.py -x\n"
    )
    assert invoked("watch", "--append", "train.py")[0] == 0
    with bp.open_run("train.run/Sequential") as run:
        assert (len(run.steps), len(run.attempts)) == (10, 2)


def test_a_script_that_trains_nothing(folder):
    (folder / "idle.py").write_text("print('done')\n")
    code, out, err = invoked("watch", "idle.py")
    assert (code, out) == (0, "done\n")
    assert err == "nothing was watched: no optimizer of PyTorch has parameters of a model that was called\n"
    assert not (folder / "idle.run").exists()
    assert "BadOption: there is no script 'none.py'" in refused(invoked("watch", "none.py"))


@pytest.mark.parametrize("verb", ["watch", "memory"])
def test_a_verb_of_scripts_takes_no_function(verb, folder):
    (folder / "idle.py").write_text("def f(x): return x\n")
    assert refused(invoked(verb, "idle.py:f", "x=1")) == (
        f"BadOption: backprobe {verb} takes a whole script, and 'idle.py:f' names a function in it\n"
        f"  asked: backprobe {verb} idle.py:f\n  next:  backprobe {verb} idle.py\n"
    )
    assert "for a function in a file" not in refused(invoked(verb, "none.py"))


COMPILED = """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

@torch.compile(backend="eager")
def step(x, y):
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    return loss

for _ in range(3):
    optimizer.zero_grad()
    step(torch.randn(16, 4), torch.randn(16, 1))
    optimizer.step()
"""


def test_a_model_that_only_compiled_code_calls_is_watched_without_compiling(tmp_path):
    (tmp_path / "step.py").write_text(COMPILED)
    command = [sys.executable, "-m", "backprobe", "watch", "step.py"]

    def watched(**environment):
        run = subprocess.run(command, cwd=tmp_path, env=os.environ | environment, capture_output=True, text=True)
        assert (run.returncode, run.stdout) == (0, "")
        return run.stderr

    assert watched().endswith(  # before it, PyTorch warns of Python 3.13.0
        "nothing was watched: no optimizer of PyTorch has parameters of a model that was called outside of compiled "
        "code\n  torch.compile compiled step (step.py:7); models that only this calls are not seen\n"
        "    next:  TORCH_COMPILE_DISABLE=1 backprobe watch step.py\n"
    )
    assert watched(TORCH_COMPILE_DISABLE="1").startswith("watched Sequential for 3 steps")


STARVING = """\
import torch
from torch import nn

torch.manual_seed(0)
encoder, frozen, head = nn.Linear(4, 3), nn.Linear(4, 3).requires_grad_(False), nn.Linear(3, 1)
optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)
for x in torch.randn(8, 16, 4):
    with torch.no_grad():
        kept = frozen(x)
    loss = (head(encoder(x).detach() + kept) - x[:, :1]).square().mean()
    loss.backward()
    optimizer.step()
"""


def test_what_a_run_shows_at_once_is_said_when_it_ends(tmp_path, monkeypatch):
    with in_folder(tmp_path, monkeypatch, {"train.py": STARVING}):
        code, _, err = invoked("watch", "train.py")
    assert code == 0
    assert err.splitlines() == [
        "watched Linear for 8 steps: backprobe report train.run/Linear",
        "  steps 0 to 7 (8): backward() did not run through the model",
        "watched Linear-2 for 8 steps: backprobe report train.run/Linear-2",
        "  step 3: gradients add up from step to step: those of 2 parameters are not cleared",
        "    next:  optimizer.zero_grad() before each backward()",
        "  step 3: the updates are large: at least 0.532 of the weights in a step",
        "    next:  a lower learning rate",
    ]
