"""The cell magic ``%%probe``: run a notebook cell as it is, and show its values, gradients and circuit.

``%load_ext backprobe`` registers the magic. IPython is imported only by this module, when the magic is registered.
"""

from __future__ import annotations

import builtins
import difflib
import inspect
import shlex
from collections.abc import Callable
from keyword import iskeyword
from string import digits
from types import CodeType, TracebackType
from typing import Any

from backprobe.errors import BackprobeError, BadOption
from backprobe.probe.cell import probe_cell
from backprobe.probe.request import VALUES
from backprobe.record.names import nearest
from backprobe.recording import Recording
from backprobe.source.cell import ABSENT, Cell
from backprobe.source.tracebacks import steps
from backprobe.source.user_code import package

MOST_DRAWN = 4  # number of circuits that are shown if a cell computes gradients of several outputs
# a new name with at least this similarity to a name that the cell assigns counts as a misspelling of that name
LIKE_ENOUGH = 0.75


def load_ipython_extension(shell: Any) -> None:
    """Register ``%%probe``, called by ``%load_ext backprobe``."""
    from IPython.core.magic import no_var_expand

    def probe(line: str, cell: str) -> Any:
        """Run the cell, and show the gradient of its output with respect to every variable, and draw the graph.

            %%probe a
            x = torch.tensor(3.0, requires_grad=True)
            w = torch.tensor(2.0, requires_grad=True)
            u = x * w
            a = torch.relu(u)

        A NAME that the cell assigns is the output that is differentiated. Without such a name, the cell's last
        expression is differentiated if it is a floating-point tensor, else the last floating-point tensor that the cell
        assigned and that requires a gradient. Any other NAME receives the recording, as rec in %%probe a rec. The cell
        runs as it does without the magic, and assigns the same names. The requires_grad of your tensors decides which
        of them get gradients.
        """
        __tracebackhide__ = True
        return _probe(shell, line, cell)

    probe.__doc__ = f"{inspect.getdoc(probe)}\n\n{_parser().format_help()}"
    shell.register_magic_function(no_var_expand(probe), "cell", "probe")


def unload_ipython_extension(shell: Any) -> None:
    """Remove ``%%probe``."""
    shell.magics_manager.magics["cell"].pop("probe", None)


def _parser() -> Any:
    from IPython.core.magic_arguments import MagicArgumentParser

    parser = MagicArgumentParser("%probe")  # type: ignore[no-untyped-call]  # IPython has no types
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="the output to differentiate; a new name receives the recording")
    add("--select", action="append", metavar="PATTERN", help="record only these names; may be repeated")
    add("--cotangent", metavar="EXPRESSION", help="the vector of the vector-Jacobian product, in the output's shape")
    add("--values", choices=VALUES, default=VALUES[0], help="copy: copy every value at once")
    add("--no-partials", action="store_true", help="leave out the local partials on the edges")
    add("--backend", metavar="NAME", help="the framework, if it cannot be inferred")
    return parser


def _probe(shell: Any, line: str, text: str) -> Any:
    # Run the magic. Returns the value of the cell's last expression, which IPython shows as for any cell.
    options = _parser().parse_args(_words(line))
    file = ""
    try:
        cell = _read(shell, text)
        file = cell.file
        output, receiver = _roles(options.names, cell)
        before = cell.value(receiver, ABSENT) if receiver else None
        recording = probe_cell(
            cell,
            options.select,
            of=output,
            cotangent=_compiled(options.cotangent),
            values=options.values,
            partials=not options.no_partials,
            backend=options.backend,
        )
        if receiver:
            _give(receiver, recording, cell, before)
        _show(recording)
    except BaseException as error:
        _shorten(error, file)
        raise
    return None if _is_silenced(cell) else recording.result


def _words(line: str) -> list[str]:
    # Split the line of the magic into words. Quotes keep spaces, and a backslash is kept as it is, for patterns.
    from IPython.core.error import UsageError

    reader = shlex.shlex(line, posix=True)
    reader.whitespace_split, reader.commenters, reader.escape = True, "", ""
    try:
        return list(reader)
    except ValueError as error:
        raise UsageError(f"{error} in %%probe {line}") from None


def _read(shell: Any, text: str) -> Cell:
    # Read the cell as IPython does: magics become calls, the text is kept for tracebacks, and the tree is transformed.
    source = shell.transform_cell(text)
    file = shell.compile.cache(source, shell.displayhook.prompt_count, raw_code=text)
    tree = shell.transform_ast(shell.compile.ast_parse(source, filename=file))
    cell = Cell(tree, tuple(source.splitlines()), file, shell.compile, shell.user_global_ns, shell.user_ns)
    shell.compile(tree, file, "exec")  # raises syntax errors that only the compiler finds
    return cell


def _roles(names: list[str], cell: Cell) -> tuple[str | None, str | None]:
    # The name of the output, and the name that receives the recording. Raises BadOption.
    output = receiver = None
    for name in names:
        if not name.isidentifier() or iskeyword(name):
            raise BadOption(
                f"{name!r} is not a name",
                asked=_asked(names),
                why="the output is a variable of the cell",
                next=f"add the line loss = {name} to the cell, and write %%probe loss",
            )
        if name in cell.names.stored:
            if output is not None:
                raise BadOption(
                    f"the cell assigns both {output!r} and {name!r}",
                    asked=_asked(names),
                    why="only one output can be differentiated",
                    next=f"%%probe {output}",
                )
            output = name
        else:
            _check_receiver(name, receiver, names, cell)
            receiver = name
    return output, receiver


def _check_receiver(name: str, other: str | None, names: list[str], cell: Cell) -> None:
    # Check the name that receives the recording: the cell must not assign it, and it must not look like a mistake.
    held = cell.value(name, getattr(builtins, name, ABSENT))
    if isinstance(held, Recording) and other is None:
        return
    close = nearest(name, cell.names.stored)
    if held is not ABSENT and not isinstance(held, Recording):
        found = f"{name!r} is a {type(held).__name__} already; the recording would replace it"
    elif other is not None:
        found = f"{other!r} receives the recording already"
    elif any(_alike(name, assigned) >= LIKE_ENOUGH for assigned in close):
        found = f"a new name similar to {close[0]!r}"
    else:
        return
    raise BadOption(
        f"the cell does not assign {name!r}",
        asked=_asked(names),
        found=found,
        why="a name that the cell assigns is differentiated; a new name receives the recording",
        next=f"%%probe {(close or [*cell.names.stored][-1:] or ['a'])[0]}, or another name for the recording",
    )


def _alike(one: str, other: str) -> float:
    # Return the similarity of two names, from 0 to 1. Names that differ only in their number, such as rec and rec2,
    # count as different.
    if one.strip(digits) == other.strip(digits):
        return 0.0
    return difflib.SequenceMatcher(None, one, other).ratio()


def _asked(names: list[str]) -> str:
    return " ".join(["%%probe", *names])


def _compiled(expression: str | None) -> CodeType | None:
    # Compile the expression of the cotangent, if there is one, before anything runs. Raises BadOption.
    if expression is None:
        return None
    try:
        return compile(expression, "<--cotangent>", "eval")
    except SyntaxError as error:
        raise BadOption(
            "the cotangent is not an expression",
            asked=f"--cotangent {expression}",
            found=str(error.msg),
            next='--cotangent "torch.ones_like(a)"',
        ) from None


def _give(receiver: str, recording: Recording, cell: Cell, before: Any) -> None:
    # Assign the recording to its name. Raises BadOption if the cell has assigned this name in a hidden way, such as by
    # exec.
    if cell.value(receiver, ABSENT) is not before:
        raise BadOption(
            f"the cell has assigned {receiver!r} itself",
            asked=f"%%probe {receiver}",
            found="an assignment out of sight, such as by exec or %time",
            why="the recording would replace it",
            next=f"add the line {receiver} = {receiver} to the cell to differentiate it, or choose another name",
        )
    cell.locals[receiver] = recording


def _show(recording: Recording) -> None:
    # Show the table and the circuit below the output of the cell, or the reason why there is no circuit.
    from IPython.display import display

    from backprobe.draw import draw

    table = {"text/plain": str(recording), "text/html": recording._repr_html_()}
    display(table, raw=True)  # type: ignore[no-untyped-call]  # IPython has no types
    several = recording.output_keys[:MOST_DRAWN] if recording.record.is_of_several else ()
    for one in [recording.of(key) for key in several] or [recording]:
        try:
            drawing: Any = draw(one)
        except BackprobeError as error:  # the circuit is too large to draw, but the cell has run and is recorded
            display({"text/plain": str(error)}, raw=True)  # type: ignore[no-untyped-call]  # IPython has no types
        else:
            display(drawing)  # type: ignore[no-untyped-call]  # IPython has no types


def _is_silenced(cell: Cell) -> bool:
    # Does the last line end in a semicolon, so that IPython does not show its value?
    from IPython.core.displayhook import DisplayHook

    ends_in_semicolon: Callable[[str], bool] = DisplayHook.semicolon_at_end_of_expression
    return ends_in_semicolon("\n".join(cell.lines))


def _shorten(error: BaseException, file: str) -> None:
    # Shorten the traceback to that of a cell without the magic, and show errors of backprobe as their message alone.
    # IPython calls ``_render_traceback_`` of an exception, if it exists, before formatting it.
    in_cell = _from(error, lambda raising: raising == file)
    if in_cell is not None:
        error.__traceback__ = in_cell
    elif isinstance(error, BackprobeError):
        lines = [f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())]
        error._render_traceback_ = lambda: lines  # type: ignore[attr-defined]  # IPython looks for it
    elif isinstance(error, SyntaxError):
        error.__traceback__ = None
    else:
        error.__traceback__ = _from(error, lambda raising: package(raising) != "backprobe")


def _from(error: BaseException, begins: Callable[[str], bool]) -> TracebackType | None:
    # Return the traceback from the first frame whose file name satisfies ``begins``; None if there is none.
    return next((one for one in steps(error.__traceback__) if begins(one.tb_frame.f_code.co_filename)), None)
