"""The chain rule written out from the recorded source, with every number checked against what was recorded."""

from backprobe.derive.derivation import Derivation, derive

__all__ = ["Derivation", "derive"]
