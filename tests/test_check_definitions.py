"""Functions whose gradient is by definition another, what is left out, and modules that are lent."""

import threading

import pytest
import torch
from torch.autograd import Function

import backprobe as bp
from asked import well
from custom import custom
from outside import note, noted
from wrong_derivatives import numbers

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


@pytest.mark.parametrize(
    "around",
    [
        lambda f, x: torch.func.vmap(lambda t: f(t))(x),
        lambda f, x: torch.utils.checkpoint.checkpoint(f, x, use_reentrant=False),
    ],
)
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
    bp.check(f, skip=[Rounded.apply])(x).assert_ok(strict=True)


def test_a_function_of_the_users_is_left_out_whole():
    def inner(x):
        return Rounded.apply(x)

    def f(x):
        return inner(x) * 2

    bp.check(f, skip=[inner])(torch.tensor(0.3)).assert_ok(strict=True)


def test_what_is_left_out_must_be_called():
    with pytest.raises(bp.BadOption, match="Rounded in skip is never called"):
        bp.check(lambda x: x * 2, skip=[Rounded])(torch.tensor(1.0))
    with pytest.raises(bp.BadOption, match="skip is a list of functions and classes"):
        bp.check(lambda x: x * 2, skip=Rounded)


def test_another_thread_meets_modules_as_they_are():
    others = [torch.nn.Linear(2, 2)]  # in a list it is not looked for among what the function closes over
    others[0].register_forward_hook(lambda *_: note("called"))

    def inner(t):
        note("ran")
        thread = threading.Thread(target=others[0], args=(torch.ones(1, 2),))
        thread.start()
        thread.join()
        return t * 2

    well(bp.check(lambda x: torch.utils.checkpoint.checkpoint(inner, x, use_reentrant=False))(numbers(2)))
    seen = noted()
    assert seen.count("called") == seen.count("ran") > 2


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
