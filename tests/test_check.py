"""bp.check: what it says, of models too, and what it can't judge."""

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import Function

import backprobe as bp
from asked import Parts, well
from check_cases import line
from custom import custom
from goldens import golden
from outside import note, noted
from right_derivatives import sine_of_single
from wrong_derivatives import Flipped, Halved, numbers

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
        __file__,
        line("in the helper", __file__),
        "y = Halved.apply(u)  # in the helper",
    )
    assert report.judged == 4
    assert report.error < 1e-9
    golden("check", report)


def test_what_is_right_gets_a_sentence():
    report = well(bp.check(lambda x: (x * x.exp()).sum())(1.5))
    golden("check", report)
    assert "\n" not in str(report)


def test_that_nothing_was_judged_is_not_that_all_is_right():
    report = bp.check(lambda x: x)(1.5)
    assert report.ok and not report.complete
    golden("check", report)


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
    assert (finding.kind, finding.name) == ("wrong_derivative", "y#2")
    golden("check", finding)


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
    assert [one.source.line for one in report.findings] == [
        line("first of the list", __file__),
        line("last of the list", __file__),
    ]


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
    assert (finding.name, finding.input, finding.source.line) == (
        "1:y",
        "hidden * self.scale",
        line("in the block", __file__),
    )
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
    assert [finding.source.line for finding in report.findings] == [line("in the block", __file__)]


def test_frozen_parameters_and_inputs_of_a_model_are_not_judged():
    model = stacked()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    assert bp.check(model)(numbers(5, 3)).judged == 0


def test_the_state_of_a_model_is_as_before():
    noted()  # forget what earlier tests have noted
    model, twin = stacked(), stacked()
    x = numbers(5, 3)
    model[1].linear.register_forward_hook(lambda module, args, output: note("forward"))
    model[1].linear.weight.register_hook(lambda gradient: note("backward"))
    model[1].norm.register_full_backward_hook(lambda *_: note("module"))
    expected = torch.get_rng_state()
    bp.check(model)(x)
    assert torch.equal(torch.get_rng_state(), expected)
    for (name, held), (_, other) in zip(model.state_dict().items(), twin.state_dict().items(), strict=True):
        assert torch.equal(held, other), name
    assert all(parameter.grad is None for parameter in model.parameters())
    assert noted() == ["forward"]
    assert all("forward" not in vars(module) for module in model.modules())
    assert x.grad is None and not x.requires_grad and x.grad_fn is None


# what cannot be judged


@pytest.mark.parametrize("kinked", [
    lambda x: x.abs(), lambda x: F.relu(x), lambda x: x.max(), lambda x: torch.maximum(x, -x), lambda x: x.norm(),
    lambda x: x.clamp(min=0),
])  # fmt: skip
def test_a_kink_is_not_judged(kinked):
    report = bp.check(kinked)(torch.zeros(3))
    assert report.error < 1e-15 and len(report.unjudged) == 1
    golden("check", report.unjudged[0])


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
    golden("check", report)


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
    assert torch.equal(generator.get_state(), torch.Generator().manual_seed(0).get_state())


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
    golden("check", report.unjudged[0])


def test_what_refuses_double_precision_is_judged_in_its_own_and_caught_there_too():
    right, wrong = (
        custom("Single", sine_of_single, lambda g, x, factor=factor: factor * g * x.cos()) for factor in (1.0, 1.01)
    )
    report = well(bp.check(lambda x: right.apply(x))(numbers(40)))
    golden("check", report)
    assert not bp.check(lambda x: wrong.apply(x))(numbers(40)).ok


def test_integers_and_booleans_are_passed_on_as_they_are():
    def f(x, ids, mask):
        return F.embedding(ids, x)[mask].sum() + torch.where(mask[:, None], x[:2], 0.0).sum()

    report = well(bp.check(f)(numbers(3, 4), torch.tensor([0, 2]), torch.tensor([True, False])))
    assert report.judged == 7


def test_what_a_library_does_to_an_object_is_not_done_again():
    class Recorder:
        def __call__(self, x):
            note(x)
            return x * 2

    import functools

    @functools.lru_cache
    def cached(x):
        note(x)
        return x * 3

    report = bp.check(lambda x: Recorder()(x) + cached(x))(1.0)
    assert len(noted()) == 2
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
    assert (finding.kind, finding.name) == ("wrong_derivative", "return")
    golden("check", finding)


def test_infinite_gradients_are_excused_only_where_nothing_settles():
    Root = custom("Root", lambda x: x * 3, lambda g, x: g * 3 * x / x)

    x = torch.tensor([0.0, 1.0, 4.0])
    well(bp.check(lambda x: x.sqrt())(x))
    (finding,) = bp.check(lambda x: Root.apply(x))(x).findings
    assert (finding.kind, finding.name) == ("wrong_derivative", "return")
    golden("check", finding)
