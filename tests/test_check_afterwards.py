"""After bp.check the program's state is as before; and what is refused."""

import copy
import random

import numpy
import pytest
import torch
import torch.nn.functional as F

import backprobe as bp
from custom import custom
from goldens import golden
from outside import note, noted
from wrong_derivatives import Halved, numbers

# nothing is any different afterwards


class Through(torch.nn.Module):
    """A batch norm that is reached in a way of its own."""

    def __init__(self, call):
        super().__init__()
        self.linear, self.norm, self.call = torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3), call

    def inner(self, x):
        return self.norm(x)

    def forward(self, x):
        return self.call(self, self.linear(x))


WAYS = {
    "checkpoint": lambda m, h: torch.utils.checkpoint.checkpoint(m.norm, h, use_reentrant=False),
    "functional_call": lambda m, h: torch.func.functional_call(m.norm, dict(m.norm.named_parameters()), (h,)),
    "method": lambda m, h: torch.utils.checkpoint.checkpoint(m.inner, h, use_reentrant=False),
    "closure": lambda m, h: torch.utils.checkpoint.checkpoint(lambda t: m.norm(t) * 2, h, use_reentrant=False),
    "list": lambda m, h: torch.utils.checkpoint.checkpoint(lambda t: [m][0].inner(t), h, use_reentrant=False),
}


@pytest.mark.parametrize("way", WAYS)
def test_modules_that_a_call_reaches_are_as_before(way):
    torch.manual_seed(0)
    module, x = Through(WAYS[way]), numbers(4, 3)
    twin = copy.deepcopy(module)
    called = []
    hook = torch.nn.modules.module.register_module_forward_hook(lambda *_: called.append(1))
    copy.deepcopy(module)(x)
    bare = len(called)
    report = bp.check(module)(x)
    hook.remove()
    assert report.ok and not report.complete and report.judged >= 2  # hooks were not judged
    assert len(called) == 2 * bare
    for (name, held), (_, other) in zip(module.state_dict().items(), twin.state_dict().items(), strict=True):
        assert torch.equal(held, other), name
    assert isinstance(module.norm.weight, torch.nn.Parameter)


def test_an_object_that_is_given_to_a_call_is_given_to_it_once():
    class Cache:
        append = property(lambda self: note)

    Holder = custom("Holder", lambda x, cache: cache.append(x) or x * 2, lambda g, x, cache: (g * 2, None))
    cache = Cache()
    report = bp.check(lambda x: Holder.apply(x, cache))(numbers(3))
    assert len(noted()) == 1
    golden("check", report.unjudged[0])


def counted(y):
    while True:
        y = y + (yield y)


def test_generators_and_iterators_go_on_as_in_a_bare_call():
    def sent(x):
        it = counted(x)
        next(it)
        return it.send(x) * it.send(x)

    def taken(x):
        it = iter([x, 2 * x, 3 * x, 4 * x])
        return next(it, x) + next(it, x)

    def made(x):
        it = map(Halved.apply, [x, 2 * x])
        return next(it, x) + next(it, x)

    for program, expected, is_judged in ((sent, 6.0, False), (taken, 3.0, True), (made, 5.0, True)):
        report = bp.check(lambda x, program=program: note(program(x)))(torch.ones(1))
        assert noted()[-1].item() == expected
        assert is_judged != ("calling it again might change that" in str(report)), report


@pytest.mark.parametrize(
    ("program", "x", "why"),
    [
        (
            torch.nn.Sequential(torch.nn.LazyLinear(2), torch.nn.ReLU()),
            numbers(2, 3),
            "parameters that this call initiali",
        ),
        (
            lambda x: x * 2,
            torch.ones(3, device="meta"),
            "it raises NotImplementedError: Cannot copy out of meta tensor",
        ),
        (lambda x: x * 2, torch.ones(0, 3), "its output has no elements"),
    ],
)
def test_what_has_no_numbers_is_not_judged(program, x, why):
    report = bp.check(program)(x)
    assert report.ok and not report.complete and why in report.unjudged[0]


def test_a_module_that_refuses_to_be_copied_is_judged_too():
    class Alone(torch.nn.Linear):
        def __deepcopy__(self, memo):
            raise NotImplementedError

    report = bp.check(torch.nn.Sequential(Alone(3, 2)))(numbers(2, 3))
    assert report.ok and not report.unjudged and report.judged == 1


def test_random_numbers_go_on_as_before():
    def f(x):
        y = F.dropout(x) * random.random() + numpy.random.rand()
        return y.sum()

    def after(call):
        torch.manual_seed(0), random.seed(0), numpy.random.seed(0)
        call()
        return torch.rand(3).tolist(), random.random(), numpy.random.rand()

    x = numbers(10)
    assert after(lambda: None) == after(lambda: bp.check(f)(x))


def test_writes_are_made_once():
    def f(x, buffer, log):
        buffer.add_(1)
        log.append(float(buffer.sum()))
        note(log[-1])
        y = x * 1
        y.mul_(buffer)
        y[0] = x[1]
        return y.sum()

    buffer, log, x = torch.ones(3), [], numbers(3).requires_grad_()
    before = x.detach().clone()
    bp.check(f)(x, buffer, log).assert_ok(strict=True)
    assert noted() == [6.0]
    assert torch.equal(buffer, torch.ones(3)) and log == [] and torch.equal(x, before)


def test_a_gradient_that_was_there_stays():
    x = torch.ones(3, requires_grad=True)
    x.grad = torch.full((3,), 7.0)
    bp.check(lambda x: (x * 2).sum())(x).assert_ok(strict=True)
    assert torch.equal(x.grad, torch.full((3,), 7.0))


def test_an_error_of_the_program_comes_out_with_the_line():
    def f(x):
        y = x * 2
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine") as caught:
        bp.check(f)(1.0)
    golden("check", caught.value.__notes__[0])


# what is refused


def test_what_cannot_be_checked_is_refused():
    with pytest.raises(bp.BadOption, match="an int is neither a function nor a model"):
        bp.check(3, backend="torch")(1.0)
    with pytest.raises(bp.BadOption, match="f cannot be called with these arguments"):

        def f(x):
            return x

        bp.check(f)(1.0, 2.0)
    with pytest.raises(bp.NothingToDifferentiate, match="returns a generator"):
        bp.check(lambda x: (x for _ in range(2)))(1.0)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch's own, on its way to the compiler
def test_what_is_compiled_is_refused():
    with pytest.raises(bp.Unsupported, match="compiled"):
        bp.check(torch.compile(lambda x: x * 2))(1.0)
