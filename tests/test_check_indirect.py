"""bp.check where the derivative that is wrong is not where one looks first."""

import numpy
import pytest
import torch
from torch import nn
from torch.autograd import Function

import backprobe as bp
from asked import Parts
from goldens import golden


def numbers(*shape):
    return torch.tensor(numpy.random.default_rng(0).normal(size=shape), dtype=torch.float32)


class Half(Function):
    """A square with half of its derivative."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x


@torch.library.custom_op("backprobe_tests::half", mutates_args=())
def half(x: torch.Tensor) -> torch.Tensor:
    return x * x


@torch.library.custom_op("backprobe_tests::whole", mutates_args=())
def whole(x: torch.Tensor) -> torch.Tensor:
    return x * x


def _keep(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])


half.register_autograd(lambda ctx, g: g * ctx.saved_tensors[0], setup_context=_keep)
whole.register_autograd(lambda ctx, g: 2 * g * ctx.saved_tensors[0], setup_context=_keep)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: half(x).sum(),
        lambda x: torch.ops.backprobe_tests.half(x).sum(),
        lambda x: torch.utils.checkpoint.checkpoint(half, x, use_reentrant=False).sum(),
        lambda x: torch.utils.checkpoint.checkpoint(torch.ops.backprobe_tests.half, x, use_reentrant=False).sum(),
    ],
)
def test_an_operation_of_torch_library_is_written_by_hand(program):
    report = bp.check(program)(numbers(2, 3))
    (finding,) = report.findings
    assert finding.input == "x" and finding.error == pytest.approx(0.5, abs=1e-4)


def test_a_right_operation_of_torch_library_is_right():
    golden("check", bp.check(lambda x: whole(x).sum())(numbers(2, 3)))


def test_an_operation_of_torch_library_that_no_call_made_has_its_name():
    class Lazy:
        def __init__(self, x):
            self.x = x

        def __iter__(self):
            yield whole(self.x)

    report = bp.check(lambda x: [y * 2 for y in Lazy(x)])(numbers(3))
    assert any(note.startswith("backprobe_tests_whole_default: not checked") for note in report.notes)


def test_a_line_that_is_wrong_each_time_is_narrowed_once():
    ran = []

    class Counted(Half):
        @staticmethod
        def forward(ctx, x):
            ran.append(1)
            return Half.forward(ctx, x)

    def loop(x, turns):
        for _ in range(turns):
            x = torch.tanh(Counted.apply(x) + 1)
        return x

    counts = {}
    for turns in (1, 5):
        ran.clear()
        (finding,) = bp.check(loop)(numbers(100), turns).findings
        counts[turns] = len(ran)
        assert finding.facts[0] == "it is 0.5 times what it should be"
        assert not any("calls of this line" in fact for fact in finding.facts)
    assert counts[5] < 2 * counts[1]


@pytest.mark.parametrize("spelled", ["Half", "half"])
def test_what_would_leave_a_finding_out_is_told_as_the_program_writes_it(spelled):
    programs = {"Half": lambda x: Half.apply(x), "half": lambda x: half(x)}
    (finding,) = bp.check(programs[spelled])(numbers(3)).findings
    assert finding.remedy.endswith(f"bp.check(f, skip=[{spelled}])")


def hooked(register, hook):
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    getattr(model[0], register)(hook)
    return model


def hook_on_a_tensor(x):
    y = x * 2
    y.register_hook(lambda g: g * 0.5)
    return y.sum()


def hook_on_a_parameter():
    model = nn.Linear(4, 4)
    model.weight.register_hook(lambda g: g * 0.5)
    return model


class Own(Parts):
    def forward(self, x):
        return self.inner(x) * 2


def hook_on_an_own_module():
    model = Own(inner=nn.Linear(4, 4))
    model.register_full_backward_hook(lambda module, gi, go: (gi[0] * 0.5,))
    return model


@pytest.mark.parametrize(
    ("program", "what"),
    [
        (hooked("register_forward_hook", lambda module, args, out: Half.apply(out)), "Linear"),
        (hooked("register_forward_pre_hook", lambda module, args: (Half.apply(args[0]),)), "Linear"),
        (hooked("register_full_backward_hook", lambda module, gi, go: (gi[0] * 0.5,)), "Linear"),
        (hook_on_an_own_module(), "Own"),
        (hook_on_a_parameter(), "a tensor"),
        (hook_on_a_tensor, "a tensor"),
    ],
)
def test_what_hooks_do_is_said_not_to_be_judged(program, what):
    report = bp.check(program)(numbers(3, 4).requires_grad_())
    assert report.ok
    golden("check", report)


def test_what_the_hooks_of_every_module_do_is_said_not_to_be_judged():
    handle = nn.modules.module.register_module_forward_hook(lambda module, args, out: Half.apply(out))
    try:
        report = bp.check(nn.Linear(2, 2))(numbers(3, 2))
    finally:
        handle.remove()
    assert report.ok
    golden("check", report)
    assert bp.check(nn.Linear(2, 2))(numbers(3, 2)).notes == ()


class Squared(nn.Module):
    def forward(self, w):
        return Half.apply(w)


@pytest.mark.parametrize("around", [lambda module: module, lambda module: nn.Sequential(module, nn.Tanh())])
def test_a_parametrization_is_judged_with_its_module(around):
    module = nn.Linear(4, 4)
    nn.utils.parametrize.register_parametrization(module, "weight", Squared())
    (finding,) = bp.check(around(module))(numbers(3, 4)).findings
    assert finding.input.endswith("parametrizations.weight.original")
    assert finding.error == pytest.approx(0.5, abs=1e-4)


class Mapped(Function):
    """As ``Half``, in the form that transforms take."""

    generate_vmap_rule = True
    backward = Half.backward

    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])


@pytest.mark.parametrize(
    "program",
    [
        lambda x: torch.func.grad(lambda y: Mapped.apply(y).sum())(x),
        lambda x: torch.func.jacrev(lambda y: Mapped.apply(y))(x),
        lambda x: torch.func.jacrev(torch.func.jacrev(lambda y: Mapped.apply(y).sum()))(x[0]),
        lambda x: torch.autograd.functional.jacobian(lambda y: Mapped.apply(y), x, create_graph=True),
    ],
)
def test_what_a_transform_differentiates_is_judged(program):
    report = bp.check(program)(numbers(3, 4))
    assert all(finding.error == pytest.approx(0.5, abs=1e-4) for finding in report.findings)
    golden("check", report.findings[-1])


@pytest.mark.parametrize(
    "transform", [torch.func.grad, torch.func.jacrev, lambda f: torch.func.jacrev(torch.func.grad(f))]
)
def test_a_transform_of_what_is_right_is_right(transform):
    torch.manual_seed(0)
    state = torch.get_rng_state()
    report = bp.check(lambda x: transform(lambda y: (torch.tanh(y) ** 2).sum())(x))(numbers(3))
    assert (report.ok, report.complete, report.notes) == (True, True, ())
    assert torch.equal(torch.get_rng_state(), state)


def test_whether_a_mapped_transform_gives_the_derivative_is_said_not_to_be_judged():
    report = bp.check(lambda x: torch.func.vmap(torch.func.grad(lambda y: Mapped.apply(y).sum()))(x))(numbers(3, 4))
    assert report.ok
    golden("check", report)


def test_a_transform_that_does_not_differentiate_is_judged():
    assert bp.check(lambda x: torch.func.vmap(torch.tanh)(x))(numbers(3, 4)).notes == ()
    (finding,) = bp.check(lambda x: torch.func.vmap(lambda y: Mapped.apply(y))(x))(numbers(3, 4)).findings
    assert finding.error == pytest.approx(0.5, abs=1e-4)


class Activation(nn.Module):
    def forward(self, x):
        return Half.apply(x)


def test_that_nothing_needs_a_gradient_is_the_reason_why_nothing_was_judged():
    report = bp.check(Activation())(numbers(3))
    assert report.ok and not report.complete and report.unjudged == ()
    (note,) = report.notes
    golden("check", note)
    assert len(bp.check(Activation())(numbers(3).requires_grad_()).findings) == 1


# writes through .data


def _doubled_out_of_sight(a):
    u = a * 1
    u.data.mul_(2)
    return (u * a).sum()


def _added_out_of_sight(a):
    u = a * 1
    u.data += 2
    return (u * a).sum()


def _item_out_of_sight(a):
    u = a * 1
    u.data[0] = 2.0
    return (u * a).sum()


@pytest.mark.parametrize("program", [_doubled_out_of_sight, _added_out_of_sight, _item_out_of_sight])
def test_a_write_through_data_leaves_the_report_without_a_verdict(program):
    report = bp.check(program)(torch.tensor([1.0, 2.0], dtype=torch.float64))
    assert report.ok and not report.complete
    assert any("it writes through .data" in said for said in report.unjudged)
    assert "taken by itself, each call has the right derivative" not in report.heading


def test_numbers_read_through_data_change_nothing():
    def program(a):
        k = a.data.sum() + 1
        return (a * k.mul_(2)).sum()

    bp.check(program)(torch.tensor([1.0, 2.0], dtype=torch.float64)).assert_ok(strict=True)
