"""What modules return besides tensors: mappings are opened by key, and any other object has an entry that says so."""

from collections import OrderedDict, UserDict
from collections.abc import Mapping
from types import MappingProxyType, SimpleNamespace

import pytest
import torch
from torch import nn

import backprobe as bp


class Held:
    def __init__(self, h):
        self.h = h


class Computed(Mapping):
    """A mapping of its own, whose values are computed when they are asked for."""

    def __init__(self, h):
        self.h = h

    def __getitem__(self, key):
        return {"h": self.h, "twice": 2 * self.h}[key]

    def __iter__(self):
        return iter(("h", "twice"))

    def __len__(self):
        return 2


class Refusing(Computed):
    def __getitem__(self, key):
        raise RuntimeError("not yet")


MAPPINGS = {
    "userdict": lambda h: UserDict(h=h),
    "proxy": lambda h: MappingProxyType({"h": h}),
    "ordered": lambda h: OrderedDict(h=h),
    "own": Computed,
}
OBJECTS = {
    "an object": (Held, "it is a Held, which is not opened"),
    "a distribution": (lambda h: torch.distributions.Normal(h, 1.0), "it is a Normal, which is not opened"),
    "a namespace": (lambda h: SimpleNamespace(h=h), "it is a SimpleNamespace, which is not opened"),
    "an iterator": (lambda h: iter([h]), "it is a list_iterator, which is not opened"),
    "a mapping that raises": (Refusing, "it is a Refusing, which is not opened"),
    "a text": (lambda h: "done", "it is a str"),
}


class Part(nn.Module):
    def __init__(self, make):
        super().__init__()
        self.fc, self.make = nn.Linear(2, 2), make

    def forward(self, x):
        return self.make(self.fc(x) * 2)


class Net(nn.Module):
    def __init__(self, make):
        super().__init__()
        self.part, self.head = Part(make), nn.Linear(2, 1)

    def forward(self, x):
        made = self.part(x)
        h = made["h"] if isinstance(made, Mapping) and not isinstance(made, Refusing) else getattr(made, "h", x)
        return self.head(h).sum()


def in_a_model(net):
    return bp.probe(net, "**", of=lambda loss: loss)(torch.ones(3, 2))


def in_a_block(net):
    with bp.probe(net, "**") as rec:
        net(torch.ones(3, 2)).backward()
    return rec


@pytest.mark.parametrize("record", [in_a_model, in_a_block])
@pytest.mark.parametrize("make", MAPPINGS.values(), ids=[*MAPPINGS])
def test_a_mapping_is_opened_by_key(make, record):
    rec = record(Net(make))
    assert rec["part:return.h"].grad.shape == (3, 2)
    assert rec["part:return.h"].grad.any()


@pytest.mark.parametrize("record", [in_a_model, in_a_block])
@pytest.mark.parametrize("make, reason", OBJECTS.values(), ids=[*OBJECTS])
def test_an_object_that_is_not_opened_has_an_entry(make, reason, record, tmp_path):
    rec = record(Net(make))
    entry = rec["part"]
    assert str(entry.status) == "not_tensor" and entry.reason.startswith(reason)
    assert reason in str(bp.explain(rec, "part"))
    assert f"part = <{reason[6:].partition(',')[0]}>" in str(rec)
    rec.save(tmp_path / "rec")
    assert bp.load(tmp_path / "rec")["part"].reason == entry.reason
    with pytest.raises(bp.errors.Overwritten, match="the value of 'part' was not kept"):
        entry.value  # noqa: B018


@pytest.mark.parametrize("make", MAPPINGS.values(), ids=[*MAPPINGS])
def test_a_watch_opens_mappings_too(make, tmp_path):
    net = Net(make)
    with bp.watch(net, tmp_path / "run") as run:
        net(torch.ones(3, 2)).backward()
        run.step()
    assert "part:return.h" in bp.open_run(tmp_path / "run").at(0)


@pytest.mark.parametrize("make, reason", OBJECTS.values(), ids=[*OBJECTS])
def test_a_watch_says_of_others_why_there_is_no_row(make, reason, tmp_path):
    net = Net(make)
    with bp.watch(net, tmp_path / "run") as run:
        net(torch.ones(3, 2)).backward()
        run.step()
    gaps = " ".join(str(bp.open_run(tmp_path / "run").gaps).split())
    assert "'part' has no" in gaps and "it was called, and returned no tensor" in gaps
