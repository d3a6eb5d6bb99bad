"""``bp.provoke`` in PyTorch: what it finds, what it says, and that nothing of the program is changed."""

import json
import math
import random

import numpy as np
import pytest
import torch

import backprobe as bp
from backprobe.show.progress import progress
from goldens import golden
from outside import note, noted


def log_of(x):
    return torch.log(x).sum()


def quotient(x):
    return 1 / (x.sum() - 3)


def two(x, y):
    u = torch.exp(x)
    return (u / (y + 2)).sum()


X = torch.tensor([0.5, 2.0, 1.0])


def only(report):
    (finding,) = report.findings
    return finding


# what is found


def test_a_provocation_is_an_input_at_which_the_program_breaks():
    report = bp.provoke(log_of, bounds=(-1.0, 3.0))(X)
    finding = only(report)
    assert finding.headline == "`torch.log(x)` gives NaN or Inf"
    assert finding.source.line == log_of.__code__.co_firstlineno + 1
    assert finding.broken == "result"
    assert not log_of(*finding.args, **finding.kwargs).isfinite()
    assert report.ok is False
    assert finding.explained.findings[0].name == finding.name == "log()"
    assert finding.remedy.startswith("`torch.log(torch.clamp(x, min=1e-12))`") or "below 0" in finding.facts[-1]


def test_a_gradient_that_breaks_alone_is_a_provocation_too():
    def f(x):
        return torch.sqrt(x.square().sum())

    finding = only(bp.provoke(f)(X - 1))
    (x,) = finding.args
    assert finding.broken == "gradient"
    assert (finding.kind, finding.name) == ("provoked", "return")
    golden("provoke", finding)
    assert f(x.requires_grad_()).isfinite()
    assert not torch.autograd.grad(f(x), x)[0].isfinite().all()


def test_the_change_is_small():
    finding = only(bp.provoke(log_of, bounds=(-100.0, 100.0))(X))
    assert torch.equal(finding.args[0][1:], X[1:])
    assert -0.5 < finding.args[0][0] <= 0
    assert finding.change < 0.005


def test_a_divisor_comes_to_zero_exactly_from_either_side():
    for start in (X * 0.1, X * 4):
        (x,) = only(bp.provoke(quotient, bounds=(-10.0, 10.0))(start)).args
        assert x.sum() == 3


def test_a_power_may_break_at_both_ends():
    def f(x):
        return (x**3).sum()

    largest = torch.finfo(torch.float32).max ** (1 / 3)
    for low, high in ((0.0, 1e13), (-1e13, 2.0)):
        (x,) = only(bp.provoke(f, bounds=(low, high))(X)).args
        assert x.abs().max() >= 0.999 * largest


def test_operations_inside_of_one_expression_are_told_apart():
    def f(p):
        return (torch.log(p) + torch.log(1 - p)).sum()

    report = bp.provoke(f, bounds=(0.0, 1.0))(torch.tensor([0.3, 0.6]))
    assert [one.headline for one in report.findings] == [
        "`torch.log(p)` gives NaN or Inf",
        "`torch.log(1 - p)` gives NaN or Inf",
    ]
    assert report.findings[0].args[0].min() == 0
    assert report.findings[1].args[0].max() == 1


def test_behind_a_clip_the_end_is_found_where_the_program_still_reads_it():
    def f(x):
        return torch.sqrt(torch.exp(torch.clamp(x, -110, 80))).sum()

    finding = only(bp.provoke(f, bounds=(-200.0, 80.0))(X))
    assert finding.broken == "gradient"
    assert -110 < finding.args[0].min() < -103


def test_an_operation_that_is_not_to_blame_is_not_named():
    """At zeros the root breaks, and the deviation, which is 0 there as well, does not."""

    def f(x, w):
        return torch.sqrt(w.norm()) + (x - w).square().mean()

    report = bp.provoke(f)(X, X - 1)
    assert "torch.sqrt(w.norm())" in report.findings[-1].headline
    assert all("mean" not in one.headline for one in report.findings)


def test_in_a_loop_the_turn_that_is_nearest_is_searched():
    def f(xs):
        total = 0
        for x in xs:
            total = total + torch.log(x)
        return total

    finding = only(bp.provoke(f, bounds=(-1.0, 3.0))([torch.tensor(2.0), torch.tensor(0.5)]))
    first, second = finding.args[0]
    assert (first, second <= 0) == (2.0, True)


# what is not found


def test_it_says_how_far_it_came():
    def f(x):
        return torch.log(x + 0.5).sum()

    report = bp.provoke(f, bounds=(0.0, 3.0))(X)
    report.assert_ok(strict=True)
    assert report.ok
    golden("provoke", report)


def test_an_end_other_than_zero_is_said():
    report = bp.provoke(lambda x: torch.exp(x).sum(), bounds=(0.0, 50.0))(X)
    assert report.ok
    golden("provoke", report)


def test_a_program_without_a_risky_operation():
    report = bp.provoke(lambda x: torch.relu(x).sum())(X)
    assert report.ok
    golden("provoke", report)
    assert (report.risky, report.tries) == (0, 0)


def test_an_operand_that_nothing_changes():
    w = torch.tensor([1.0, 2.0, 3.0])
    report = bp.provoke(lambda x: (x * torch.log(x * 0 + w)).sum())(X)
    assert report.ok
    golden("provoke", report)


def test_an_operand_that_cannot_be_differentiated():
    report = bp.provoke(lambda x: torch.log(x.detach()).sum() + x.sum())(X)
    assert report.ok
    golden("provoke", report)


def test_an_operand_of_integers_is_named_in_a_note():
    report = bp.provoke(lambda x: x.sum() / (x > 0).sum(), bounds=(-1.0, 4.0))(X)
    why = "was not searched: its operand is not a floating-point tensor, so no gradient reaches it"
    assert report.ok
    golden("provoke", report)


def test_a_branch_that_is_not_taken_is_searched_up_to_its_end():
    def f(x):
        return torch.where(x > 0, torch.log(x), torch.zeros_like(x)).sum()

    assert only(bp.provoke(f, bounds=(-1.0, 4.0))(X)).broken == "gradient"


def test_an_operand_that_comes_to_its_end_and_does_no_harm():
    def f(x):
        safe = torch.where(x > 0, x, torch.ones_like(x))
        return (torch.log(safe) + 1 / torch.where(x == 5, x, torch.ones_like(x) * 2)).sum()

    assert bp.provoke(f, bounds=(-1.0, 4.0))(X).ok


def test_errors_of_the_program_at_inputs_that_are_tried():
    def f(x):
        if x.min() < 0.25:
            raise ValueError("too small")
        return torch.log(x).sum()

    report = bp.provoke(f, bounds=(-1.0, 3.0))(X)
    assert report.ok
    assert any(note.startswith("the program raised ValueError at ") for note in report.notes)


def test_the_example_itself_breaks():
    report = bp.provoke(log_of)(torch.zeros(2))
    assert [(one.kind, one.name) for one in report] == [("provoked", "log()")]
    golden("provoke", report)
    assert only(report).facts == ("Inf is born at 'log()': log(0)",)


# what is varied


def test_by_default_the_range_of_the_example_bounds_the_search():
    report = bp.provoke(log_of)(X)
    assert report.ok
    golden("provoke", report)


def test_one_number_is_varied_from_its_negative():
    report = bp.provoke(lambda x: torch.log(x))(3.0)
    assert -3 <= only(report).args[0] <= 0
    assert [(one.kind, one.name) for one in report] == [("provoked", "return")]
    golden("provoke", report)


def test_bounds_by_argument():
    report = bp.provoke(two, bounds={"x": None, "y": (-5.0, 2.0)})(X, X)
    x, y = only(report).args
    assert torch.equal(x, X)
    assert only(report).headline == "`u / (y + 2)` gives NaN or Inf"
    assert (y == -2).any()


def test_integers_flags_and_containers_are_left_as_they_are():
    def f(batch, at, flag, name):
        assert flag is True and name == "sum"
        return torch.log(batch["x"][at]).sum() + batch["ids"].sum()

    batch = {"x": X, "ids": torch.arange(3), "tags": ("a", 1)}
    finding = only(bp.provoke(f, bounds=(-1.0, 3.0))(batch, 1, flag=True, name="sum"))
    given, *others = finding.args
    assert (others, given["tags"], list(given)) == ([1, True, "sum"], ("a", 1), ["x", "ids", "tags"])
    assert torch.equal(given["ids"], torch.arange(3))
    assert finding.facts[0].startswith("batch.x[1]: 2 in the example, ")
    assert batch["x"] is X
    assert given["x"][1] <= 0


def test_an_argument_of_numpy_and_one_that_requires_a_gradient():
    def f(x, y):
        return (torch.log(x) + y).sum()

    y = X.clone().requires_grad_()
    finding = only(bp.provoke(f, bounds={"x": (-1.0, 3.0)})(np.array([0.5, 1.0, 2.0], "float32"), y))
    assert isinstance(finding.args[0], torch.Tensor)
    assert y.grad is None
    assert y.requires_grad


def test_as_data_it_has_the_input_that_breaks():
    def f(batch, index, scale, *, flag, name):
        return torch.log(batch["x"][index] * scale[0]).sum()

    batch = {"x": X.bfloat16(), 3: [torch.zeros(0), None]}
    report = bp.provoke(f, bounds=(-1.0, 3.0))(
        batch, torch.tensor([[0], [2]]), (torch.tensor(1.0), 2 + 1j), flag=True, name=X.numpy().astype("int8")
    )
    found = json.loads(json.dumps(report.to_dict()))["findings"][0]
    finding = only(report)
    given = finding.args[0]["x"]
    assert found["args"] == [
        {
            "x": {"shape": [3], "dtype": "bfloat16", "numbers": given.float().tolist()},
            "3": [{"shape": [0], "dtype": "float32", "numbers": []}, None],
        },
        {"shape": [2, 1], "dtype": "int64", "numbers": [[0], [2]]},
        [{"shape": [], "dtype": "float32", "numbers": finding.args[2][0].item()}, {"real": 2.0, "imag": 1.0}],
    ]
    assert found["kwargs"] == {"flag": True, "name": {"shape": [3], "dtype": "int8", "numbers": X.int().tolist()}}
    assert not torch.isfinite(f(*finding.args, **finding.kwargs))


def test_one_tensor_given_twice_is_two_arguments():
    def f(x, pair):
        return (torch.log(x) + pair[0] - pair[1]).sum()

    finding = only(bp.provoke(f, bounds={"x": (-1.0, 3.0), "pair": (-1.0, 3.0)})(X, [X, X]))
    x, (first, second) = finding.args
    assert x.min() <= 0
    assert torch.equal(first, X)
    assert torch.equal(second, X)


@pytest.mark.parametrize(
    ("args", "words", "error", "message"),
    [
        ((3,), {}, bp.NothingToDifferentiate, "log_of has no floating argument to vary"),
        ((X, X), {}, bp.BadOption, "log_of cannot be called with these arguments"),
        ((X,), {"bounds": {"y": (0, 1)}}, bp.BadOption, "'y' is not a floating argument"),
        ((X,), {"bounds": (5, 6)}, bp.BadOption, "the example of 'x' lies outside of its bounds"),
        ((X,), {"bounds": 3}, bp.BadOption, "bounds are a lower and an upper end"),
        ((X,), {"bounds": (3, 0)}, bp.BadOption, "bounds are a lower and an upper end"),
        ((X,), {"bounds": {"x": None}}, bp.BadOption, "no number may be varied"),
        ((X,), {"seed": -1}, bp.BadOption, "seed is a whole number from 0 on"),
    ],
)
def test_bad_input(args, words, error, message):
    with pytest.raises(error, match=message) as raised:
        bp.provoke(log_of, **words)(*args)
    assert raised.value.next


@pytest.mark.parametrize("option", ["bounds", "seed"])
def test_an_option_in_the_place_of_an_argument(option):
    """Where it was given in version 0.1."""
    with pytest.raises(
        bp.BadOption, match=f"{option} is an option of bp.provoke, and not an argument of log_of"
    ) as told:
        bp.provoke(log_of)(X, **{option: 1})
    assert told.value.next == f"bp.provoke(log_of, {option}=...)(...)"


def test_arguments_that_are_called_as_options():
    def f(bounds, seed):
        return torch.log(bounds * seed).sum()

    finding = only(bp.provoke(f, bounds={"bounds": (-1.0, 3.0), "seed": None}, seed=1)(X, seed=torch.ones(3)))
    assert torch.equal(finding.kwargs["seed"] if finding.kwargs else finding.args[1], torch.ones(3))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bp.provoke(3)(X), "an int is neither a function nor a model"),
        (lambda: bp.provoke(torch.nn.Linear)(X), "Linear is a class, and bp.provoke takes an object of it"),
        (lambda: bp.provoke(log_of, tries=0), "tries is a whole number from 1 on"),
    ],
)
def test_bad_targets_and_steps(make, message):
    with pytest.raises(bp.BadOption, match=message):
        make()


def test_steps_are_the_most_that_are_tried_for_an_operand():
    def f(x):
        return (torch.log(x * x + 1e-20) + torch.acos(torch.tanh(x) / 2)).sum()

    assert bp.provoke(f, tries=3)(X).tries == 9  # of the logarithm, and of both ends of the angle


# what is left as it was


class Noisy(torch.nn.Module):
    """It draws random numbers, and has buffers that it writes. For one seed, releases of PyTorch drop different
    elements; uniform numbers are the same in all of them.
    """

    def __init__(self):
        super().__init__()
        self.layer, self.norm = torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)

    def forward(self, x, scale):
        h = self.norm(self.layer(x))
        h = h * (torch.rand_like(h) > 0.3) / 0.7
        p = torch.softmax(h * scale, dim=-1)
        return {"loss": -torch.log(p).mean(), "p": p}


@pytest.fixture
def noisy():
    torch.manual_seed(1)
    model, x = Noisy(), torch.randn(4, 3)
    model(x, 1.0)["loss"].backward()
    return model, x


@pytest.mark.parametrize("args", [(torch.tensor([1, 2]), 1), ()])
def test_an_error_calls_a_model_by_its_own_name(noisy, args):
    with pytest.raises(bp.BackprobeError) as raised:
        bp.provoke(noisy[0])(*args)
    assert "Noisy" in str(raised.value)
    assert "forward" not in str(raised.value)


def test_a_model_is_provoked_through_its_inputs(noisy):
    model, x = noisy
    finding = only(bp.provoke(model, bounds={"scale": (-500.0, 500.0)})(x, 1.0))
    assert (finding.kind, finding.name) == ("provoked", "/Noisy:log()")
    golden("provoke", finding)


def test_nothing_of_a_model_is_changed(noisy):
    model, x = noisy
    gradients = [one.grad.clone() for one in model.parameters()]
    buffers = {name: (one, one.clone(), one._version) for name, one in model.named_buffers()}
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()
    bp.provoke(model, bounds={"scale": (-500.0, 500.0)})(x, 1.0)
    assert all(torch.equal(a, one.grad) for a, one in zip(gradients, model.parameters(), strict=True))
    for name, one in model.named_buffers():
        same, copy, version = buffers[name]
        assert one is same and torch.equal(one, copy) and one._version == version
    assert torch.equal(states[0], torch.get_rng_state())
    assert states[1] == random.getstate()
    assert (states[2] == np.random.get_state()[1]).all()
    assert not torch.nn.modules.module._global_forward_pre_hooks
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in model.modules())


def test_a_model_that_a_function_calls_is_left_as_it_was(noisy):
    model, x = noisy
    before = {name: one.clone() for name, one in model.state_dict().items()}
    bp.provoke(lambda x: model(x, 1.0)["loss"], bounds=(-100.0, 100.0))(x)
    assert all(torch.equal(before[name], one) for name, one in model.state_dict().items())


def test_nothing_is_left_after_an_error_at_the_example(noisy):
    model, x = noisy
    mean, state = model.norm.running_mean.clone(), torch.get_rng_state()

    def f(x):
        model(x, 1.0)
        raise RuntimeError("of the program")

    with pytest.raises(RuntimeError, match="of the program"):
        bp.provoke(f)(x)
    assert torch.equal(model.norm.running_mean, mean)
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.nn.modules.module._global_forward_pre_hooks


def test_random_numbers_begin_at_the_seed_in_each_run():
    def f(x):
        noise = torch.rand(3) + random.random() + np.random.rand()
        note(tuple(noise.tolist()))
        return torch.log(x + noise).sum()

    noted()  # of tests before
    found = [str(bp.provoke(f, bounds=(-5.0, 5.0), seed=3)(X)) for _ in range(2)]
    (drawn,) = set(noted())
    assert found[0] == found[1]
    bp.provoke(f, bounds=(-5.0, 5.0), seed=4)(X)
    (other,) = set(noted())
    assert drawn != other


def test_a_generator_among_the_arguments_begins_at_the_seed_and_goes_on_as_before():
    generator = torch.Generator().manual_seed(7)

    def f(x, generator):
        note(torch.rand(1, generator=generator).item())
        return torch.log(x).sum()

    state = generator.get_state()
    bp.provoke(f, bounds=(-1.0, 3.0))(X, generator)
    assert len(set(noted())) == 1
    assert torch.equal(generator.get_state(), state)


def test_an_argument_that_is_written_in_place():
    def f(x):
        x += 1
        return torch.log(x - 1).sum()

    x = X.clone()
    assert "torch.log(x - 1)" in only(bp.provoke(f, bounds=(-1.0, 3.0))(x)).headline
    assert torch.equal(x, X)


def test_ctrl_c_leaves_what_is_known_so_far():
    def f(x, y):
        if not torch.equal(y.detach(), X):
            raise KeyboardInterrupt
        return (torch.log(x) + torch.log(y**2 + 1e-30)).sum()

    with pytest.raises(KeyboardInterrupt) as stopped:
        bp.provoke(f, bounds=(-1.0, 3.0))(X, X)
    report = stopped.value.so_far
    assert report.findings[0].headline == "`torch.log(x)` gives NaN or Inf"
    assert any(note.startswith("interrupted: ") for note in report.notes)


def test_a_bar_is_shown_in_a_terminal_alone(capsys, monkeypatch):
    with progress("searching", 2) as advance:
        advance("[a]")
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with progress("searching", 2) as advance:
        advance("[a]")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "searching" in shown.err
    assert "0/2  [a]" in shown.err
    assert shown.err.endswith("\n\x1b[A\x1b[2K"), "the line is cleared"


@pytest.mark.parametrize("returned", [None, 3, "text", torch.tensor(2)])
def test_a_program_that_returns_no_floating_tensor(returned):
    with pytest.raises(bp.BadOutput, match="the return value holds no floating tensor") as caught:
        bp.provoke(lambda x: returned)(torch.ones(3))
    golden("provoke", caught.value)


def test_how_it_prints():
    report = bp.provoke(quotient, bounds=(0.0, 2.0))(torch.tensor([1.0, 0.5]))
    line = quotient.__code__.co_firstlineno + 1
    assert [(one.kind, one.name) for one in report] == [("provoked", "return")]
    golden("provoke", report)
    assert repr(bp.provoke(quotient)) == "<bp.provoke of quotient>"
    assert "bp.provoke of quotient" in bp.provoke(quotient)._repr_html_()
    assert math.isclose(only(report).change, 0.375, abs_tol=0.13)


def test_an_operation_in_what_a_called_function_returns():
    def scaled(u):
        return u / u.sum(dim=-1, keepdim=True)

    def f(x):
        return scaled(x)

    finding = only(bp.provoke(f, bounds=(-1.0, 3.0))(X))
    assert (finding.kind, finding.name) == ("provoked", "return")
    golden("provoke", finding)
    assert finding.args[0].sum() == 0
