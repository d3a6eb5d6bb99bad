"""The oracle for an output inside of a random program: the sum of one named value, in place of what is returned."""

from typing import Any

import numpy as np

from random_programs.interpreter import Interpreter
from random_programs.memory import Tensor
from random_programs.names import Binding, Held, Names, Scope


class Watching(Names):
    """Keeps the value that one name is bound to, in every row."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name, self.value = name, np.empty(0)

    def _note(self, scope: Scope, local: str, held: list[Held]) -> None:
        for leaf, item, _ in held:
            if isinstance(item, Tensor) and f"{scope.path}:{local}#{scope.counts[local]}{leaf}" == self.name:
                self.value = item.value.copy()
        super()._note(scope, local, held)


def returning(name: str, base: type[Interpreter]) -> type[Interpreter]:
    """An interpreter whose programs return the sum of the value of this name."""

    class Inner(base):  # type: ignore[misc, valid-type]
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.names = Watching(name)

        def run(self, program: str) -> np.ndarray:
            super().run(program)
            return self.names.value.sum(axis=1)

    return Inner


def one_of(bindings: list[Binding], program: str) -> Binding:
    """The binding that is differentiated: any of them, the same for the same program."""
    tensors = [binding for binding in bindings if binding.moment is not None]
    return tensors[sum(map(ord, program)) % len(tensors)]
