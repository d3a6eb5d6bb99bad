"""All that is looked for, in the order in which a report says it."""

from __future__ import annotations

from backprobe.health import depth, precision, units, zeros
from backprobe.health.record_arrays import RecordArrays

CHECKS = (units.check, zeros.check, depth.check, precision.check)

__all__ = ["CHECKS", "RecordArrays"]
