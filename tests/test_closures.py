"""What functions read from the functions that they are defined in: those are read there as anywhere else."""

import pytest
import torch

import backprobe as bp


def parameters(*names):
    return {name: torch.ones(3, requires_grad=True) for name in names}


def cut_in_closure(params, x):
    w = params["w"] * 2

    def scaled(h):
        z = w.detach() * h
        return z

    return (scaled(x) * params["b"]).sum()


def cut_two_functions_above(params, x):
    w = params["w"] * 2

    def outer(h):
        def inner(g):
            z = g * w.detach()
            return z

        return inner(h)

    return (outer(x) * params["b"]).sum()


def cut_in_lambda(params, x):
    w = params["w"] * 2
    scaled = lambda h: w.detach() * h  # noqa: E731
    y = scaled(x)
    return (y * params["b"]).sum()


@pytest.mark.parametrize("program", [cut_in_closure, cut_two_functions_above, cut_in_lambda])
def test_a_cut_of_what_a_function_around_holds_is_found(program):
    report = bp.explain(bp.probe(program)(parameters("w", "b"), torch.ones(3)))
    assert [finding.kind for finding in report.findings] == ["detach"]
    assert "`w.detach()`" in str(report)
    assert "used" not in str(report)


def test_what_a_function_around_holds_is_no_value_of_its_own():
    def program(w, x):
        def scaled(w):
            z = w.detach() * x
            return z

        return (scaled(x + 1) * w).sum()

    rec = bp.probe(program)(torch.ones(3, requires_grad=True), torch.ones(3))
    assert [read.name for read in rec["/scaled:z"].reads] == ["x", "/scaled:w"]
    assert bp.explain(rec).ok


def test_of_two_runs_of_the_function_around_none_is_chosen():
    """The closure of the first run is called in the second, where the same name holds another value."""

    def program(x, again):
        w = x * 2

        def inner(h):
            z = w.detach() * h
            return z

        return again(inner) if again else inner

    x = torch.ones(3, requires_grad=True)

    def both(x):
        first = program(x, None)
        y = program(x * 3, lambda inner: first(x))
        return (y * x).sum()

    rec = bp.probe(both)(x)
    z = rec["y"]
    assert z.source.text == "z = w.detach() * h"
    assert [read.spelled for read in z.reads] == ["h"]


def test_a_closure_in_a_block():
    params, x = parameters("w", "b"), torch.ones(3)
    with bp.probe() as rec:
        cut_in_closure(params, x).backward()
    assert "`w.detach()`" in str(bp.explain(rec))


def test_closures_without_a_cut_say_nothing():
    def program(params, x):
        w = params["w"] * 2

        def scaled(h):
            return w * h

        return (scaled(x) * params["b"]).sum()

    rec = bp.probe(program)(parameters("w", "b"), torch.ones(3))
    assert bp.explain(rec).ok
    assert rec["w"].grad.tolist() == [1, 1, 1]
