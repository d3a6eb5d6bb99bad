"""Old names are refused with the line that has the new one; and the options of a watch that took their place."""

import inspect

import pytest

import backprobe as bp
from asked import message
from backprobe.integrations.tensorboard import TensorBoardSink
from commands import invoked, refused
from watched import Net, batches, sgd, trained


@pytest.mark.parametrize(
    ("call", "next"),
    [
        (lambda: bp.watch(Net(), run_dir="runs/a"), "bp.watch(model, 'runs/a')"),
        (lambda: bp.watch(Net(), "a", values=False), "bp.watch(model, folder, what='grad')"),
        (lambda: bp.watch(Net(), "a", parameters=False), "bp.watch(model, folder, what=('value', 'grad'))"),
        (
            lambda: bp.watch(Net(), "a", updates=True),
            "bp.watch(model, folder, what=('value', 'grad', 'param', 'update'))",
        ),
        (lambda: bp.watch(Net(), "a", values=True), "bp.watch(model, folder)"),
        (lambda: bp.watch(Net(), "a", flush_every=1), "bp.watch(model, folder, pace=bp.Pace(flush=0))"),
        (lambda: bp.watch(Net(), "a", flush_every=3), "bp.watch(model, folder, pace=bp.Pace(flush=1.0))"),
        (
            lambda: bp.watch(Net(), "a", histogram=5, flush_every=3),
            "bp.watch(model, folder, pace=bp.Pace(flush=1.0, histogram=5))",
        ),
        (lambda: bp.watch(max, "a", argnums=1), "with bp.watch_function(loss_fn, folder, argnums=1) as run:"),
        (lambda: bp.watch_function(max, "a", optimizer=1), "run.record(stats, updates=updates)"),
        (lambda: bp.watch_function(max, "a", scaler=1), "bp.watch_function(loss_fn, folder)"),
        (lambda: bp.provoke(max, steps=3), "bp.provoke(f, tries=3)"),
        (lambda: bp.probe(lambda x: x * 2)(3.0)["x"].plot(kind="grad"), "entry.plot('grad')"),
        (lambda: TensorBoardSink(into="tb"), "TensorBoardSink('tb')"),
    ],
)
def test_an_old_keyword_is_refused_with_the_new_one(call, next):
    said = message(bp.BadOption, call)
    assert " has no " in said.partition("\n")[0] and said.endswith(f"\n  next:  {next}")


def test_the_signature_is_that_of_the_function():
    assert list(inspect.signature(bp.watch).parameters) == [
        "model",
        "folder",
        "select",
        "what",
        "every",
        "optimizer",
        "scaler",
        "clipping",
        "guard",
        "pace",
        "sinks",
        "start_step",
        "rank",
    ]


def test_an_old_option_of_a_command_is_refused_with_the_new_one():
    err = refused(invoked("watch", "--into=here", "train.py", "--into", "there"))
    assert err.endswith("  next:  backprobe watch --folder=here train.py --into there\n")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"what": "grads"}, "next:  what='grad'"),
        ({"what": ("value", 5)}, "what takes 'value', 'grad', 'param', 'update'"),
        ({"what": 5}, "what is a text, or several"),
        ({"what": ()}, "nothing is watched"),
        ({"pace": 5}, "pace is a bp.Pace"),
        ({"clipping": 1}, "clipping is True or False"),
        ({"guard": 3}, "guard is True or False"),
        ({"every": 0}, "every is a whole number from 1 on"),
        ({"start_step": -1}, "start_step is a whole number from 0 on"),
        ({"start_step": 1.5}, "start_step is a whole number from 0 on"),
        ({"rank": True}, "rank is a whole number from 0 on"),
        ({"sinks": print}, "sinks is a list of sinks"),
        ({"sinks": ["runs"]}, "sinks is a list of sinks"),
    ],
)
def test_options_that_do_not_fit(options, said, tmp_path):
    assert said in message(bp.BadOption, lambda: bp.watch(Net(), tmp_path, **options))


@pytest.mark.parametrize("options", [{"flush": -1}, {"flush": float("nan")}, {"flush": "1"}, {"histogram": -1}])
def test_a_pace_that_there_is_not(options):
    assert f"{next(iter(options))} is a " in message(bp.BadOption, lambda: bp.Pace(**options))


@pytest.mark.parametrize("what", ["value", "grad", "param", "update"])
def test_one_kind_alone(what, tmp_path):
    model = Net()
    optimizer = sgd(model)
    with bp.watch(model, tmp_path, what=what, optimizer=optimizer):
        trained(model, optimizer, batches(2))
    with bp.open_run(tmp_path) as run:
        assert {field.partition(".")[0] for field in run.fields} == {what}


def test_without_patience_each_complete_step_is_on_disk(tmp_path):
    model = Net()
    optimizer = sgd(model)
    with bp.watch(model, tmp_path, optimizer=optimizer, pace=bp.Pace(flush=0)) as run:
        trained(model, optimizer, batches(3))
        run.flush()
        assert run.acknowledged >= 1


def test_a_function_is_not_a_model(tmp_path):
    said = message(bp.BadOption, bp.watch(lambda x: x, tmp_path).__enter__)
    assert said.startswith("bp.watch takes a model")
    said = message(bp.BadOption, bp.watch_function(Net(), tmp_path).__enter__)
    assert "bp.watch_function takes a loss function of JAX" in said and "bp.watch(model, folder" in said
