"""The scope of a notebook cell, which knows what the cell has bound."""

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
    """The scope of a notebook cell, which runs at module level: its names are those of the notebook.

    The cell keeps its temporaries here too, as attributes whose names begin with ``@``.
    """

    def __init__(self, cell: Cell, unread: dict[str, Any], recorder: Recorder, kind: ScopeKind) -> None:
        super().__init__(recorder, kind)
        self.cell, self.unread = cell, unread
        self.result: Any = None
        self.bound: dict[str, Site] = {}  # where this run bound each variable last, in the order of these bindings

    def bind(self, at: int, value: Any) -> Any:
        self._bind_here(at)
        return super().bind(at, value)

    def name(self, at: int, value: Any, own: str = "") -> Any:
        if not own:
            self._bind_here(at)
        return super().name(at, value, own)

    def _bind_here(self, at: int) -> None:
        # A site binds a variable unless it is an element, an attribute or an operation without a name.
        local = self.sites[at].local
        if local.isidentifier():
            self.bound.pop(local, None)
            self.bound[local] = self.sites[at]

    def forget(self, *names: str) -> None:
        for name in names:
            self.bound.pop(name, None)
        super().forget(*names)

    def call(self, function: Any, flagged: bool = False, at: int = NO_CALL, /) -> Any:
        """``locals`` and its kin have no name of ours to hide here, and write into the namespace itself."""
        looks = any(function is known for known in frame_builtins.LOOKS_AT_FRAME)
        return function if looks else super().call(function, flagged)

    def reads(self, *names: str) -> None:
        """The cell is about to read these names: those that still hold what they held before it are its inputs."""
        for name in names:
            if name in self.unread and self.unread[name] is self.cell.value(name):
                self.read(name, self.unread.pop(name))

    def last(self, at: int, value: Any) -> None:
        """The last expression, which is what the cell returns: it has a name if it holds a tensor."""
        self.result = (super().bind if holds_tensor(value, self.recorder.tape) else self.done)(at, value)

    def exit(self, *error: object) -> None:
        """Keep no value; what the cell made and left for later, such as a generator, may still report here."""
        for name in [name for name in vars(self) if name.startswith("@")]:
            delattr(self, name)
        self.result = None
        self.unread.clear()
        super().exit()


def tensors_read(cell: Cell, tape: Tensors) -> dict[str, Any]:
    """What holds tensors among the names that a cell reads."""
    held = {name: cell.value(name) for name in cell.names.read}
    return {name: value for name, value in held.items() if holds_tensor(value, tape)}


def holds_tensor(value: Any, tape: Tensors) -> bool:
    return any(tape.is_tensor(leaf) for _, leaf in leaves(value))
