"""Blocks and the frames they look at: no variable is kept alive when a block is over, and none is changed."""

import gc
import sys
import weakref

import pytest
import torch

import backprobe as bp
from block_cases import doubled

pytestmark = pytest.mark.usefixtures("leaves_nothing")


def vector():
    return torch.ones(3, requires_grad=True)


def dead(*references):
    gc.collect()
    return [reference() is None for reference in references]


def in_a_function(options):
    x = vector()
    with bp.probe(**options) as rec:
        h = doubled(x)
        loss = h.sum()
        loss.backward()
    kept = weakref.ref(h), weakref.ref(loss), weakref.ref(rec)
    del rec, loss, h
    return dead(*kept)


def in_a_loop(options):
    x, found = vector(), []
    for _ in range(3):
        with bp.probe(**options) as rec:
            h = doubled(x)
            h.sum().backward()
        kept = weakref.ref(h), weakref.ref(rec)
        del rec, h
        found += dead(*kept)
    return found


def after_an_error(options):
    x = vector()
    with pytest.raises(ZeroDivisionError), bp.probe(**options) as rec:
        h = doubled(x)
        h.sum().backward()
        1 / 0  # noqa: B018
    kept = weakref.ref(h), weakref.ref(rec)
    del rec, h
    return dead(*kept)


def in_a_generator(options):
    def steps():
        x = vector()
        with bp.probe(**options) as rec:
            h = doubled(x)
            yield
            h.sum().backward()
        kept = weakref.ref(h), weakref.ref(rec)
        del rec, h
        yield from dead(*kept)

    return [found for found in steps() if found is not None]


def in_what_the_block_runs(options):
    def values(x):
        h = doubled(x)
        kept = weakref.ref(h)
        yield h.sum()
        del h
        yield dead(kept)

    x = vector()
    with bp.probe(**options) as rec:
        running = values(x)
        next(running).backward()
    assert "/values:h" in rec
    del rec
    return next(running)


def in_what_calls_it(options):
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    held = vector()

    def step():
        with bp.probe(**options):
            loss = (model(held) / (model.bias - model.bias)).sum()
            loss.backward()
            optimizer.step()
            after = model(held)  # noqa: F841

    step()
    kept = weakref.ref(held)
    held = None
    return dead(kept)


@pytest.mark.parametrize("options", [{}, {"nonfinite": True}], ids=["plain", "nonfinite"])
@pytest.mark.parametrize(
    "program",
    [in_a_function, in_a_loop, after_an_error, in_a_generator, in_what_the_block_runs],
)
def test_what_the_program_deletes_after_a_block_is_freed(program, options):
    assert all(program(options))


def test_what_is_deleted_in_a_function_that_called_one_with_a_block_is_freed():
    assert all(in_what_calls_it({"nonfinite": True}))


def test_what_is_deleted_after_an_explanation_of_tensors_is_freed():
    w = vector() * 2
    loss = w.sum()
    loss.backward()
    bp.explain(loss, w)
    kept = weakref.ref(w)
    del w, loss
    assert dead(kept) == [True]


def test_what_locals_has_returned_stays_what_it_is():
    x = vector()
    given = locals()
    with bp.probe():
        h = doubled(x)
        h.sum().backward()
    assert given["x"] is x


def test_variables_stay_under_a_tracer_of_the_programs_own():
    seen = []

    def tracer(frame, event, arg):
        if frame.f_code.co_name == "program":
            seen.append((event, len(frame.f_locals)))
        return tracer

    def program():
        x, count = vector(), 1
        with bp.probe():
            h = doubled(x)
            h.sum().backward()
        count += 1
        return x, h, count

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        x, h, count = program()
    finally:
        sys.settrace(before)
    assert count == 2
    assert h.grad_fn is not None
    assert len(seen) > 6


def test_a_block_that_a_trace_function_ends_leaves_the_variables():
    opened = []

    def tracer(frame, event, arg):
        if event == "line" and opened and "loss" in frame.f_locals:
            opened.pop().__exit__(None, None, None)
        return tracer

    def program():
        x = vector()
        if not opened:
            probe = bp.probe()
            probe.__enter__()
            opened.append(probe)
        h = doubled(x)
        loss = h.sum()
        loss.backward()
        return x, h, loss

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        x, h, loss = program()
    finally:
        sys.settrace(before)
    assert x.grad is not None
    assert loss.item() == 6
