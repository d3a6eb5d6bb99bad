"""The cell magic ``%%probe``: run a notebook cell as it is, and show its values with their gradients and its circuit.

``%load_ext backprobe`` registers it. IPython is imported only here, when that is asked for.
"""

from __future__ import annotations

import builtins
import difflib
import shlex
from collections.abc import Callable
from keyword import iskeyword
from string import digits
from types import CodeType, TracebackType
from typing import Any

from backprobe.errors import BackprobeError, BadOption
from backprobe.probe import VALUES, probe_cell
from backprobe.record.names import nearest
from backprobe.recording import Recording
from backprobe.source.cell import ABSENT, Cell
from backprobe.source.user_code import package

HELP = """Run the cell, and show the gradient of its output towards every variable, and the circuit of its values.

    %%probe a
    x = torch.tensor(3.0, requires_grad=True)
    w = torch.tensor(2.0, requires_grad=True)
    u = x * w
    a = torch.relu(u)

A NAME that the cell assigns is the output to differentiate: without one, the last expression if it is a floating
tensor, or else the last floating tensor assigned that requires a gradient. A new NAME receives the recording:
%%probe a rec. The cell runs as it would without the magic, and leaves the same names; nothing of it is altered, so
what is differentiated is what your tensors and their requires_grad say.
"""
LIKE_ENOUGH = 0.75  # a new name this much like one that the cell assigns is taken for a misspelling of it


def load_ipython_extension(shell: Any) -> None:
    """Register ``%%probe``: what ``%load_ext backprobe`` calls."""
    from IPython.core.magic import no_var_expand

    def probe(line: str, cell: str) -> Any:
        __tracebackhide__ = True
        return _probe(shell, line, cell)

    probe.__doc__ = HELP + "\n" + _parser().format_help()
    shell.register_magic_function(no_var_expand(probe), "cell", "probe")


def unload_ipython_extension(shell: Any) -> None:
    """Take ``%%probe`` away again."""
    shell.magics_manager.magics["cell"].pop("probe", None)


def _parser() -> Any:
    from IPython.core.magic_arguments import MagicArgumentParser

    parser = MagicArgumentParser("%probe")  # type: ignore[no-untyped-call]
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="the output to differentiate; a new name receives the recording")
    add("--select", action="append", metavar="PATTERN", help="record only these names; may be given several times")
    add("--cotangent", metavar="EXPRESSION", help="the vector of the vector-Jacobian product, like the output")
    add("--values", choices=VALUES, default=VALUES[0], help="copy: copy every value at once")
    add("--no-partials", action="store_true", help="leave out the local partials on the edges")
    add("--backend", metavar="NAME", help="the framework, where the cell does not tell")
    return parser


def _probe(shell: Any, line: str, text: str) -> Any:
    """Run the magic; the value of the cell's last expression, which IPython shows as that of any cell."""
    options = _parser().parse_args(_words(line))
    file = ""
    try:
        cell = _read(shell, text)
        file = cell.file
        output, receiver = _roles(options.names, cell)
        before = cell.value(receiver, ABSENT) if receiver else None
        recording = probe_cell(
            cell, options.select, of=output, cotangent=_compiled(options.cotangent), values=options.values,
            partials=not options.no_partials, backend=options.backend,
        )  # fmt: skip
        if receiver:
            _give(receiver, recording, cell, before)
        _show(recording)
    except BaseException as error:
        _shorten(error, file)
        raise
    return None if _is_silenced(cell) else recording.result


def _words(line: str) -> list[str]:
    """The words of the magic's line: quotes keep spaces, and a backslash is one, as patterns need it."""
    from IPython.core.error import UsageError

    reader = shlex.shlex(line, posix=True)
    reader.whitespace_split, reader.commenters, reader.escape = True, "", ""
    try:
        return list(reader)
    except ValueError as error:
        raise UsageError(f"{error} in %%probe {line}") from None


def _read(shell: Any, text: str) -> Cell:
    """The cell as IPython itself reads it: magics made calls, the text kept for tracebacks, the tree transformed."""
    source = shell.transform_cell(text)
    file = shell.compile.cache(source, shell.displayhook.prompt_count, raw_code=text)
    tree = shell.transform_ast(shell.compile.ast_parse(source, filename=file))
    cell = Cell(tree, tuple(source.splitlines()), file, shell.compile, shell.user_global_ns, shell.user_ns)
    shell.compile(tree, file, "exec")  # a syntax error that only the compiler finds is shown as it is
    return cell


def _roles(names: list[str], cell: Cell) -> tuple[str | None, str | None]:
    """Which name is the output, and which receives the recording. Raises BadOption."""
    output = receiver = None
    for name in names:
        if not name.isidentifier() or iskeyword(name):
            raise BadOption(
                f"{name!r} is not a name", asked=_asked(names), why="what is differentiated is a variable of the cell",
                next=f"loss = {name} as a line of the cell, and %%probe loss",
            )  # fmt: skip
        if name in cell.assigned:
            if output is not None:
                raise BadOption(
                    f"{output!r} and {name!r} are both assigned by the cell", asked=_asked(names),
                    why="a gradient is of one output", next=f"%%probe {output}",
                )  # fmt: skip
            output = name
        else:
            _check_receiver(name, receiver, names, cell)
            receiver = name
    return output, receiver


def _check_receiver(name: str, other: str | None, names: list[str], cell: Cell) -> None:
    """A name that the cell does not assign receives the recording, unless it must be meant otherwise."""
    held = cell.value(name, getattr(builtins, name, ABSENT))
    if isinstance(held, Recording) and other is None:
        return
    close = nearest(name, cell.assigned)
    if held is not ABSENT and not isinstance(held, Recording):
        found = f"{name!r} is a {type(held).__name__} already, whose place the recording would take"
    elif other is not None:
        found = f"{other!r} would receive the recording"
    elif any(_alike(name, assigned) >= LIKE_ENOUGH for assigned in close):
        found = f"a new name almost like {close[0]!r}"
    else:
        return
    raise BadOption(
        f"the cell assigns no {name!r}", asked=_asked(names),
        found=found,
        why="a name that the cell assigns is differentiated; another one, a new one, receives the recording",
        next=f"%%probe {(close or [*cell.assigned][-1:] or ['a'])[0]}, or another name for the recording",
    )  # fmt: skip


def _alike(one: str, other: str) -> float:
    """From 0 to 1; names that differ by their number alone, rec and rec2, are meant to be two."""
    if one.strip(digits) == other.strip(digits):
        return 0.0
    return difflib.SequenceMatcher(None, one, other).ratio()


def _asked(names: list[str]) -> str:
    return " ".join(["%%probe", *names])


def _compiled(expression: str | None) -> CodeType | None:
    """The code of the cotangent, before anything is run. Raises BadOption."""
    if expression is None:
        return None
    try:
        return compile(expression, "<--cotangent>", "eval")
    except SyntaxError as error:
        raise BadOption(
            "the cotangent is not an expression", asked=f"--cotangent {expression}", found=str(error.msg),
            next='--cotangent "torch.ones_like(a)"',
        ) from None  # fmt: skip


def _give(receiver: str, recording: Recording, cell: Cell, before: Any) -> None:
    """Put the recording under its name, unless the cell has assigned that itself where it could not be seen."""
    if cell.value(receiver, ABSENT) is not before:
        raise BadOption(
            f"the cell has assigned {receiver!r} itself", asked=f"%%probe {receiver}",
            found="an assignment by code that was not seen, such as exec or %time",
            why="the recording would take its place",
            next=f"the line {receiver} = {receiver} in the cell to differentiate it, or another name",
        )  # fmt: skip
    cell.locals[receiver] = recording


def _show(recording: Recording) -> None:
    """The table and the circuit, below what the cell itself has printed; why not, where that cannot be drawn."""
    from IPython.display import display

    from backprobe.draw import draw

    table = {"text/plain": str(recording), "text/html": recording._repr_html_()}
    display(table, raw=True)  # type: ignore[no-untyped-call]
    try:
        drawing: Any = draw(recording)
    except BackprobeError as error:  # too large to draw: the cell has run and is recorded all the same
        display({"text/plain": str(error)}, raw=True)  # type: ignore[no-untyped-call]
    else:
        display(drawing)  # type: ignore[no-untyped-call]


def _is_silenced(cell: Cell) -> bool:
    """Does the last line end in a semicolon, by which IPython shows no value?"""
    from IPython.core.displayhook import DisplayHook

    ends_in_semicolon: Callable[[str], bool] = DisplayHook.semicolon_at_end_of_expression
    return ends_in_semicolon("\n".join(cell.lines))


def _shorten(error: BaseException, file: str) -> None:
    """Show an error as an unprobed cell would, from the cell's own line on; one of ours as its message alone.

    IPython asks an exception for ``_render_traceback_`` before it formats one.
    """
    in_cell = _from(error, lambda raising: raising == file)
    if in_cell is not None:
        error.__traceback__ = in_cell
    elif isinstance(error, BackprobeError):
        lines = [f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())]
        error._render_traceback_ = lambda: lines  # type: ignore[attr-defined]
    elif isinstance(error, SyntaxError):
        error.__traceback__ = None
    else:
        error.__traceback__ = _from(error, lambda raising: package(raising) != "backprobe")


def _from(error: BaseException, begins: Callable[[str], bool]) -> TracebackType | None:
    """The traceback from the first frame whose file ``begins`` it."""
    place = error.__traceback__
    while place is not None and not begins(place.tb_frame.f_code.co_filename):
        place = place.tb_next
    return place
