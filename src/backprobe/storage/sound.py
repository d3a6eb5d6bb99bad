"""Is a record that was read whole and of one piece? What is wrong with it shows when it is loaded, and not later."""

from __future__ import annotations

from types import NoneType
from typing import Any

from backprobe.backends.protocol import Arrays
from backprobe.record.entries import Entry, GradStatus, Lost, Record
from backprobe.record.names import strip
from backprobe.record.nonfinite import Update
from backprobe.record.reasons import SENTENCES, Reason
from backprobe.record.stamp import Stamp

KINDS = ("finite", "inf", "nan")  # what ``BackwardOp`` says of a gradient


def check(record: Record, backend: Arrays) -> None:
    """Raise ValueError where a record could be read, but not looked into."""
    size = len(record.entries)
    for at in (*record.names.values(), *record.backward, *record.outputs):
        if type(at) is not int or not 0 <= at < size:
            raise ValueError(f"a position {at!r} among {size} entries")
    if record.names.keys() != record.printed.keys():
        raise ValueError("names and their printed forms differ")
    printed = {(at, record.printed[full]) for full, at in record.names.items()}
    if any((at, name) not in printed for at, e in enumerate(record.entries) for name in (e.name, *e.aliases)):
        raise ValueError("an entry has a printed name that none of its names has")
    told = (record.framework, *record.unseen, *_stamp_texts(record.stamp))
    for text in (*record.names, *record.printed.values(), *told):
        _check_text(text)
    for note in record.notes:
        _check_reason(note)
        _check_text(note.about)
    if any(scale is not None and type(scale) not in (int, float) for scale in record.scales):
        raise ValueError(f"{record.scales} where numbers belong")
    for name in (*record.names, *record.buffers):
        strip(name)
    for count in record.buffers.values():
        if any(type(number) is not int for number in (count.nan, count.inf, count.of)):
            raise ValueError(f"{count!r} where counts belong")
    for one in record.none_given:
        for text in (one.name, one.source.file, one.source.text):
            _check_text(text)
        if type(one.source.line) is not int:
            raise ValueError(f"{one.source.line!r} where a whole number belongs")
    for update in record.updates:
        _check_update(update)
    for entry in record.entries:
        _check_entry(entry, backend)


def _check_update(update: Update) -> None:
    source = () if update.source is None else (update.source.file, update.source.text)
    for text in (*update.parameters, update.optimizer, *source):
        _check_text(text)
    if update.made not in KINDS or update.gradient not in (*KINDS, "none"):
        raise ValueError(f"{update.gradient!r} and {update.made!r} where {', '.join(KINDS)} belong")
    if any(type(number) is not int for number in (update.size, update.source.line if update.source else 0)):
        raise ValueError(f"{update!r} where numbers belong")


def _check_entry(entry: Entry, backend: Arrays) -> None:
    if entry.status is not GradStatus.NOT_TENSOR:
        for held in (entry.held_value, entry.held_grad):
            if held is not None and not isinstance(held, Lost) and not backend.is_tensor(held):
                raise ValueError(f"{held!r} where a tensor belongs")
    optional = [text for text in (entry.dtype, entry.device) if text is not None]
    for text in (entry.name, *entry.aliases, entry.op, *(edge.name for edge in entry.inputs), *optional):
        _check_text(text)
    for why in (entry.why, entry.held_value.why if isinstance(entry.held_value, Lost) else None):
        if why is not None:
            _check_reason(why)
    numbers = list(entry.shape or ())
    for count in () if entry.finiteness is None else (entry.finiteness.value, entry.finiteness.grad):
        numbers += [] if count is None else [count.nan, count.inf, count.of]
    for made in () if entry.finiteness is None else entry.finiteness.made or ():
        _check_text(made.operation)
        _check_text(made.name or "")
        if made.given not in KINDS or made.made not in KINDS:
            raise ValueError(f"{made.given!r} and {made.made!r} where {', '.join(KINDS)} belong")
    for way in entry.indirect:
        for text in (way.spelled, way.name, way.through):
            _check_text(text)
    for source in (entry.source, entry.cause, *(way.source for way in entry.indirect)):
        if source is not None:
            for text in (source.file, source.text, source.expression, *source.calls, *source.below):
                _check_text(text)
            numbers.append(source.line)
    if type(entry.is_leaf) not in (bool, NoneType):
        raise ValueError(f"{entry.is_leaf!r} where true, false or null belongs")
    if type(entry.leaves_reached) is not bool:
        raise ValueError(f"{entry.leaves_reached!r} where true or false belongs")
    if any(type(number) is not int for number in numbers):
        raise ValueError(f"{numbers} where whole numbers belong")


def _stamp_texts(stamp: Stamp) -> list[Any]:
    return [stamp.author or "", stamp.time, stamp.python, stamp.system, *stamp.packages, *stamp.packages.values()]


def _check_reason(reason: Reason) -> None:
    if reason.code not in SENTENCES:
        raise ValueError(f"{reason.code!r} where the code of a reason belongs")
    for text in (*reason.fields, *reason.fields.values()):
        _check_text(text)
    str(reason)  # raises where a field of its sentence is missing


def _check_text(text: Any) -> None:
    if not isinstance(text, str):
        raise ValueError(f"{text!r} where a text belongs")
