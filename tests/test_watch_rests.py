"""A step that is not measured costs a watched model nothing, and what is compiled in it is watched all the same."""

from pathlib import Path

import pytest
import torch
import torch._dynamo
from torch import nn
from torch.nn.modules.module import _global_forward_hooks

import backprobe as bp
from commands import forked, printed
from watched import Net, batches, disk_full, sgd, trained

pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")  # of Dynamo's inputs


@pytest.fixture(autouse=True)
def nothing_compiled():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Looking(nn.Module):
    """How many hooks on all modules there are as it is called."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, x):
        self.seen.append(len(_global_forward_hooks))
        return x


def steps_of(folder, field="grad.rms"):
    with bp.open_run(folder) as run:
        names, steps, grid = run.grid(field)
        return {name: steps[row == row].tolist() for name, row in zip(names, grid, strict=True)}


def test_the_hook_rests_after_the_first_module_of_a_step_that_is_not_measured(tmp_path):
    before = len(_global_forward_hooks)
    model = nn.Sequential(nn.Linear(3, 3), Looking(), nn.Linear(3, 1))
    optimizer = sgd(model)
    with bp.watch(model, tmp_path, optimizer=optimizer, every=3, start_step=2) as run:
        trained(model, optimizer, batches(5), run.log)
    assert [count - before for count in model[1].seen] == [0, 1, 0, 0, 1]
    assert len(_global_forward_hooks) == before
    assert set(map(tuple, steps_of(tmp_path).values())) == {(3, 6)}
    with bp.open_run(tmp_path) as run:
        assert run.series("loss", "logged")[0].tolist() == [2, 3, 4, 5, 6]


def in_place(model):
    model.body.compile(backend="aot_eager")


def wrapped(model):
    model.body = torch.compile(model.body, backend="aot_eager")


def function(model):
    body = model.body
    body.forward = torch.compile(body.forward, backend="aot_eager")


def outside(model):
    inner = torch.compile(lambda x: model.head(model.body(x)), backend="aot_eager")
    model.forward = lambda x: inner(model.embed(x))


@pytest.mark.parametrize("compiles", [in_place, wrapped, function, outside])
@pytest.mark.parametrize("resets", [False, True])
def test_what_is_first_compiled_in_a_step_that_is_not_measured_is_watched(tmp_path, resets, compiles):
    torch.manual_seed(0)
    model = Net()
    optimizer, data = sgd(model), batches(9)
    with bp.watch(model, tmp_path, optimizer=optimizer, every=3) as run:
        trained(model, optimizer, data[:2], run.log)
        if resets:
            torch.compiler.reset()
            trained(model, optimizer, data[2:4], run.log)
        compiles(model)
        trained(model, optimizer, data[4 if resets else 2 :], run.log)
    found = steps_of(tmp_path)
    assert {name: found[name] for name in ("embed", "body", "body.0", "head")} == dict.fromkeys(
        ("embed", "body", "body.0", "head"), [0, 3, 6]
    )


def test_a_watch_that_can_no_longer_write_leaves_no_hook(tmp_path):
    before, model = len(_global_forward_hooks), Net()
    optimizer = sgd(model)
    with bp.watch(model, tmp_path, every=2) as run:
        for x in batches(2):
            model(x).sum().backward()
            run.step()
        disk_full(run)
        model(batches(1)[0]).sum().backward()
        run.step()
        with pytest.warns(RuntimeWarning, match="can no longer be written"):
            run.flush()
        optimizer.zero_grad()
        model(batches(1)[0]).sum().backward()
        run.step()
        assert len(_global_forward_hooks) == before


LACKING = """
import sys
import torch
import torch._dynamo
from torch._dynamo import convert_frame, eval_frame, external_utils
for module, name in [
    (convert_frame, "input_codes"), (eval_frame, "skip_code"), (external_utils, "wrap_inline"),
    (torch._dynamo, "callback_handler"), (torch._C._dynamo.eval_frame, "_debug_get_cache_entry_list"),
]:
    delattr(module, name)
import backprobe as bp
from watched import Net, batches, disk_full, sgd, trained
folder = sys.argv[1]
model = Net()
optimizer = sgd(model)
with bp.watch(model, folder, optimizer=optimizer, every=2) as run:
    trained(model, optimizer, batches(4), run.log)
with bp.open_run(folder) as run:
    print(run.series("body", "grad.rms")[0].tolist())
"""


def test_a_pytorch_without_these_names_of_dynamo_is_watched(tmp_path):
    """They are not documented: see ``backends/torch/dynamo.py``."""
    tests = str(Path(__file__).parent)
    lacking = f"import sys\nsys.path.insert(0, {tests!r})\n{LACKING}"
    assert printed(forked("-c", lacking, str(tmp_path))) == "[0, 2]\n"
