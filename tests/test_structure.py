"""The walk over a model: what it finds is what ``named_modules`` and ``named_parameters`` do, and it keeps nothing."""

import gc
import weakref

import pytest
import torch
from torch import nn

from backprobe.backends.torch.structure import structure


def plain():
    return nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 2, bias=False)), nn.LayerNorm(2))


def shared():
    model, one = nn.Module(), nn.Linear(2, 2)
    model.first, model.second, model.nothing, model.last = one, nn.Sequential(one, one), None, nn.ReLU()
    model.tied = one.weight
    return model


def with_own_names():
    class Prefixed(nn.Sequential):
        def named_parameters(self, *args, **kwargs):
            return ((f"own.{name}", one) for name, one in super().named_parameters(*args, **kwargs))

    return Prefixed(nn.Linear(2, 2))


def scripted():
    return nn.Sequential(torch.jit.script(plain()), nn.Linear(2, 2))


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("make", (plain, shared, with_own_names, scripted))
def test_a_walk_finds_what_pytorch_finds(make):
    model = make()
    for _ in range(2):  # the second time its shape is known
        found = structure(model)
        assert found.parts == list(model.named_modules(remove_duplicate=False))
        assert [name for name, _ in found.parameters] == [n for n, _ in model.named_parameters(remove_duplicate=False)]
        assert all(
            a is b or a.data_ptr() == b.data_ptr()  # a scripted module makes its parameters anew
            for (_, a), (_, b) in zip(found.parameters, model.named_parameters(remove_duplicate=False), strict=True)
        )


def test_models_of_one_shape_share_it_until_one_is_changed():
    first, second = plain(), plain()
    assert structure(first).shape is structure(second).shape
    second[1].append(nn.Linear(2, 2))
    assert structure(second).parts == list(second.named_modules())
    second[0].bias = None
    assert [name for name, _ in structure(second).parameters] == [name for name, _ in second.named_parameters()]


def test_a_shape_keeps_no_module_alive():
    model = plain()
    inner = weakref.ref(model[0])
    structure(model)
    del model
    gc.collect()
    assert inner() is None


def test_models_of_the_same_names_share_a_shape_only_where_they_share_modules_alike():
    def model(is_shared):
        made = nn.Module()
        made._one = nn.Linear(2, 2)
        made.one = made._one if is_shared else nn.Linear(2, 2)
        return made

    apart, shared = structure(model(False)), structure(model(True))
    assert [path for path, _ in apart.parts] == ["", "_one", "one"]
    assert [path for path, _ in shared.parts] == ["", "one", "_one"]
    assert [path for path, _ in shared.parameters] == ["one.weight", "one.bias", "_one.weight", "_one.bias"]
    assert structure(model(True)).shape is shared.shape
