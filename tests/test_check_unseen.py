"""What bp.check does not look at is said, and what is computed without a call is judged."""

import pytest
import torch

import backprobe as bp
from backprobe.check.text import SENTENCES
from custom import custom
from goldens import golden
from outside import note, noted
from wrong_derivatives import Halved, numbers

# what is not looked at is said


class Holding:
    def __init__(self, x):
        self.y = Halved.apply(x)


def test_what_a_class_does_when_it_is_made_is_said_not_to_be_judged():
    report = bp.check(lambda x: Holding(x).y * 2)(numbers(3))
    assert report.ok
    golden("check", report)


class Of:
    """An object of the program that computes where no call is written."""

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
    assert report.ok
    golden("check", report)
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
        @property
        def half(self):
            note()
            raise AttributeError("half")

        def __getattr__(self, name):
            return len(name)

    bp.check(lambda x: Failing().half * x)(numbers(3)).assert_ok(strict=True)
    assert len(noted()) == 1


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
    assert (report.ok, report.complete, report.notes) == (True, True, ())


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
    assert report.ok and not report.complete
    golden("check", report)


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
    assert report.ok and not report.complete
    golden("check", report.unjudged[0])
    report = bp.check(f)(numbers(3), torch.tensor([1.0, 2.0, 3.0]))
    golden("check", report)


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
    assert (report.ok, report.complete, report.notes) == (True, True, ())


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
    assert report.ok
    golden("check", report)
