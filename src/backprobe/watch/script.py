"""Runs a whole script as ``python script.py`` would, and watches every model that its optimizers train."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType
from typing import Any

from backprobe.backends.discover import load_backend
from backprobe.backends.watches import ScriptListener
from backprobe.errors import BackprobeError
from backprobe.source.main_module import as_main, compiled


class ScriptWatch(ScriptListener):
    """One run of a script. The runs of its models lie in ``folder``, each named after the model's class.

    ``watch`` is ``bp.watch`` with its other options set; it is called with a model, a folder, ``optimizer=`` and
    ``scaler=``. If it raises an error for a model, the model is trained without a watch, and the error is added to
    ``refused``.
    """

    def __init__(self, folder: Path, watch: Callable[..., Any]) -> None:
        self.folder, self.watch = folder, watch
        self.runs: list[Any] = []
        self.refused: list[BackprobeError] = []
        self.compiled_functions: Sequence[CodeType] = ()  # of the script's own
        self.open = ExitStack()

    def run(self, arguments: Sequence[str], spec: ModuleSpec | None = None) -> None:
        """Run the script to its end. Its errors pass through, also SystemExit with its status. Raises NoBackend."""
        watches = load_backend("torch").watches
        script = None if watches is None else watches.script(self)
        assert script is not None  # PyTorch can always watch scripts
        with as_main(arguments, spec) as main, self.open, script:
            exec(compiled(str(main.__file__)), vars(main))

    def found(self, model: Any, optimizers: Sequence[Any], scaler: Any) -> None:
        name = type(model).__name__
        same = sum(run.folder.name.partition("-")[0] == name for run in self.runs)
        folder = self.folder / (f"{name}-{same + 1}" if same else name)
        try:
            self.runs.append(self.open.enter_context(self.watch(model, folder, optimizer=[*optimizers], scaler=scaler)))
        except BackprobeError as error:
            self.refused.append(error)

    def lost(self, loss: Any) -> None:
        if len(self.runs) == 1:  # with several models, it is unknown to which of them a loss belongs
            self.runs[0].log(loss=loss)

    def compiled(self, functions: Sequence[CodeType]) -> None:
        self.compiled_functions = functions
