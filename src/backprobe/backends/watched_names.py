"""The watched names of a model: patterns as ``bp.probe`` has them, without counts and without locals."""

from __future__ import annotations

from collections.abc import Sequence

from backprobe.errors import BadName, Unsupported
from backprobe.record.names import COUNT, outside, quote_path
from backprobe.record.patterns import Selection, refuse_unmatched, root_spelled_out, selection, texts_of


def named(module: str, path: str) -> str:
    """The name of what a module returns, at a path in that."""
    if not module:
        return f"return{path}"
    return f"{quote_path(module)}:return{path}" if path else quote_path(module)


class WatchedSelection:
    """Raises BadName and Unsupported for patterns that cannot be watched."""

    def __init__(self, select: str | Sequence[str] | None, asked: str) -> None:
        self.texts, self.asked = [] if select is None else list(map(root_spelled_out, texts_of(select))), asked
        for text in self.texts:
            self._refuse_counts(text)
        self.selection = selection(tuple(self.texts) or None, False)
        self.wants = self.selection.might_want
        for pattern in self.selection.positive:
            is_return = pattern.local is not None and pattern.local.partition(".")[0] == "return"
            if (pattern.local is not None and not is_return) or (pattern.scope is not None and "/" in pattern.scope):
                raise Unsupported(
                    "local variables of forwards cannot be watched yet", asked=asked,
                    found=f"the pattern {pattern.text!r}",
                    why="bp.watch hears what modules return, and reads parameters",
                    next=f"with bp.probe(model, {pattern.text!r}) as rec: around one step",
                )  # fmt: skip

    def _refuse_counts(self, text: str) -> None:
        read = outside(text)
        if not text.startswith("re:") and any(read[found.start()] for found in COUNT.finditer(text)):
            raise BadName(
                f"{text!r} asks for one of several calls", asked=self.asked,
                why="a watched name means all its calls in a step, merged", next=f"select={COUNT.sub('', text)!r}",
            )  # fmt: skip

    def wants_module(self, path: str) -> bool:
        """Might something that a module returns be selected?"""
        return self.selection.wants_return(quote_path(path))

    def wants_output(self, path: str, leaf: str) -> bool:
        return self.wants(f"{quote_path(path)}:return{leaf}")

    def check(self, modules: Sequence[str], parameters: Sequence[str], model: str) -> None:
        """Raises NothingMatched for a pattern that neither a module nor a parameter can match."""
        for text in self.texts:
            if text.startswith("!"):
                continue
            alone = Selection([text], in_function=False)
            if not any(map(alone.wants_return, modules)) and not any(map(alone.might_want, parameters)):
                names = [*(module or "return" for module in modules), *parameters]
                refuse_unmatched(
                    text, names, f"{model}'s modules and parameters",
                    lambda other: f"bp.watch(model, folder{'' if other is None else f', select={other!r}'})",
                )  # fmt: skip
