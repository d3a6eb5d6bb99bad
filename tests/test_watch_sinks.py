"""Sinks: what of a watched training goes to them, and that one that fails leaves the training and its run alone."""

import threading

import pytest
import torch

import backprobe as bp
from asked import message
from backprobe.integrations import Sink
from backprobe.watch import feeding
from watched import Net, batches, sgd, trained

COUNTS = {"grad.nan", "grad.posinf", "grad.neginf"}


class Kept(Sink):
    """A sink that remembers."""

    def __init__(self, **options):
        super().__init__(**options)
        self.calls, self.sent, self.alerted = [], {}, []

    def open(self, folder):
        self.calls.append(("open", folder, threading.current_thread()))

    def send(self, step, numbers):
        self.calls.append(("send", step, threading.current_thread()))
        self.sent[step] = dict(numbers)

    def alert(self, step, text):
        self.alerted.append((step, text))

    def close(self):
        self.calls.append(("close", None, threading.current_thread()))


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Net()


def watched(model, folder, *sinks, steps=4, **options):
    optimizer = sgd(model)
    with bp.watch(model, folder, optimizer=optimizer, sinks=list(sinks), **options) as run:
        trained(model, optimizer, batches(steps), run.log)


def test_a_sink_gets_the_numbers_that_the_run_has(model, tmp_path):
    sink = Kept()
    watched(model, tmp_path, sink, what=("value", "grad", "param", "update"))
    with bp.open_run(tmp_path) as run:
        assert list(sink.sent) == [0, 1, 2, 3]
        for step, numbers in sink.sent.items():
            rows = {f"{field}/{name}": x for name, row in run.at(step).items() for field, x in row.items()}
            sent = {label: x for label, x in rows.items() if label.partition("/")[0] in sink.fields}
            assert numbers == {label: x for label, x in sent.items() if label.partition("/")[0] not in COUNTS}
        assert {"value.rms/body.1", "grad.rms/return", "update.ratio/head.bias", "logged/loss"} <= set(sink.sent[0])


def test_nan_in_gradients_is_counted_from_the_first_on(model, tmp_path):
    sink, asked = Kept(), Kept(fields=["grad.nan"])
    with bp.watch(model, tmp_path, sinks=[sink, asked]) as run:
        for at, x in enumerate(batches(4)):
            (model(x).square().mean() * (float("nan") if at == 1 else 1.0)).backward()
            run.step()
            model.zero_grad()
    counts = [numbers.get("grad.nan/head.weight") for numbers in sink.sent.values()]
    assert counts == [None, 4, 0, 0]
    assert not any(label.partition("/")[0] == "grad.posinf" for numbers in sink.sent.values() for label in numbers)
    assert {step: numbers["grad.nan/head.weight"] for step, numbers in asked.sent.items()} == {1: 4, 2: 0, 3: 0}


class Narrow(Kept):
    """A dashboard that has float16."""

    def stored(self, step, label, number):
        self.calls.append(("stored", step, label))
        return 65504.0 if number > 0 else number


def test_a_number_that_a_dashboard_cannot_store_is_said_there_once(model, tmp_path):
    narrow, wide, quiet = Narrow(fields=["logged"]), Kept(fields=["logged"]), Narrow(fields=["logged"], alerts=False)
    optimizer = sgd(model)
    with bp.watch(model, tmp_path, optimizer=optimizer, sinks=[narrow, wide, quiet]) as run:
        for number in (1.0, float("inf"), float("inf"), 1e300):
            model(batches(1)[0]).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            run.log(best=number)
    said = [text for _, text in narrow.alerted if "stored" in text]
    assert said == [
        "Inf is not stored here, but 6.55e+04 in its place: logged/best at step 1. The run on disk has it.",
        "1e+300 is not stored here, but 6.55e+04 in its place: logged/best at step 3. The run on disk has it.",
    ]
    assert [call[1] for call in narrow.calls if call[0] == "stored"] == [1, 3]
    assert not any("stored" in text for _, text in (*wide.alerted, *quiet.alerted))


def test_names_fields_and_steps_are_chosen(model, tmp_path):
    some = Kept(select=["body.*", "!body.2", "head.weight"], fields=["grad.absmax", "logged"], every=2)
    root, by_expression = Kept(select="return", fields=["value.std"]), Kept(select="re:.*weight", fields=["param.rms"])
    watched(model, tmp_path, some, root, by_expression)
    labels = ["grad.absmax/body.0", "grad.absmax/body.1", "grad.absmax/head.weight", "logged/loss"]
    assert {step: sorted(numbers) for step, numbers in some.sent.items()} == {0: labels, 2: labels}
    assert list(root.sent[3]) == ["value.std/return"]
    assert sorted(by_expression.sent[3]) == [f"param.rms/{name}.weight" for name in ("body.0", "embed", "head")]
    assert repr(root) == "<Kept of value.std of 'return'>"


def test_a_sink_is_opened_and_closed_in_the_training_and_fed_beside_it(model, tmp_path):
    sink, here = Kept(), threading.current_thread()
    watched(model, tmp_path, sink, steps=2)
    assert [call[:2] for call in sink.calls] == [("open", tmp_path), ("send", 0), ("send", 1), ("close", None)]
    assert [thread is here for *_, thread in sink.calls] == [True, False, False, True]
    assert not [one for one in threading.enumerate() if one.name == "backprobe-sinks"]


@pytest.mark.parametrize("method", ["open", "send", "alert", "close"])
def test_a_sink_that_fails_gets_nothing_more_and_the_others_all(model, tmp_path, method):
    def fail(*args):
        calls.append(args)
        raise OSError("no route to host")

    calls, bad, good = [], Kept(), Kept()
    setattr(bad, method, fail)
    steps = feeding.FIRST_LOOK + 5
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)  # which changes no weight: an alert
    with (
        pytest.warns(RuntimeWarning) as caught,
        bp.watch(model, tmp_path, optimizer=optimizer, sinks=[bad, good], pace=bp.Pace(flush=0)) as run,
    ):
        trained(model, optimizer, batches(steps), run.log)
    assert [str(one.message) for one in caught] == [
        "bp.watch: Kept gets nothing more (OSError: no route to host). The run on disk goes on."
    ]
    assert len(calls) == 1
    assert list(good.sent) == list(range(steps))
    assert good.calls[-1][0] == "close"
    with bp.open_run(tmp_path) as run:
        assert len(run.steps) == steps


def test_alerts_are_sent_once_each_as_the_run_has_them(model, tmp_path):
    sink, quiet = Kept(), Kept(alerts=False)
    for start in (0, 60):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        with bp.watch(model, tmp_path, optimizer=optimizer, sinks=[sink, quiet], pace=bp.Pace(flush=0)) as run:
            trained(model, optimizer, batches(60), run.log)
        with bp.open_run(tmp_path) as run:
            found = [(one.step, str(one)) for one in run.alerts.findings]
        assert found
        assert sorted(step for step, _ in sink.alerted) == sorted(step for step, _ in found)
        assert {text.partition("\n")[0] for _, text in sink.alerted} == {text.partition("\n")[0] for _, text in found}
    assert quiet.alerted == []


def test_a_sink_that_hangs_holds_up_neither_the_training_nor_the_run(model, tmp_path, monkeypatch):
    monkeypatch.setattr(feeding, "MOST_WAITING", 3)
    monkeypatch.setattr(feeding, "LAST_WAIT", 0.05)
    stuck, sink = threading.Event(), Kept()
    sink.send = lambda step, numbers: stuck.wait(60)
    with pytest.warns(RuntimeWarning, match="steps of the run did not go to its sinks, which are too slow") as caught:
        watched(model, tmp_path, sink, steps=10)
    stuck.set()
    assert "10 steps" in str(caught[0].message)
    with bp.open_run(tmp_path) as run:
        assert len(run.steps) == 10


def test_the_training_is_bitwise_the_same(model, tmp_path):
    twin = Net()
    twin.load_state_dict(model.state_dict())
    watched(model, tmp_path, Kept())
    trained(twin, sgd(twin), batches())
    assert all(map(torch.equal, model.state_dict().values(), twin.state_dict().values()))


def test_a_second_rank_sends_nothing(model, tmp_path):
    sink = Kept()
    watched(model, tmp_path, sink, rank=1)
    assert sink.calls == []


def test_what_is_no_sink_is_refused(model, tmp_path):
    def entered(sinks):
        return lambda: bp.watch(model, tmp_path, sinks=sinks)

    assert message(bp.BadOption, entered([print])) == (
        "sinks is a list of sinks\n  asked: bp.watch(..., sinks=[...])\n  found: a function\n"
        "  why:   a sink is of a class of backprobe.integrations, or of a subclass of its Sink\n"
        "  next:  sinks=[TensorBoardSink('tb')], after from backprobe.integrations.tensorboard import TensorBoardSink"
    )
    assert "'grad.mode' is not a field of a run" in message(
        bp.BadOption, lambda: Kept(fields=["grad.rms", "grad.mode"])
    )
    assert "fields is a list of fields of a run" in message(bp.BadOption, lambda: Kept(fields="grad.rms"))
    assert "every is a whole number from 1 on" in message(bp.BadOption, lambda: Kept(every=0))
    assert "is not a valid regular expression" in message(bp.BadName, lambda: Kept(select="re:("))
