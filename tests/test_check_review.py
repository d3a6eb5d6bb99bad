"""bp.check where the derivative that is wrong is not where one looks first."""

import numpy
import pytest
import torch
from torch.autograd import Function

import backprobe as bp


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
    assert str(bp.check(lambda x: whole(x).sum())(numbers(2, 3))).startswith("<lambda>: every derivative is right")


def test_an_operation_of_torch_library_that_no_call_made_has_its_name():
    class Lazy:
        def __init__(self, x):
            self.x = x

        @property
        def squared(self):
            return whole(self.x)

    report = bp.check(lambda x: Lazy(x).squared * 2)(numbers(3))
    assert any(note.startswith("backprobe_tests_whole_default: not judged") for note in report.notes)


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
