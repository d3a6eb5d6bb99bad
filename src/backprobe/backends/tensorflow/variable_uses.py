"""The uses of a Variable in a log of operations: when it was read and written, and by what."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any

from backprobe.backends.tensorflow.private import identity_of
from backprobe.backends.user_lines import Place


@dataclass(frozen=True)
class Written:
    """The write that made one version of a Variable: the numbers of the written values, or of the gradient that an
    optimizer used, and the line of the write.
    """

    given: tuple[int, ...]
    place: Place
    adds: bool  # was the new value computed from the old one, as by ``assign_add`` or an optimizer?


@dataclass
class Uses:
    """The uses of one Variable: when it was written and read. The values that were read share its memory."""

    writes: list[int] = field(default_factory=list)  # the positions of writes in the log
    reads: list[tuple[int, Any]] = field(default_factory=list)
    otherwise: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    """The positions at which the Variable was gathered or passed to a function, and the numbers of the results."""
    # for each version of the Variable: the position of the first gather, and the whole value
    gathered: dict[int, tuple[int, Any]] = field(default_factory=dict)
    is_in_doubt: bool = False  # has a compiled function received it that may have written to it?
    written: dict[int, Written] = field(default_factory=dict)  # the key is the version after the write
    is_read_unseen: bool = False  # was the Variable read while no tape recorded, as by tf.stop_gradient?

    def version_at(self, position: int) -> int:
        return bisect_left(self.writes, position)

    def reads_of(self, version: int) -> list[Any]:
        return [tensor for position, tensor in self.reads if self.version_at(position) == version]

    def sources(self, variable: Any, version: int, leading: Container[int]) -> list[Any] | None:
        """Return the tensors whose gradients sum to the gradient of one version of this Variable.

        ``leading`` are the numbers of all values that lead to the output. Return None if other versions contribute to
        the same sum, because all uses other than plain reads share one gradient.
        """
        plain = {self.version_at(position) for position, tensor in self.reads if identity_of(tensor) in leading}
        others = {
            self.version_at(position) for position, made in self.otherwise if any(number in leading for number in made)
        }
        if version not in others:
            return self.reads_of(version)
        return [variable] if plain | others == {version} else None

    def versions(self) -> list[tuple[int, int, Any]]:
        """Return each version that was read or gathered, with the position where that first happened, and the value."""
        first = dict(self.gathered)
        for position, tensor in self.reads:
            first.setdefault(self.version_at(position), (position, tensor))
        return [(version, *read) for version, read in first.items()]
