"""The names of watched values: patterns as in ``bp.probe``, but without counts such as ``#1``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from backprobe.errors import BadName, Unsupported
from backprobe.record.names import COUNT, outside, quote_path, split
from backprobe.record.patterns import Selection, refuse_unmatched, root_spelled_out, selection, texts_of


def named(module: str, path: str) -> str:
    """Return the name of a module's result, at a path inside the result."""
    if not module:
        return f"return{path}"
    return f"{quote_path(module)}:return{path}" if path else quote_path(module)


class WatchedSelection:
    """The patterns that a user selects. Raises BadName and Unsupported for patterns that cannot be watched."""

    def __init__(self, select: str | Sequence[str] | None, asked: str, *, has_locals: bool = False) -> None:
        """``has_locals`` says whether locals of forwards can be watched."""
        self.texts, self.asked = [] if select is None else list(map(root_spelled_out, texts_of(select))), asked
        for text in self.texts:
            self._refuse_counts(text)
        self.selection = selection(tuple(self.texts) or None, False)
        self.wants, self.asks_operations = self.selection.might_want, self.selection.asks_operations
        for pattern in self.selection.positive:
            is_return = pattern.local is not None and pattern.local.partition(".")[0] == "return"
            is_called = pattern.scope is not None and "/" in pattern.scope
            if is_called or not (has_locals or is_return or pattern.local is None):
                raise Unsupported(
                    "functions that forwards call cannot be watched"
                    if is_called
                    else "local variables of forwards cannot be watched here",
                    asked=asked,
                    found=f"the pattern {pattern.text!r}",
                    why="bp.watch hears modules alone, and their parameters",
                    next=f"with bp.probe(model, {pattern.text!r}) as rec: around one step",
                )

    def _refuse_counts(self, text: str) -> None:
        read = outside(text)
        if not text.startswith("re:") and any(read[found.start()] for found in COUNT.finditer(text)):
            raise BadName(
                f"{text!r} asks for one of several calls",
                asked=self.asked,
                why="a watched name means all its calls in a step, merged",
                next=f"select={COUNT.sub('', text)!r}",
            )

    def wants_module(self, path: str) -> bool:
        """Might a value that this module returns be selected?"""
        return self.selection.wants_return(quote_path(path))

    def wants_output(self, path: str, leaf: str) -> bool:
        return self.wants(f"{quote_path(path)}:return{leaf}")

    def wants_locals(self, path: str) -> bool:
        """Might a local of this module's forward be selected?"""
        return self.selection.wants_locals(quote_path(path))

    def locals_in(self, path: str, names: Iterable[str]) -> list[str]:
        """Return the locals of a forward that are selected, or that might contain a selected value."""
        return [name for name in names if _wants_local(self.selection, f"{quote_path(path)}:{name}")]

    def check(
        self,
        modules: Sequence[str],
        parameters: Sequence[str],
        model: str,
        *,
        locals: Sequence[str] = (),
        every_local: Callable[[], Sequence[str]] = tuple,
        unread: Iterable[str] = (),
    ) -> None:
        """Raise NothingMatched for a pattern that matches no module, no parameter and none of ``locals``.

        ``every_local`` returns the names of all existing locals. ``unread`` are the reasons why other locals are not
        known.
        """
        for text in self.texts:
            if text.startswith("!"):
                continue
            alone = Selection([text], in_function=False)
            if any(map(alone.wants_return, modules)) or any(map(alone.might_want, parameters)):
                continue
            if not any(_wants_local(alone, one) for one in locals):
                is_local = alone.wants_locals("") or split(text)[1] is not None
                names = [*(module or "return" for module in modules), *parameters, *(every_local() if is_local else ())]
                refuse_unmatched(
                    text,
                    names,
                    f"{model}'s modules and parameters" + ", and locals of its forwards" * is_local,
                    lambda other: f"bp.watch(model, folder{'' if other is None else f', select={other!r}'})",
                    "; ".join(unread) if is_local else "",
                )


def _wants_local(patterns: Selection, name: str) -> bool:
    # Is a local, or a leaf of its value, selected?
    scope, local = split(name)
    return patterns.might_want(name) or any(
        one.local is not None and one.local.startswith(f"{local}.") and patterns.might_want(f"{scope}:{one.local}")
        for one in patterns.positive
    )
