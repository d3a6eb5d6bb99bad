"""Copies of functions that report, and are lent again and again."""

import functools
import gc
import sys
import types
import weakref

import pytest
import torch
from torch import nn

import backprobe as bp
from backprobe.record.patterns import selection
from backprobe.source.copies import Copies, is_lasting
from backprobe.tracing.plan import Plan

EVERYTHING = ["**", "**:*"]


def halved(value, by=2):
    half = value / by
    return half


def both(first, second):
    total = first + second
    return total


def outer(value):
    return both(halved(value), inner(value))


def inner(value):
    return halved(value) * 3


def failing(value):
    raise ValueError("not today")


def recovered(value):
    try:
        both(halved(value), failing(value))  # `both` is found, and never called
    except ValueError:
        pass
    return both(value, halved(value))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, value):
        scaled = value * self.scale
        return halved(scaled)


@pytest.fixture
def x():
    return torch.tensor([1.0, 2.0, 3.0], requires_grad=True)


def names(function, *given):
    recordings = [bp.probe(function, of=lambda y: y.sum())(*given) for _ in range(3)]
    return [[name for entry in rec.values() for name in (entry.name, *entry.aliases)] for rec in recordings]


def test_a_call_in_the_arguments_of_a_call_has_its_own_caller(x):
    first, *later = names(outer, x)
    assert later == [first, first]
    assert "/halved:half" in first
    assert "/inner/halved:half" in first
    assert "/both:total" in first


def test_a_copy_that_was_never_called_does_no_harm(x):
    first, *later = names(recovered, x)
    assert later == [first, first]
    assert "/both:total" in first


def test_other_defaults_and_other_code_are_seen(x):
    defaults, code = halved.__defaults__, halved.__code__
    try:
        for _ in range(2):
            assert float(bp.probe(outer, of=lambda y: y.sum())(x)["/halved:half"].value[0]) == 0.5
        halved.__defaults__ = (4,)
        assert float(bp.probe(outer, of=lambda y: y.sum())(x)["/halved:half"].value[0]) == 0.25
        halved.__code__ = (lambda value, by=2: value).__code__
        assert "/halved:half" not in bp.probe(outer, of=lambda y: y.sum())(x)
    finally:
        halved.__defaults__, halved.__code__ = defaults, code


def test_a_forward_is_given_back_when_a_block_is_over_and_lent_to_one_block_at_a_time(x):
    one, other = Layer(), Layer()
    for _ in range(3):
        with bp.probe(one, EVERYTHING) as first:
            with bp.probe(other, EVERYTHING) as second:
                a, b = one(x), other(x * 2)
                (a + b).sum().backward()
        assert torch.equal(first[":scaled"].value, x.detach())
        assert torch.equal(second[":scaled"].value, 2 * x.detach())


def test_a_forward_that_the_program_keeps_runs_on_and_reports_to_nobody(x):
    layer, kept = Layer(), []

    def keep(module, given):
        kept.append(module.forward)

    handle = layer.register_forward_pre_hook(keep)
    with bp.probe(layer, EVERYTHING) as rec:
        layer(x).sum().backward()
    handle.remove()
    (forward,) = kept
    names = list(rec)
    assert torch.equal(forward(x), x / 2)
    assert torch.equal(forward.given(layer, x), x / 2)  # the reporting copy itself
    assert list(rec) == names


def test_only_functions_of_imported_modules_are_kept(x):
    namespace = {"__name__": "somewhere"}
    exec("def here(value):\n    return value", namespace)
    module = types.ModuleType("a_module_of_this_test")
    exec("def there(value):\n    return value", vars(module))
    assert is_lasting(halved)
    assert is_lasting(Layer.forward)
    assert not is_lasting(namespace["here"])
    assert not is_lasting(module.there)
    sys.modules[module.__name__] = module
    try:
        assert is_lasting(module.there)
    finally:
        del sys.modules[module.__name__]
    assert not is_lasting(lambda: x)
    assert not is_lasting(generator)
    assert Copies().lend(generator, False) is None


def generator(value):
    yield value


def counting(function):
    """A decorator whose wrapper has a state of its own, and can be given another function."""
    calls = 0

    @functools.wraps(function)
    def wrapper(*args):
        nonlocal calls
        calls += 1
        return function(*args) * calls

    def instead(other):
        nonlocal function
        function = other

    EXCHANGING[function.__qualname__] = instead
    return wrapper


EXCHANGING = {}


class Decorated(Layer):
    @counting
    @counting
    def forward(self, value):
        scaled = value * self.scale
        return scaled


class Marked(Layer):
    @counting
    def forward(self, value):
        scaled = value * self.scale
        return scaled

    forward.mark = "of somebody"


def test_a_decorated_forward_is_kept_with_its_decorators(x):
    layer, copies = Decorated(), Plan.of(selection(tuple(EVERYTHING), False, (), ())).copies
    for at in range(1, 4):
        with bp.probe(layer, EVERYTHING) as rec:
            result = layer(x)
            result.sum().backward()
        assert torch.equal(rec[":scaled"].value, x.detach())
        assert torch.equal(result, x * at * at)  # both wrappers count on
        waiting = [held for (function, *_), held in copies.waiting.items() if function is Decorated.forward]
        assert {*map(len, waiting)} == {1}
    assert is_lasting(Decorated.forward)
    assert not is_lasting(Marked.forward)
    assert not is_lasting(counting(halved))


def test_a_decorator_that_wraps_another_function_now_is_seen(x):
    layer, copies = Decorated(), Copies()
    plain = Decorated.forward.__wrapped__.__wrapped__
    first = copies.lend(Decorated.forward, False)
    first.give_back()
    assert copies.lend(Decorated.forward, False) is first
    first.give_back()
    inner = Decorated.forward.__wrapped__
    try:
        EXCHANGING["Decorated.forward"](plain)  # the outer decorator's, which was made last
        with pytest.raises(bp.NoSource):
            assert copies.lend(Decorated.forward, False) is not first
    finally:
        EXCHANGING["Decorated.forward"](inner)
    assert layer(x).shape == x.shape


def test_a_plan_keeps_no_model_alive(x):
    selection.cache_clear()
    layer = Layer()
    with bp.probe(layer, EVERYTHING):
        layer(x).sum().backward()
    gone = weakref.ref(layer)
    del layer
    gc.collect()
    assert gone() is None


def test_copies_with_operations_are_others():
    copies = Copies()
    plain = copies.lend(halved, False)
    plain.give_back()
    with_operations = copies.lend(both, True)
    with_operations.give_back()
    assert copies.lend(both, False) is not with_operations
    assert copies.lend(both, True) is with_operations
    assert copies.lend(halved, False) is plain
