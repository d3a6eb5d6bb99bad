"""The options ``replace`` and ``replace_grad``: their names and new values, checked before anything runs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NoReturn

from backprobe.backends.capabilities import ModelCall, Models, Replaces
from backprobe.backends.protocol import Backend, Tape
from backprobe.backends.refusals import refuse
from backprobe.errors import BadName, BadOption, NothingMatched, Unsupported
from backprobe.findings.phrasing import listed
from backprobe.probe.inner_output import INDEXED
from backprobe.probe.request import Request, name_of, typed_as
from backprobe.record.brief import kind, written
from backprobe.record.entries import Entry
from backprobe.record.names import partition, quote_path, strip
from backprobe.record.patterns import compile_pattern, glob_of_modules, refuse_unmatched
from backprobe.record.reasons import Reason
from backprobe.recording import Recording
from backprobe.tracing.replacing import Instead, Replacement, Replacing

OPTIONS = ("replace", "replace_grad")
WHY_NAMED = "the names say which values of this program are replaced; the other may have more, or other names"


def texts_replaced(probe: Request) -> tuple[str, ...]:
    """Return the names and patterns in ``replace`` and ``replace_grad``; empty if ``replace`` is an ``Instead``."""
    if isinstance(probe.replace, Instead):
        return ()
    return tuple(dict.fromkeys(text for option in OPTIONS for text in getattr(probe, option) or {}))


def replacing_of(probe: Request, tape: Tape, backend: Backend, *, in_function: bool) -> Replacing | None:
    """Return the replacements of a run; None if nothing is replaced. Raises BadOption, BadName or Unsupported."""
    given = {option: getattr(probe, option) or {} for option in OPTIONS}
    if not any(given.values()):
        return None
    if not isinstance(tape, Replaces):
        refuse(backend, "replacing", f"bp.probe({typed_as(probe.target)}, replace=...)")
    if isinstance(probe.replace, Instead):
        return probe.replace.replacing(tape, in_function=in_function)
    _refuse_other_options(probe)
    asked = [
        Replacement.of(text, _held(option, text, what), of_gradient=option == "replace_grad", in_function=in_function)
        for option, texts in given.items()
        for text, what in texts.items()
    ]
    return Replacing(asked, tape, in_function=in_function)


def check_replacing(option: str, given: Any) -> None:
    """Raise BadOption unless the option's value is None, an ``Instead``, or a mapping from names to replacements, and
    BadName for a name with ``#-1``.
    """
    if given is None or isinstance(given, Instead):
        return
    example = "lambda gradient: gradient * 0" if option == "replace_grad" else "lambda value: value * 0"
    if not isinstance(given, Mapping) or isinstance(given, Recording):
        raise BadOption(
            f"{option} is a dict from names to what takes their place, not {kind(given)}",
            asked=f"{option}={written(given)}",
            why=WHY_NAMED if isinstance(given, Recording | Entry) else "",
            next=_named(option, given, example),
        )
    other = next((text for text in given if not isinstance(text, str) or not text or text.startswith("!")), None)
    if other is not None:
        raise BadOption(
            f"{option} is asked for by names and patterns of what to replace",
            asked=f"{option}={{{other!r}: ...}}",
            next=f"{option}={{'u': {example}}}",
        )
    for text in given:
        if "#-1" in text and strip(text) == text.replace("#-1", ""):
            _refuse_last(option, text)


def _refuse_last(option: str, text: str) -> NoReturn:
    # Raise BadName for ``#-1``, which means the last of several bindings.
    raise BadName(
        f"{option} cannot take the last one: {text!r}",
        asked=f"{option}={{{text!r}: ...}}",
        why="which one is last is known only when the program is over",
        next=f"{option}={{{text.replace('#-1', '#0')!r}: ...}}, where #0 is the first",
    )


def _named(option: str, given: Any, example: str) -> str:
    # Return advice for a value that is not a dict: code with the name of the given entry or recording, or an example.
    if isinstance(given, Entry):
        return f"{option}={{{given.name!r}: entry}}"
    if isinstance(given, Recording) and option == "replace_grad":
        name = next(iter(given), "u")
        return f"{option}={{{name!r}: recording[{name!r}]}}"
    if isinstance(given, Recording):
        return f"{option}={{{next(iter(given), 'u')!r}: recording}} for one, or {option}={{'**': recording}} for all"
    return f"{option}={{'u': {example}}}"


def _refuse_other_options(probe: Request) -> None:
    if not probe.replace_grad:
        return
    options = probe.options
    for option, is_given, why in (
        ("partials", bool(options.partials), "the gradients are no longer the sums of the partials along all paths"),
        ("strategy", options.strategy != "edges", "the other strategies take gradients by hooks of their own"),
    ):
        if is_given:
            raise BadOption(
                f"replace_grad cannot be combined with {option}",
                why=why,
                asked=f"replace_grad=..., {option}={getattr(options, option)!r}",
                next=f"leave out {option}=",
            )


def _held(option: str, text: str, what: Any) -> Any:
    # Return the replacement for this name. If it is an entry, return the entry's value or gradient.
    if isinstance(what, Entry):
        return what.grad if option == "replace_grad" else what.value
    is_mapping = isinstance(what, Mapping)
    changed = "gradient" if option == "replace_grad" else "value"
    is_refused = is_mapping and (option == "replace_grad" or not isinstance(what, Recording))
    if is_refused or isinstance(what, str | None):
        raise BadOption(
            f"{kind(what)} cannot take the place of a {changed}",
            asked=f"{option}={{{text!r}: {written(what)}}}",
            why=f"what goes on is a tensor, what a function makes of the {changed}, or an entry of another recording",
            next=f"{option}={{{text!r}: lambda {changed}: {changed} * 0}}",
        )
    return what


# Functions that find names without a match, before or after the run.


def refuse_unknown_paths(
    replacing: Replacing, call: ModelCall, models: Models, target: Any, *, in_block: bool = False
) -> None:
    """Raise NothingMatched for a module or parameter that does not exist, and Unsupported for one that
    cannot be replaced.
    """
    modules = {quote_path(path): path for path in call.module_paths()}
    parameters = [quote_path(path) for path in call.parameter_paths()]
    hidden = call.hidden_paths()
    for one in replacing.asked:
        own = [path for path in parameters if one.pattern.matches(path)]
        if own and (in_block or not models.replaces_parameters) and not one.of_gradient:
            _refuse_parameter(one, own[0], in_block)
        found = [path for path in modules if _is_scope(one, path)]
        if found and all(modules[path] in hidden for path in found):
            raise Unsupported(
                f"{found[0]!r} runs compiled, and nothing in it can be replaced",
                asked=one.asked,
                found=str(hidden[modules[found[0]]]),
                why="its code was fixed when it was compiled",
                next="what the compiled module returns, or the model before it was compiled",
            )
        if not found and not own and call.is_known:
            refuse_missed(one, [path for path in (*modules, *parameters) if path], target)


def _is_scope(one: Replacement, path: str) -> bool:
    # Does the replacement name something in the module with this path?
    scope = one.loose.scope
    return scope is None or re.fullmatch(glob_of_modules(partition(scope, "/")[0]), path) is not None


def _refuse_parameter(one: Replacement, path: str, in_block: bool) -> NoReturn:
    module = path.rpartition(".")[0]
    raise Unsupported(
        f"the parameter {path!r} cannot be replaced " + ("in a block" if in_block else "in a model of Keras"),
        asked=one.asked,
        why="the program holds it itself, as its optimizer does"
        if in_block
        else "the layer goes on with its own Variable",
        next=f"{one.option}={{{module!r}: ...}}, for what its module returns",
    )


def refuse_missed(one: Replacement, known: Collection[str], target: Any, why: str = "") -> NoReturn:
    """Raise NothingMatched with the nearest names, or BadOption for a part of a value."""
    _refuse_part(one, known)

    def spelled(pattern: str | None) -> str:
        asked = f", {one.option}={{{pattern!r}: ...}}" if pattern else ""
        return f"bp.probe({typed_as(target)}{asked})"

    refuse_unmatched(one.text, known, name_of(target), spelled, why)


def _refuse_part(one: Replacement, known: Collection[str]) -> None:
    # Raise BadOption for a known name that is followed by an index.
    indexed = INDEXED.fullmatch(one.text)
    if indexed is None:
        return
    whole, index = indexed[1], indexed[2]
    pattern = compile_pattern(strip(whole), in_function=True)
    names = {strip(name).removeprefix(":") for name in known}
    if strip(whole).removeprefix(":") in names or any(map(pattern.matches, names)):
        what = "gradient" if one.of_gradient else "value"
        raise BadOption(
            f"{one.option} takes the names of whole values, and {one.text!r} is a part of one",
            asked=one.asked,
            found=f"the name {whole!r}, and the index {index}",
            why=f"a function replaces a part: it gets the whole {what}, and returns it with that part changed",
            next=f"{one.option}={{{whole!r}: change}}, where change({what}) returns it with {index} changed",
        )


def refuse_never_bound(replacing: Replacing, names: Collection[str], target: Any, printed: Mapping[str, str]) -> None:
    """Raise NothingMatched for a name or pattern that replaced nothing in the run, or BadOption for a part of a value.

    ``names`` are the program's names without counts, and ``printed`` are the printed names of recorded values, by full
    name.
    """
    subject = name_of(target)
    for one in replacing.missed():
        if one in replacing.passed_over:
            _refuse_passed_over(one, replacing.passed_over[one], subject)
        is_there = strip(one.text).removeprefix(":") in {strip(name).removeprefix(":") for name in names}
        why = "it was not bound with that count, or a write in place made it: what a statement binds can be replaced"
        bound = [text for full, text in printed.items() if one.loose.matches(strip(full))] if is_there else []
        if bound:
            raise NothingMatched(
                f"{one.text!r} is not bound in {subject}",
                asked=one.asked,
                found=listed(list(dict.fromkeys(bound)), 12),
                why=why,
                next=f"{one.option}={{{strip(one.text)!r}: ...}}, for all that a statement binds to this name",
            )
        refuse_missed(one, names, target, why * is_there)


def missed_in(replacing: Replacing | None) -> Iterator[Reason]:
    """Yield notes on names and patterns that replaced nothing. A block adds them instead of raising errors."""
    if replacing is None:
        return
    for one in replacing.missed():
        code = "replaced_no_tensor" if one in replacing.passed_over else "replaced_nothing"
        yield Reason(code, {"name": one.text, "option": one.option})


def _refuse_passed_over(one: Replacement, found: Mapping[str, str], subject: str) -> NoReturn:
    # Raise NothingMatched for a pattern that matched no floating-point tensor.
    first = next(iter(found))
    raise NothingMatched(
        f"the pattern {one.text!r} matches no floating-point tensor in {subject}",
        asked=one.asked,
        found=listed([f"{name} is {what}" for name, what in found.items()]),
        why="only floating-point tensors have gradients"
        if one.of_gradient
        else "a pattern replaces floating-point tensors; anything else is replaced by its name",
        next="the name of a floating-point tensor" if one.of_gradient else f"replace={{{first}: ...}}",
    )
