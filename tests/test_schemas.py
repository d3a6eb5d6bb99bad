"""A program whose log is known is not named again, and nobody can tell."""

import copy
import gc
import pickle
import weakref
from dataclasses import fields, replace

import pytest
import torch
import torch.utils.checkpoint

import backprobe as bp
from asked import same
from backprobe.record.patterns import selection
from backprobe.tracing import schema as schemas
from backprobe.tracing.reader import Reader
from backprobe.tracing.schema import MOST, Schema, Template, differences


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)
        self.frozen = torch.nn.Linear(3, 3).requires_grad_(False)

    def forward(self, x):
        hidden = self.inner(x).relu()
        pair = hidden, 2
        hidden = hidden * pair[1] + self.frozen(x.detach())
        hidden[0] = 0.0
        return [square(h) for h in hidden]


def square(value):
    out = value * value
    return out


def total(x, model):
    parts = model(x)
    loss = sum(part.sum() for part in parts)
    return loss


def around_a_model(model, x):
    with bp.probe(model, ["**", "**:*"]) as rec:
        total(x, model).backward()
    return rec


def around_variables(model, x):
    with bp.probe() as rec:
        parts = model(x)
        loss = sum(part.sum() for part in parts)
        loss.backward()
    return rec


def of_a_function(model, x):
    return bp.probe(total, wrt="x")(x, model)


def of_a_model(model, x):
    return bp.probe(model, ["**", "**:*"], of="0", cotangent=torch.ones(3))(x)


FORMS = [around_a_model, around_variables, of_a_function, of_a_model]


@pytest.fixture
def reading(monkeypatch):
    """How many events each log was read to."""
    found = []
    read = Reader.read

    def counted(reader):
        found.append(len(reader.log.events) - reader.at)
        read(reader)

    selection.cache_clear()
    monkeypatch.setattr(schemas, "compare", None)
    monkeypatch.setattr(Reader, "read", counted)
    return found


@pytest.mark.parametrize("form", FORMS)
def test_a_program_is_named_once(form, reading):
    torch.manual_seed(0)
    model = Net()
    first = form(model, torch.randn(2, 3))
    assert sum(reading) > 0
    read = sum(reading)
    second = form(model, torch.randn(2, 3))
    assert sum(reading) == read
    assert [*first] == [*second]
    for one, other in zip(first.values(), second.values(), strict=True):
        assert (one.status, one.reason, one.source, one.reads) == (
            other.status,
            other.reason,
            other.source,
            other.reads,
        )
        assert [edge.at for edge in one.inputs] == [edge.at for edge in other.inputs]


def test_values_and_gradients_are_those_of_the_run():
    torch.manual_seed(0)
    model, x, y = Net(), torch.randn(2, 3), torch.randn(2, 3)
    around_a_model(model, y)
    model.zero_grad()
    rec = around_a_model(model, x)
    assert same(rec["inner.weight"].grad, model.inner.weight.grad)
    assert same(rec["inner"].value, model.inner(x).detach())


def test_what_is_frozen_in_one_step_alone_is_said_of_that_step():
    model, x = Net(), torch.randn(2, 3)
    for is_frozen in (False, True, False, True):
        model.inner.requires_grad_(not is_frozen)
        with bp.probe(model) as rec:
            out = model.inner(x)
            if not is_frozen:
                out.sum().backward()
        assert rec["inner.weight"].status == ("frozen" if is_frozen else "ok"), is_frozen


def test_every_way_of_a_program_has_a_schema_up_to_a_number():
    def f(x, times):
        for _ in range(times):
            x = x * 2
        return x

    selection.cache_clear()
    probed = bp.probe(f, wrt="x")
    for times in range(MOST + 4):
        assert f"x#{times}" in probed(torch.tensor(1.0), times) or not times
    assert len(selection(None, True, (), ()).plan.schemas) == MOST


def test_a_schema_keeps_no_value_and_no_model():
    model, x = Net(), torch.randn(2, 3)
    rec = around_a_model(model, x)
    gone = [weakref.ref(model), weakref.ref(rec["inner"].value), weakref.ref(x)]
    del model, x, rec
    gc.collect()
    assert [one() for one in gone] == [None] * 3


@pytest.mark.parametrize("name", [one.name for one in fields(Schema) if one.name not in ("events", "missed")])
def test_a_difference_in_any_field_is_seen(name):
    known = _schema()
    other = replace(known, **{name: ("other",) if name != "templates" else known.templates[:-1]})
    assert differences(known, known) == []
    assert differences(known, other)


@pytest.mark.parametrize("name", [one.name for one in fields(Template)])
def test_a_difference_in_any_entry_is_seen(name):
    known = _schema()
    first = replace(known.templates[0], **{name: "other"})
    assert differences(known, replace(known, templates=(first, *known.templates[1:])))


def test_a_class_that_knows_its_model_keeps_it_no_longer_alive():
    def made():
        known = []

        class Knowing(Net):
            def __call__(self, x):
                return super().__call__(x) + [torch.zeros(()) * len(known)]

        model = Knowing()
        known.append(model)
        around_a_model(model, torch.randn(2, 3))
        of_a_function(model, torch.randn(2, 3))
        return weakref.ref(model)

    model = made()
    gc.collect()
    assert model() is None


# names that hold no tensor any longer, while its memory is written


def deleted(x):
    u = x * 2
    y = u + 1
    d = u.detach()
    del u
    d.zero_()
    return y.sum()


def bound_to_none(x):
    u = x * 2
    y = u + 1
    d = u.detach()
    u = None
    d.zero_()
    return y.sum() if u is None else u


def bound_to_fewer(x):
    us = [x * 2, x * 3]
    y = us[0] + us[1]
    d = us[1].detach()
    us = [us[0]]
    d.zero_()
    return y.sum()


def of_a_comprehension(x):
    many = [t.detach() for t in [x * 1, x * 2]]
    many[1].zero_()
    return x.sum()


def after_a_generator(x):
    def g(value):
        inner = value * 2
        yield inner
        yield inner.detach()

    running = g(x)
    y = next(running) + 1
    between = x * 5
    d = next(running)
    for _ in running:
        pass
    d.zero_()
    return (y + between).sum()


@pytest.mark.parametrize("program", [deleted, bound_to_none, bound_to_fewer, of_a_comprehension, after_a_generator])
def test_what_has_no_name_any_longer_is_written_unnoticed(program):
    for _ in range(2):
        rec = bp.probe(program)(torch.ones(3))
        assert not [name for name, entry in rec.items() if entry.status == "opaque"]


def test_a_module_that_returns_tensors_and_none_returns_once():
    class Pair(torch.nn.Module):
        def forward(self, x):
            return x * 2, None

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.pair = Pair()

        def forward(self, x):
            return self.pair(x)[0].sum()

    model, x = Outer(), torch.ones(2, requires_grad=True)
    for _ in range(2):
        with bp.probe(model, ["**", "**:*"]) as rec:
            model(x).backward()
        assert not [name for name in rec.record.printed.values() if "return#" in name]
        assert "pair:return.1" in rec


def test_a_history_that_comes_late_after_a_checkpoint():
    def inner(value):
        return (value * 2).exp()

    x = torch.ones(3, requires_grad=True)
    with bp.probe() as rec:
        for _ in range(3):
            h = torch.utils.checkpoint.checkpoint(inner, x, use_reentrant=True)
            z = h * 2
            z.sum().backward()
    for at in range(3):
        assert rec[f"h#{at}"].grad.tolist() == [2.0, 2.0, 2.0]


def test_why_there_is_no_history_is_as_it_was_when_the_name_was_bound():
    def twice(s):
        s.add_(1)
        s.add_(1)

    def f(x):
        u = x * 2
        y = u + 1
        twice(u.detach())
        return y.sum()

    for _ in range(2):
        rec = bp.probe(f)(torch.ones(3))
        assert rec["/twice:s#0"].status == "detached"


def test_long_logs_are_not_kept(monkeypatch):
    monkeypatch.setattr(schemas, "MOST_ITEMS", 60)
    selection.cache_clear()
    known = selection(None, True, (), ())
    bp.probe(square)(torch.tensor(2.0))
    assert len(known.plan.schemas) == 1

    def long(x):
        for _ in range(40):
            x = x * 1.5
        return x

    bp.probe(long)(torch.tensor(2.0))
    assert [len(one.events) for one in known.plan.schemas if len(one.events) > 60] == []


def test_a_recording_that_nobody_has_read_can_be_pickled_and_copied():
    rec = bp.probe(square)(torch.tensor(2.0))
    assert pickle.loads(pickle.dumps(rec))["value"].grad == 4
    rec = bp.probe(square)(torch.tensor(2.0))
    assert copy.copy(rec)["value"].grad == 4


def test_entries_that_are_made_later_are_as_the_block_ended():
    layer, x = torch.nn.Linear(2, 2), torch.ones(1, 2)
    rec = bp.probe(layer, create_graph=True, cotangent=torch.ones(1, 2))(x)
    layer.double()
    assert rec["weight"].dtype == "float32"
    layer.float()
    with bp.probe(layer) as rec:
        layer(x).sum().backward()
    with torch.no_grad():
        layer.weight += 1
    with pytest.raises(bp.Overwritten):  # an alias, which says so
        _ = rec["weight"].value


def _schema():
    selection.cache_clear()
    bp.probe(square)(torch.tensor(2.0))
    return selection(None, True, (), ()).plan.schemas[0]


def test_the_switch_compares(monkeypatch):
    compared = []
    monkeypatch.setattr(schemas, "compare", lambda known, made: compared.append(differences(known, made)))
    selection.cache_clear()
    for _ in range(3):
        bp.probe(square)(torch.tensor(2.0))
    assert compared == [[], []]
