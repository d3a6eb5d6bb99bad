"""The option ``of``: one output to differentiate, or several by key, each with its cotangent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backprobe.errors import BadOption
from backprobe.record.brief import kind, written
from backprobe.record.names import nearest, quote

Of = str | int | Callable[[Any], Any] | None


@dataclass(frozen=True)
class AskedOutput:
    """An output that was requested, with the key for its gradients; None unless ``of`` is a list, tuple or mapping."""

    key: str | None
    of: Of
    cotangent: Any = None

    @property
    def leaf(self) -> str:
        """The leaf that is added to ``of()`` to name one of several outputs that a function computes, because such an
        output has no name in the program. Empty without a key.
        """
        return "" if self.key is None else f".{quote(self.key)}"


def is_several(of: Any) -> bool:
    """Is ``of`` a list, tuple or mapping of outputs? It may have a single one."""
    return isinstance(of, Mapping | list | tuple)


def refuse_several(of: Any, asked: str, instead: str, why: str = "it is about one output") -> None:
    """Raise BadOption if ``of`` is a list, tuple or mapping."""
    if is_several(of):
        raise BadOption(
            "several outputs are for bp.probe",
            asked=asked + f"of={written(of)})",
            found=kind(of),
            why=why,
            next=instead,
        )


def asked_of(of: Any, cotangent: Any) -> tuple[AskedOutput, ...]:
    """Return the outputs that ``of`` and ``cotangent`` request. Raises BadOption.

    >>> asked_of(["ce", "kl"], {"kl": 2.0})
    (AskedOutput(key='ce', of='ce', cotangent=None), AskedOutput(key='kl', of='kl', cotangent=2.0))
    """
    if not is_several(of):
        _check_one(of, "of")
        return (AskedOutput(None, of, cotangent),)
    found = dict(of) if isinstance(of, Mapping) else _by_text(of)
    if not found:
        raise BadOption("of names no output", asked=f"of={of!r}", next="of='loss', or of=['ce', 'kl'] for several")
    for key, one in found.items():
        if not isinstance(key, str) or not key:
            raise BadOption(
                f"the keys of several outputs are texts{', and not empty' * (key == '')}",
                asked=f"of={written(of)}",
                found=kind(key),
                next="of={'ce': lambda result: result[0], 'kl': lambda result: result[1]}",
            )
        _check_one(one, f"of[{key!r}]", is_part=True)
    cotangents = _cotangents(found, cotangent)
    return tuple(AskedOutput(key, one, cotangents.get(key)) for key, one in found.items())


def _by_text(of: Sequence[Any]) -> dict[str, Any]:
    # Return the outputs for a list of texts. Each text is also the key of its output.
    for one in of:
        if callable(one):
            raise BadOption(
                "a function among several outputs needs a key",
                asked=f"of=[{', '.join(map(written, of))}]",
                why="the key is what its gradients are asked for by",
                next=f"of={{'loss': {written(one)}, ...}}",
            )
        _check_one(one, "of", is_part=True)
    found = {str(one): one for one in of}
    if len(found) < len(of):
        raise BadOption(
            "of names an output twice",
            asked=f"of={list(of)!r}",
            why="its gradients would have one key",
            next=f"of={list(found)!r}",
        )
    return found


def _check_one(of: Any, option: str, *, is_part: bool = False) -> None:
    if isinstance(of, bool) or not (isinstance(of, str | int) or callable(of) or (of is None and not is_part)):
        several = "" if is_part else ", or a list or dict of these"
        raise BadOption(
            f"{option} is a path, a position or a function{several}, not {kind(of)}",
            asked=f"{option}={written(of)}",
            next="of='loss'",
        )


def _cotangents(of: Mapping[str, Any], cotangent: Any) -> Mapping[str, Any]:
    if cotangent is None:
        return {}
    spelled = "cotangent={" + ", ".join(f"{key!r}: ..." for key in of) + "}"
    if not isinstance(cotangent, Mapping):
        raise BadOption(
            "several outputs have a cotangent each",
            asked=f"cotangent={written(cotangent)}",
            found=kind(cotangent),
            why="each has a backward pass of its own; one that is a scalar needs none",
            next=spelled,
        )
    for key in cotangent:
        if key not in of:
            close = nearest(str(key), of) or list(of)
            raise BadOption(
                f"cotangent has the key {key!r}, and no output has it",
                asked=f"cotangent={{{key!r}: ...}}",
                found=f"outputs: {', '.join(of)}",
                next=f"cotangent={{{close[0]!r}: ...}}",
            )
    return cotangent
