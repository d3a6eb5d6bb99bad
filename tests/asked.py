"""Asking for gradients in few words, and tests that are the program they are about."""

import threading
from contextlib import contextmanager

import numpy as np
import pytest
import torch

import backprobe as bp

X, W = 3.0, 2.0


def grads(function, *args, **options):
    """Printed name -> gradient as a Python number, of those that have one."""
    rec = bp.probe(function, **options)(*(args or (X, W)))
    return {name: gradient.item() for name, gradient in rec.grads().items()}


def leaf(*numbers):
    return torch.tensor(numbers, requires_grad=True)


def kinds(report):
    return [finding.kind for finding in report.findings]


def well(report):
    """The report, which has to find nothing; a check has to judge something."""
    assert report.ok and getattr(report, "judged", True), str(report)
    return report


def message(kind, call):
    """The message of the error that a call raises."""
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


@contextmanager
def noting(*parts, kind=RuntimeError, match=None, but=()):
    """What runs within raises, and the last note of its error has all of these parts, and none of the others."""
    with pytest.raises(kind, match=match) as caught:
        yield
    note = caught.value.__notes__[-1]
    assert [part for part in parts if part not in note] == [], note
    assert [part for part in but if part in note] == [], note


def at_once(work, *arguments):
    """Do the work in threads of their own, one for each of these tuples of arguments, and wait for all."""
    threads = [threading.Thread(target=work, args=given) for given in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def round_trip(recording, folder, to=None):
    """The recording, saved and loaded."""
    recording.save(folder / "rec")
    return bp.load(folder / "rec", to=to)


def numbers(tensor):
    """A tensor of any framework as Python numbers; None stays None."""
    return None if tensor is None else tensor.tolist() if hasattr(tensor, "tolist") else np.asarray(tensor).tolist()


def all_grads(rec):
    """Printed name -> gradient as Python numbers, of those that have one."""
    return {name: numbers(gradient) for name, gradient in rec.grads().items()}


def partials(rec):
    """Every partial as numbers, by what it is of and with respect to what."""
    return {f"∂{name}/∂{by}": numbers(p) for name, entry in rec.items() for by, p in entry.partials.items()}


def contributions(rec):
    return {f"{by}←{name}": numbers(c) for name, entry in rec.items() for by, c in entry.contributions.items()}


def inputs(rec):
    return {name: [edge.name for edge in entry.inputs] for name, entry in rec.items() if entry.inputs}


def agrees(rec, judged):
    """The sums agree, and over this many gradients."""
    sums = rec.path_sums
    assert (sums.agree, sums.judged, sums.unjudged) == (True, judged, ())


ALL = {
    "partials": partials,
    "contributions": contributions,
    "inputs": inputs,
    "names": list,
    "notes": lambda rec: rec.notes,
    "agree": lambda rec: rec.path_sums and rec.path_sums.agree,
    "all_grads": all_grads,
    "all_statuses": lambda rec: {name: str(entry.status) for name, entry in rec.items()},
    "result": lambda rec: numbers(rec.result),
    "outputs": lambda rec: [entry.name for entry in rec.outputs],
}
"""What a recording says of everything in it, by the keyword of ``gives``."""
SOME = {
    "grads": lambda entry: numbers(entry.grad_or_none),
    "values": lambda entry: numbers(entry.value),
    "both": lambda entry: (numbers(entry.value), numbers(entry.grad_or_none)),
    "statuses": lambda entry: str(entry.status),
    "reasons": lambda entry: entry.reason,
    "axes": lambda entry: entry.axes,
    "dtypes": lambda entry: entry.dtype,
    "inputs_of": lambda entry: sorted(edge.name for edge in entry.inputs),
    "reads": lambda entry: (entry.source.expression, {read.spelled: read.name for read in entry.reads}),
}
"""What it says of a value: ``gives`` takes a dict with some of the names."""


def same(a, b):
    """Bitwise, and of the same kind."""
    if not isinstance(a, torch.Tensor):
        return not isinstance(b, torch.Tensor) and repr(a) == repr(b)
    if type(a) is not type(b) or a.dtype != b.dtype or a.shape != b.shape or a.layout != b.layout:
        return False
    if a.layout is torch.sparse_coo:
        a, b = a.to_dense(), b.to_dense()
    return torch.equal(a.detach().nan_to_num(123.0), b.detach().nan_to_num(123.0))


HELD = {"grads": lambda entry: entry.grad, "values": lambda entry: entry.value}


def says(rec, **wanted):
    """A recording says this, by the keywords of ``ALL`` and ``SOME``; tensors of PyTorch are compared bit by bit."""
    for what, expected in wanted.items():
        if what in ALL:
            assert ALL[what](rec) == expected, what
            continue
        for name, one in expected.items():
            if isinstance(one, torch.Tensor):
                assert same(HELD[what](rec[name]), one), (what, name)
            else:
                assert SOME[what](rec[name]) == one, (what, name)


class on:
    """Makes a test of a program: what these arguments give, probed with these options.

    ``@on(3.0, partials=True).gives(partials={"∂u/∂x": 2})`` stands above a function whose lines are the program.
    """

    def __init__(self, *arguments, **options):
        self.arguments, self.options = arguments, options

    def record(self, program):
        return bp.probe(program, **self.options)(*self.arguments)

    def gives(self, *, judged=None, **wanted):
        def test_of(program):
            def test():
                rec = self.record(program)
                says(rec, **wanted)
                if judged is not None:
                    agrees(rec, judged)

            return test

        return test_of

    def explains(self, name, *found):
        """The findings of ``bp.explain`` about a value: the kind of each, and the text of its line."""

        def test_of(program):
            def test():
                report = bp.explain(self.record(program), name)
                assert [(finding.kind, finding.source.text) for finding in report.findings] == [*found]

            return test

        return test_of


class Parts(torch.nn.Module):
    """A model that is its parts, by name, and how a class below this one combines them."""

    def __init__(self, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
