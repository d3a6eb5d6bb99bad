"""Replacing lets a program continue with another value, or another gradient, in place of a named one.

While the program runs, a value bound to a name in ``replace=`` or ``replace_grad=`` is exchanged before it is captured,
so the entry has the new value. The original of a replaced value is kept outside the log, under a number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from backprobe.backends.capabilities import Replaces
from backprobe.backends.protocol import Tape
from backprobe.errors import AmbiguousName, BackprobeError, BadOption, UnknownName, Unsupported
from backprobe.findings.phrasing import listed
from backprobe.record.brief import kind
from backprobe.record.containers import with_leaves
from backprobe.record.names import partition, split, strip
from backprobe.record.patterns import Decisions, Pattern, compile_pattern, is_operation

NUMBERS = (bool, int, float, complex)
ON = "the program goes on with it"
BACK = "it flows on to what the value was computed from"

Marks = tuple[tuple[str, int | None, bool], ...]
"""For each leaf of a bound value that is replaced, or whose gradient is: the leaf's path, the number under which the
original is kept (None if only the gradient is replaced), and whether its gradient is replaced.
"""


class Instead(ABC):
    """A value for the argument ``replace`` of backprobe's own verbs, which need more than a dict of names and
    replacements.
    """

    @abstractmethod
    def replacing(self, tape: Tape, *, in_function: bool) -> Replacing:
        """Return the object that replaces values in one run."""


@dataclass(frozen=True)
class Part:
    """The replacement for one part of a value. The rest of the value stays as it is."""

    what: Any
    index: tuple[Any, ...]

    @property
    def __name__(self) -> str:  # shown in messages
        return getattr(self.what, "__name__", None) or kind(self.what)


@dataclass(frozen=True, eq=False)
class Replacement:
    """One key of ``replace=`` or ``replace_grad=``, with the replacement for the values that it names."""

    text: str
    what: Any
    of_gradient: bool
    pattern: Pattern
    loose: Pattern
    """The pattern without counts."""
    index: tuple[Any, ...] | None = None
    """The part of the value that is replaced; None if the whole value is replaced."""

    @classmethod
    def of(cls, text: str, what: Any, *, of_gradient: bool, in_function: bool) -> Replacement:
        pattern, loose = (compile_pattern(one, in_function=in_function) for one in (text, strip(text)))
        whole, index = (what.what, what.index) if isinstance(what, Part) else (what, None)
        return cls(text, whole, of_gradient, pattern, loose, index)

    @property
    def is_exact(self) -> bool:
        """Is the key a single name? Otherwise it is a pattern, which may match several names."""
        return self.pattern.scope is not None and "*" not in self.text

    @property
    def option(self) -> str:
        return "replace_grad" if self.of_gradient else "replace"

    @property
    def asked(self) -> str:
        shown = getattr(self.what, "__name__", None) or kind(self.what)
        return f"{self.option}={{{self.text!r}: {shown}}}"

    def names(self, name: str) -> bool:
        """Does the key match this name, which has no counts? A key matches names of operations only if it asks for
        operations.
        """
        return self.loose.matches(name) and (self.loose.asks_operations or not is_operation(name))


class Replacing:
    """Replaces values and gradients in one run."""

    def __init__(self, asked: Sequence[Replacement], tape: Tape, *, in_function: bool) -> None:
        assert isinstance(tape, Replaces)
        self.in_function = in_function
        self.asked, self.tape, self.replaces = asked, tape, tape
        self.matched: dict[Replacement, None] = {}
        self.passed_over: dict[Replacement, dict[str, str]] = {}
        """By replacement: values that its pattern matches but that are not floating-point tensors. Each name has the
        value's kind.
        """
        self.originals: list[Callable[[], Any]] = []
        self.failed: BackprobeError | None = None
        self.known: Container[int] = ()
        self.for_name = Decisions(lambda name: [one for one in asked if one.names(name)])

    def missed(self) -> list[Replacement]:
        """Return the replacements that have not matched a value to replace."""
        return [one for one in self.asked if one not in self.matched]

    def refuse_compiled(self, name: str) -> None:
        """Raise Unsupported if a value inside this compiled function should be replaced. The function is being
        called.
        """
        own = name.rpartition(".")[2]
        for one in self.asked:
            if own in partition(one.loose.scope or "", "/")[1:]:
                self.failed = Unsupported(
                    f"{own!r} runs compiled, and nothing in it can be replaced",
                    asked=one.asked,
                    why="its code was fixed when it was compiled",
                    next="the function before it was compiled",
                )
                raise self.failed

    def concerns(self, name: str, found: Sequence[tuple[str, Any]]) -> bool:
        """May the value bound to this name, or one of its leaves, be replaced? The name has no counts."""
        return bool(self.for_name[name]) or any(self.for_name[name + strip(leaf)] for leaf, _ in found if leaf)

    def exchange(
        self, name: str, full: str, value: Any, found: Sequence[tuple[str, Any]], known: Container[int]
    ) -> tuple[Any, Marks]:
        """Return the value with which the program continues, and the leaves of it that are replaced or whose gradients
        are.

        ``name`` is the value's name without counts, ``full`` is the name with all counts, and ``found`` are the value's
        leaves. ``known`` are the identities of the tensors captured so far. Raises BadOption or Unsupported. The
        program may catch this error, so it is raised again after the run.
        """
        self.known = known
        try:
            return self._exchange(name, full, value, found)
        except BackprobeError as error:
            self.failed = self.failed or error
            raise

    def _exchange(self, name: str, full: str, value: Any, found: Sequence[tuple[str, Any]]) -> tuple[Any, Marks]:
        now = dict(found)
        kept: dict[str, int | None] = {}
        changed: set[str] = set()
        for one in self.asked:
            for leaf in self._leaves(one, name, full, value, found):
                self._refuse_repeated(one, full + leaf)
                self.matched[one] = None
                if one.of_gradient:
                    now[leaf] = self._with_gradient(one, full + leaf, now[leaf])
                    kept.setdefault(leaf, None)
                    changed.add(leaf)
                else:
                    original, now[leaf] = now[leaf], self._instead(one, full + leaf, now[leaf])
                    if kept.get(leaf) is None:
                        kept[leaf] = self._kept(original)
        if not kept:
            return value, ()
        made = with_leaves(value, {leaf: now[leaf] for leaf in kept})
        return made, tuple([(leaf, at, leaf in changed) for leaf, at in kept.items()])

    def _kept(self, original: Any) -> int:
        # Keep an original value, and return its index in the list of originals.
        is_tensor = self.tape.is_tensor(original)
        self.originals.append(self.replaces.original_value(original) if is_tensor else lambda: original)
        return len(self.originals) - 1

    def _shown(self, full: str) -> str:
        # Return a name in the form in which a user would write it.
        name = strip(full)
        if self.in_function:
            return repr(name.removeprefix(":"))
        scope, local = split(name)
        return repr(scope if local == "return" and scope else name)

    def went_on(self, full: str, leaves: Sequence[tuple[str, Any]]) -> None:
        """Called when the program has continued with a value, which is now bound to this full name. These are its
        leaves.
        """

    # Methods that select the leaves to replace.

    def _leaves(
        self, one: Replacement, name: str, full: str, value: Any, found: Sequence[tuple[str, Any]]
    ) -> list[str]:
        # Return the leaves of a bound value to which a replacement applies.
        if self._is_meant(one, name, full):
            return self._only(one, full, value, found)
        named = [leaf for leaf, _ in found if leaf and self._is_meant(one, name + strip(leaf), full + leaf)]
        return [leaf for leaf in named if one.is_exact or self._is_for_pattern(one, full + leaf, dict(found)[leaf])]

    def _is_meant(self, one: Replacement, name: str, full: str) -> bool:
        if one not in self.for_name[name]:
            return False
        if "#" in one.text and self.replaces.is_tracing():
            raise Unsupported(
                f"{self._shown(full)} is inside a function that is traced, where calls cannot be counted",
                asked=one.asked,
                why="what is traced may be traced several times, and runs once for all calls",
                next=f"{one.option}={{{strip(one.text)!r}: ...}}",
            )
        return one.pattern.matches(full)

    def _only(self, one: Replacement, full: str, value: Any, found: Sequence[tuple[str, Any]]) -> list[str]:
        # Return the leaves that are meant if the key matches the name of the whole value: the value itself if it is no
        # container; otherwise the only floating leaf, or all floating leaves if the replacement is a mapping. Raises
        # BadOption if there are several, or none for an exact name.
        floating = [leaf for leaf, item in found if self._is_floating(item)]
        if len(found) == 1 and not found[0][0]:
            return [""] if one.is_exact or self._is_for_pattern(one, full, value) else []
        if len(floating) == 1 or isinstance(one.what, Mapping):  # a mapping has an entry for each leaf
            return floating
        if floating:
            names = [self._shown(full + leaf) for leaf in floating]
            raise BadOption(
                f"{self._shown(full)} holds several floating tensors",
                asked=one.asked,
                found=listed(names, 8),
                why="one tensor takes the place of one",
                next=f"{one.option}={{{names[0]}: ...}}",
            )
        if one.is_exact:
            raise BadOption(
                f"{self._shown(full)} holds no floating tensor",
                asked=one.asked,
                found=kind(value),
                why="only tensors and numbers can be replaced",
                next="the name of a tensor",
            )
        return [leaf for leaf, item in found if self._is_for_pattern(one, full + leaf, item)]

    def _is_for_pattern(self, one: Replacement, full: str, item: Any) -> bool:
        # Is the item a floating-point tensor? A pattern ignores other values, and the ignored values are recorded.
        is_floating = self._is_floating(item)
        if not is_floating:
            self.passed_over.setdefault(one, {})[self._shown(full)] = kind(item)
        return is_floating

    def _is_floating(self, item: Any) -> bool:
        return self.tape.is_tensor(item) and self.tape.is_floating(item)

    def _refuse_repeated(self, one: Replacement, full: str) -> None:
        # Raise Unsupported inside a checkpoint. Backward runs its code again, and would use the original value there.
        if self.replaces.runs_again():
            raise Unsupported(
                f"{self._shown(full)} is inside a checkpoint, and cannot be replaced there",
                asked=one.asked,
                why="the checkpoint computes it once more in backward, and takes that value",
                next="switch checkpoints off, as model.gradient_checkpointing_disable() does, or replace what the "
                "checkpoint returns",
            )

    # Methods that make the new value.

    def _instead(self, one: Replacement, full: str, original: Any) -> Any:
        # Return the value with which the program continues. Raises BadOption if the replacement does not fit.
        what = self._of_recording(one, full) if isinstance(one.what, Mapping) else one.what
        is_given = not callable(what)
        if not self.tape.is_tensor(original):
            return self._number(one, full, original, what if is_given else self._called(one, full, what, original))
        new = what if is_given else self._called(one, full, what, self.replaces.handed(original))
        tensor = self.replaces.as_tensor(new, original)
        if tensor is None:
            raise BadOption(
                f"what replaces {self._shown(full)} is not a tensor",
                asked=one.asked,
                found=kind(new),
                why=ON,
                next=_instead_of_number(one, is_given),
            )
        self._refuse_unlike(one, full, tensor, original)
        if one.index is not None:
            return self.replaces.instead(self.replaces.mixed(tensor, original, one.index), original, False)
        return self.replaces.instead(tensor, original, is_given or self.tape.identity(tensor) in self.known)

    def _number(self, one: Replacement, full: str, original: Any, new: Any) -> Any:
        # Return a Python number that replaces a Python number. Raises BadOption if the replacement is not a number.
        if not isinstance(original, NUMBERS) or not isinstance(new, NUMBERS):
            raise BadOption(
                f"{self._shown(full)} is {kind(original)}, and cannot be replaced by {kind(new)}",
                asked=one.asked,
                why="a number takes the place of a number, and a tensor that of a tensor",
                next="a number" if isinstance(original, NUMBERS) else "the name of a tensor or number",
            )
        return new

    def _of_recording(self, one: Replacement, full: str) -> Any:
        # Return the value of the entry with this name in another recording. Raises BadOption if there is no such single
        # value.
        try:
            return one.what[full].value
        except (UnknownName, AmbiguousName) as error:
            name = self._shown(full)
            refuse_missing_value(name, one.asked, error, f"a recording that selects {name}")

    def _called(self, one: Replacement, full: str, function: Callable[[Any], Any], argument: Any) -> Any:
        try:
            return function(argument)
        except BackprobeError:
            raise
        except Exception as error:
            given = "the gradient of " * one.of_gradient + self._shown(full)
            error.add_note(f"backprobe: raised by what {one.option} has for {one.text!r}, which was given {given}")
            raise

    def _refuse_unlike(self, one: Replacement, full: str, new: Any, original: Any) -> None:
        # Raise BadOption if the replacement has another shape, dtype or device.
        before, after = self.tape.describe(original), self.tape.describe(new)
        for part in self.replaces.compared:
            own, other = getattr(before, part), getattr(after, part)
            if own != other and own is not None and other is not None:
                of, used, given = ("the gradient of ", BACK, "gradient") if one.of_gradient else ("", ON, "value")
                raise BadOption(
                    f"what replaces {of}{self._shown(full)} has another {part}",
                    asked=one.asked,
                    found=f"{part} {other} in the place of {own}",
                    why=used,
                    next=f"a tensor of {part} {own}" + (f", or a function of the {given}" * (not callable(one.what))),
                )

    def _with_gradient(self, one: Replacement, full: str, tensor: Any) -> Any:
        # Return the tensor, whose gradient will be replaced. Raises BadOption if that is impossible.
        if not self._is_floating(tensor):
            raise BadOption(
                f"{self._shown(full)} has no gradient to replace",
                asked=one.asked,
                found=kind(tensor),
                why="only floating-point values have gradients",
                next="the name of a floating tensor",
            )

        def change(gradient: Any) -> Any:
            new = self._called(one, full, one.what, gradient) if callable(one.what) else one.what
            made = self.replaces.as_tensor(new, gradient)
            if made is None:
                raise BadOption(
                    f"what replaces the gradient of {self._shown(full)} is not a tensor",
                    asked=one.asked,
                    found=kind(new),
                    why=BACK,
                    next=f"replace_grad={{{one.text!r}: lambda gradient: ...}}, which returns a tensor",
                )
            self._refuse_unlike(one, full, made, gradient)
            return made

        return self.replaces.with_gradient(tensor, change)


class ByName(Replacing):
    """Replaces values by their full names. Values inside compiled code are not replaced."""

    def __init__(self, names: Iterable[str], tape: Tape, *, in_function: bool) -> None:
        super().__init__((), tape, in_function=in_function)
        self.plain = {strip(name) for name in names}

    def concerns(self, name: str, found: Sequence[tuple[str, Any]]) -> bool:
        return name in self.plain or any(name + strip(leaf) in self.plain for leaf, _ in found if leaf)

    def refuse_compiled(self, name: str) -> None:
        """Refuse nothing, because the return value of a compiled function can be replaced."""


def refuse_missing_value(name: str, asked: str, error: UnknownName | AmbiguousName, instead: str) -> NoReturn:
    """Raise BadOption: the other recording has no value, or several values, with this name. ``name`` is already in
    quotes.
    """
    several = isinstance(error, AmbiguousName)
    raise BadOption(
        f"the other recording has {'several values' if several else 'no value'} named {name}",
        asked=asked,
        found=error.found,
        why="each value is replaced by that of the same name",
        next=instead,
    ) from None


def _instead_of_number(one: Replacement, is_given: bool) -> str:
    if not is_given:
        return f"replace={{{one.text!r}: lambda value: ...}}, which returns a tensor"
    return f"replace={{{one.text!r}: tensor}}, or a function of the value: lambda value: value * 0"
