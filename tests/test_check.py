"""bp.check: what it says, what it can't judge, and that nothing of the program's is any different afterwards."""

import copy
import random
import threading
from os.path import relpath

import numpy
import pytest
import torch
import torch.nn.functional as F
from torch.autograd import Function

import backprobe as bp
from asked import Parts, well
from backprobe.check.differences import slope
from backprobe.check.text import SENTENCES
from custom import custom
from right_derivatives import sine_of_single
from wrong_derivatives import Flipped, Halved, numbers

HERE = __file__


def line(text):
    """The line of this file that ends in a comment."""
    with open(HERE) as file:
        (found,) = [at for at, one in enumerate(file, 1) if one.rstrip().endswith(f"# {text}")]
    return found


# what it says


def helper(u):
    y = Halved.apply(u)  # in the helper
    return y


def program(x, w):
    u = x * w
    for _ in range(2):
        u = helper(u)
    return u.sum()


def test_a_report_says_what_is_wrong_where_and_how():
    report = bp.check(program)(torch.tensor([1.0, 2.0]), 3.0)
    assert not report.ok
    (finding,) = report.findings
    assert (finding.kind, finding.name, finding.input, finding.error) == (
        "wrong_derivative",
        "/helper#0:y",
        "u",
        pytest.approx(0.5),
    )
    assert (finding.source.file, finding.source.line, finding.source.text) == (
        HERE,
        line("in the helper"),
        "y = Halved.apply(u)  # in the helper",
    )
    assert report.judged == 4
    assert report.error < 1e-9
    assert str(report).startswith("program: 1 derivative is wrong (4 calls checked, largest error of the right ones ")
    assert f"at:    {relpath(HERE)}:{line('in the helper')}" in str(report)
    assert "it is 0.5 times what it should be" in str(report)


def test_what_is_right_gets_a_sentence():
    report = well(bp.check(lambda x: (x * x.exp()).sum())(1.5))
    assert str(report).startswith(
        "<lambda>: every derivative is right (3 calls checked, largest error of the right ones "
    )
    assert "\n" not in str(report)


def test_that_nothing_was_judged_is_not_that_all_is_right():
    report = bp.check(lambda x: x)(1.5)
    assert not report.ok
    assert report.heading == "<lambda>: nothing was checked"
    assert report.notes == ("no call computed anything that depends on a differentiated value",)


def test_a_line_that_is_wrong_in_some_of_its_calls():
    Odd = custom("Odd", lambda x: x.sin(), lambda g, x: g * x.cos() * (2 if x > 1 else 1))

    def f(x):
        total = x * 0
        for at in range(3):
            y = Odd.apply(x * at)
            total = total + y
        return total

    (finding,) = bp.check(f)(0.7).findings
    assert finding.name == "y#2"
    assert "it is wrong in 1 of 3 calls of this line" in finding.facts


def test_the_calls_of_a_chain_over_several_lines_are_told_apart():
    def f(x):
        return (
            (x * 2)
            .exp()
            .apply_(Halved)  # third of the chain
            .sum()
        )

    class Chain:
        def __init__(self, tensor):
            self.tensor = tensor

    def g(x):
        return torch.stack([
            Flipped.apply(x),  # first of the list
            x.sin(),
            Halved.apply(x),  # last of the list
        ]).sum()  # fmt: skip

    report = bp.check(g)(numbers(3))
    assert [one.source.line for one in report.findings] == [line("first of the list"), line("last of the list")]


def test_keywords_methods_and_operators_are_named_as_they_are_written():
    Wrong = custom("Wrong", lambda a, b: a + b, lambda g, a, b: (g, 2 * g))

    def add(*, left, right):
        return Wrong.apply(left, right[0])

    def f(x, w):
        return add(left=x, right=[w, x]).sum()

    (finding,) = bp.check(f)(numbers(3), numbers(3, 1)[:, 0]).findings
    assert (finding.name, finding.input) == ("/add:return", "right[0]")


# models


class Block(Parts):
    def forward(self, x):
        hidden = self.norm(self.linear(x))
        y = Halved.apply(hidden * self.scale)  # in the block
        return y


def stacked():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(3, 3),
        Block(linear=torch.nn.Linear(3, 3), norm=torch.nn.BatchNorm1d(3), scale=torch.nn.Parameter(torch.ones(3))),
        torch.nn.Dropout(),
        torch.nn.Linear(3, 1),
    )


def test_a_custom_function_in_a_module_of_a_model_is_named_by_its_path():
    report = bp.check(stacked())(numbers(5, 3))
    (finding,) = report.findings
    assert (finding.name, finding.input, finding.source.line) == ("1:y", "hidden * self.scale", line("in the block"))
    assert report.judged == 7


def test_the_parameters_of_a_module_are_inputs_of_it():
    class Biased(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x)

    Shift = custom("Shift", lambda x, bias: x + bias, lambda g, x, bias: (g, g[0]))

    class Layer(Parts):
        def forward(self, x):
            return Shift.apply(x, self.bias)

    (finding,) = bp.check(Layer(bias=torch.nn.Parameter(torch.zeros(3))))(numbers(5, 3)).findings
    assert finding.input == "self.bias"


def test_a_function_that_calls_a_model_follows_it_too():
    model = stacked()
    report = bp.check(lambda x: model(x).square().mean())(numbers(5, 3))
    assert [finding.source.line for finding in report.findings] == [line("in the block")]


def test_frozen_parameters_and_inputs_of_a_model_are_not_judged():
    model = stacked()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    assert bp.check(model)(numbers(5, 3)).judged == 0


# what cannot be judged


@pytest.mark.parametrize("kinked", [
    lambda x: x.abs(), lambda x: F.relu(x), lambda x: x.max(), lambda x: torch.maximum(x, -x), lambda x: x.norm(),
    lambda x: x.clamp(min=0),
])  # fmt: skip
def test_a_kink_is_not_judged(kinked):
    report = bp.check(kinked)(torch.zeros(3))
    assert report.error < 1e-15 and len(report.unjudged) == 1
    assert "it is at a kink: one-sided differences disagree" in report.unjudged[0]


def test_outputs_beside_a_kink_are_judged():
    def f(x):
        return Flipped.apply(torch.relu(x))

    report = bp.check(f)(torch.tensor([0.0, 1.0, -1.0]))
    assert [finding.input for finding in report.findings] == ["torch.relu(x)"]
    assert any("1 of its 3 outputs are at a kink" in note for note in report.notes)


def test_random_calls_are_judged_with_the_random_state_put_back():
    def f(x):
        return F.dropout(x, 0.5).sum()

    report = well(bp.check(f)(numbers(50)))
    assert any("it is random: the random state was restored before each repetition" in note for note in report.notes)


def test_a_generator_of_the_users_is_put_back_too():
    generator = torch.Generator().manual_seed(0)

    def f(x):
        return (x * torch.rand(x.shape, generator=generator)).sum()

    class Noisy(Function):
        @staticmethod
        def forward(ctx, x, generator):
            ctx.noise = torch.rand(x.shape, generator=generator, dtype=x.dtype)
            return x * ctx.noise

        @staticmethod
        def backward(ctx, g):
            return g * ctx.noise, None

    well(bp.check(lambda x: Noisy.apply(x, generator))(numbers(5)))
    bare = torch.Generator().manual_seed(0)
    torch.rand(5, generator=bare)
    assert torch.equal(generator.get_state(), bare.get_state())


def test_what_differs_each_time_is_not_judged():
    class Counting(Function):
        count = 0

        @staticmethod
        def forward(ctx, x):
            Counting.count += 1
            return x * Counting.count

        @staticmethod
        def backward(ctx, g):
            return g * Counting.count

    report = bp.check(lambda x: Counting.apply(x))(1.0)
    assert report.judged == 0
    assert report.unjudged[0].endswith("not checked, it gives another result each time it is called")


def test_what_refuses_double_precision_is_judged_in_its_own_and_caught_there_too():
    right, wrong = (
        custom("Single", sine_of_single, lambda g, x, factor=factor: factor * g * x.cos()) for factor in (1.0, 1.01)
    )
    report = well(bp.check(lambda x: right.apply(x))(numbers(40)))
    assert any(
        "in double precision it raises TypeError: a kernel for float32, so it was checked in its own precision" in note
        for note in report.notes
    )
    assert not bp.check(lambda x: wrong.apply(x))(numbers(40)).ok


def test_integers_and_booleans_are_passed_on_as_they_are():
    def f(x, ids, mask):
        return F.embedding(ids, x)[mask].sum() + torch.where(mask[:, None], x[:2], 0.0).sum()

    report = well(bp.check(f)(numbers(3, 4), torch.tensor([0, 2]), torch.tensor([True, False])))
    assert report.judged == 7


def test_what_a_library_does_to_an_object_is_not_done_again():
    seen = []

    class Recorder:
        def __call__(self, x):
            seen.append(x)
            return x * 2

    import functools

    @functools.lru_cache
    def cached(x):
        seen.append(x)
        return x * 3

    report = bp.check(lambda x: Recorder()(x) + cached(x))(1.0)
    assert len(seen) == 2
    assert any("cached was not followed" in note for note in report.notes)
    assert any("not checked" in note and "cached(x)" in note for note in report.notes)


def test_no_derivative_is_asked_of_what_is_cut():
    def f(x):
        with torch.no_grad():
            y = Halved.apply(x)
        return (x * y * x.detach()).sum() + Flipped.apply(x.detach()).sum()

    well(bp.check(f)(numbers(3)))


def test_a_cut_inside_a_custom_function_is_found():
    Cut = custom("Cut", lambda x: x * 2, lambda g, x: None)

    (finding,) = bp.check(lambda x: Cut.apply(x))(numbers(3)).findings
    assert "it is zero, but the outputs change with this input" in finding.facts


def test_infinite_gradients_are_excused_only_where_nothing_settles():
    Root = custom("Root", lambda x: x * 3, lambda g, x: g * 3 * x / x)

    x = torch.tensor([0.0, 1.0, 4.0])
    well(bp.check(lambda x: x.sqrt())(x))
    (finding,) = bp.check(lambda x: Root.apply(x))(x).findings
    assert finding.facts[0] == "1 of its elements are not finite, although differences are"


# nothing is any different afterwards


def test_the_state_of_a_model_is_that_after_one_bare_call():
    model, twin = stacked(), stacked()
    x = numbers(5, 3)
    called = []
    model[1].linear.register_forward_hook(lambda module, args, output: called.append("forward"))
    model[1].linear.weight.register_hook(lambda gradient: called.append("backward"))
    model[1].norm.register_full_backward_hook(lambda *_: called.append("module"))
    torch.manual_seed(1)
    twin(x)
    expected = torch.get_rng_state()
    torch.manual_seed(1)
    bp.check(model)(x)
    assert torch.equal(torch.get_rng_state(), expected)
    for (name, held), (_, other) in zip(model.state_dict().items(), twin.state_dict().items(), strict=True):
        assert torch.equal(held, other), name
    assert all(parameter.grad is None for parameter in model.parameters())
    assert called == ["forward"]
    assert all("forward" not in vars(module) for module in model.modules())
    assert x.grad is None and not x.requires_grad and x.grad_fn is None


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
def test_modules_that_a_call_reaches_are_as_after_one_bare_call(way):
    torch.manual_seed(0)
    module, x = Through(WAYS[way]), numbers(4, 3)
    twin = copy.deepcopy(module)
    called = []
    hook = torch.nn.modules.module.register_module_forward_hook(lambda *_: called.append(1))
    twin(x)
    bare = len(called)
    report = bp.check(module)(x)
    hook.remove()
    assert report.ok is None and report.judged >= 2  # hooks were not judged
    assert len(called) == 2 * bare
    for (name, held), (_, other) in zip(module.state_dict().items(), twin.state_dict().items(), strict=True):
        assert torch.equal(held, other), name
    assert isinstance(module.norm.weight, torch.nn.Parameter)


def test_an_object_that_is_given_to_a_call_is_given_to_it_once():
    class Cache:
        def __init__(self):
            self.seen = []

        append = property(lambda self: self.seen.append)

    Holder = custom("Holder", lambda x, cache: cache.append(x) or x * 2, lambda g, x, cache: (g * 2, None))
    cache = Cache()
    report = bp.check(lambda x: Holder.apply(x, cache))(numbers(3))
    assert len(cache.seen) == 1
    assert report.unjudged[0].endswith(
        "not checked, one of its arguments is an object of type Cache, and calling it again might change that object"
    )


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

    seen = []
    for program, expected, is_judged in ((sent, 6.0, False), (taken, 3.0, True), (made, 5.0, True)):
        report = bp.check(lambda x, program=program: seen.append(program(x)))(torch.ones(1))
        assert seen.pop().item() == expected
        assert is_judged != ("calling it again might change that" in str(report)), report


@pytest.mark.parametrize(("program", "x", "why"), [
    (torch.nn.Sequential(torch.nn.LazyLinear(2), torch.nn.ReLU()), numbers(2, 3), "parameters that this call initiali"),
    (lambda x: x * 2, torch.ones(3, device="meta"), "it raises NotImplementedError: Cannot copy out of meta tensor"),
    (lambda x: x * 2, torch.ones(0, 3), "its output has no elements"),
])  # fmt: skip
def test_what_has_no_numbers_is_not_judged(program, x, why):
    report = bp.check(program)(x)
    assert not report.ok and why in report.unjudged[0]


def test_a_module_that_refuses_to_be_copied_is_not_judged():
    class Alone(torch.nn.Linear):
        def __deepcopy__(self, memo):
            raise NotImplementedError

    report = bp.check(torch.nn.Sequential(Alone(3, 2)))(numbers(2, 3))
    assert report.unjudged == ("Sequential: not checked, the module cannot be copied: NotImplementedError",)


def test_random_numbers_go_on_as_after_a_bare_call():
    def f(x):
        y = F.dropout(x) * random.random() + numpy.random.rand()
        return y.sum()

    def after(call):
        torch.manual_seed(0), random.seed(0), numpy.random.seed(0)
        call()
        return torch.rand(3).tolist(), random.random(), numpy.random.rand()

    x = numbers(10)
    assert after(lambda: f(x)) == after(lambda: bp.check(f)(x))


def test_writes_are_made_once():
    def f(x, buffer, log):
        buffer.add_(1)
        log.append(float(buffer.sum()))
        y = x * 1
        y.mul_(buffer)
        y[0] = x[1]
        return y.sum()

    buffer, log, x = torch.ones(3), [], numbers(3).requires_grad_()
    before = x.detach().clone()
    assert bp.check(f)(x, buffer, log).ok is True
    assert torch.equal(buffer, torch.full((3,), 2.0)) and len(log) == 1 and torch.equal(x, before)


def test_a_gradient_that_was_there_stays():
    x = torch.ones(3, requires_grad=True)
    x.grad = torch.full((3,), 7.0)
    assert bp.check(lambda x: (x * 2).sum())(x).ok
    assert torch.equal(x.grad, torch.full((3,), 7.0))


def test_an_error_of_the_program_comes_out_with_the_line():
    def f(x):
        y = x * 2
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine") as caught:
        bp.check(f)(1.0)
    assert "raised while checking f; the last call was made at" in caught.value.__notes__[0]
    assert "y = x * 2" in caught.value.__notes__[0]


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


# differences


def test_slopes_are_known_as_well_as_they_say():
    values = numpy.random.default_rng(0).normal(size=2000)

    def moved(step):
        return numpy.exp(3 * (values + step))

    found = slope(moved, moved(0.0), 2.0**-10, 2.0**-52)
    off = abs(found.value - 3 * moved(0.0))
    assert (off <= 10 * found.error).all()
    assert numpy.median(found.error / moved(0.0)) < 1e-9
    assert not found.is_kinked.any()


def test_noise_shows_in_the_error():
    noise = numpy.random.default_rng(0)

    def moved(step):
        return numpy.sin(1.0 + step + numpy.zeros(200)) + 1e-6 * noise.normal(size=200)

    found = slope(moved, moved(0.0), 2.0**-10, 2.0**-52)
    assert (abs(found.value - numpy.cos(1.0)) <= 10 * found.error).mean() > 0.99


# how precisely a function computes, and how differently its outputs move


def lower(dtype, factor):
    """A function that computes in a precision of its own and gives back what it was given, as many do."""

    Lower = custom(
        "Lower",
        lambda x: x.to(dtype).tanh().to(x.dtype) * x,
        lambda g, x: factor * g * (x.tanh() + x * (1 - x.tanh() ** 2)),
    )

    return Lower.apply


@pytest.mark.parametrize("size", [3, 50, 1000])
@pytest.mark.parametrize("factor", [1.1, 1.5, 2.0])
def test_what_computes_in_single_precision_inside_is_judged(size, factor):
    assert bp.check(lambda x: lower(torch.float32, 1.0)(x))(numbers(size)).ok
    (finding,) = bp.check(lambda x: lower(torch.float32, factor)(x))(numbers(size)).findings
    assert finding.error == pytest.approx(factor - 1, rel=0.1)


@pytest.mark.parametrize("factor", [1.001, 1.003, 1.005, 1.01])
@pytest.mark.parametrize("size", [300, 1000, 5000])
def test_an_error_that_is_near_the_noise_is_found_or_said(factor, size):
    assert bp.check(lambda x: lower(torch.float32, 1.0)(x))(numbers(size)).notes == ()
    report = bp.check(lambda x: lower(torch.float32, factor)(x))(numbers(size))
    if report.ok:
        assert "its gradient with respect to x is off along a random direction" in report.notes[0]
        assert report.error > 5e-4


def test_what_is_judged_coarsely_is_said():
    Far = custom("Far", lambda x: (x.float().tanh() + 10).to(x.dtype), lambda g, x: g * (1 - x.tanh() ** 2))

    report = well(bp.check(lambda x: Far.apply(x))(numbers(50)))
    (note,) = report.notes
    assert "a relative error below 0.0" in note and note.endswith(
        "of its gradient with respect to x would not have shown"
    )


def test_a_mask_is_so_large_that_nothing_shows_at_it():
    mask = torch.tensor([[0.0, torch.finfo(torch.float32).min], [0.0, 0.0]])
    report = well(bp.check(lambda x: (x + mask).softmax(-1).sum(0))(numbers(2, 2)))
    (note,) = report.notes
    assert note.endswith("1 of its 4 outputs are so large, as in a mask, that changes are lost in rounding")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_what_computes_in_half_precision_inside_is_neither_blamed_nor_called_right(dtype, factor):
    report = bp.check(lambda x: lower(dtype, factor)(x))(numbers(50))
    assert (report.judged, len(report.findings), len(report.unjudged)) == (0, 0, 1)


def test_outputs_of_other_sizes_do_not_hide_each_other():
    Two = custom("Two", lambda x: (1e8 * x, 1e-6 * x), lambda g, h, x: g * 1e8 - h * 1e-6)

    Exponential = custom("Exponential", lambda x: x.exp(), lambda g, x: g * x.exp() * x.sign())

    def f(x):
        a, b = Two.apply(x)
        return a.sum() + b.sum()

    assert "only what comes through output 1 is wrong" in bp.check(f)(numbers(4)).findings[0].facts
    x = torch.tensor([-12.0, -10.0, 10.0, 12.0, 14.0])
    (finding,) = bp.check(lambda x: Exponential.apply(x).sum())(x).findings
    assert finding.facts[0] == "it is wrong exactly where the input is negative: there it has the opposite sign"


@pytest.mark.parametrize("weight", [torch.zeros(3, 3), torch.ones(3, 3), torch.eye(3)])
def test_a_custom_function_is_judged_at_symmetric_matrices_too(weight):
    Linear = custom("Linear", lambda x, w: x @ w, lambda g, x, w: (g @ w.T, (x.T @ g).T))

    (finding,) = bp.check(lambda x, w: Linear.apply(x, w).sum())(numbers(3, 3), weight).findings
    assert finding.facts[0] == "it is the transpose of what it should be"


def test_an_input_that_another_function_gives_is_not_named_as_an_argument_of_that():
    (finding,) = bp.check(lambda x: sum(map(Halved.apply, [x, 2 * x])))(numbers(3)).findings
    assert finding.input == "input 0"


# what is not looked at is said


class Holding:
    def __init__(self, x):
        self.y = Halved.apply(x)


def test_what_a_class_does_when_it_is_made_is_said_not_to_be_judged():
    report = bp.check(lambda x: Holding(x).y * 2)(numbers(3))
    assert "every derivative that was checked is right" in report.heading
    assert report.notes == (
        f"Halved: not checked, {SENTENCES['unseen_custom']}",
        "Holding was not followed: what a class does when an object is made is not checked",
    )


class Of:
    """An object of the user's that computes where no call is written."""

    def __init__(self):
        self.x = None

    @property
    def half(self):
        return Halved.apply(self.x)

    def __enter__(self):
        return Halved.apply(self.x)

    def __exit__(self, *error): ...

    def __iter__(self):
        yield Halved.apply(self.x)

    def __getattr__(self, name):
        return Halved.apply(self.x)


def entered(of):
    with of as y:
        return y


OUT_OF_SIGHT = {
    "with": lambda of: entered(of) * 2,
    "iteration": lambda of: [y for y in of][0] * 2,
    "an attribute that is computed": lambda of: of.other * 2,
    "what is returned": lambda of: of.other,
    "what is written on": lambda of: torch.zeros(3).copy_(of.other),
}


@pytest.mark.parametrize("what", OUT_OF_SIGHT)
def test_a_custom_function_that_no_call_has_is_said_not_to_be_judged(what):
    def f(x):
        of = Of()
        of.x = x * 1
        return OUT_OF_SIGHT[what](of)

    report = bp.check(f)(numbers(3))
    assert "every derivative that was checked is right" in report.heading
    assert report.unjudged == (f"Halved: not checked, {SENTENCES['unseen_custom']}",)


def test_a_custom_function_that_leads_to_nothing_is_not_told_of():
    def f(x):
        of = Of()
        of.x = x
        of.half
        return x * 2

    assert bp.check(f)(numbers(3)).notes == ()


def test_what_is_differentiated_outside_of_the_program_is_not_told_of():
    x = Halved.apply(numbers(3).requires_grad_())
    assert bp.check(lambda w: (x * w).sum())(2.0).notes == ()


def test_a_property_is_followed():
    def f(x):
        of = Of()
        of.x = x * 1
        return of.half * 2

    (finding,) = bp.check(f)(numbers(3)).findings
    assert (finding.name, finding.input) == ("/half:return", "self.x")


def test_a_property_that_fails_is_asked_for_as_python_does():
    class Failing:
        runs = 0

        @property
        def half(self):
            type(self).runs += 1
            raise AttributeError("half")

        def __getattr__(self, name):
            return len(name)

    assert bp.check(lambda x: Failing().half * x)(numbers(3)).ok is True
    assert Failing.runs == 1


def assigned(x):
    u = x * torch.ones(3)
    u[0] = x[1]
    u[1:] *= 2
    return u.sum()


def unpacked(x):
    (a, *b), c = x[None], x[0]
    return a * c + sum(b, start=torch.zeros(())) + torch.stack([*x]).sum()


def zipped(x):
    return sum(a * b for a, (b, at) in zip(x, [(row, 1) for row in reversed(x)], strict=True))


WITHOUT_A_CALL = {
    "attributes": lambda x: (x[None].T * x[None].mT).sum() + x.real.sum(),
    "a conjugate": lambda x: torch.complex(x, x)[None].H.imag.sum() + torch.complex(x, x).real.sum(),
    "a chain": lambda x: x.reshape(3, 1).T.T[:, 0].sum(),
    "element assignments": assigned,
    "unpacking": unpacked,
    "iterators": zipped,
    "a loop": lambda x: [row * 2 for row in (x * x).reshape(3, 1).mT],
}


@pytest.mark.parametrize("what", WITHOUT_A_CALL)
def test_what_is_computed_without_a_call_is_judged(what):
    report = bp.check(WITHOUT_A_CALL[what])(numbers(3))
    assert (report.ok, report.notes) == (True, ())


def test_what_is_assigned_to_elements_is_compared():
    wrong = custom("Assigned", lambda x: x * 2, lambda g, x: g)

    def f(x):
        u = torch.zeros(3)
        u[:] = wrong.apply(x)
        return (u * u).sum()

    (finding,) = bp.check(f)(numbers(3)).findings
    assert finding.name == "u[:]" and finding.source.text == "u[:] = wrong.apply(x)"


def test_operations_of_the_framework_that_no_call_has_are_told_together():
    class Rows:
        def __init__(self, x):
            self.rows = x

        def __iter__(self):
            yield self.rows.sin()
            yield self.rows.cos()

    def f(x):
        of = Rows(None)
        of.rows = x
        return [row * 2 for row in of]

    report = bp.check(f)(numbers(3))
    assert report.ok is None and "every derivative that was checked is right" in report.heading
    assert report.notes == (f"Sin, Cos (2 operations of the framework): {SENTENCES['unseen_own']}",)


def test_a_call_that_differentiates_nothing_is_not_told_of():
    def f(x):
        rows = []
        for at in range(3):
            rows.append(x * at)
        print(x.sum() is None, end="")
        return torch.stack(rows).sum()

    assert bp.check(f)(numbers(3)).notes == ()


def test_what_an_object_of_the_frameworks_holds_is_said_not_to_be_judged():
    def f(x, seen):
        return torch.distributions.Normal(x, 1.0).log_prob(seen)

    report = bp.check(f)(numbers(3).requires_grad_(), torch.tensor([1, 2, 3]))
    assert not report.ok
    assert "not checked, what it differentiates is held by it, not passed as an argument" in report.unjudged[0]
    report = bp.check(f)(numbers(3), torch.tensor([1.0, 2.0, 3.0]))
    assert "captured by closures were not checked" in report.notes[0]


def test_a_method_of_a_tensor_closes_over_nothing():
    assert bp.check(lambda x: x.norm())(numbers(3)).notes == ()


@pytest.mark.parametrize("backward", [
    lambda y, w: torch.autograd.grad(y, w, create_graph=True)[0], lambda y, w: y.backward(create_graph=True) or w.grad,
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:Using backward")
def test_the_derivative_of_a_derivative_is_judged(backward):
    def f(x):
        w = x * 1
        w.retain_grad()
        y = (w**3).sum()
        return (backward(y, w) * w).sum()

    report = bp.check(f)(numbers(3))
    assert (report.ok, report.notes) == (True, ())


def test_a_backward_pass_that_is_not_differentiated_is_not_told_of():
    def f(x):
        w = x * 1
        w.retain_grad()
        (w**3).sum().backward()
        return (w.grad * w).sum()

    assert bp.check(f)(numbers(3)).notes == ()


@pytest.mark.parametrize("around", [
    lambda f, x: torch.func.vmap(f)(x), lambda f, x: torch.utils.checkpoint.checkpoint(f, x, use_reentrant=False),
])  # fmt: skip
def test_what_a_function_closes_over_is_said_not_to_be_judged(around):
    report = bp.check(lambda x, w: around(lambda t: t * w.sum(), x))(numbers(3), numbers(2))
    assert "every derivative that was checked is right" in report.heading
    assert any("variables captured by closures were not checked" in n for n in report.notes)


# functions of the framework whose gradient is by definition another


def rounded_symmetric(q):
    matrix = (q * torch.linspace(1, 3, 12)) @ q.T
    return torch.linalg.eigvalsh(matrix).sum() + torch.linalg.cholesky(matrix).sum()


def test_a_matrix_that_is_symmetric_but_for_rounding_counts_as_symmetric():
    report = well(bp.check(rounded_symmetric)(torch.linalg.qr(numbers(12, 12)).Q))
    assert sum("right for a matrix that stays symmetric" in note for note in report.notes) == 2


BY_DEFINITION = {
    "padding": (torch.nn.Sequential(torch.nn.Embedding(5, 4, padding_idx=0)), torch.tensor([0, 1, 2])),
    "a triangle": (lambda x: torch.cholesky_solve(x[:, :1], torch.linalg.cholesky(x @ x.T + 1)), numbers(4, 4)),
    "a gauge": (lambda x: torch.linalg.svd(x).U, numbers(4, 3)),
    "detached inside": (lambda x: torch.func.vmap(lambda t: t * t.detach())(x), numbers(3)),
    "reentrant": (lambda x: torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=True) * 2, numbers(3)),
}


@pytest.mark.parametrize("what", BY_DEFINITION)
def test_what_is_the_frameworks_own_is_told_and_not_blamed(what):
    program, x = BY_DEFINITION[what]
    report = well(bp.check(program)(x))
    if what == "reentrant":
        assert "its backward pass raises" in report.unjudged[0]
    else:
        assert "except 1 of the framework's own" in report.heading
        assert any("is not its derivative" in note for note in report.notes)


@pytest.mark.parametrize("around", [
    lambda f, x: torch.func.vmap(lambda t: f(t))(x),
    lambda f, x: torch.utils.checkpoint.checkpoint(f, x, use_reentrant=False),
])  # fmt: skip
def test_a_custom_function_inside_one_of_the_frameworks_is_blamed(around):
    class Squared(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    (finding,) = bp.check(lambda x: around(Squared.apply, x))(numbers(3)).findings
    assert finding.facts[0] == "it is 0.5 times what it should be"


Rounded = custom("Rounded", lambda x: x.round(), lambda gradient, x: gradient)


def test_what_is_meant_is_left_out():
    def f(x):
        y = Rounded.apply(x * 3)
        return (y * x.exp()).sum()

    x = torch.tensor([0.3, 0.7])
    assert not bp.check(f)(x).ok
    report = well(bp.check(f, skip=[Rounded])(x))
    assert report.judged == 4
    assert report.notes == ("Rounded: skipped as asked, 1 call",)
    assert bp.check(f, skip=[Rounded.apply])(x).ok


def test_a_function_of_the_users_is_left_out_whole():
    def inner(x):
        return Rounded.apply(x)

    def f(x):
        return inner(x) * 2

    assert bp.check(f, skip=[inner])(torch.tensor(0.3)).ok


def test_what_is_left_out_must_be_called():
    with pytest.raises(bp.BadOption, match="Rounded in skip is never called"):
        bp.check(lambda x: x * 2, skip=[Rounded])(torch.tensor(1.0))
    with pytest.raises(bp.BadOption, match="skip is a list of functions and classes"):
        bp.check(lambda x: x * 2, skip=Rounded)


def test_another_thread_meets_modules_as_they_are():
    others = [torch.nn.Linear(2, 2)]  # in a list it is not looked for among what the function closes over
    ran, called = [], []
    others[0].register_forward_hook(lambda *_: called.append(1))

    def inner(t):
        ran.append(1)
        thread = threading.Thread(target=others[0], args=(torch.ones(1, 2),))
        thread.start()
        thread.join()
        return t * 2

    well(bp.check(lambda x: torch.utils.checkpoint.checkpoint(inner, x, use_reentrant=False))(numbers(2)))
    assert len(called) == len(ran) > 2


def test_a_module_that_cannot_be_lent_leaves_nothing_behind():
    module, called = torch.nn.Linear(2, 2), torch.nn.Module.__call__
    count = []
    hook = torch.nn.modules.module.register_module_forward_hook(lambda *given: count.append(1))

    def f(x, w):
        weight = module._parameters.pop("weight")
        module._parameters["weight"] = w * 2
        try:
            return torch.utils.checkpoint.checkpoint(module, x, use_reentrant=False)
        finally:
            module._parameters["weight"] = weight

    try:
        report = bp.check(f)(torch.ones(1, 2), torch.ones(2, 2))
        assert "puts tensors into a module" in report.unjudged[0]
        assert torch.nn.Module.__call__ is called
        count.clear()
        module(torch.ones(1, 2))
        assert count == [1]
    finally:
        hook.remove()


# derivatives of derivatives, what ok means, and the numbers


def cube(second):
    """A cube whose derivative is right, and whose second derivative is this multiple of the right one."""
    return custom("Cube", lambda x: x**3, lambda g, x: 3 * g * (x * x if second == 1 else x.detach() * x))


def penalised(function):
    def f(x):
        y = function.apply(x)  # twice differentiated
        (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return (gradient**2).sum()

    return f


@pytest.mark.parametrize("second", [0.5, 1])
def test_second_derivatives_are_compared_with_differences_of_gradients(second):
    report = bp.check(penalised(cube(second)))(numbers(3))
    assert report.ok is (second == 1)
    assert [(one.input, one.source.line) for one in report.findings] == [("x", line("twice differentiated"))] * (
        second < 1
    )
    assert all("second derivative" in one.headline and "0.5 times" in one.facts[0] for one in report.findings)


def test_what_a_penalty_sends_through_a_backward_pass_once_more_is_compared():
    cut = custom("Cut", lambda x: x * 2, lambda g, x: 2 * g.detach())

    def penalty(y, x):
        (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return (gradient**2).sum()

    def f(x):
        y = cut.apply(x * x)  # cut in its backward
        return penalty(y**2, x)

    (finding,) = bp.check(f)(numbers(3)).findings
    assert finding.source.line == line("cut in its backward")
    assert finding.headline.startswith(
        "the second derivative of cut.apply(x * x) with respect to the gradient of its output is wrong"
    )


def test_third_derivatives_are_said_not_to_be_judged():
    def f(x):
        (first,) = torch.autograd.grad((x**4).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
        return second.sum()

    report = bp.check(f)(numbers(3))
    assert report.ok is None
    (said,) = report.unjudged
    assert "torch.autograd.grad(first.sum(), x, create_graph=True)" in said and "third derivatives" in said


def test_what_no_gradient_goes_through_twice_needs_no_second_derivative():
    def f(x):
        (gradient,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        return cube(0.5).apply(gradient).sum()

    assert bp.check(f)(numbers(3)).ok is True


def test_more_calls_than_are_kept_are_said_not_to_be_judged():
    x = numbers(2**10, 2**6)
    report = bp.check(penalised_calls)(x)
    (said,) = report.unjudged
    assert report.ok is None and "second derivatives: those of " in said and "too many of them" in said


def penalised_calls(x):
    y = x
    for _ in range(2):
        y = y * 2
        y = y + y * y
        y = torch.sin(y) + torch.cos(y)
        y = y - torch.exp(-y * y)
        y = torch.tanh(y) * torch.sigmoid(y)
        y = y / (1 + y * y)
    (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    return (gradient**2).sum()


def test_a_second_derivative_that_nobody_needs_is_not_checked():
    assert bp.check(lambda x: cube(0.5).apply(x).sum())(numbers(3)).ok is True


def test_what_differentiates_itself_is_not_said_to_have_nothing_by_hand():
    inner = cube(0.5)
    f = lambda x: torch.autograd.functional.jacobian(inner.apply, x, create_graph=True).sum()  # noqa: E731
    report = bp.check(f)(numbers(3))
    assert (report.ok, "nothing in it was written by hand" in str(report)) == (None, False)


def test_the_numbers_of_an_element_can_be_found_again():
    x = numbers(3).double()
    (finding,) = bp.check(lambda x: Halved.apply(x))(x).findings
    assert finding.facts[-1].endswith("(of the sum of its outputs)")
    leaf = x.clone().requires_grad_()
    Halved.apply(leaf).sum().backward()
    assert f"[0]: gradient {leaf.grad[0]:.6g}, differences give {2 * x[0]:.6g}" in finding.facts[-1]


def test_an_error_that_the_sum_hides_is_shown_with_random_weights():
    centred = custom("Centred", lambda x: x - x.mean(), lambda g, x: 2 * (g - g.mean()))
    (finding,) = bp.check(lambda x: centred.apply(x))(numbers(3)).findings
    assert finding.facts[-1].endswith("(of its outputs with random weights)")
