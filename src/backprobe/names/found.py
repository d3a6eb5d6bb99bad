"""The class ``Names``: the names of one target, read before it runs or found in one forward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from backprobe.backends.discover import imported_backends, is_model
from backprobe.backends.facts import Options
from backprobe.findings.wrapping import fitted
from backprobe.markup import Printed, element, shown
from backprobe.names import text
from backprobe.names.forward import ForwardProbe, shown_by
from backprobe.names.once import listed_once
from backprobe.names.read import read
from backprobe.names.tree import tree
from backprobe.probe.request import name_of
from backprobe.record.patterns import Selection, compile_pattern, refuse_unmatched, texts_of


@dataclass(frozen=True, repr=False, eq=False)
class Names(Printed, Sequence[str]):
    """The names that can be requested from a function or model: a sequence of texts that prints as a tree.

    ``marks`` maps each name to a remark, which is empty for most names. The remark says that a name was read from the
    source, that it did not occur or run in the forward that ``after`` ran, or which path means the same module.
    """

    target: Any
    pattern: str | Sequence[str]
    marks: Mapping[str, str]
    known: Mapping[str, str] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)
    backend: str | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, target: Any, pattern: str | Sequence[str], backend: str | None) -> Names:
        """The names of a target, before it runs. Raises NothingMatched, and the errors of a probe."""
        found, others, notes = read(target, backend, operations=_asks_operations(pattern))
        return cls._chosen(target, pattern, found, others, backend, notes)

    @classmethod
    def _chosen(
        cls,
        target: Any,
        pattern: str | Sequence[str],
        known: Mapping[str, str],
        others: Mapping[str, str],
        backend: str | None,
        notes: tuple[str, ...] = (),
    ) -> Names:
        # Select names by a pattern from all known names. Raises NothingMatched.
        in_function, texts = _in_function(target), texts_of(pattern)
        compiled = [compile_pattern(one, in_function=in_function) for one in texts if one != text.EVERYTHING]
        full = {name: f":{name}" if in_function and name[0] not in "/:" else name for name in known}
        for one in compiled:
            if not one.excludes and not any(map(one.matches, full.values())):
                asked = lambda pattern: text.spelled(target, pattern)  # noqa: E731 - a part of the call
                refuse_unmatched(one.text, known, name_of(target), asked)
        wanted = None if text.EVERYTHING in texts or all(one.excludes for one in compiled) else compiled
        marks = {
            name: mark
            for name, mark in known.items()
            if (wanted is None or any(one.matches(full[name]) for one in wanted if not one.excludes))
            and not any(one.matches(full[name]) for one in compiled if one.excludes)
        }
        marks, private = listed_once(marks, others)
        notes += (text.left_out(private),) if private else ()
        return cls(target, pattern, marks, known, others, backend, notes)

    def after(self, /, *args: Any, **kwargs: Any) -> Names:
        """The names, including those that are found by running the target's forward once. Nothing is differentiated.

        The program really runs once: it may change state, such as the running statistics of a BatchNorm in training,
        and draw random numbers.

        >>> import torch, backprobe as bp
        >>> def f(x):
        ...     pair = x * 2, x * 3
        ...     return pair[0] + pair[1]
        >>> bp.names(f)[:], bp.names(f, "pair").after(torch.ones(2))[:]
        (('x', 'pair', 'return'), ('pair', 'pair.0', 'pair.1'))
        """
        in_function = _in_function(self.target)
        select = [] if in_function and not _asks_operations(self.pattern) else ["**", "**:*"]
        select += ["**:*()"] if _asks_operations(self.pattern) else []
        probe = ForwardProbe(self.target, select or None, options=Options(backward=False), backend=self.backend)
        ran = shown_by(probe(*args, **kwargs).record, self.target, in_function=in_function)
        known = {name: ran.get(name, text.UNREACHED if mark else "") for name, mark in self.known.items()}
        known |= {name: mark for name, mark in ran.items() if name not in known}
        for name in [name for name, mark in known.items() if mark == text.UNREACHED]:
            # the name is that of a container, whose leaves were recorded under names of their own
            if any(one.startswith(f"{name}.") for one in ran):
                known[name] = ""
        return self._chosen(self.target, self.pattern, known, self.others, self.backend)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        """The name at a position, or a tuple of names for a slice."""
        return tuple(self.marks)[index]

    def __len__(self) -> int:
        return len(self.marks)

    def __contains__(self, name: object) -> bool:
        return name in self.marks

    def __repr__(self) -> str:
        return f"<Names of {name_of(self.target)}: {len(self)}>"

    def __str__(self) -> str:
        return fitted("\n".join([self._heading(), *tree(self.marks), *(f"note: {note}" for note in self.notes)]))

    def _heading(self) -> str:
        return text.heading(name_of(self.target), self.marks)

    def _repr_html_(self) -> str:
        notes = [element("div", f"note: {note}", class_="note") for note in self.notes]
        heading = element("div", self._heading(), class_="heading")
        return shown(heading, element("pre", "\n".join(tree(self.marks)), class_="wide"), *notes)


def _in_function(target: Any) -> bool:
    return not any(is_model(backend, target) for backend in imported_backends())


def _asks_operations(pattern: str | Sequence[str]) -> bool:
    return Selection(pattern, in_function=True).asks_operations
