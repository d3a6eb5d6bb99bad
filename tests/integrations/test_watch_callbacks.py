"""``WatchCallback`` in Hugging Face's Trainer and in Lightning's, and ``bp.watch`` around Accelerate's loop."""

import gc

import accelerate
import lightning.pytorch as lightning
import pytest
import torch
import transformers
from recipes import Recipe, same_weights
from test_huggingface import gpt2, texts
from transformers import Trainer, TrainingArguments

import backprobe as bp
from backprobe.integrations import huggingface
from backprobe.integrations import lightning as for_lightning

LAYER, WEIGHT = "transformer.h.0.mlp", "transformer.h.0.mlp.c_fc.weight"
STEPS = 6


def rms(tensor):
    return float(tensor.detach().double().square().mean().sqrt())


def of_steps(folder, name, field):
    with bp.open_run(folder) as run:
        steps, numbers = run.series(name, field)
    return steps.tolist(), pytest.approx(numbers.tolist(), rel=1e-4)


# Hugging Face


class Seen(transformers.TrainerCallback):
    """What the optimizer is about to use, and the losses."""

    def __init__(self):
        self.gradients, self.logs = [], []

    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
        self.gradients.append(rms(model.get_parameter(WEIGHT).grad))

    def on_log(self, args, state, control, logs=None, **kwargs):
        self.logs.append(dict(logs))


def trainer(folder, *callbacks, **options):
    arguments = TrainingArguments(
        folder,
        **{
            "max_steps": STEPS,
            "per_device_train_batch_size": 2,
            "use_cpu": True,
            "report_to": [],
            "save_strategy": "no",
            "logging_steps": 1,
            "disable_tqdm": True,
            "learning_rate": 0.01,
            **options,
        },
    )
    return Trainer(
        model=gpt2(), args=arguments, train_dataset=texts(), eval_dataset=texts()[:4], callbacks=list(callbacks)
    )


@pytest.mark.parametrize(
    ("accumulated", "options"),
    [
        (1, {"max_grad_norm": 0}),
        (2, {"max_grad_norm": 0.01}),
        (2, {"max_grad_norm": 0.01, "bf16": True}),
        (1, {"eval_strategy": "steps", "eval_steps": 2}),
        (1, {"torch_compile": True, "torch_compile_backend": "aot_eager"}),
    ],
    ids=["plain", "accumulated and clipped", "bfloat16", "evaluated", "compiled"],
)
def test_the_steps_of_a_hugging_face_trainer(tmp_path, accumulated, options):
    options = options | {"gradient_accumulation_steps": accumulated}
    torch.compiler.reset()
    seen = Seen()
    bare = trainer(tmp_path, seen, **options)
    bare.train()
    torch.compiler.reset()
    callback = huggingface.WatchCallback(
        tmp_path / "run", select=["transformer.h.*.mlp", WEIGHT], what=("value", "grad", "param", "update")
    )
    watched = trainer(tmp_path, callback, **options)
    watched.train()
    assert callback.run is None
    assert same_weights(watched.model, bare.model)
    assert of_steps(tmp_path / "run", WEIGHT, "grad.rms") == (list(range(STEPS)), seen.gradients)
    losses = [logs["loss"] for logs in seen.logs if "loss" in logs]
    assert of_steps(tmp_path / "run", "loss", "logged") == (list(range(STEPS)), losses)
    with bp.open_run(tmp_path / "run") as run:
        assert [run.at(step).backwards for step in range(STEPS)] == [accumulated] * STEPS
        assert run.at(3)[LAYER]["grad.count"] == run.at(3)[LAYER]["value.count"] == accumulated * 2 * 6 * 8
        assert {"learning_rate", "grad_norm"} <= set(run.names)
        assert "train_runtime" not in run.names
        assert ("eval_loss" in run.names) == ("eval_strategy" in options)


def test_a_hugging_face_trainer_goes_on_from_a_checkpoint(tmp_path):
    callback = huggingface.WatchCallback(tmp_path / "run", select=LAYER)
    trainer(tmp_path, callback, save_strategy="steps", save_steps=4).train()
    assert of_steps(tmp_path / "run", LAYER, "grad.rms")[0] == list(range(STEPS))
    again = huggingface.WatchCallback(tmp_path / "run", select=LAYER)
    trainer(tmp_path, again, max_steps=8).train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
    with bp.open_run(tmp_path / "run") as run:
        assert run.steps.tolist() == list(range(8))
        assert [run.at(step).attempt for step in range(8)] == [0] * 4 + [1] * 4


def test_a_hugging_face_training_that_fails_is_on_disk_and_may_begin_again(tmp_path):
    class Failing(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            if state.global_step == 3:
                raise ValueError("a batch is broken")

    callback = huggingface.WatchCallback(tmp_path / "run", select=LAYER)
    failing = trainer(tmp_path, callback, Failing())
    with pytest.raises(ValueError, match="a batch is broken"):
        failing.train()
    callback.run.flush()
    assert of_steps(tmp_path / "run", LAYER, "grad.rms")[0] == [0, 1, 2]
    trainer(tmp_path, callback).train()  # the same folder, whose lock the first training held
    with bp.open_run(tmp_path / "run") as run:
        assert run.at(2).attempt == 1


def test_what_a_failed_trainer_leaves_open_ends_with_it(tmp_path):
    callback = huggingface.WatchCallback(tmp_path / "run", select=LAYER)
    failing = trainer(tmp_path, callback)
    failing.callback_handler.on_train_begin(failing.args, failing.state, failing.control)
    assert torch.nn.modules.module._global_forward_hooks
    del callback, failing
    gc.collect()
    assert not torch.nn.modules.module._global_forward_hooks


def test_the_lines_of_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recipe = Recipe("Watching the whole training", [])
    arguments = TrainingArguments(
        "out", max_steps=12, use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True
    )
    recipe["watched_by_huggingface"](gpt2(), arguments, texts()).train()
    assert of_steps("runs/exp1", LAYER, "grad.rms")[0] == [0, 10]
    one = recipe["watched_by_lightning"]()
    assert [type(each) for each in one.callbacks if isinstance(each, for_lightning.WatchCallback)]


def test_options_that_a_callback_does_not_take(tmp_path):
    for callback in (huggingface.WatchCallback, for_lightning.WatchCallback):
        with pytest.raises(bp.BadOption) as caught:
            callback("runs/exp1", evry=10)
        assert "next:  WatchCallback('runs/exp1', every=...)" in str(caught.value)
        with pytest.raises(bp.BadOption, match="the trainer has it"):
            callback("runs/exp1", optimizer=None)


# Lightning


class Module(lightning.LightningModule):
    """One optimizer, or in manual optimization two that step in turn."""

    def __init__(self, manual=False, failing=-1):
        super().__init__()
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh())
        self.head = torch.nn.Linear(8, 1)
        self.automatic_optimization = not manual
        self.failing, self.used, self.losses = failing, [], []

    def training_step(self, batch, batch_idx):
        if batch_idx == self.failing:
            raise ValueError("a batch is broken")
        loss = torch.nn.functional.mse_loss(self.head(self.net(batch)), batch.sum(1, keepdim=True))
        self.losses.append(loss.item())
        if not self.automatic_optimization:
            optimizers = self.optimizers()
            self.manual_backward(loss)
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
            return None
        return loss

    def validation_step(self, batch, batch_idx):
        self.net(batch)

    def on_before_optimizer_step(self, optimizer):
        weight = self.net[0].weight
        if not self.automatic_optimization and any(weight is one for one in optimizer.param_groups[0]["params"]):
            self.used.append(rms(weight.grad))

    def configure_gradient_clipping(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None):
        super().configure_gradient_clipping(optimizer, gradient_clip_val, gradient_clip_algorithm)
        self.used.append(rms(self.net[0].weight.grad))

    def configure_optimizers(self):
        parts = [self.parameters()] if self.automatic_optimization else [self.net.parameters(), self.head.parameters()]
        return [torch.optim.AdamW(part, lr=0.01) for part in parts]


def fit(module, batches, *callbacks, ckpt_path=None, **options):
    rows = torch.randn(4 * batches, 4, generator=torch.Generator().manual_seed(1))
    loader = torch.utils.data.DataLoader(rows, batch_size=4)
    one = lightning.Trainer(
        **{
            "max_epochs": 1,
            "accelerator": "cpu",
            "logger": False,
            "enable_checkpointing": False,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "callbacks": list(callbacks),
            **options,
        }
    )
    one.fit(module, loader, loader, ckpt_path=ckpt_path)
    return one


def scaled():
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    return lightning.plugins.MixedPrecision("16-mixed", "cpu", scaler)


@pytest.mark.parametrize(
    ("accumulated", "options"),
    [
        (1, {}),
        (2, {"gradient_clip_val": 0.01}),
        (2, {"gradient_clip_val": 0.01, "precision": "bf16-mixed"}),
        (1, {"plugins": scaled}),
    ],
    ids=["plain", "accumulated and clipped", "bfloat16", "float16 with a scaler"],
)
def test_the_steps_of_a_lightning_trainer(tmp_path, accumulated, options):
    def made():
        return (
            options | {"accumulate_grad_batches": accumulated} | ({"plugins": scaled()} if "plugins" in options else {})
        )

    bare, module = Module(), Module()
    fit(bare, accumulated * STEPS, **made())
    callback = for_lightning.WatchCallback(
        tmp_path, select=["net.*", "net.0.weight"], what=("value", "grad", "param", "update")
    )
    fit(module, accumulated * STEPS, callback, **made())
    assert callback.run is None
    assert same_weights(module, bare)
    assert of_steps(tmp_path, "net.0.weight", "grad.rms") == (list(range(STEPS)), bare.used)
    assert of_steps(tmp_path, "net.0.weight", "update.rms")[0] == list(range(STEPS))
    losses = torch.tensor(bare.losses).reshape(STEPS, accumulated).mean(1)
    assert of_steps(tmp_path, "loss", "logged") == (list(range(STEPS)), losses.tolist())
    assert of_steps(tmp_path, "learning_rate", "logged") == (list(range(STEPS)), [0.01] * STEPS)
    with bp.open_run(tmp_path) as run:  # validation, also before the training, is not counted
        assert [run.at(step).backwards for step in range(STEPS)] == [accumulated] * STEPS
        assert run.at(0)["net.0"]["value.count"] == run.at(0)["net.0"]["grad.count"] == accumulated * 32
        assert ("loss scale" in run.names) == ("plugins" in options)


def test_several_optimizers_of_lightning(tmp_path):
    callback = for_lightning.WatchCallback(tmp_path, what=("value", "grad", "param", "update"))
    module = Module(manual=True)
    fit(module, STEPS, callback)
    assert of_steps(tmp_path, "net.0.weight", "grad.rms") == (list(range(STEPS)), module.used)
    assert of_steps(tmp_path, "head.weight", "update.rms")[0] == list(range(STEPS))
    assert of_steps(tmp_path, "learning_rate.1", "logged") == (list(range(STEPS)), [0.01] * STEPS)


@pytest.mark.parametrize("manual", [False, True], ids=["one optimizer", "two optimizers"])
def test_a_lightning_trainer_goes_on_from_a_checkpoint(tmp_path, manual):
    at_four = lightning.callbacks.ModelCheckpoint(
        tmp_path / "kept", every_n_train_steps=8 if manual else 4, save_top_k=-1
    )
    first = for_lightning.WatchCallback(tmp_path / "run", select="net.0")
    fit(Module(manual), STEPS, first, at_four, enable_checkpointing=True)
    (kept,) = (tmp_path / "kept").glob("*.ckpt")
    again = for_lightning.WatchCallback(tmp_path / "run", select="net.0")
    fit(Module(manual), STEPS, again, ckpt_path=kept)
    with bp.open_run(tmp_path / "run") as run:
        assert run.steps.tolist() == list(range(STEPS))
        assert [run.at(step).attempt for step in range(STEPS)] == [0] * 4 + [1] * 2


def test_a_lightning_training_that_fails_ends_the_watch(tmp_path):
    with pytest.raises(ValueError, match="a batch is broken"):
        fit(Module(failing=3), STEPS, for_lightning.WatchCallback(tmp_path, select="net.0"))
    assert of_steps(tmp_path, "net.0", "grad.rms")[0] == [0, 1, 2]
    assert not torch.nn.modules.module._global_forward_hooks


# Accelerate


@pytest.mark.parametrize("accumulated", [1, 2])
def test_the_loop_of_accelerate(tmp_path, accumulated):
    """Its optimizer is a wrapper, whose steps are those of the one inside."""
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=accumulated)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=0.01))
    used = []
    with bp.watch(
        accelerator.unwrap_model(model), tmp_path, optimizer=optimizer, what=("value", "grad", "param", "update")
    ) as run:
        for batch in torch.randn(STEPS * accumulated, 5, 4):
            with accelerator.accumulate(model):
                loss = model(batch).square().mean()
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 0.01)
                    used.append(rms(model[0].weight.grad))
                optimizer.step()
                optimizer.zero_grad()
                run.log(loss=loss)
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    assert of_steps(tmp_path, "0.weight", "grad.rms") == (list(range(STEPS)), used)
    assert of_steps(tmp_path, "0.weight", "update.rms")[0] == list(range(STEPS))
    with bp.open_run(tmp_path) as run:
        assert run.at(1)["0"]["value.count"] == accumulated * 40
