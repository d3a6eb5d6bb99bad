"""A program whose log is known is not named again, and nobody can tell."""

import gc
import weakref
from dataclasses import fields, replace

import pytest
import torch

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
    assert len(selection(None, True).schemas) == MOST


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


def _schema():
    selection.cache_clear()
    bp.probe(square)(torch.tensor(2.0))
    return selection(None, True).schemas[0]


def test_the_switch_compares(monkeypatch):
    compared = []
    monkeypatch.setattr(schemas, "compare", lambda known, made: compared.append(differences(known, made)))
    selection.cache_clear()
    for _ in range(3):
        bp.probe(square)(torch.tensor(2.0))
    assert compared == [[], []]
