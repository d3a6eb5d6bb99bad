"""The directive `public`: every public name of one kind, from its docstring.

The names come from `backprobe.__all__`, and each is of exactly one kind, so none can be without a place.
"""

import inspect

from docutils.parsers.rst import directives
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

import backprobe

KINDS = ("function", "exception", "class")
SPECIAL = ("__call__", "__getitem__")  # the ones that are how an object is used

# Fields for the library itself.
HIDDEN = {
    "Entry": ("held_value", "held_grad", "why"),
    "RunReport": ("about", "text", "numbers"),
    "Probe": ("target", "select", "of", "wrt", "cotangent", "options", "backend"),
}


def kind(name):
    found = getattr(backprobe, name)
    if not inspect.isclass(found):
        return "function"
    return "exception" if issubclass(found, Exception) else "class"


class Public(SphinxDirective):
    """`.. public:: class`, with the names that come `:first:`; the others follow in alphabetical order."""

    required_arguments = 1
    option_spec = {"first": directives.unchanged}  # noqa: RUF012 (docutils reads it from the class)

    def run(self):
        # Its overloads are for checkers: to a reader its own signature says more.
        analyzer = ModuleAnalyzer.for_module("backprobe.probe")
        analyzer.analyze()
        analyzer.overloads.pop("probe", None)
        wanted = directives.choice(self.arguments[0], KINDS)
        first = self.options.get("first", "").split()
        names = sorted((name for name in backprobe.__all__ if kind(name) == wanted), key=str.lower)
        missing = set(first) - set(names)
        if missing:
            raise self.error(f"no public {wanted}: {', '.join(sorted(missing))}")
        ordered = [*first, *(name for name in names if name not in first)]
        return self.parse_text_to_nodes("\n".join(self.text(wanted, name) for name in ordered))

    def text(self, wanted, name):
        lines = [f".. auto{wanted}:: backprobe.{name}"]
        if wanted == "exception":
            lines.append("   :show-inheritance:")
        if wanted == "class":
            lines += ["   :members:", "   :undoc-members:", f"   :special-members: {', '.join(SPECIAL)}"]
            lines += [f"   :exclude-members: {', '.join(HIDDEN[name])}"] if name in HIDDEN else []
        return "\n".join([*lines, ""])


def without_signature(app, what, name, obj, options, signature, returns):
    """Classes are shown without one: the library makes their objects, and what they hold is listed below."""
    return ("", "") if what in ("class", "exception") else None


def setup(app):
    app.add_directive("public", Public)
    app.connect("autodoc-process-signature", without_signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
