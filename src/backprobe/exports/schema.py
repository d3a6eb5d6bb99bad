"""The schema of an exported run. It is stable: if a column changes, so does FORMAT.

    rows/rank=0/first_step=0/part.parquet          a row for each step, name and kind
    steps/rank=0/first_step=0/part.parquet         a row for each step
    histograms/rank=0/first_step=0/part.parquet    a row for each histogram
    _rank-0.json                                   facts about the run other than its numbers

A part has ``SPAN`` steps of one rank, and is named after its first step. Readers of Hive-partitioned data sets can read
``rows`` alone. They add the columns ``rank`` and ``first_step``, and skip files that begin with an underscore.
"""

from __future__ import annotations

from typing import Any

from backprobe.exports.places import Place
from backprobe.record.statistics import COLUMNS

FORMAT = 1
SPAN = 1024
"""The number of steps in a part."""
TABLES = ("rows", "steps", "histograms")
META = "_rank-{}.json"


def ranks_in(place: Place) -> dict[int, Any]:
    """What earlier exports wrote to the files ``META``, by rank. Raises BadRun for a file that is not JSON."""
    before, after = META.split("{}")
    names = [one for one in place.names() if one.startswith(before) and one.endswith(after)]
    return {int(one.removeprefix(before).removesuffix(after)): place.read_json(one) for one in names}


def rows(arrow: Any) -> Any:
    """The schema of rows: the mergeable statistics that a run stores, which are the ten of ``COLUMNS``."""
    text = arrow.dictionary(arrow.int32(), arrow.string())
    return arrow.schema(
        [("attempt", arrow.int32()), ("step", arrow.int64()), ("name", text), ("kind", text), ("merge", text)]
        + [(column, arrow.float64()) for column in COLUMNS]
    )


def steps(arrow: Any) -> Any:
    """The schema of facts about each step."""
    return arrow.schema(
        [
            ("attempt", arrow.int32()),
            ("step", arrow.int64()),
            ("time", arrow.float64()),
            ("backwards", arrow.int32()),
            ("skipped", arrow.int32()),
            ("uncleared", arrow.int64()),
        ]
    )


def histograms(arrow: Any) -> Any:
    """The schema of histograms: counts of magnitudes by power of two, starting at the exponent ``low``."""
    return arrow.schema(
        [
            ("attempt", arrow.int32()),
            ("step", arrow.int64()),
            ("name", arrow.string()),
            ("kind", arrow.string()),
            ("low", arrow.int64()),
            ("smallest", arrow.float64()),
            ("counts", arrow.list_(arrow.int64())),
        ]
    )
