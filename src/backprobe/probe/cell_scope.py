"""The scope of a notebook cell, which keeps track of the variables that the cell binds."""

from __future__ import annotations

from typing import Any

from backprobe.backends.tensors import Tensors
from backprobe.record.containers import leaves
from backprobe.source import frame_builtins
from backprobe.source.cell import Cell
from backprobe.source.listener import NO_CALL, ModuleListener
from backprobe.source.sites import Site
from backprobe.tracing.log import ScopeKind
from backprobe.tracing.scope import Recorder, Scope


class CellScope(Scope, ModuleListener):
    """The scope of a notebook cell. A cell runs at module level, so its names are the notebook's global variables.

    Temporary values of the cell are also stored here, as attributes whose names begin with ``@``.
    """

    def __init__(self, cell: Cell, unread: dict[str, Any], recorder: Recorder, kind: ScopeKind) -> None:
        super().__init__(recorder, kind)
        self.cell, self.unread = cell, unread
        self.result: Any = None
        # For each variable, the site that bound it last in this run. The variables are in the order of binding.
        self.bound: dict[str, Site] = {}

    def bind(self, at: int, value: Any) -> Any:
        self._bind_here(at)
        return super().bind(at, value)

    def name(self, at: int, value: Any, own: str = "") -> Any:
        if not own:
            self._bind_here(at)
        return super().name(at, value, own)

    def _bind_here(self, at: int) -> None:
        # Store the site if it binds a variable, and not an element, an attribute or an operation without a name.
        local = self.sites[at].local
        if local.isidentifier():
            self.bound.pop(local, None)
            self.bound[local] = self.sites[at]

    def forget(self, *names: str) -> None:
        for name in names:
            self.bound.pop(name, None)
        super().forget(*names)

    def call(self, function: Any, flagged: bool = False, at: int = NO_CALL, /) -> Any:
        """Treat ``locals`` and similar functions like any others, because they see the real namespace, in which no name
        belongs to backprobe.
        """
        looks = any(function is known for known in frame_builtins.LOOKS_AT_FRAME)
        return function if looks else super().call(function, flagged)

    def reads(self, *names: str) -> None:
        """Called before the cell reads these names. A name that the cell has not bound itself is an input of
        the cell.
        """
        for name in names:
            if name in self.unread and self.unread[name] is self.cell.value(name):
                self.read(name, self.unread.pop(name))

    def last(self, at: int, value: Any) -> None:
        """Report the last expression, which is the result of the cell. It gets a name if it holds a tensor."""
        self.result = (super().bind if holds_tensor(value, self.recorder.tape) else self.done)(at, value)

    def exit(self, *error: object) -> None:
        """Release all values. Objects that exist longer than the cell, such as generators, may still report to this
        scope.
        """
        for name in [name for name in vars(self) if name.startswith("@")]:
            delattr(self, name)
        self.result = None
        self.unread.clear()
        super().exit()


def tensors_read(cell: Cell, tape: Tensors) -> dict[str, Any]:
    """Return the names that a cell reads and that hold tensors, with their values."""
    held = {name: cell.value(name) for name in cell.names.read}
    return {name: value for name, value in held.items() if holds_tensor(value, tape)}


def holds_tensor(value: Any, tape: Tensors) -> bool:
    return any(tape.is_tensor(leaf) for _, leaf in leaves(value))
