"""A comparison of two recordings in every field: the first entry and field in which they differ."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass

import torch

import backprobe as bp
from backprobe.record.held import Alias

TENSOR = ("dtype", "layout", "device", "shape", "requires_grad", "is_leaf")
"""What two equal tensors have in common besides their numbers."""


def differences(found, expected):
    """A line for each field that two recordings differ in; none for recordings that are the same."""
    lines = [*_unequal("names in order", [*found], [*expected])]
    entries, others = found.record.entries, expected.record.entries
    if len(entries) == len(others):
        for at, (entry, other) in enumerate(zip(entries, others, strict=True)):
            lines += _of_fields(f"entry {at}, {other.name!r}: ", entry, other)
    lines += _of_fields("", found.record, expected.record, but=("entries",))
    return lines


def assert_same_records(found, expected, what="the recordings"):
    """The recordings say the same in every field, or this raises and says in which they differ."""
    lines = differences(found, expected)
    assert not lines, "\n  ".join([f"{what} differ in {len(lines)} fields:", *lines[:40]])


def _of_fields(where, found, expected, but=()):
    if type(found) is not type(expected):
        return [f"{where}is {found!r}, not {expected!r}"]
    names = [field.name for field in fields(expected) if field.name not in but]
    return [line for name in names for line in _unequal(where + name, getattr(found, name), getattr(expected, name))]


def _unequal(where, found, expected):
    """The lines of what is different between two values of a field."""
    if isinstance(expected, bp.Stamp):
        return []  # its time is another each time
    found, expected = (one.held if isinstance(one, Alias) else one for one in (found, expected))
    if isinstance(expected, torch.Tensor):
        is_same = isinstance(found, torch.Tensor) and same_tensor(found, expected)
        return [] if is_same else [_line(where, found, expected)]
    if isinstance(expected, bp.Pass) and isinstance(found, bp.Pass):  # which another line of the test may have called
        return _of_fields(f"{where}.", found, expected, but=("source",))
    if is_dataclass(expected) and not isinstance(expected, type):
        return _of_fields(f"{where}.", found, expected)
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        return _of_items(where, [*found], [*expected], found, expected)
    if _is_sequence(expected) and _is_sequence(found):
        return _of_items(where, [*range(len(found))], [*range(len(expected))], found, expected)
    return [] if same_object(found, expected) else [_line(where, found, expected)]


def _of_items(where, keys, expected_keys, found, expected):
    if keys != expected_keys:
        return [_line(where, found, expected)]
    return [line for key in keys for line in _unequal(f"{where}[{key!r}]", found[key], expected[key])]


def same_tensor(a, b):
    """Equal in every bit of what they hold (any NaN is equal to any NaN), and of one kind."""
    if any(getattr(a, name) != getattr(b, name) for name in TENSOR):
        return False
    a, b = (tensor.detach() if tensor.layout is torch.strided else tensor.detach().to_dense() for tensor in (a, b))
    if a.is_floating_point() or a.is_complex():
        return torch.equal(a.isnan(), b.isnan()) and torch.equal(a.nan_to_num(123.0), b.nan_to_num(123.0))
    return torch.equal(a, b)


def same_object(a, b):
    """Equal, for what is data; of one type, for objects of a program, which each run makes anew."""
    if type(a) is not type(b):
        return False
    is_data = isinstance(b, str | bytes | int | float | complex | Set | None | torch.dtype | torch.device)
    return not is_data or a == b or (a != a and b != b)


def _is_sequence(value):
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _line(where, found, expected):
    return f"{where} is {_short(found)}, not {_short(expected)}"


def _short(value):
    text = repr(value).replace("\n", " ")
    return text if len(text) <= 400 else text[:400] + " …"
